/* test_flips.c: router flips and their certificates, on keys that the test makes. */
#include "harness/flips.h"
#include "tests/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 3, E = 8, K = 2 };

/* A model of one MoE layer, as far as flips look at it, and three dumps: subject, math, profile. */
struct stage {
    struct config config;
    struct layer layers[2];
    struct model model;
    struct st_tensor tensor[4];
    struct dump_tap subject_taps[2], math_tap, profile_tap;
    struct dump subject, math, profile;
    int32_t ids[ROWS * K];
    double logits[3][ROWS * E]; /* subject, math, profile */
    int64_t map[ROWS];
};

static void add_reals(struct stage *s, int at, struct dump_tap *tap, double *data)
{
    s->tensor[at] = (struct st_tensor){
        .dtype = DT_F64, .dims = 2, .shape = {ROWS, E}, .count = ROWS * E, .data = data};
    *tap = (struct dump_tap){.name = "layers.1.router_logits",
                             .tensor = &s->tensor[at],
                             .rows = ROWS,
                             .cols = E,
                             .known = true,
                             .kind = TAP_ROUTER_LOGITS,
                             .layer = 1};
}

/* Logits 0, -1, -2, ... in every row and side; the reference chooses experts 0 and 1. */
static struct stage *make(bool subject_logits)
{
    struct stage *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->config = (struct config){
        .layers = 2, .experts = E, .top_k = K, .groups = 1, .top_groups = 1, .norm_topk = true};
    s->model = (struct model){.config = &s->config, .layers = s->layers};
    for (int side = 0; side < 3; side++) {
        for (int i = 0; i < ROWS * E; i++) s->logits[side][i] = -(double)(i % E);
    }
    for (int r = 0; r < ROWS; r++) {
        s->ids[r * K + 1] = 1;
        s->map[r] = r;
    }
    s->tensor[3] = (struct st_tensor){
        .dtype = DT_I32, .dims = 2, .shape = {ROWS, K}, .count = ROWS * K, .data = s->ids};
    s->subject_taps[0] = (struct dump_tap){.name = "layers.1.experts",
                                           .tensor = &s->tensor[3],
                                           .rows = ROWS,
                                           .cols = K,
                                           .known = true,
                                           .kind = TAP_EXPERTS,
                                           .layer = 1};
    add_reals(s, 0, &s->subject_taps[1], s->logits[0]);
    add_reals(s, 1, &s->math_tap, s->logits[1]);
    add_reals(s, 2, &s->profile_tap, s->logits[2]);
    s->subject =
        (struct dump){.taps = s->subject_taps, .count = subject_logits ? 2 : 1, .rows = ROWS};
    s->math = (struct dump){.taps = &s->math_tap, .count = 1, .rows = ROWS};
    s->profile = (struct dump){.taps = &s->profile_tap, .count = 1, .rows = ROWS};
    return s;
}

static void find(struct stage *s, struct flips *f)
{
    struct err err = ERR_INIT;
    (void)!flips_find(&s->model, &s->subject, &s->math, s->map, &s->profile, s->map, f, &err);
    assert_ok(&err);
}

static void flips__are_none__when_sets_agree_in_any_order(void **state)
{
    (void)state;
    struct stage *s = make(true);
    struct flips f;
    s->ids[0] = 1;
    s->ids[1] = 0;
    find(s, &f);
    assert_int_equal(f.count, 0);
    flips_free(&f);
    free(s);
}

static void flip__is_red__when_the_gap_is_past_all_errors(void **state)
{
    (void)state;
    struct stage *s = make(true);
    struct flips f;
    s->ids[2 * K + 1] = 5;
    find(s, &f);
    assert_int_equal(f.count, 1);
    assert_int_equal(f.certified, 0);
    assert_int_equal(f.list[0].row, 2);
    assert_int_equal(f.list[0].subject[1], 5);
    assert_int_equal(f.list[0].truth[1], 1);
    double gap = 1 / (1 + exp(1.0)) - 1 / (1 + exp(5.0));
    assert_true(fabs(f.list[0].gap - gap) < 1e-12);
    flips_free(&f);
    free(s);
}

/* Experts 1 and 2 come within `gap` of each other; the profile's own error decides. */
static void near_tie(double gap, double profile_error, double subject_error, bool subject_logits,
                     int64_t certified)
{
    struct stage *s = make(subject_logits);
    struct flips f;
    for (int side = 0; side < 3; side++) s->logits[side][2] = s->logits[side][1] - gap;
    s->ids[1] = 2;
    for (int r = 0; r < ROWS; r++) {
        s->logits[2][r * E + 2] += profile_error;
        s->logits[0][r * E + 2] += subject_error;
    }
    find(s, &f);
    assert_int_equal(f.count, 1);
    assert_int_equal(f.certified, certified);
    flips_free(&f);
    free(s);
}

static void flip__is_certified__only_inside_the_errors_of_both_sides(void **state)
{
    (void)state;
    near_tie(1e-4, 1e-4, 1e-4, true, 1);
    near_tie(1e-4, 1e-6, 1e-6, true, 0);
    /* No logits of the subject: it may err twice as much as the profile. */
    near_tie(1e-4, 1e-4, 0, false, 1);
    /* Logits that are wrong by much certify nothing: twice the profile's error at most. */
    near_tie(1e-4, 1e-6, 0.5, true, 0);
    /* A profile that rounds nowhere has no error to show; float32 itself has. */
    near_tie(1e-7, 0, 0, true, 1);
    near_tie(1e-5, 0, 0, true, 0);
}

static void flip__is_certified__at_an_exact_tie(void **state)
{
    (void)state;
    struct stage *s = make(true);
    struct flips f;
    for (int side = 0; side < 3; side++) s->logits[side][2] = s->logits[side][1];
    s->ids[1] = 2;
    find(s, &f);
    assert_int_equal(f.count, 1);
    assert_int_equal(f.certified, 1);
    assert_true(f.list[0].gap == 0);
    flips_free(&f);
    free(s);
}

static void flips_compare__lists_rows__and_certifies_nothing(void **state)
{
    (void)state;
    struct stage *s = make(true);
    struct flips f;
    struct err err = ERR_INIT;
    int32_t other[ROWS * K];
    memcpy(other, s->ids, sizeof other);
    other[1 * K + 1] = 7;
    struct st_tensor t = s->tensor[3];
    t.data = other;
    struct dump_tap tap = s->subject_taps[0];
    tap.tensor = &t;
    const struct dump truth = {.taps = &tap, .count = 1, .rows = ROWS};
    (void)!flips_compare(&s->subject, &truth, s->map, &f, &err);
    assert_ok(&err);
    assert_int_equal(f.count, 1);
    assert_int_equal(f.list[0].row, 1);
    assert_false(f.list[0].certified);
    assert_true(isnan(f.list[0].gap));
    flips_free(&f);
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flips__are_none__when_sets_agree_in_any_order),
        cmocka_unit_test(flip__is_red__when_the_gap_is_past_all_errors),
        cmocka_unit_test(flip__is_certified__only_inside_the_errors_of_both_sides),
        cmocka_unit_test(flip__is_certified__at_an_exact_tie),
        cmocka_unit_test(flips_compare__lists_rows__and_certifies_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
