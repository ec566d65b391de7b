/* test_judge.c: bounds and verdicts on one tap: each kind of bound, wide and narrow rows, NaN,
 * shapes. */
#include "harness/judge.h"
#include "tests/assert_array.h"
#include "tests/support.h"

#include "core/synth.h"

#include <math.h>
#include <string.h>

enum { ROWS = 24, WIDE = 128, NARROW = 4 };

/* Taps that live in memory. */
struct fake {
    struct st_tensor tensor;
    struct dump_tap tap;
    double data[ROWS * WIDE];
};

static void make(struct fake *f, const char *name, int64_t cols, double base, double noise,
                 const char *seed)
{
    *f = (struct fake){
        .tensor = {.dtype = DT_F64, .dims = 2, .shape = {ROWS, cols}, .count = ROWS * cols}};
    for (int64_t i = 0; i < ROWS * cols; i++)
        f->data[i] =
            base * synth_u(synth_base(1, "truth"), i) + noise * synth_u(synth_base(1, seed), i);
    f->tensor.data = f->data;
    f->tap = (struct dump_tap){.name = name, .tensor = &f->tensor, .rows = ROWS, .cols = cols};
    f->tap.known = tap_parse(name, &f->tap.kind, &f->tap.layer);
}

/* A judge of identity rows; the profile run is one tap of one dump. */
struct court {
    struct judge judge;
    struct alignment rows;
    struct dump profile;
    struct dump_tap profile_tap;
    int64_t map[ROWS];
};

static void open_court(struct court *c, enum bound_kind kind, const struct fake *profile)
{
    *c = (struct court){0};
    for (int i = 0; i < ROWS; i++) c->map[i] = i;
    c->rows = (struct alignment){.row = c->map, .rows = ROWS, .matched = ROWS};
    c->judge =
        (struct judge){.kind = kind, .user = 1e-3, .layers = 2, .widest = WIDE, .rows = &c->rows};
    if (!profile) return;
    c->profile_tap = profile->tap;
    c->profile = (struct dump){.taps = &c->profile_tap, .count = 1, .rows = ROWS};
    c->judge.profile = &c->profile;
    c->judge.profile_row = c->map;
    c->judge.profile_name = "hf";
}

static struct tap_judgement judge(struct court *c, const struct fake *subject,
                                  const struct fake *truth)
{
    struct tap_judgement out;
    struct err err = ERR_INIT;
    const struct pair p = {.subject = &subject->tap, .truth = &truth->tap};
    (void)!judge_pair(&c->judge, &p, &out, &err);
    assert_ok(&err);
    return out;
}

/* Where a tap is finer than its inputs the second run tells what their storage does. */
static struct tap_judgement judge_finer(struct court *c, struct fake *subject,
                                        const struct fake *truth, enum dtype dtype)
{
    static float narrow[ROWS * WIDE];
    struct tap_judgement out;
    struct err err = ERR_INIT;
    for (int64_t i = 0; i < subject->tensor.count; i++)
        narrow[i] = (float)dtype_round(dtype, subject->data[i]);
    subject->tensor.dtype = DT_F32;
    subject->tensor.data = narrow;
    const struct pair p = {.subject = &subject->tap, .truth = &truth->tap, .ops = 1, .finer = true};
    (void)!judge_pair(&c->judge, &p, &out, &err);
    assert_ok(&err);
    return out;
}

static void user_bound__judges_tap_and_row(void **state)
{
    (void)state;
    struct court c;
    struct fake s, t;
    open_court(&c, BOUND_USER, NULL);
    make(&t, "layers.0.attn", WIDE, 1, 0, "none");
    make(&s, "layers.0.attn", WIDE, 1, 5e-4, "noise");
    assert_int_equal(judge(&c, &s, &t).verdict, TAP_PASS);
    make(&s, "layers.0.attn", WIDE, 1, 2e-3, "noise");
    assert_int_equal(judge(&c, &s, &t).verdict, TAP_FAIL);
    /* One bad row that the whole tap dilutes: 4.5e-3 of a row is 9.2e-4 of 24. */
    make(&s, "layers.0.attn", WIDE, 1, 0, "noise");
    for (int i = 0; i < WIDE; i++) s.data[3 * WIDE + i] *= 1 + 4.5e-3;
    struct tap_judgement j = judge(&c, &s, &t);
    assert_true(j.measure.rel_rms < 1e-3);
    assert_int_equal(j.verdict, TAP_FAIL);
    assert_int_equal(j.rows_failed, 1);
    assert_int_equal(j.first_row_failed, 3);
    c.judge.user = 2e-3;
    j = judge(&c, &s, &t);
    assert_int_equal(j.verdict, TAP_PASS);
    assert_int_equal(j.row, 3);
    assert_non_null(strstr(j.from, "user"));
}

