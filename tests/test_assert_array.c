/* test_assert_array.c: the asserts themselves must not pass what cmocka's float assert passes. */
#include "tests/assert_array.h"
#include "tests/support.h"

#include <math.h>
#include <string.h>

static char text[ARRAY_TEXT];

static bool far64(double got, double want, double absolute, double relative)
{
    return array_far_f64(&got, &want, 1, 1, absolute, relative, text);
}

static void near__fails__when_either_side_is_nan(void **state)
{
    (void)state;
    float nan32 = NAN, one32 = 1;
    assert_true(far64(NAN, 1, 1e30, 1e30));
    assert_true(far64(1, NAN, 1e30, 1e30));
    assert_true(far64(NAN, NAN, 1e30, 1e30));
    assert_true(array_far_f32(&nan32, &one32, 1, 1, INFINITY, 0, text));
    assert_true(array_far_f32(&one32, &nan32, 1, 1, INFINITY, 0, text));
    assert_non_null(strstr(text, "no number of ulp"));
}

static void near__tells_infinities_apart(void **state)
{
    (void)state;
    assert_false(far64(INFINITY, INFINITY, 0, 0));
    assert_false(far64(-INFINITY, -INFINITY, 0, 0));
    assert_true(far64(INFINITY, -INFINITY, INFINITY, INFINITY));
    assert_true(far64(INFINITY, 1, INFINITY, INFINITY));
    assert_true(far64(1e308, INFINITY, 1, 1));
}

static void near__fails__when_the_bound_is_nan_or_negative(void **state)
{
    (void)state;
    assert_true(far64(1, 1, NAN, 0));
    assert_true(far64(1, 1, 0, NAN));
    assert_true(far64(1, 1, -1, 0));
    assert_non_null(strstr(text, "no usable bound"));
}

static void near__holds_at_the_bound_and_fails_past_it(void **state)
{
    (void)state;
    assert_false(far64(1.5, 1, 0.5, 0));
    assert_true(far64(nextafter(1.5, 2), 1, 0.5, 0));
    assert_false(far64(-3, -2, 0, 0.5));
    assert_true(far64(nextafter(-3, -4), -2, 0, 0.5));
    float got = 1.00000008e8f, want = 1e8f;
    assert_true(array_far_f32(&got, &want, 1, 1, 0, 0, text));
}

static void every_assert__fails__when_there_is_nothing_to_compare(void **state)
{
    (void)state;
    double x = 0;
    float y = 0;
    int64_t i = 0;
    int32_t k = 0;
    assert_true(array_far_f64(&x, &x, 0, 3, 1, 1, text));
    assert_true(array_far_f32(&y, &y, 3, 0, 1, 1, text));
    assert_true(array_far_ulps_f64(&x, &x, 0, 0, 1, text));
    assert_true(array_far_ulps_f32(&y, &y, 0, 0, 1, text));
    assert_true(array_differs_bits_f64(&x, &x, 0, 1, text));
    assert_true(array_differs_bits_f32(&y, &y, 0, 1, text));
    assert_true(array_differs_i64(&i, &i, 0, 1, text));
    assert_true(array_differs_i32(&k, &k, -1, -1, text));
    assert_non_null(strstr(text, "nothing to compare"));
}

static void message__names_row_column_values_and_count(void **state)
{
    (void)state;
    const double got[6] = {1, 2, 3, 4, 5.5, 6.5}, want[6] = {1, 2, 3, 4, 5, 6};
    assert_true(array_far_f64(got, want, 2, 3, 0.25, 0, text));
    assert_non_null(strstr(text, "row 1, column 1"));
    assert_non_null(strstr(text, "got 5.5 "));
    assert_non_null(strstr(text, "want 5 "));
    assert_non_null(strstr(text, "0.25 + 0 |want|"));
    assert_non_null(strstr(text, "2 of 6 cells"));
    const int64_t a[4] = {1, 2, 3, -4}, b[4] = {1, 2, 3, 4};
    assert_true(array_differs_i64(a, b, 4, 1, text));
    assert_non_null(strstr(text, "row 3, column 0: got -4, want 4; 1 of 4"));
}

static void ulps__counts_representable_values(void **state)
{
    (void)state;
    assert_int_equal(ulps_f64(1, 1), 0);
    assert_int_equal(ulps_f64(0.0, -0.0), 0);
    assert_int_equal(ulps_f64(0, 0x1p-1074), 1);
    assert_int_equal(ulps_f64(-0x1p-1074, 0x1p-1074), 2);
    assert_int_equal(ulps_f64(1, nextafter(1, 0)), 1);
    assert_int_equal(ulps_f64(-1, nextafter(-1, 0)), 1);
    assert_int_equal(ulps_f32(1, 1 + 0x1p-23f), 1);
    assert_int_equal(ulps_f32(1, 1 + 0x1p-20f), 8);
    assert_true(ulps_f64(NAN, NAN) == INT64_MAX);
    assert_true(ulps_f64(-INFINITY, INFINITY) > INT64_C(1) << 62);
    assert_true(ulps_f32(NAN, 0) == INT64_MAX);
}

static void ulp_assert__fails__when_nan_or_one_ulp_too_far(void **state)
{
    (void)state;
    double one = 1, next = 1 + 0x1p-52, nan = NAN;
    float f = 1, g = 1 + 0x1p-22f, fnan = NAN;
    assert_false(array_far_ulps_f64(&next, &one, 1, 1, 1, text));
    assert_true(array_far_ulps_f64(&next, &one, 1, 1, 0, text));
    assert_true(array_far_ulps_f64(&nan, &nan, 1, 1, INT64_MAX, text));
    assert_true(array_far_ulps_f64(&one, &one, 1, 1, -1, text));
    assert_false(array_far_ulps_f32(&g, &f, 1, 1, 2, text));
    assert_true(array_far_ulps_f32(&g, &f, 1, 1, 1, text));
    assert_true(array_far_ulps_f32(&fnan, &f, 1, 1, INT64_MAX, text));
}

static void bit_assert__tells_zeros_apart_and_nan_equal(void **state)
{
    (void)state;
    double plus = 0.0, minus = -0.0, nan = NAN;
    float fplus = 0.0f, fminus = -0.0f;
    assert_true(array_differs_bits_f64(&plus, &minus, 1, 1, text));
    assert_false(array_differs_bits_f64(&nan, &nan, 1, 1, text));
    assert_true(array_differs_bits_f32(&fplus, &fminus, 1, 1, text));
    assert_false(far64(0.0, -0.0, 0, 0));
}

static void int_assert__sees_one_cell(void **state)
{
    (void)state;
    const int32_t a[3] = {1, INT32_MIN, 3}, b[3] = {1, INT32_MAX, 3};
    assert_true(array_differs_i32(a, b, 1, 3, text));
    assert_non_null(strstr(text, "row 0, column 1"));
    assert_false(array_differs_i32(a, a, 1, 3, text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(near__fails__when_either_side_is_nan),
        cmocka_unit_test(near__tells_infinities_apart),
        cmocka_unit_test(near__fails__when_the_bound_is_nan_or_negative),
        cmocka_unit_test(near__holds_at_the_bound_and_fails_past_it),
        cmocka_unit_test(every_assert__fails__when_there_is_nothing_to_compare),
        cmocka_unit_test(message__names_row_column_values_and_count),
        cmocka_unit_test(ulps__counts_representable_values),
        cmocka_unit_test(ulp_assert__fails__when_nan_or_one_ulp_too_far),
        cmocka_unit_test(bit_assert__tells_zeros_apart_and_nan_equal),
        cmocka_unit_test(int_assert__sees_one_cell),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
