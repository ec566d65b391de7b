/* test_dtype.c: exact conversions, checked against arithmetic written anew here: every value of
 * every small type, every tie, both NaN signs, subnormals, odd addresses. */
#include "tests/assert_array.h"
#include "tests/support.h"

#include "core/dtype.h"

#include <math.h>
#include <signal.h>
#include <string.h>

/* The value of a small IEEE-like pattern by its definition. */
static double defined_value(uint32_t bits, int ebits, int mbits)
{
    int e = (int)(bits >> mbits) & ((1 << ebits) - 1), bias = (1 << (ebits - 1)) - 1;
    double m = bits & ((1u << mbits) - 1), sign = bits >> (ebits + mbits) & 1 ? -1 : 1;
    if (e == (1 << ebits) - 1) return m != 0 ? NAN : sign * INFINITY;
    return e ? sign * ldexp(1 + ldexp(m, -mbits), e - bias) : sign * ldexp(m, 1 - bias - mbits);
}

static void names__parse_back_and_sizes_match(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int size;
        bool is_float, is_int;
    } rows[DT_COUNT] = {
        [DT_BOOL] = {"BOOL", 1, false, true},       [DT_U8] = {"U8", 1, false, true},
        [DT_I8] = {"I8", 1, false, true},           [DT_F8_E4M3] = {"F8_E4M3", 1, true, false},
        [DT_F8_E5M2] = {"F8_E5M2", 1, true, false}, [DT_F8_E8M0] = {"F8_E8M0", 1, true, false},
        [DT_I16] = {"I16", 2, false, true},         [DT_U16] = {"U16", 2, false, true},
        [DT_F16] = {"F16", 2, true, false},         [DT_BF16] = {"BF16", 2, true, false},
        [DT_I32] = {"I32", 4, false, true},         [DT_U32] = {"U32", 4, false, true},
        [DT_F32] = {"F32", 4, true, false},         [DT_I64] = {"I64", 8, false, true},
        [DT_U64] = {"U64", 8, false, true},         [DT_F64] = {"F64", 8, true, false},
        [DT_C64] = {"C64", 8, false, false}};
    for (int t = 0; t < DT_COUNT; t++) {
        enum dtype back;
        assert_string_equal(dtype_name((enum dtype)t), rows[t].name);
        assert_true(dtype_parse(rows[t].name, &back));
        assert_int_equal(back, t);
        assert_int_equal(dtype_size((enum dtype)t), rows[t].size);
        assert_int_equal(dtype_is_float((enum dtype)t), rows[t].is_float);
        assert_int_equal(dtype_is_int((enum dtype)t), rows[t].is_int);
    }
    enum dtype none;
    assert_false(dtype_parse("bf16", &none));
    assert_false(dtype_parse("", &none));
    assert_false(dtype_parse("F8_E4M3FN", &none));
    assert_string_equal(dtype_name(DT_COUNT), "?");
    assert_string_equal(dtype_name((enum dtype) - 1), "?");
    assert_false(dtype_is_float(DT_COUNT));
    assert_false(dtype_is_int((enum dtype) - 1));
}

static void unit__is_half_the_step_after_one(void **state)
{
    (void)state;
    assert_f64_is(dtype_unit(DT_BF16), 0x1p-8);
    assert_f64_is(dtype_unit(DT_F16), 0x1p-11);
    assert_f64_is(dtype_unit(DT_F32), 0x1p-24);
    assert_f64_is(dtype_unit(DT_F64), 0x1p-53);
    assert_f64_is(dtype_unit(DT_F8_E4M3), (double)(e4m3_to_f32(0x39) - e4m3_to_f32(0x38)) / 2);
    assert_f64_is(dtype_unit(DT_F8_E5M2), (double)(e5m2_to_f32(0x3d) - e5m2_to_f32(0x3c)) / 2);
    assert_f64_is(dtype_unit(DT_F8_E8M0), (double)(e8m0_to_f32(128) - e8m0_to_f32(127)) / 2);
}

static void bf16__round_trips_all_65536(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 65536; i++) {
        float x = bf16_to_f32((uint16_t)i);
        if (isnan(defined_value(i, 8, 7))) {
            assert_true(isnan(x));
            assert_true(isnan(bf16_to_f32(bf16_from_f32(x))));
            assert_int_equal(bf16_from_f32(x) & 0x8000, i & 0x8000);
        } else {
            assert_true((double)x == defined_value(i, 8, 7));
            assert_int_equal(bf16_from_f32(x), i);
        }
    }
}

