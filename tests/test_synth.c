/* test_synth.c: the published check values of version 1, and that any part can be made on its own.
 */
#include "tests/assert_array.h"
#include "tests/support.h"

#include "core/synth.h"

#include <stdlib.h>
#include <string.h>

static void x__matches_the_published_values__at_seed_7(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t x[3];
    } rows[] = {
        {"model.embed_tokens.weight",
         {0x1396c2b0decfec93u, 0xd07177ceb1aae71au, 0x295171c8eea03854u}},
        {"model.layers.1.mlp.experts.3.up_proj.weight_packed",
         {0xb036da227d40a04au, 0x1f69300b6006f383u, 0x8a1e963a36f57621u}},
    };
    for (size_t r = 0; r < 2; r++) {
        uint64_t base = synth_base(7, rows[r].name);
        for (int64_t i = 0; i < 3; i++) assert_true(synth_x(base, i) == rows[r].x[i]);
    }
}

static void u__matches_the_published_values__at_seed_7(void **state)
{
    (void)state;
    static const double want[3] = {-0.8469617366790771, 0.6284626722335815, -0.6772021055221558};
    double got[3];
    uint64_t base = synth_base(7, "model.embed_tokens.weight");
    for (int64_t i = 0; i < 3; i++) got[i] = synth_u(base, i);
    assert_f64_bits(got, want, 1, 3);
}

/* Bounds, and the first moments of a uniform distribution within five standard errors. */
static void u__is_uniform_in_its_interval_and_exact_in_float32(void **state)
{
    (void)state;
    enum { N = 100000 };
    uint64_t base = synth_base(1, "x");
    double sum = 0, sum2 = 0;
    for (int64_t i = 0; i < N; i++) {
        double u = synth_u(base, i);
        assert_true(u >= -1 && u < 1);
        assert_true((double)(float)u == u);
        sum += u;
        sum2 += u * u;
    }
    assert_f64_close(sum / N, 0, 5 * 0.578 / 316, 0);
    assert_f64_close(sum2 / N, 1.0 / 3, 5 * 0.298 / 316, 0);
}

static void base__depends_on_seed_and_every_byte_of_the_name(void **state)
{
    (void)state;
    assert_true(synth_base(0, "") == 0xcbf29ce484222325u);
    assert_true(synth_base(0, "a") == 0xaf63dc4c8601ec8cu); /* published FNV-1a vector */
    assert_true(synth_base(0, "foobar") == 0x85944171f73967e8u);
    assert_true(synth_base(1, "a") == (synth_base(0, "a") ^ 0x9E3779B97F4A7C15u));
    assert_true(synth_base(3, "layers.1") != synth_base(3, "layers.2"));
    assert_true(synth_base(0, "\xc3\xa9") != synth_base(0, "\xc3\xa8"));
}

static void real__rounds_twice_in_float32__then_to_the_dtype(void **state)
{
    (void)state;
    struct synth_rule rule = {
        .kind = SYNTH_REAL, .base = synth_base(7, "w"), .scale = 0.3f, .offset = 1.0f};
    float got[50];
    uint16_t bf[50], half[50];
    synth_fill(&rule, DT_F32, 0, 50, got);
    synth_fill(&rule, DT_BF16, 0, 50, bf);
    synth_fill(&rule, DT_F16, 0, 50, half);
    for (int i = 0; i < 50; i++) {
        volatile float product = (float)(synth_u(rule.base, i) * (double)0.3f);
        volatile float sum = (float)((double)product + 1.0);
        assert_int_equal(f32_bits(got[i]), f32_bits(sum));
        assert_int_equal(bf[i], bf16_from_f32(sum));
        assert_int_equal(half[i], f16_from_f32(sum));
    }
    rule.offset = 0;
    synth_fill(&rule, DT_F32, 3, 1, got);
    assert_f64_is(got[0], (double)(float)(synth_u(rule.base, 3) * (double)0.3f));
}

static void scale__is_between_half_and_three_halves_of_its_factor(void **state)
{
    (void)state;
    struct synth_rule rule = {.kind = SYNTH_SCALE, .base = synth_base(7, "s"), .scale = 0.01f};
    float got[200];
    synth_fill(&rule, DT_F32, 0, 200, got);
    for (int i = 0; i < 200; i++) {
        volatile float inner = (float)(synth_u(rule.base, i) * 0.5 + 1);
        volatile float want = inner * 0.01f;
        assert_int_equal(f32_bits(got[i]), f32_bits(want));
        assert_true(got[i] >= 0.005f && got[i] <= 0.015f);
    }
}

