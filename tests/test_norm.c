/* test_norm.c: op "norm" against DeepseekV3RMSNorm and torch.nn.functional.rms_norm, and what must
 * hold for any input. */
#include "core/norm.h"

#include "tests/op_fixture.h"

#include <math.h>

static void run_norm(const struct norm *op, struct run *run)
{
    struct err err = ERR_INIT;
    if (norm_ref(op, run, &err) != ERR_OK) assert_ok(&err);
}

static struct norm norm_of(struct fixture_case *c, struct tensor *w)
{
    *w = case_tensor(c, "w");
    struct norm op = {.T = case_int(c, "T"),
                      .H = case_int(c, "H"),
                      .eps = case_real(c, "eps"),
                      .x = case_f64(c, "x"),
                      .w = w};
    op.y = space(&c->fixture->arena, op.T * op.H);
    return op;
}

static void norm_ref__equals_torch__in_float64(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "norm");
    for (int i = 0; i < fixture_count(&f); i++) {
        struct fixture_case c = fixture_at(&f, i);
        if (!case_is(&c, "kind", "f32")) continue;
        struct tensor w;
        struct norm op = norm_of(&c, &w);
        struct run run = op_run(&f.arena, "math", PRECISION_F64);
        run_norm(&op, &run);
        /* The mean of H squares is off by at most H units on each side, halved by the root; then
         * four roundings. */
        double unit = dtype_unit(DT_F64);
        assert_f64_near(op.y, case_f64(&c, "y64"), op.T, op.H, 0, ((double)op.H + 10) * unit);
    }
    fixture_close(&f);
}

static void norm_ref__equals_transformers__in_float32(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "norm");
    for (int i = 0; i < fixture_count(&f); i++) {
        struct fixture_case c = fixture_at(&f, i);
        if (!case_is(&c, "kind", "f32")) continue;
        struct tensor w;
        struct norm op = norm_of(&c, &w);
        struct run run = op_run(&f.arena, "math", PRECISION_F32);
        run_norm(&op, &run);
        /* Theirs: squares and mean in float32 (H/2 after the root), rsqrt (2), two products; ours:
         * one rounding. */
        assert_f64_near(op.y, case_f64(&c, "y"), op.T, op.H, 0,
                        ((double)op.H / 2 + 6) * dtype_unit(DT_F32));
    }
    fixture_close(&f);
}

static void norm_ref__equals_transformers_bitwise__in_profile_hf(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "norm");
    for (int i = 0; i < fixture_count(&f); i++) {
        struct fixture_case c = fixture_at(&f, i);
        if (!case_is(&c, "kind", "bf16")) continue;
        struct tensor w;
        struct norm op = norm_of(&c, &w);
        struct run run = op_run(&f.arena, "hf", PRECISION_F64);
        run_norm(&op, &run);
        assert_share(op.y, case_f64(&c, "y"), op.T, op.H, 1.0);
    }
    fixture_close(&f);
}

/* ---- properties ---- */

struct norm_scene {
    struct arena a;
    struct tensor w;
    struct norm op;
};

static void make(struct norm_scene *s, int64_t T, int64_t H, double eps, uint64_t seed)
{
    *s = (struct norm_scene){0};
    s->w = random_vector(&s->a, seed, "w", DT_BF16, H, 2.0);
    s->op = (struct norm){.T = T,
                          .H = H,
                          .eps = eps,
                          .x = random_f64(&s->a, seed, "x", T * H, 3.0),
                          .y = space(&s->a, T * H)};
    s->op.w = &s->w;
}

static void norm_ref__is_unchanged__when_the_input_is_scaled_by_a_power_of_two_and_eps_is_zero(
    void **state)
{
    (void)state;
    for (int64_t H = 1; H < 40; H += 6) {
        struct norm_scene s;
        make(&s, 3, H, 0.0, (uint64_t)H);
        struct run run = op_run(&s.a, "math", PRECISION_F64);
        run_norm(&s.op, &run);
        double *scaled = space(&s.a, 3 * H);
        for (int64_t i = 0; i < 3 * H; i++) scaled[i] = ldexp(s.op.x[i], 20);
        struct norm other = s.op;
        other.x = scaled;
        other.y = space(&s.a, 3 * H);
        run_norm(&other, &run);
        assert_f64_bits(other.y, s.op.y, 3, H);
        arena_release(&s.a, NULL);
    }
}

static void norm_ref__gives_rows_of_mean_square_one__when_there_is_no_weight(void **state)
{
    (void)state;
    struct norm_scene s;
    make(&s, 4, 23, 0.0, 9);
    s.op.w = NULL;
    struct run run = op_run(&s.a, "math", PRECISION_F64);
    run_norm(&s.op, &run);
    for (int64_t t = 0; t < 4; t++) {
        double sum = 0;
        for (int64_t h = 0; h < 23; h++) sum += s.op.y[t * 23 + h] * s.op.y[t * 23 + h];
        assert_f64_close(sum / 23, 1.0, 0, 1e-14);
    }
    arena_release(&s.a, NULL);
}

