/* test_linear.c: op "linear" against torch, and its promise: a fixed order of summation, so that a
 * row's bits depend on its own inputs alone. */
#include "core/cover.h"
#include "core/linear.h"

#include "ref/kernel.h"
#include "tests/op_fixture.h"

#include <math.h>
#include <string.h>

static void run_linear(const struct linear *op, struct run *run)
{
    struct err err = ERR_INIT;
    if (linear_ref(op, run, &err) != ERR_OK) assert_ok(&err);
}

static struct linear linear_of(struct fixture_case *c, struct matrix *w)
{
    *w = case_matrix(c, "w");
    struct linear op = {.T = case_int(c, "T"), .x = case_f64(c, "x"), .w = w, .point = RP_LINEAR};
    op.y = space(&c->fixture->arena, op.T * w->out);
    return op;
}

/* sum |x| |w| of every cell: what errors of a dot product are measured against. */
static double *sizes(struct arena *a, const double *x, const double *w, int64_t T, int64_t out,
                     int64_t in, double factor)
{
    double *s = space(a, T * out);
    for (int64_t i = 0; i < T * out; i++) {
        s[i] = 0;
        for (int64_t k = 0; k < in; k++) s[i] += fabs(x[i / out * in + k] * w[i % out * in + k]);
        s[i] *= factor;
    }
    return s;
}

/* ---- golden ---- */

static void linear_ref__equals_torch__in_float64_and_float32(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "linear");
    for (int i = 0; i < fixture_count(&f); i++) {
        struct fixture_case c = fixture_at(&f, i);
        if (!case_is(&c, "kind", "f64")) continue;
        for (int precision = PRECISION_F32; precision <= PRECISION_F64; precision++) {
            for (int impl = LINEAR_OWN; impl <= LINEAR_BLAS; impl++) {
                struct matrix w;
                struct linear op = linear_of(&c, &w);
                struct run run = op_run(&f.arena, "math", (enum precision)precision);
                run.linear = (enum linear_impl)impl;
                run_linear(&op, &run);
                /* A sum of in products in any order: in units of the type on each side (here only
                 * the wider one matters); float32 also rounds x, w and the result. */
                double unit = dtype_unit(precision == PRECISION_F32 ? DT_F32 : DT_F64);
                double *bound = sizes(&f.arena, op.x, matrix_values(&f.arena, &w), op.T, w.out,
                                      w.in, 2 * ((double)w.in + 2) * unit);
                assert_within(op.y, case_f64(&c, "y"), bound, op.T, w.out);
            }
        }
    }
    fixture_close(&f);
    cover_note("linear", COVER_GOLDEN);
}

static void linear_ref__equals_torch_bitwise__in_profile_hf(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "linear");
    for (int i = 0; i < fixture_count(&f); i++) {
        struct fixture_case c = fixture_at(&f, i);
        if (!case_is(&c, "kind", "bf16")) continue;
        struct matrix w;
        struct linear op = linear_of(&c, &w);
        for (int precision = PRECISION_F32; precision <= PRECISION_F64; precision++) {
            struct run run = op_run(&f.arena, "hf", (enum precision)precision);
            run_linear(&op, &run);
            assert_share(op.y, case_f64(&c, "y"), op.T, w.out, 1.0);
        }
    }
    fixture_close(&f);
}

static struct matrix fp8_of(struct fixture_case *c)
{
    struct matrix m = {.format = MATRIX_FP8_BLOCK,
                       .out = case_int(c, "out"),
                       .in = case_int(c, "in"),
                       .block = {128, 128},
                       .data = case_tensor(c, "codes"),
                       .scale = case_tensor(c, "scale")};
    return m;
}

static void linear_ref__reads_fp8_blocks_as_torch_does__bitwise(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "linear");
    int seen = 0;
    for (int i = 0; i < fixture_count(&f); i++) {
        struct fixture_case c = fixture_at(&f, i);
        if (!case_is(&c, "kind", "fp8")) continue;
        seen++;
        struct matrix m = fp8_of(&c);
        /* Rows of the unit matrix pick the weights out one by one: y[t][o] = w[o][t]. */
        double *unit = space(&f.arena, m.in * m.in), *w = case_f64(&c, "w"),
               *want = space(&f.arena, m.in * m.out);
        for (int64_t k = 0; k < m.in * m.in; k++) unit[k] = k / m.in == k % m.in;
        for (int64_t k = 0; k < m.in * m.out; k++) want[k] = w[k % m.out * m.in + k / m.out];
        struct linear op = {
            .T = m.in, .x = unit, .w = &m, .y = space(&f.arena, m.in * m.out), .point = RP_LINEAR};
        struct run run = op_run(&f.arena, "math", PRECISION_F64);
        run_linear(&op, &run);
        assert_share(op.y, want, m.in, m.out, 1.0);

        struct linear real = {
            .T = case_int(&c, "T"), .x = case_f64(&c, "x"), .w = &m, .point = RP_LINEAR};
        real.y = space(&f.arena, real.T * m.out);
        run_linear(&real, &run);
        double *bound =
            sizes(&f.arena, real.x, w, real.T, m.out, m.in, 2 * (double)m.in * dtype_unit(DT_F64));
        assert_within(real.y, case_f64(&c, "y"), bound, real.T, m.out);
    }
    assert_int_equal(seen, 3);
    fixture_close(&f);
}

