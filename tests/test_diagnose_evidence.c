/* test_diagnose_evidence.c: what a prediction says in bits and what its choice costs; and subjects
 * that something other than their fault comes near to, by an edit of bits, by two faults that make
 * up for each other, or by a value that swallows the rest. */
#include "harness/campaign_case.h"
#include "harness/campaign_subject.h"
#include "harness/diagnose_evidence.h"
#include "tests/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- bits ---- */

enum { ROWS = 3, COLS = 4, CELLS = ROWS * COLS };

struct cells {
    double subject[CELLS], says[CELLS], clean[CELLS];
    int64_t row_of[ROWS];
};

static double bits_of(const struct cells *c)
{
    struct st_tensor tensor[3] = {{.dtype = DT_F64, .data = (void *)(uintptr_t)c->subject},
                                  {.dtype = DT_F64, .data = (void *)(uintptr_t)c->says},
                                  {.dtype = DT_F64, .data = (void *)(uintptr_t)c->clean}};
    struct dump_tap tap[3];
    for (int i = 0; i < 3; i++)
        tap[i] = (struct dump_tap){.tensor = &tensor[i], .rows = ROWS, .cols = COLS};
    const struct fitter f = {.subject = &tap[0],
                             .taps.dump.taps = &tap[1],
                             .clean.dump.taps = &tap[2],
                             .row_of = c->row_of};
    return evidence_bits(&f, dtype_unit(DT_BF16));
}

/* Every cell right, and as predicted. */
static struct cells right(void)
{
    struct cells c = {.row_of = {0, 1, 2}};
    for (int i = 0; i < CELLS; i++) c.subject[i] = c.says[i] = c.clean[i] = 1 + 0.25 * i;
    return c;
}

static void bits__are_those_of_wrong_cells_that_come_out_right(void **state)
{
    struct cells c = right();
    (void)state;
    assert_true(bits_of(&c) == 0); /* nothing is wrong: nothing is said */
    c.clean[5] = 9;
    assert_true(bits_of(&c) == 16);
    c.says[5] = c.subject[5] * (1 + 1.0 / 64); /* off by one part in 64 */
    assert_true(bits_of(&c) > 5.9 && bits_of(&c) < 6.1);
    c.says[5] = 5; /* further from the subject than a quarter of the error */
    assert_true(bits_of(&c) == 0);
    c = right();
    c.clean[0] = 9;
    c.says[0] = 1.5 * c.subject[0]; /* nearer than the clean value, and no prediction */
    assert_true(bits_of(&c) == 0);
    c = right();
    c.clean[5] = c.subject[5] * (1 + 1.0 / 256); /* no more than rounding */
    assert_true(bits_of(&c) == 0);
}

static void value__that_many_cells_have__is_one(void **state)
{
    struct cells c = right();
    (void)state;
    for (int i = 4; i < 8; i++) c.subject[i] = c.says[i] = 0;
    assert_true(bits_of(&c) == 16);
    c.says[4] = 1e-19; /* a tiny value is no prediction of a zero */
    assert_true(bits_of(&c) == 16);
    for (int i = 4; i < 8; i++) c.says[i] = 1e-19;
    assert_true(bits_of(&c) == 0);
    for (int i = 4; i < 8; i++) c.subject[i] = c.says[i] = NAN;
    assert_true(bits_of(&c) == 16);
    c.subject[0] = c.says[0] = -INFINITY;
    assert_true(bits_of(&c) == 32);
    c.says[0] = INFINITY;
    assert_true(bits_of(&c) == 16);
    for (int i = 0; i < CELLS; i++) c.subject[i] = c.says[i] = -1 - i;
    assert_true(isinf(bits_of(&c)));
}

static void rows__without_a_partner__are_left_out(void **state)
{
    struct cells c = right();
    (void)state;
    c.clean[5] = 9;
    c.row_of[1] = -1;
    assert_true(bits_of(&c) == 0);
    c.row_of[2] = 1; /* row 2 of the subject is row 1 of the runs */
    for (int i = 0; i < COLS; i++) c.subject[8 + i] = c.says[4 + i];
    assert_true(bits_of(&c) == 16);
}