static void measured_bound__allows_twice_the_profile_error__row_by_row(void **state)
{
    (void)state;
    struct court c;
    struct fake s, t, p;
    make(&t, "layers.0.attn", WIDE, 1, 0, "none");
    make(&p, "layers.0.attn", WIDE, 1, 1e-3, "profile");
    open_court(&c, BOUND_MEASURED, &p);
    make(&s, "layers.0.attn", WIDE, 1, 1.5e-3, "subject");
    assert_int_equal(judge(&c, &s, &t).verdict, TAP_PASS);
    make(&s, "layers.0.attn", WIDE, 1, 1e-3, "subject");
    for (int i = 0; i < WIDE; i++)
        s.data[4 * WIDE + i] += 2.5e-3 * synth_u(synth_base(1, "more"), i);
    struct tap_judgement j = judge(&c, &s, &t);
    assert_int_equal(j.verdict, TAP_FAIL);
    assert_int_equal(j.first_row_failed, 4);
    assert_int_equal(j.rows_failed, 1);
    assert_non_null(strstr(j.from, "measured"));
}

/* A row that the profile's run happened to get right may be as wrong as the others are. */
static void measured_bound__gives_a_lucky_row_the_tap_s_error(void **state)
{
    (void)state;
    struct court c;
    struct fake s, t, p;
    make(&t, "layers.0.attn", WIDE, 1, 0, "none");
    make(&p, "layers.0.attn", WIDE, 1, 0.02, "profile");
    memcpy(p.data + 4 * WIDE, t.data + 4 * WIDE, WIDE * sizeof *p.data);
    open_court(&c, BOUND_MEASURED, &p);
    make(&s, "layers.0.attn", WIDE, 1, 0.02, "subject");
    assert_int_equal(judge(&c, &s, &t).verdict, TAP_PASS);
    for (int i = 0; i < WIDE; i++) s.data[4 * WIDE + i] += 0.06 * synth_u(synth_base(1, "more"), i);
    struct tap_judgement j = judge(&c, &s, &t);
    assert_int_equal(j.verdict, TAP_FAIL);
    assert_int_equal(j.first_row_failed, 4);
}

static void measured_bound__pools_narrow_rows__and_still_sees_one_bad_row(void **state)
{
    (void)state;
    struct court c;
    struct fake s, t, p;
    make(&t, "layers.1.expert_weights", NARROW, 1, 0, "none");
    make(&p, "layers.1.expert_weights", NARROW, 1, 1e-3, "profile");
    open_court(&c, BOUND_MEASURED, &p);
    make(&s, "layers.1.expert_weights", NARROW, 1, 0, "none");
    /* Three times the pooled error in one row of four columns is chance; eight and a half times is
     * not, although the whole tap stays below twice the pooled error. */
    for (int i = 0; i < NARROW; i++) s.data[2 * NARROW + i] += 1.7e-3;
    assert_int_equal(judge(&c, &s, &t).verdict, TAP_PASS);
    for (int i = 0; i < NARROW; i++) s.data[2 * NARROW + i] += 3.2e-3;
    struct tap_judgement j = judge(&c, &s, &t);
    assert_false(judge_fails(j.measure.rel_rms, j.bound));
    assert_int_equal(j.verdict, TAP_FAIL);
    assert_int_equal(j.first_row_failed, 2);
}

static void measured_bound__has_a_floor__of_one_ulp(void **state)
{
    (void)state;
    struct court c;
    struct fake s, t, p;
    make(&t, "embed", WIDE, 1, 0, "none");
    make(&p, "embed", WIDE, 1, 0, "none");
    open_court(&c, BOUND_MEASURED, &p);
    make(&s, "embed", WIDE, 1, 1e-17, "subject");
    s.tensor.dtype = DT_F64;
    assert_int_equal(judge(&c, &s, &t).verdict, TAP_PASS);
    make(&s, "embed", WIDE, 1, 1e-12, "subject");
    assert_int_equal(judge(&c, &s, &t).verdict, TAP_FAIL);
}