/* ---- the documented order of summation ---- */

static double dot_f64(const double *x, const double *w, int64_t in)
{
    double lane[16] = {0};
    for (int64_t k = 0; k < in; k++) lane[k % 16] = fma(x[k], w[k], lane[k % 16]);
    for (int step = 8; step; step /= 2) {
        for (int j = 0; j < step; j++) lane[j] += lane[j + step];
    }
    return lane[0];
}

static double dot_f32(const double *x, const double *w, int64_t in)
{
    float lane[16] = {0};
    for (int64_t k = 0; k < in; k++) lane[k % 16] = fmaf((float)x[k], (float)w[k], lane[k % 16]);
    for (int step = 8; step; step /= 2) {
        for (int j = 0; j < step; j++) lane[j] += lane[j + step];
    }
    return (double)lane[0];
}

static const int64_t widths[] = {1, 2, 15, 16, 17, 31, 33, 64, 97, 255, 300};
enum { WIDTHS = sizeof widths / sizeof widths[0] };

static void linear_ref__sums_in_the_documented_order__bitwise(void **state)
{
    (void)state;
    const enum dtype types[] = {DT_F32, DT_BF16, DT_F16};
    for (int i = 0; i < WIDTHS; i++) {
        for (int d = 0; d < 3; d++) {
            struct arena a = ARENA_INIT;
            int64_t T = 1 + i % 5, out = 1 + (i * 7) % 23, in = widths[i];
            struct matrix w = random_matrix(&a, 11, "w", types[d], out, in, 1.5);
            double *x = random_f64(&a, 11, "x", T * in, 1.5), *values = matrix_values(&a, &w);
            for (int precision = PRECISION_F32; precision <= PRECISION_F64; precision++) {
                struct run run = op_run(&a, "math", (enum precision)precision);
                struct linear op = {
                    .T = T, .x = x, .w = &w, .y = space(&a, T * out), .point = RP_LINEAR};
                run_linear(&op, &run);
                double *want = space(&a, T * out);
                for (int64_t j = 0; j < T * out; j++) {
                    const double *xr = x + j / out * in, *wr = values + j % out * in;
                    want[j] =
                        precision == PRECISION_F32 ? dot_f32(xr, wr, in) : dot_f64(xr, wr, in);
                }
                assert_f64_bits(op.y, want, T, out);
            }
            arena_release(&a, NULL);
        }
    }
}

static void linear_ref__gives_a_row_the_same_bits__alone_among_others_and_on_any_number_of_threads(
    void **state)
{
    (void)state;
    enum { T = 37, OUT = 45 };
    for (int i = 0; i < WIDTHS; i++) {
        struct arena a = ARENA_INIT;
        int64_t in = widths[i];
        struct matrix w = random_matrix(&a, 12, "w", DT_BF16, OUT, in, 1.5);
        double *x = random_f64(&a, 12, "x", T * in, 1.5);
        for (int precision = PRECISION_F32; precision <= PRECISION_F64; precision++) {
            struct run run = op_run(&a, "math", (enum precision)precision);
            struct linear op = {
                .T = T, .x = x, .w = &w, .y = space(&a, T * OUT), .point = RP_LINEAR};
            run_linear(&op, &run);
            for (int threads = 2; threads <= 7; threads += 5) {
                struct linear again = op;
                again.y = space(&a, T * OUT);
                run.threads = threads;
                run_linear(&again, &run);
                assert_f64_bits(again.y, op.y, T, OUT);
            }
            run.threads = 1;
            for (int64_t t = 0; t < T; t += 9) {
                for (int64_t count = 1; count <= 5 && t + count <= T; count += 2) {
                    struct linear some = {.T = count,
                                          .x = x + t * in,
                                          .w = &w,
                                          .y = space(&a, count * OUT),
                                          .point = RP_LINEAR};
                    run_linear(&some, &run);
                    assert_f64_bits(some.y, op.y + t * OUT, count, OUT);
                }
            }
            /* A NaN neighbour stays where it is. */
            double *poisoned = space(&a, T * in);
            for (int64_t k = 0; k < T * in; k++) poisoned[k] = k / in == 3 ? NAN : x[k];
            struct linear beside = op;
            beside.x = poisoned;
            beside.y = space(&a, T * OUT);
            run_linear(&beside, &run);
            assert_f64_bits(beside.y, op.y, 3, OUT);
            assert_f64_bits(beside.y + 4 * OUT, op.y + 4 * OUT, T - 4, OUT);
            for (int64_t o = 0; o < OUT; o++) assert_true(isnan(beside.y[3 * OUT + o]));
        }
        arena_release(&a, NULL);
    }
}