/* Rows of two experts of eight. */
static double id_bits(const int32_t *subject, const int32_t *says, const int32_t *clean,
                      int64_t rows)
{
    static const int64_t row_of[] = {0, 1, 2, 3};
    const int32_t *const of[] = {subject, says, clean};
    struct st_tensor tensor[3];
    struct dump_tap tap[3];
    for (int i = 0; i < 3; i++) {
        tensor[i] = (struct st_tensor){.dtype = DT_I32, .data = (void *)(uintptr_t)of[i]};
        tap[i] = (struct dump_tap){.tensor = &tensor[i], .rows = rows, .cols = 2};
    }
    const struct fitter f = {.subject = &tap[0],
                             .taps.dump.taps = &tap[1],
                             .clean.dump.taps = &tap[2],
                             .row_of = row_of,
                             .ids = true,
                             .choices = 8};
    return evidence_bits(&f, dtype_unit(DT_BF16));
}

static void assert_bits(double found, double ways)
{
    if (!(fabs(found - log2(ways)) < 1e-9)) fail_msg("%g bits, not %g", found, log2(ways));
}

static void ids__say_what_goes_what_comes_and_in_which_rows(void **state)
{
    const int32_t clean[] = {0, 1, 2, 3, 4, 5, 6, 7}, one[] = {1, 0, 2, 6, 4, 5, 6, 7},
                  two[] = {0, 1, 6, 7, 4, 5, 6, 7}, more[] = {0, 4, 2, 6, 4, 5, 6, 7},
                  none[] = {0, 1, 2, 99, 4, 5, 6, 7};
    (void)state;
    assert_bits(id_bits(clean, clean, clean, 4), 1);      /* nothing is wrong */
    assert_bits(id_bits(one, clean, clean, 4), 1);        /* nothing comes out right */
    assert_bits(id_bits(one, two, clean, 4), 1);          /* nor with another expert */
    assert_bits(id_bits(one, one, clean, 4), 2 * 6 * 4);  /* one of 2 goes, of 6 comes, of 4 rows */
    assert_bits(id_bits(two, two, clean, 4), 1 * 15 * 4); /* both go, two of 6 come */
    assert_bits(id_bits(more, one, clean, 4), 2 * 6 * 4); /* a row that is missed says nothing */
    assert_bits(id_bits(more, more, clean, 4), 144 * 6);  /* two rows of 4 */
    assert_bits(id_bits(none, none, clean, 4), 2 * 65536 * 4); /* no id: a value of its own */
}

/* ---- the charge ---- */

static double charge_at(const char *first, const char *second, bool ids)
{
    struct faults f = {0};
    struct err err = ERR_INIT;
    assert_int_equal(faults_add(&f, first, &err), ERR_OK);
    if (second) assert_int_equal(faults_add(&f, second, &err), ERR_OK);
    const struct claim c = {
        .first = 0, .second = second ? 1 : -1, .use = {f.use[0], f.use[second ? 1 : 0]}};
    double bits = evidence_charge(&c, 128, ids);
    faults_clear(&f);
    return bits;
}

static double charge(const char *first, const char *second)
{
    return charge_at(first, second, false);
}

static void charge__is_of_the_fault_its_values_and_of_two__their_sites(void **state)
{
    (void)state;
    assert_true(charge("mla.no_mscale@layer=2", NULL) == 7); /* one of 128 */
    assert_true(charge("moe.shared_scaled@layer=2,factor=1.7", NULL) ==
                23); /* and a fitted value */
    double flip = charge("any.bit_flip@op=moe,layer=2,row=3,col=5,bit=9", NULL);
    assert_true(flip > 7 && flip < 16); /* bits and outputs; where it is, the error says */
    assert_true(charge("mla.no_mscale@layer=2", "mla.norm_eps@layer=2") >
                14 + 2 * log2(FIT_PLACES));
    assert_true(charge("any.zero_row@op=moe,layer=2,row=3", NULL) < 16);
    assert_true(charge_at("any.zero_row@op=router,layer=2,row=3", NULL, true) ==
                charge("any.zero_row@op=router,layer=2,row=3", NULL) + log2(FIT_PLACES));
    assert_true(charge_at("router.no_bias@layer=2", NULL, true) == 7);
}