static void measured_bound__leaves_unchecked__what_the_profile_run_lacks(void **state)
{
    (void)state;
    struct court c;
    struct fake s, t, p;
    make(&t, "embed", WIDE, 1, 0, "none");
    make(&s, "embed", WIDE, 1, 0, "none");
    make(&p, "logits", WIDE, 1, 0, "none");
    open_court(&c, BOUND_MEASURED, &p);
    struct tap_judgement j = judge(&c, &s, &t);
    assert_int_equal(j.verdict, TAP_UNCHECKED);
    assert_true(j.why[0] != '\0');
}

static void derived_bound__grows_with_depth__and_with_the_unit_roundoff(void **state)
{
    (void)state;
    struct court c;
    struct fake s, t;
    open_court(&c, BOUND_DERIVED, NULL);
    make(&t, "layers.0.attn_norm", WIDE, 1, 0, "none");
    make(&s, "layers.0.attn_norm", WIDE, 1, 0, "none");
    double early = judge(&c, &s, &t).bound;
    make(&t, "layers.1.output", WIDE, 1, 0, "none");
    make(&s, "layers.1.output", WIDE, 1, 1e-7, "subject");
    struct tap_judgement late = judge(&c, &s, &t);
    assert_true(late.bound > early && early > 0);
    assert_int_equal(late.verdict, TAP_PASS);
    make(&s, "layers.1.output", WIDE, 1, 1e-4, "subject");
    assert_int_equal(judge(&c, &s, &t).verdict, TAP_FAIL);
    assert_int_equal(judge_depth(TAP_EMBED, -1, 3), 1);
    assert_true(judge_depth(TAP_LOGITS, -1, 3) > judge_depth(TAP_OUTPUT, 2, 3));
}

static void nan_and_infinity__are_red__under_any_bound(void **state)
{
    (void)state;
    struct court c;
    struct fake s, t;
    open_court(&c, BOUND_USER, NULL);
    c.judge.user = INFINITY;
    make(&t, "embed", WIDE, 1, 0, "none");
    const double bad[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        make(&s, "embed", WIDE, 1, 0, "none");
        s.data[2 * WIDE + 5] = bad[i];
        struct tap_judgement j = judge(&c, &s, &t);
        assert_int_equal(j.verdict, TAP_FAIL);
        assert_int_equal(j.measure.first_mismatch.row, 2);
        assert_int_equal(j.measure.first_mismatch.col, 5);
        assert_non_null(strstr(j.why, "row 2, column 5"));
    }
    /* The same NaN in the truth: equal, and still no result. */
    make(&s, "embed", WIDE, 1, 0, "none");
    s.data[7] = t.data[7] = NAN;
    assert_int_equal(judge(&c, &s, &t).verdict, TAP_FAIL);
    make(&t, "embed", WIDE, 1, 0, "none");
    make(&s, "embed", WIDE, 1, 0, "none");
    c.judge.user = NAN;
    assert_int_equal(judge(&c, &s, &t).verdict, TAP_FAIL);
}

static void shapes__that_differ__are_red_and_said(void **state)
{
    (void)state;
    struct court c;
    struct fake s, t;
    open_court(&c, BOUND_USER, NULL);
    make(&t, "embed", WIDE, 1, 0, "none");
    make(&s, "embed", NARROW, 1, 0, "none");
    struct tap_judgement j = judge(&c, &s, &t);
    assert_int_equal(j.verdict, TAP_FAIL);
    assert_non_null(strstr(j.why, "[24, 4], wanted [24, 128]"));
}

/* Against tables: chi-square quantiles at 1e-3 are 18.47 (4 degrees) and 29.59 (10). */
static void judge_chi__is_near_the_table(void **state)
{
    (void)state;
    assert_f64_close(judge_chi(4, 1e-3), sqrt(18.47 / 4), 0, 0.01);
    assert_f64_close(judge_chi(10, 1e-3), sqrt(29.59 / 10), 0, 0.01);
    assert_true(judge_chi(4, 1e-9) > judge_chi(64, 1e-9));
}