static void linear_ref__own_and_blas_agree__within_the_bound_of_two_orders(void **state)
{
    (void)state;
    for (int i = 0; i < WIDTHS; i++) {
        struct arena a = ARENA_INIT;
        int64_t T = 1 + i * 3 % 7, out = 1 + i * 5 % 29, in = widths[i];
        struct matrix w = random_matrix(&a, 13, "w", DT_F32, out, in, 1.5);
        double *x = random_f64(&a, 13, "x", T * in, 1.5);
        for (int precision = PRECISION_F32; precision <= PRECISION_F64; precision++) {
            struct run run = op_run(&a, "math", (enum precision)precision);
            struct linear own = {.T = T,
                                 .x = x,
                                 .w = &w,
                                 .y = space(&a, T * out),
                                 .point = RP_LINEAR},
                          blas = own;
            blas.y = space(&a, T * out);
            run_linear(&own, &run);
            run.linear = LINEAR_BLAS;
            run_linear(&blas, &run);
            /* Each side is within in units of the exact sum. */
            double *bound =
                sizes(&a, x, matrix_values(&a, &w), T, out, in,
                      2 * (double)in * dtype_unit(precision == PRECISION_F32 ? DT_F32 : DT_F64));
            assert_within(own.y, blas.y, bound, T, out);
        }
        arena_release(&a, NULL);
    }
}

/* The variants of ref/kernel.c that this CPU runs, the portable one first. */
static int variants(const struct kernel *out[3])
{
    int n = 0;
    out[n++] = &kernel_portable;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) out[n++] = &kernel_avx2;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        out[n++] = &kernel_avx512;
#endif
    return n;
}

static void kernel__gives_the_same_bits__in_every_variant_that_this_cpu_runs(void **state)
{
    (void)state;
    enum { K = 48, N = 13 };
    const struct kernel *kernel[3];
    int count = variants(kernel);
    for (int64_t T = 1; T <= 13; T++) {
        struct arena a = ARENA_INIT;
        double *x = random_f64(&a, 16, "x", T * K, 1.5), *y[3], *z[3], *m[3];
        float *x32 = (float *)space(&a, T * K), *w = (float *)space(&a, N * K), *values[3];
        for (int64_t i = 0; i < T * K; i++) x32[i] = (float)x[i];
        dtype_from_f64(DT_F32, random_f64(&a, 16, "w", N * K, 1.5), N * K, w);
        uint32_t codes[K];
        for (int64_t i = 0; i < K; i++) codes[i] = (uint32_t)synth_x(synth_base(16, "codes"), i);
        const uint16_t scales[3] = {0x3C8D, 0x3F80, 0xBF01};
        const int zeros[3] = {-8, 3, 7};
        for (int k = 0; k < count; k++) {
            y[k] = space(&a, T * N);
            z[k] = space(&a, T * N);
            m[k] = space(&a, K);
            values[k] = (float *)space(&a, 10 * K);
            memset(values[k], 0, 10 * K * sizeof *values[k]);
            kernel[k]->product_f32(T, N, K, x32, w, y[k], N);
            kernel[k]->product_f64(T, N, K, x, w, z[k], N);
            kernel[k]->mix(T, K, z[0], x, K, m[k]);
            kernel[k]->int4_bf16(3, T, codes, scales, T % 2 ? zeros : NULL, values[k]);
            kernel[k]->bf16_to_f32(2 * K, (const uint16_t *)(const void *)codes, values[k] + 8 * K);
            assert_f64_bits(y[k], y[0], T, N);
            assert_f64_bits(z[k], z[0], T, N);
            assert_f64_bits(m[k], m[0], 1, K);
            assert_f32_bits(values[k], values[0], 10, K);
        }
        arena_release(&a, NULL);
    }
}