static void codes__are_the_bytes_of_the_stream_in_order(void **state)
{
    (void)state;
    struct synth_rule rule = {.kind = SYNTH_CODES};
    rule.base = synth_base(7, "model.layers.1.mlp.experts.3.up_proj.weight_packed");
    uint32_t got[5];
    synth_fill(&rule, DT_I32, 0, 5, got);
    const uint32_t want[5] = {0x7d40a04a, 0xb036da22, 0x6006f383, 0x1f69300b, 0x36f57621};
    assert_memory_equal(got, want, sizeof want);
}

static void shape__is_out_then_in(void **state)
{
    (void)state;
    struct synth_rule rule = {.kind = SYNTH_SHAPE, .out = 2048, .in = 7168};
    int32_t got[2];
    const int32_t want[2] = {2048, 7168};
    synth_fill(&rule, DT_I32, 0, 2, got);
    assert_i32_equal(got, want, 1, 2);
    synth_fill(&rule, DT_I32, 1, 1, got);
    assert_int_equal(got[0], 7168);
}

/* Every kind and type: a fill in pieces, cut at every odd place, has the bytes of the whole fill.
 */
static void fill__in_parts_equals_the_whole__at_every_offset(void **state)
{
    (void)state;
    static const struct {
        enum synth_kind kind;
        enum dtype dtype;
    } rows[] = {{SYNTH_REAL, DT_BF16},  {SYNTH_REAL, DT_F16},  {SYNTH_REAL, DT_F32},
                {SYNTH_SCALE, DT_BF16}, {SYNTH_SCALE, DT_F16}, {SYNTH_SCALE, DT_F32},
                {SYNTH_CODES, DT_I32},  {SYNTH_SHAPE, DT_I32}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        struct synth_rule rule = {.kind = rows[r].kind,
                                  .base = synth_base(11, "part"),
                                  .scale = 0.7f,
                                  .offset = 0.1f,
                                  .out = 3,
                                  .in = 5};
        int64_t n = rows[r].kind == SYNTH_SHAPE ? 2 : 67;
        size_t size = (size_t)dtype_size(rows[r].dtype);
        unsigned char whole[67 * 4], parts[67 * 4];
        synth_fill(&rule, rows[r].dtype, 0, n, whole);
        for (int64_t step = 1; step <= n; step += 2) {
            memset(parts, 0xee, sizeof parts);
            for (int64_t at = 0; at < n; at += step) {
                int64_t m = n - at < step ? n - at : step;
                synth_fill(&rule, rows[r].dtype, at, m, parts + (size_t)at * size);
            }
            assert_memory_equal(parts, whole, (size_t)n * size);
        }
    }
}

static void fill__reaches_far_indices_without_making_the_rest(void **state)
{
    (void)state;
    struct synth_rule rule = {.kind = SYNTH_CODES, .base = synth_base(7, "far")};
    int64_t far = (INT64_C(1) << 40) + 1;
    uint32_t got[2];
    synth_fill(&rule, DT_I32, far, 2, got);
    assert_int_equal(got[0], (uint32_t)(synth_x(rule.base, far / 2) >> 32));
    assert_int_equal(got[1], (uint32_t)synth_x(rule.base, far / 2 + 1));
    synth_fill(&rule, DT_I32, far, 0, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(x__matches_the_published_values__at_seed_7),
        cmocka_unit_test(u__matches_the_published_values__at_seed_7),
        cmocka_unit_test(u__is_uniform_in_its_interval_and_exact_in_float32),
        cmocka_unit_test(base__depends_on_seed_and_every_byte_of_the_name),
        cmocka_unit_test(real__rounds_twice_in_float32__then_to_the_dtype),
        cmocka_unit_test(scale__is_between_half_and_three_halves_of_its_factor),
        cmocka_unit_test(codes__are_the_bytes_of_the_stream_in_order),
        cmocka_unit_test(shape__is_out_then_in),
        cmocka_unit_test(fill__in_parts_equals_the_whole__at_every_offset),
        cmocka_unit_test(fill__reaches_far_indices_without_making_the_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
