/* test_strided.c: views by shape and stride: how many elements, whether they lie in order, and
 * their copy, against the index of each element. */
#include "core/strided.h"
#include "tests/support.h"

#include <string.h>

static void count__is_the_product_until_it_is_too_large(void **state)
{
    const int64_t shape[] = {3, 4, 5}, none[] = {3, 0, (int64_t)1 << 59, 8},
                  large[] = {(int64_t)1 << 30, (int64_t)1 << 30}, most[] = {((int64_t)1 << 60) - 1};
    int64_t count = -1;
    (void)state;
    assert_true(strided_count(0, NULL, &count) && count == 1);
    assert_true(strided_count(3, shape, &count) && count == 60);
    assert_true(strided_count(3, none, &count) && count == 0);
    assert_true(strided_count(1, most, &count) && count == most[0]);
    assert_false(strided_count(2, large, &count));
}

static void plain__is_the_order_of_rows(void **state)
{
    static const struct {
        int dims;
        int64_t shape[3], stride[3];
        bool plain;
    } rows[] = {
        {0, {0}, {0}, true},
        {1, {4}, {1}, true},
        {1, {4}, {2}, false},
        {2, {2, 3}, {3, 1}, true},
        {2, {2, 3}, {1, 2}, false},
        {2, {2, 3}, {0, 1}, false},
        {3, {2, 1, 3}, {3, 77, 1}, true}, /* one element may have any stride */
        {3, {2, 2, 3}, {3, 77, 1}, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strided_is_plain(rows[i].dims, rows[i].shape, rows[i].stride) != rows[i].plain)
            fail_msg("row %zu", i);
    }
}

/* Of the elements 0, 1, 2, ...: what comes out is each one's place by its strides. */
static void copy__follows_the_strides(void **state)
{
    static const struct {
        int64_t shape[3], stride[3];
    } rows[] = {
        {{2, 3, 4}, {12, 4, 1}}, {{4, 3, 2}, {1, 4, 12}}, {{2, 3, 4}, {0, 4, 0}},
        {{1, 1, 5}, {9, 9, 2}},  {{3, 2, 1}, {2, 1, 50}}, {{2, 2, 2}, {1, 1, 1}},
    };
    uint16_t from[64], out[24];
    (void)state;
    for (uint16_t i = 0; i < 64; i++) from[i] = i;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const int64_t *n = rows[i].shape, *s = rows[i].stride;
        int64_t at = 0;
        strided_copy(3, n, s, sizeof *out, from, out);
        for (int64_t a = 0; a < n[0]; a++)
            for (int64_t b = 0; b < n[1]; b++)
                for (int64_t c = 0; c < n[2]; c++, at++)
                    assert_int_equal(out[at], a * s[0] + b * s[1] + c * s[2]);
    }
}

/* A number by itself has no dimension and is copied; of no elements nothing is written. */
static void copy__takes_a_scalar_and_nothing(void **state)
{
    const int64_t none[] = {2, 0, 3}, stride[] = {3, 3, 1};
    const uint32_t from[] = {7, 8};
    uint32_t out[] = {1, 2};
    (void)state;
    strided_copy(0, NULL, NULL, sizeof *out, from, out);
    assert_int_equal(out[0], 7);
    assert_int_equal(out[1], 2);
    strided_copy(3, none, stride, sizeof *out, from + 1, out);
    assert_int_equal(out[0], 7);
    assert_int_equal(out[1], 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(count__is_the_product_until_it_is_too_large),
        cmocka_unit_test(plain__is_the_order_of_rows),
        cmocka_unit_test(copy__follows_the_strides),
        cmocka_unit_test(copy__takes_a_scalar_and_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