static void linear_ref__rounds_at_the_point_it_was_given(void **state)
{
    (void)state;
    struct arena a = ARENA_INIT;
    struct matrix w = random_matrix(&a, 14, "w", DT_BF16, 9, 33, 1.5);
    struct linear op = {.T = 4,
                        .x = random_f64(&a, 14, "x", 4 * 33, 1.5),
                        .w = &w,
                        .y = space(&a, 36),
                        .point = RP_ROUTER_LOGITS},
                  rounded = op;
    rounded.point = RP_LOGITS;
    rounded.y = space(&a, 36);
    struct run run = op_run(&a, "hf", PRECISION_F64);
    run_linear(&op, &run);
    run_linear(&rounded, &run);
    for (int i = 0; i < 36; i++) {
        assert_f64_is(rounded.y[i], dtype_round(DT_BF16, op.y[i]));
        assert_true(op.y[i] != rounded.y[i]); /* hf leaves router logits alone */
    }
    arena_release(&a, NULL);
}

/* ---- errors ---- */

static void linear_ref__names_the_weight__when_a_stored_one_is_nan_and_overflow_is_a_value(
    void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct arena a = ARENA_INIT;
    float values[6] = {1, 2, 3, 4, NAN, 6};
    const double x[3] = {1, 1, 1}, huge[3] = {1e30, 1e30, 1e30};
    struct matrix w = matrix_of("o_proj.weight", DT_F32, 2, 3, values);
    struct linear op = {.T = 1, .x = x, .w = &w, .y = space(&a, 2), .point = RP_LINEAR};
    struct run run = op_run(&a, "math", PRECISION_F32);
    assert_refused(linear_ref(&op, &run, &err), &err, "o_proj.weight row 1, column 1: found NaN");
    values[4] = -INFINITY;
    assert_refused(linear_ref(&op, &run, &err), &err, "found infinity");
    values[4] = 1e30F;
    op.x = huge;
    run_linear(&op, &run);
    assert_true(isinf(op.y[1]));
    arena_release(&a, NULL);
}

static void linear_check__refuses__when_the_tensors_do_not_fit_the_format(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct arena a = ARENA_INIT;
    const struct matrix good = random_matrix(&a, 15, "the.weight", DT_BF16, 3, 5, 1.0);
    struct matrix w = good;
    struct linear op = {.T = 1,
                        .x = random_f64(&a, 15, "x", 5, 1.0),
                        .w = &w,
                        .y = space(&a, 3),
                        .point = RP_LINEAR};
    assert_int_equal(linear_check(&op, &err), ERR_OK);
    w.in = 6;
    assert_refused(linear_check(&op, &err), &err, "the.weight");
    w = good;
    w.data.dtype = DT_I8;
    assert_refused(linear_check(&op, &err), &err, "I8");
    w = good;
    w.out = 0;
    assert_refused(linear_check(&op, &err), &err, "0");
    struct fixture f;
    fixture_open(&f, "linear");
    for (int i = 0; i < fixture_count(&f); i++) {
        struct fixture_case c = fixture_at(&f, i);
        if (!case_is(&c, "kind", "fp8")) continue;
        w = fp8_of(&c);
        w.block[1] = 64;
        if (w.in > 64) assert_refused(linear_check(&op, &err), &err, "scale");
        w = fp8_of(&c);
        w.scale.dtype = DT_I32;
        assert_refused(linear_check(&op, &err), &err, "I32");
        w = fp8_of(&c);
        w.data.dtype = DT_U8;
        assert_refused(linear_check(&op, &err), &err, "U8");
    }
    w = good;
    w.data.dims = 1;
    struct run run = op_run(&a, "math", PRECISION_F64);
    assert_refused(linear_ref(&op, &run, &err), &err, "the.weight");
    fixture_close(&f);
    arena_release(&a, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_ref__equals_torch__in_float64_and_float32),
        cmocka_unit_test(linear_ref__equals_torch_bitwise__in_profile_hf),
        cmocka_unit_test(linear_ref__reads_fp8_blocks_as_torch_does__bitwise),
        cmocka_unit_test(linear_ref__sums_in_the_documented_order__bitwise),
        cmocka_unit_test(
            linear_ref__gives_a_row_the_same_bits__alone_among_others_and_on_any_number_of_threads),
        cmocka_unit_test(linear_ref__own_and_blas_agree__within_the_bound_of_two_orders),
        cmocka_unit_test(kernel__gives_the_same_bits__in_every_variant_that_this_cpu_runs),
        cmocka_unit_test(
            linear_ref__names_the_weight__when_a_stored_one_is_nan_and_overflow_is_a_value),
        cmocka_unit_test(linear_ref__rounds_at_the_point_it_was_given),
        cmocka_unit_test(linear_check__refuses__when_the_tensors_do_not_fit_the_format),
    };
    return cmocka_run_group_tests_name("linear", tests, NULL, NULL);
}