static void derived_bound__is_measured__of_a_tap_finer_than_its_inputs(void **state)
{
    (void)state;
    struct court c;
    struct fake s, t, p;
    make(&t, "layers.1.router_logits", WIDE, 1, 0, "none");
    make(&p, "layers.1.router_logits", WIDE, 1, 1e-3, "storage");
    open_court(&c, BOUND_DERIVED, &p);
    make(&s, "layers.1.router_logits", WIDE, 1, 1.6e-3, "subject");
    struct tap_judgement j = judge_finer(&c, &s, &t, DT_F32);
    assert_int_equal(j.verdict, TAP_PASS);
    assert_int_equal(j.kind, BOUND_MEASURED);
    assert_non_null(strstr(j.from, "from inputs as stored"));
    assert_true(j.bound < 2.2e-3);
    make(&s, "layers.1.router_logits", WIDE, 1, 2.5e-3, "subject");
    assert_int_equal(judge_finer(&c, &s, &t, DT_F32).verdict, TAP_FAIL);
    /* A row may be off by four times the tap's error, no more. */
    make(&s, "layers.1.router_logits", WIDE, 1, 5e-4, "subject");
    for (int i = 0; i < WIDE; i++) s.data[5 * WIDE + i] += 3e-3 * synth_u(synth_base(1, "more"), i);
    assert_int_equal(judge_finer(&c, &s, &t, DT_F32).verdict, TAP_PASS);
    for (int i = 0; i < WIDE; i++) s.data[5 * WIDE + i] += 2e-3 * synth_u(synth_base(1, "more"), i);
    j = judge_finer(&c, &s, &t, DT_F32);
    assert_int_equal(j.verdict, TAP_FAIL);
    assert_int_equal(j.first_row_failed, 5);
    /* Without a second run, and of a tap as coarse as its inputs, it is the derived bound. */
    c.judge.profile = NULL;
    make(&s, "layers.1.router_logits", WIDE, 1, 1e-4, "subject");
    j = judge_finer(&c, &s, &t, DT_F32);
    assert_int_equal(j.verdict, TAP_FAIL);
    assert_int_equal(j.kind, BOUND_DERIVED);
}

static void finer_tap__is_red__where_its_values_are_a_coarser_type_s(void **state)
{
    static const enum dtype types[] = {DT_BF16, DT_F16};
    (void)state;
    struct court c;
    struct fake s, t, p;
    make(&t, "layers.1.router_logits", WIDE, 1, 0, "none");
    make(&p, "layers.1.router_logits", WIDE, 1, 5e-3, "storage");
    open_court(&c, BOUND_DERIVED, &p);
    for (int i = 0; i < 2; i++) {
        make(&s, "layers.1.router_logits", WIDE, 1, 0, "subject");
        struct tap_judgement j = judge_finer(&c, &s, &t, types[i]);
        assert_false(judge_fails(j.measure.rel_rms, j.bound));
        assert_int_equal(j.verdict, TAP_FAIL);
        assert_non_null(strstr(j.why, "all values are"));
    }
    make(&s, "layers.1.router_logits", WIDE, 1, 0, "subject");
    assert_int_equal(judge_finer(&c, &s, &t, DT_F32).verdict, TAP_PASS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(user_bound__judges_tap_and_row),
        cmocka_unit_test(measured_bound__allows_twice_the_profile_error__row_by_row),
        cmocka_unit_test(measured_bound__gives_a_lucky_row_the_tap_s_error),
        cmocka_unit_test(measured_bound__pools_narrow_rows__and_still_sees_one_bad_row),
        cmocka_unit_test(measured_bound__has_a_floor__of_one_ulp),
        cmocka_unit_test(derived_bound__is_measured__of_a_tap_finer_than_its_inputs),
        cmocka_unit_test(finer_tap__is_red__where_its_values_are_a_coarser_type_s),
        cmocka_unit_test(measured_bound__leaves_unchecked__what_the_profile_run_lacks),
        cmocka_unit_test(derived_bound__grows_with_depth__and_with_the_unit_roundoff),
        cmocka_unit_test(nan_and_infinity__are_red__under_any_bound),
        cmocka_unit_test(shapes__that_differ__are_red_and_said),
        cmocka_unit_test(judge_chi__is_near_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