static void f16__round_trips_all_65536(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 65536; i++) {
        float x = f16_to_f32((uint16_t)i);
        if (isnan(defined_value(i, 5, 10))) {
            assert_true(isnan(x));
            assert_true(isnan(f16_to_f32(f16_from_f32(x))));
            assert_int_equal(f16_from_f32(x) & 0x8000, i & 0x8000);
        } else {
            assert_true((double)x == defined_value(i, 5, 10));
            assert_int_equal(f16_from_f32(x), i);
        }
    }
}

/* Between each two neighbours: the middle goes to the even one, and the float32 on either side of
 * it goes home. */
static void rounding__goes_to_nearest_even_between_all_neighbours(void **state)
{
    (void)state;
    static const struct {
        uint16_t (*from)(float);
        float (*to)(uint16_t);
        uint32_t last; /* the largest finite one */
    } types[] = {{bf16_from_f32, bf16_to_f32, 0x7f7f}, {f16_from_f32, f16_to_f32, 0x7bff}};
    for (int t = 0; t < 2; t++) {
        for (uint32_t i = 0; i < types[t].last; i++) {
            float low = types[t].to((uint16_t)i), high = types[t].to((uint16_t)(i + 1));
            float middle =
                (float)(((double)low + (double)high) / 2); /* exact in float32 for both types */
            uint32_t even = i & 1 ? i + 1 : i;
            assert_int_equal(types[t].from(middle), even);
            assert_int_equal(types[t].from(-middle), even | 0x8000);
            assert_int_equal(types[t].from(nextafterf(middle, 0)), i);
            assert_int_equal(types[t].from(nextafterf(middle, INFINITY)), i + 1);
        }
    }
}

static void rounding__overflows_to_infinity_only_past_the_last_tie(void **state)
{
    (void)state;
    assert_int_equal(f16_from_f32(65504.0f), 0x7bff);
    assert_int_equal(f16_from_f32(nextafterf(65520.0f, 0)), 0x7bff);
    assert_int_equal(f16_from_f32(65520.0f), 0x7c00);
    assert_int_equal(f16_from_f32(-65520.0f), 0xfc00);
    assert_int_equal(f16_from_f32(3.4e38f), 0x7c00);
    assert_int_equal(bf16_from_f32(f32_from_bits(0x7f7f7fff)), 0x7f7f);
    assert_int_equal(bf16_from_f32(f32_from_bits(0x7f7f8000)), 0x7f80);
    assert_int_equal(bf16_from_f32(f32_from_bits(0xff7fffff)), 0xff80);
    assert_int_equal(bf16_from_f32(INFINITY), 0x7f80);
    assert_int_equal(f16_from_f32(-INFINITY), 0xfc00);
}

static void rounding__keeps_nan_nan__when_its_payload_is_in_the_low_bits(void **state)
{
    (void)state;
    static const uint32_t nans[] = {0x7f800001, 0xff800001, 0x7fffffff,
                                    0xffffffff, 0x7fc00000, 0x7f80ffff};
    for (size_t i = 0; i < sizeof nans / sizeof *nans; i++) {
        assert_true(isnan(bf16_to_f32(bf16_from_f32(f32_from_bits(nans[i])))));
        assert_true(isnan(f16_to_f32(f16_from_f32(f32_from_bits(nans[i])))));
    }
}

static void f16__rounds_subnormals_and_tiny_values(void **state)
{
    (void)state;
    assert_int_equal(f16_from_f32(0x1p-24f), 1);
    assert_int_equal(f16_from_f32(0x1p-25f), 0);
    assert_int_equal(f16_from_f32(nextafterf(0x1p-25f, 1)), 1);
    assert_int_equal(f16_from_f32(0x1.8p-24f), 2);
    assert_int_equal(f16_from_f32(nextafterf(0x1p-14f, 0)), 0x400);
    assert_int_equal(f16_from_f32(-0x1p-149f), 0x8000);
    assert_int_equal(f16_from_f32(-0.0f), 0x8000);
    assert_int_equal(bf16_from_f32(-0.0f), 0x8000);
}