static void norm_ref__gives_the_same_bits__in_place_alone_and_on_any_number_of_threads(void **state)
{
    (void)state;
    enum { T = 19, H = 33 };
    struct norm_scene s;
    make(&s, T, H, 1e-6, 4);
    const char *const profiles[] = {"math", "hf", "sgl"};
    for (int p = 0; p < 3; p++) {
        for (int precision = PRECISION_F32; precision <= PRECISION_F64; precision++) {
            struct run run = op_run(&s.a, profiles[p], (enum precision)precision);
            run_norm(&s.op, &run);
            struct norm threads = s.op, alone = s.op, in_place = s.op;
            run.threads = 5;
            threads.y = space(&s.a, T * H);
            run_norm(&threads, &run);
            assert_f64_bits(threads.y, s.op.y, T, H);
            alone.T = 1;
            alone.x = s.op.x + 7 * H;
            alone.y = space(&s.a, H);
            run_norm(&alone, &run);
            assert_f64_bits(alone.y, s.op.y + 7 * H, 1, H);
            double *x = space(&s.a, T * H);
            for (int i = 0; i < T * H; i++) x[i] = s.op.x[i];
            in_place.x = in_place.y = x;
            run_norm(&in_place, &run);
            assert_f64_bits(x, s.op.y, T, H);
        }
    }
    arena_release(&s.a, NULL);
}

static void norm_ref__keeps_a_nan_in_its_row(void **state)
{
    (void)state;
    struct norm_scene s;
    make(&s, 3, 5, 1e-6, 2);
    double *x = space(&s.a, 15);
    for (int i = 0; i < 15; i++) x[i] = s.op.x[i];
    x[7] = NAN;
    struct norm op = s.op;
    op.x = x;
    op.y = space(&s.a, 15);
    struct run run = op_run(&s.a, "math", PRECISION_F64);
    run_norm(&s.op, &run);
    run_norm(&op, &run);
    assert_f64_bits(op.y, s.op.y, 1, 5);
    assert_f64_bits(op.y + 10, s.op.y + 10, 1, 5);
    for (int i = 5; i < 10; i++) assert_true(isnan(op.y[i]));
    arena_release(&s.a, NULL);
}

static void norm_ref__names_the_weight__when_a_stored_one_is_nan(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct norm_scene s;
    make(&s, 1, 3, 1e-6, 6);
    const float w[3] = {1, NAN, 1};
    s.w = tensor_of("kv_a_layernorm.weight", DT_F32, 1, (const int64_t[]){3}, w);
    struct run run = op_run(&s.a, "math", PRECISION_F64);
    assert_refused(norm_ref(&s.op, &run, &err), &err, "kv_a_layernorm.weight row 1");
    arena_release(&s.a, NULL);
}

static void norm_ref__gives_zero__when_the_row_is_zero(void **state)
{
    (void)state;
    struct norm_scene s;
    make(&s, 1, 4, 1e-6, 3);
    const double zero[4] = {0, 0, 0, 0};
    s.op.x = zero;
    s.op.w = NULL;
    struct run run = op_run(&s.a, "math", PRECISION_F64);
    run_norm(&s.op, &run);
    assert_f64_bits(s.op.y, zero, 1, 4);
    arena_release(&s.a, NULL);
}

static void norm_check__refuses__when_an_argument_is_bad(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct norm_scene s;
    make(&s, 2, 3, 1e-6, 5);
    struct norm op = s.op;
    assert_int_equal(norm_check(&op, &err), ERR_OK);
    op.H = 0;
    assert_refused(norm_check(&op, &err), &err, "H = 0");
    op = s.op;
    op.eps = -1e-6;
    assert_refused(norm_check(&op, &err), &err, "-1e-06");
    op.eps = NAN;
    assert_refused(norm_check(&op, &err), &err, "nan");
    op = s.op;
    s.w.dtype = DT_I64;
    assert_refused(norm_check(&op, &err), &err, "I64");
    s.w.dtype = DT_BF16;
    s.w.shape[0] = 4;
    assert_refused(norm_check(&op, &err), &err, "4 of BF16");
    struct run run = op_run(&s.a, "math", PRECISION_F64);
    assert_refused(norm_ref(&op, &run, &err), &err, "4 of BF16");
    arena_release(&s.a, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norm_ref__equals_torch__in_float64),
        cmocka_unit_test(norm_ref__equals_transformers__in_float32),
        cmocka_unit_test(norm_ref__equals_transformers_bitwise__in_profile_hf),
        cmocka_unit_test(
            norm_ref__is_unchanged__when_the_input_is_scaled_by_a_power_of_two_and_eps_is_zero),
        cmocka_unit_test(norm_ref__gives_rows_of_mean_square_one__when_there_is_no_weight),
        cmocka_unit_test(
            norm_ref__gives_the_same_bits__in_place_alone_and_on_any_number_of_threads),
        cmocka_unit_test(norm_ref__keeps_a_nan_in_its_row),
        cmocka_unit_test(norm_ref__names_the_weight__when_a_stored_one_is_nan),
        cmocka_unit_test(norm_ref__gives_zero__when_the_row_is_zero),
        cmocka_unit_test(norm_check__refuses__when_an_argument_is_bad),
    };
    return cmocka_run_group_tests_name("norm", tests, NULL, NULL);
}