/* ---- subjects ---- */

struct planting {
    int64_t on; /* number of the case */
    uint64_t seed;
    const char *profile;
    enum subject_order order;
    const char *fault, *without[6];
};

static void diagnose_drawn(void **state, const struct planting *p, struct diff *d)
{
    struct campaign_case one;
    struct loaded loaded;
    struct subject s;
    struct faults faults = {0};
    struct err err = ERR_INIT;
    char path[FILE_PATH];
    const struct subject_how how = {.profile = p->profile, .order = p->order, .threads = 1};
    char name[32];
    snprintf(path, sizeof path, "%s", folder_path(state, "subject"));
    snprintf(name, sizeof name, "case-%lld", (long long)p->on);
    (void)!campaign_case_make(&one, p->on, p->seed, folder_path(state, name), &err);
    assert_ok(&err);
    (void)!loaded_open(&loaded, one.model, &err);
    (void)!faults_add(&faults, p->fault, &err);
    assert_ok(&err);
    (void)!subject_run(&s, &loaded, &one.tokens, how, &faults, &err);
    (void)!subject_write(&s, &one.tokens, p->profile, path, &err);
    assert_ok(&err);
    const struct diff_request r = {.subject = path,
                                   .model = one.model,
                                   .bound = NAN,
                                   .threads = 1,
                                   .diagnose = true,
                                   .without = p->without};
    assert_int_equal(diff_run(d, &r, &err), ERR_DIFF);
    assert_true(d->diagnosis.made);
    faults_clear(&faults);
    subject_free(&s);
    loaded_close(&loaded);
    campaign_case_close(&one);
}

static bool is_claimed(const struct diff *d, const char *id)
{
    for (int64_t i = 0; i < d->diagnosis.claimed; i++) {
        if (strcmp(d->diagnosis.claims[i].use[0].row->id, id) == 0) return true;
    }
    return false;
}

/* A row of expert weights is zero, one of them by far the largest: to make that one tiny explains
 * 96 %. On the side without rounding the same bit makes it huge, which is no rounding error. */
static void row_of_zeros__is_no_bit_flip__of_its_largest_cell(void **state)
{
    static const struct planting p = {CASE_FIXED,
                                      105,
                                      "vllm",
                                      ORDER_F64,
                                      "any.zero_row@op=router,layer=1,call=0,output=1,row=9",
                                      {"any.zero_row"}};
    struct diff d;
    diagnose_drawn(state, &p, &d);
    assert_string_equal(d.diagnosis.list[0].use.row->id, "any.bit_flip");
    assert_true(d.diagnosis.list[0].explains > 0.95);
    assert_false(d.diagnosis.list[0].holds);
    assert_int_equal(d.diagnosis.claimed, 0);
    diff_close(&d);
}

/* A token's experts on one rank are lost, and its only other expert is: each cell is right, and all
 * of them are zero. */
static void row_of_zeros__is_not_two_faults__that_have_a_part_each(void **state)
{
    static const struct planting p = {CASE_FIXED,
                                      2002,
                                      "vllm",
                                      ORDER_F64,
                                      "moe.drop_last_token@layer=2",
                                      {"moe.drop_last_token", "any.zero_row"}};
    struct diff d;
    diagnose_drawn(state, &p, &d);
    assert_int_equal(d.diagnosis.claimed, 0);
    diff_close(&d);
}

/* Half the scores with one mscale factor are what the subject has, bit for bit; so they are, within
 * rounding, with another factor alone. */
static void two_values_of_one_scale__are_no_pair__where_one_value_would_do(void **state)
{
    static const struct planting p = {
        CASE_FIXED + 2,           2002, "hf4", ORDER_F64, "mla.scale_cache_width@layer=2,mscale=0",
        {"mla.scale_cache_width"}};
    struct diff d;
    diagnose_drawn(state, &p, &d);
    assert_int_equal(d.diagnosis.claimed, 0);
    diff_close(&d);
}

