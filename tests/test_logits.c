/* test_logits.c: op "logits" and the greedy choice against torch, ties, NaN. */
#include "core/logits.h"

#include "core/linear.h"
#include "tests/op_fixture.h"

#include <math.h>

static void run_logits(const struct logits *op, struct run *run)
{
    struct err err = ERR_INIT;
    if (logits_ref(op, run, &err) != ERR_OK) assert_ok(&err);
}

static struct logits from_case(struct fixture_case *c, struct matrix *head)
{
    *head = case_matrix(c, "head");
    struct logits op = {.T = case_int(c, "T"), .x = case_f64(c, "x"), .head = head};
    op.y = space(&c->fixture->arena, op.T * head->out);
    return op;
}

static void logits_ref__equals_torch__in_float64_and_profile_hf(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "logits");
    for (int i = 0; i < fixture_count(&f); i++) {
        struct fixture_case c = fixture_at(&f, i);
        struct matrix head;
        struct logits op = from_case(&c, &head);
        bool f64 = case_is(&c, "kind", "f64");
        struct run run = op_run(&f.arena, f64 ? "math" : "hf", PRECISION_F64);
        run_logits(&op, &run);
        /* 33 terms below 10. */
        if (f64)
            assert_f64_near(op.y, case_f64(&c, "y"), op.T, head.out,
                            33 * 10 * dtype_unit(DT_F64) * 2, 0);
        else
            assert_share(op.y, case_f64(&c, "y"), op.T, head.out, 1.0);
        const int64_t *want = case_i64(&c, "argmax");
        for (int64_t t = 0; t < op.T; t++) {
            double margin = NAN;
            assert_int_equal(logits_argmax(op.y + t * head.out, head.out, &margin), want[t]);
            assert_true(margin > 0);
        }
    }
    fixture_close(&f);
}

static void logits_ref__is_the_linear_rounded_at_its_own_point(void **state)
{
    (void)state;
    struct arena a = ARENA_INIT;
    enum { T = 3, H = 17, V = 21 };
    struct matrix head = random_matrix(&a, 31, "head", DT_BF16, V, H, 1.0);
    double *x = random_f64(&a, 31, "x", T * H, 1.0);
    for (int precision = PRECISION_F32; precision <= PRECISION_F64; precision++) {
        for (int p = 0; p < 2; p++) {
            struct run run = op_run(&a, p ? "vllm" : "math", (enum precision)precision);
            struct logits op = {.T = T, .x = x, .head = &head, .y = space(&a, T * V)};
            struct linear linear = {
                .T = T, .x = x, .w = &head, .y = space(&a, T * V), .point = RP_LOGITS};
            struct err err = ERR_INIT;
            run_logits(&op, &run);
            if (linear_ref(&linear, &run, &err) != ERR_OK) assert_ok(&err);
            assert_f64_bits(op.y, linear.y, T, V);
        }
    }
    arena_release(&a, NULL);
}

static void logits_argmax__takes_the_lowest_id__when_values_tie(void **state)
{
    (void)state;
    double margin = NAN;
    assert_int_equal(logits_argmax((const double[]){1, 5, 5, 0, 5}, 5, &margin), 1);
    assert_f64_is(margin, 0.0);
    assert_int_equal(logits_argmax((const double[]){-0.0, 0.0}, 2, &margin), 0);
    assert_true(margin == 0);
    assert_int_equal(logits_argmax((const double[]){-INFINITY, -INFINITY}, 2, &margin), 0);
}

static void logits_argmax__gives_the_margin_to_the_best_of_the_others(void **state)
{
    (void)state;
    double margin = NAN;
    assert_int_equal(logits_argmax((const double[]){3, -1, 7, 2}, 4, &margin), 2);
    assert_f64_is(margin, 4.0);
    assert_int_equal(logits_argmax((const double[]){7, -1, 3, 2}, 4, &margin), 0);
    assert_f64_is(margin, 4.0);
    assert_int_equal(logits_argmax((const double[]){-7, -9}, 2, &margin), 0);
    assert_f64_is(margin, 2.0);
    assert_int_equal(logits_argmax((const double[]){1, INFINITY}, 2, &margin), 1);
    assert_f64_is(margin, (double)INFINITY);
    assert_int_equal(logits_argmax((const double[]){-2}, 1, &margin),
                     0); /* nothing to be close to */
    assert_f64_is(margin, (double)INFINITY);
}

static void logits_argmax__gives_minus_one__when_a_value_is_nan(void **state)
{
    (void)state;
    for (int at = 0; at < 4; at++) {
        double row[4] = {1, 9, 3, 4}, margin = 0;
        row[at] = NAN;
        assert_int_equal(logits_argmax(row, 4, &margin), -1);
        assert_true(isnan(margin)); /* no bound is met by it */
    }
}

static void logits_check__refuses__when_the_head_is_bad(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct arena a = ARENA_INIT;
    struct matrix head = random_matrix(&a, 32, "lm_head.weight", DT_BF16, 4, 3, 1.0);
    struct logits op = {
        .T = 1, .x = random_f64(&a, 32, "x", 3, 1.0), .head = &head, .y = space(&a, 4)};
    assert_int_equal(logits_check(&op, &err), ERR_OK);
    head.data.dtype = DT_U8;
    assert_refused(logits_check(&op, &err), &err, "lm_head.weight: found U8");
    head.data.dtype = DT_BF16;
    head.out = 5;
    assert_refused(logits_check(&op, &err), &err, "lm_head.weight: found [4, 3], wanted [5, 3]");
    struct run run = op_run(&a, "math", PRECISION_F64);
    assert_refused(logits_ref(&op, &run, &err), &err, "lm_head.weight");
    op.head = NULL;
    assert_refused(logits_check(&op, &err), &err, "no head");
    arena_release(&a, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_ref__equals_torch__in_float64_and_profile_hf),
        cmocka_unit_test(logits_ref__is_the_linear_rounded_at_its_own_point),
        cmocka_unit_test(logits_argmax__takes_the_lowest_id__when_values_tie),
        cmocka_unit_test(logits_argmax__gives_the_margin_to_the_best_of_the_others),
        cmocka_unit_test(logits_argmax__gives_minus_one__when_a_value_is_nan),
        cmocka_unit_test(logits_check__refuses__when_the_head_is_bad),
    };
    return cmocka_run_group_tests_name("logits", tests, NULL, NULL);
}