static void e4m3__matches_its_definition_for_all_256(void **state)
{
    (void)state;
    for (uint32_t b = 0; b < 256; b++) {
        float x = e4m3_to_f32((uint8_t)b);
        int e = b >> 3 & 15, m = b & 7;
        double want = (b & 0x80 ? -1 : 1) * (e ? ldexp(1 + m / 8.0, e - 7) : ldexp(m / 8.0, -6));
        if ((b & 0x7f) == 0x7f)
            assert_true(isnan(x));
        else
            assert_f64_is((double)x, want);
    }
    assert_f64_is(e4m3_to_f32(0x7e), 448);
    assert_f64_is(e4m3_to_f32(0x01), 0x1p-9);
}

static void e5m2_and_e8m0__match_their_definitions_for_all_256(void **state)
{
    (void)state;
    for (uint32_t b = 0; b < 256; b++) {
        double want = defined_value(b, 5, 2);
        if (isnan(want))
            assert_true(isnan(e5m2_to_f32((uint8_t)b)));
        else
            assert_f64_is((double)e5m2_to_f32((uint8_t)b), want);
        if (b == 255)
            assert_true(isnan(e8m0_to_f32((uint8_t)b)));
        else
            assert_f64_is((double)e8m0_to_f32((uint8_t)b), ldexp(1, (int)b - 127));
    }
}

static void round__rounds_to_the_type_and_back(void **state)
{
    (void)state;
    double x = 1 + 0x1p-8 + 0x1p-40;
    assert_f64_is(dtype_round(DT_F64, x), x);
    assert_f64_is(dtype_round(DT_F32, x), 1 + 0x1p-8);
    /* By way of float32: the bit that would break the tie is gone, and the tie goes to even. */
    assert_f64_is(dtype_round(DT_BF16, x), 1);
    assert_f64_is(dtype_round(DT_BF16, 1 + 0x1p-8 + 0x1p-20), 1 + 0x1p-7);
    assert_f64_is(dtype_round(DT_F16, 1 + 0x1p-11), 1);
    assert_f64_is(dtype_round(DT_F16, 1 + 0x3p-11), 1 + 0x1p-9);
    assert_f64_is(dtype_round(DT_F32, 1e39), INFINITY);
    assert_true(isnan(dtype_round(DT_BF16, NAN)));
    assert_f64_is(dtype_round(DT_BF16, -0.0), -0.0);
}

static void round_to_int(void *ctx)
{
    volatile double x = dtype_round(*(enum dtype *)ctx, 1);
    (void)x;
}

static void round__aborts__when_the_type_is_no_float_of_16_bits(void **state)
{
    (void)state;
    enum dtype t[] = {DT_I32, DT_F8_E4M3, DT_BOOL};
    for (int i = 0; i < 3; i++) assert_int_equal(signal_of(round_to_int, &t[i], NULL), SIGABRT);
}