/* Two edits of one expert drive its gates so low that nothing is left of it, bit for bit what the
 * subject has: and no more than that it is missing. */
static void part_that_two_edits_drown__is_no_pair__where_it_is_missing(void **state)
{
    static const struct planting p = {
        0, 7, "hf", ORDER_F64, "moe.dropped_expert@layer=5,expert=11", {"moe.dropped_expert"}};
    struct diff d;
    diagnose_drawn(state, &p, &d);
    assert_int_equal(d.diagnosis.claimed, 0);
    assert_string_equal(d.diagnosis.shape.weighed.name, "expert 11 of moe, layer 5");
    assert_true(d.diagnosis.shape.weighed.factor == 0);
    diff_close(&d);
}

/* What is not finite swallows what it was: the faults that leave the same are a set, wherever in
 * the head it was. */
static void value_that_is_not_finite__is_named_with_its_equals(void **state)
{
    static const struct planting list[] = {
        {CASE_FIXED + 1, 2001, "hf", ORDER_F64, "any.inf@op=rope,layer=2,row=11,col=1", {NULL}},
        {0, 7, "hf4", ORDER_F64, "any.inf@op=rope,layer=3,row=5,col=100", {NULL}},
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        struct diff d;
        diagnose_drawn(state, &list[i], &d);
        assert_string_equal(d.guilty.op, "mla.core");
        assert_true(is_claimed(&d, "any.inf"));
        assert_true(is_claimed(&d, "any.nan"));
        diff_close(&d);
    }
}

/* One cell of the first of an op's two outputs: to flip the top bit of its exponent makes the same
 * NaN. That each without a site for the output edits the second too, which is right, tells neither
 * from the other, and both from what fits. */
static void cell_of_one_output__is_named_there__with_its_equals(void **state)
{
    static const struct planting p = {
        CASE_FIXED + 4, 5001, "vllm", ORDER_F64, "any.nan@op=mla.kv,layer=2,output=0,row=2,col=7",
        {NULL}};
    struct diff d;
    char text[FAULT_TEXT];
    diagnose_drawn(state, &p, &d);
    assert_true(is_claimed(&d, "any.nan"));
    assert_true(is_claimed(&d, "any.bit_flip"));
    for (int64_t i = 0; i < d.diagnosis.claimed; i++)
        assert_non_null(strstr(fault_print(&d.diagnosis.claims[i].use[0], text), "output=0"));
    diff_close(&d);
}

/* Two tokens go to other experts, which softmax would do as well: and weigh them otherwise, which
 * the subject does not. */
static void experts_that_match__are_no_name__where_their_weights_do_not(void **state)
{
    static const struct planting p = {
        CASE_FIXED + 1,       6008, "vllm", ORDER_F64, "router.group_top1@layer=1",
        {"router.group_top1"}};
    struct diff d;
    diagnose_drawn(state, &p, &d);
    assert_string_equal(d.guilty.pair->subject->name, "layers.1.experts");
    assert_string_equal(d.diagnosis.list[0].use.row->id, "router.softmax");
    assert_true(d.diagnosis.list[0].explains == 1);
    assert_int_equal(d.diagnosis.claimed, 0);
    diff_close(&d);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, folder_setup, folder_teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits__are_those_of_wrong_cells_that_come_out_right),
        cmocka_unit_test(value__that_many_cells_have__is_one),
        cmocka_unit_test(rows__without_a_partner__are_left_out),
        cmocka_unit_test(ids__say_what_goes_what_comes_and_in_which_rows),
        cmocka_unit_test(charge__is_of_the_fault_its_values_and_of_two__their_sites),
        TEST(row_of_zeros__is_no_bit_flip__of_its_largest_cell),
        TEST(row_of_zeros__is_not_two_faults__that_have_a_part_each),
        TEST(two_values_of_one_scale__are_no_pair__where_one_value_would_do),
        TEST(part_that_two_edits_drown__is_no_pair__where_it_is_missing),
        TEST(value_that_is_not_finite__is_named_with_its_equals),
        TEST(cell_of_one_output__is_named_there__with_its_equals),
        TEST(experts_that_match__are_no_name__where_their_weights_do_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