/* Every type at every address modulo 8, to float64 and float32. */
static void to_f64_and_f32__read_any_address(void **state)
{
    (void)state;
    static const struct {
        enum dtype t;
        unsigned char bytes[16]; /* two elements */
        double want[2];
    } rows[] = {
        {DT_BOOL, {0, 1}, {0, 1}},
        {DT_U8, {255, 7}, {255, 7}},
        {DT_I8, {255, 127}, {-1, 127}},
        {DT_F8_E4M3, {0x38, 0xb8}, {1, -1}},
        {DT_F8_E5M2, {0x3c, 0xc0}, {1, -2}},
        {DT_F8_E8M0, {127, 130}, {1, 8}},
        {DT_I16, {0xff, 0xff, 0, 0x80}, {-1, -32768}},
        {DT_U16, {0xff, 0xff, 0, 0x80}, {65535, 32768}},
        {DT_F16, {0, 0x3c, 0, 0xc4}, {1, -4}},
        {DT_BF16, {0x80, 0x3f, 0x00, 0xc0}, {1, -2}},
        {DT_I32, {0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0x80}, {-1, -0x1p31}},
        {DT_U32, {0xff, 0xff, 0, 0, 0, 0, 0, 0x80}, {65535, 0x1p31}},
        {DT_F32, {0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0}, {1, -2}},
        {DT_I64, {1, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, {1, -1}},
        {DT_U64, {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0}, {1, 0x1p32}},
        {DT_F64, {0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0xc0}, {1, -2}},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        for (int shift = 0; shift < 8; shift++) {
            unsigned char room[32];
            double x[2];
            float y[2], z[2] = {(float)rows[r].want[0], (float)rows[r].want[1]};
            memcpy(room + shift, rows[r].bytes, 16);
            dtype_to_f64(rows[r].t, room + shift, 2, x);
            assert_f64_bits(x, rows[r].want, 1, 2);
            dtype_to_f32(rows[r].t, room + shift, 2, y);
            assert_f32_bits(y, z, 1, 2);
            if (!dtype_is_int(rows[r].t)) continue;
            assert_int_equal(dtype_int_at(rows[r].t, room + shift, 0), (int64_t)rows[r].want[0]);
            assert_int_equal(dtype_int_at(rows[r].t, room + shift, 1), (int64_t)rows[r].want[1]);
        }
    }
}

static void to_f64__reads_nothing__when_there_are_no_elements(void **state)
{
    (void)state;
    dtype_to_f64(DT_BF16, NULL, 0, NULL);
    dtype_to_f32(DT_I32, NULL, 0, NULL);
    dtype_from_f64(DT_F32, NULL, 0, NULL);
}

static void int_at__keeps_all_64_bits(void **state)
{
    (void)state;
    const int64_t x[3] = {INT64_MAX, INT64_MIN, (INT64_C(1) << 53) + 1};
    for (int i = 0; i < 3; i++) {
        assert_true(dtype_int_at(DT_I64, x, i) == x[i]);
        assert_true(dtype_int_at(DT_U64, x, i) == x[i]);
    }
}

static void from_f64__rounds_to_each_type(void **state)
{
    (void)state;
    const double x[4] = {1 + 0x1p-9, -0.0, 1e300, NAN};
    double d[4];
    float f[4];
    uint16_t h[4];
    dtype_from_f64(DT_F64, x, 4, d);
    assert_f64_bits(d, x, 1, 4);
    dtype_from_f64(DT_F32, x, 4, f);
    assert_f64_is(f[0], 1 + 0x1p-9);
    assert_true(isinf(f[2]) && isnan(f[3]));
    dtype_from_f64(DT_BF16, x, 4, h);
    assert_int_equal(h[0], 0x3f80);
    assert_int_equal(h[1], 0x8000);
    assert_int_equal(h[2], 0x7f80);
    assert_true(isnan(bf16_to_f32(h[3])));
    dtype_from_f64(DT_F16, x, 4, h);
    assert_int_equal(h[0], 0x3c02);
    assert_int_equal(h[2], 0x7c00);
    assert_true(isnan(f16_to_f32(h[3])));
}

static void bits__are_exact_both_ways(void **state)
{
    (void)state;
    assert_int_equal(f32_bits(1.0f), 0x3f800000);
    assert_int_equal(f32_bits(-0.0f), 0x80000000);
    assert_int_equal(f32_bits(f32_from_bits(0x12345678)), 0x12345678);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names__parse_back_and_sizes_match),
        cmocka_unit_test(unit__is_half_the_step_after_one),
        cmocka_unit_test(bf16__round_trips_all_65536),
        cmocka_unit_test(f16__round_trips_all_65536),
        cmocka_unit_test(rounding__goes_to_nearest_even_between_all_neighbours),
        cmocka_unit_test(rounding__overflows_to_infinity_only_past_the_last_tie),
        cmocka_unit_test(rounding__keeps_nan_nan__when_its_payload_is_in_the_low_bits),
        cmocka_unit_test(f16__rounds_subnormals_and_tiny_values),
        cmocka_unit_test(e4m3__matches_its_definition_for_all_256),
        cmocka_unit_test(e5m2_and_e8m0__match_their_definitions_for_all_256),
        cmocka_unit_test(round__rounds_to_the_type_and_back),
        cmocka_unit_test(round__aborts__when_the_type_is_no_float_of_16_bits),
        cmocka_unit_test(to_f64_and_f32__read_any_address),
        cmocka_unit_test(to_f64__reads_nothing__when_there_are_no_elements),
        cmocka_unit_test(int_at__keeps_all_64_bits),
        cmocka_unit_test(from_f64__rounds_to_each_type),
        cmocka_unit_test(bits__are_exact_both_ways),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
