/* test_op_measured.c: the measured bound of an op's output: what passes, what is red, and where it
 * is said to be. */
#include "harness/op_measured.h"
#include "tests/support.h"

#include <math.h>
#include <string.h>

enum { ROWS = 6, COLS = 96 };

static double exact[ROWS * COLS], profile[ROWS * COLS], subject[ROWS * COLS];

/* Values of size 1; both runs err by 0.01 in every place, with signs of their own. */
static struct op_measured set(int64_t cols)
{
    static struct case_output x, p, s;
    for (int i = 0; i < ROWS * COLS; i++) {
        exact[i] = i % 2 ? 1 : -1;
        profile[i] = exact[i] + (i % 3 ? 0.01 : -0.01);
        subject[i] = exact[i] + (i % 5 ? 0.01 : -0.01);
    }
    x = (struct case_output){"y", DT_F64, ROWS, cols, exact};
    p = (struct case_output){"y", DT_F64, ROWS, cols, profile};
    s = (struct case_output){"y", DT_F64, ROWS, cols, subject};
    return (struct op_measured){&x, &p, &s, 0x1p-9};
}

static struct op_output judged(const struct op_measured *m)
{
    struct op_output o = {.name = "y"};
    op_measured_judge(m, &o);
    return o;
}

static void subject__passes__with_errors_of_the_profiles_size(void **state)
{
    (void)state;
    struct op_measured m = set(COLS);
    assert_false(judged(&m).failed);
    assert_true(fabs(judged(&m).bound - 0.02) < 1e-9);
    assert_true(fabs(judged(&m).ratio - 0.5) < 1e-6);
    m = set(7);
    assert_false(judged(&m).failed);
}

static void row__fails_and_is_named__past_twice_the_profiles_error(void **state)
{
    (void)state;
    struct op_measured m = set(COLS);
    for (int i = 0; i < COLS; i++) subject[3 * COLS + i] = exact[3 * COLS + i] + 0.0201;
    subject[3 * COLS + 5] = exact[3 * COLS + 5] + 0.03;
    struct op_output o = judged(&m);
    assert_true(o.failed);
    assert_int_equal(o.worst.row, 3);
    assert_int_equal(o.worst.col, 5);
}

static void narrow_rows__fail__pooled_or_alone(void **state)
{
    (void)state;
    struct op_measured m = set(7);
    for (int i = 0; i < ROWS * 7; i++) subject[i] = exact[i] + 0.021;
    assert_true(judged(&m).failed);
    m = set(7);
    for (int i = 0; i < 7; i++) subject[7 + i] = exact[7 + i] + 0.2;
    assert_true(judged(&m).failed);
    assert_int_equal(judged(&m).worst.row, 1);
}

static void floor__is_one_ulp__where_the_profile_does_not_err(void **state)
{
    (void)state;
    struct op_measured m = set(COLS);
    memcpy(profile, exact, sizeof exact);
    for (int i = 0; i < ROWS * COLS; i++) subject[i] = exact[i] * (1 + 0x1p-9);
    assert_false(judged(&m).failed);
    for (int i = 0; i < ROWS * COLS; i++) subject[i] = exact[i] * (1 + 0x1.2p-8);
    assert_true(judged(&m).failed);
}

static void nan_and_infinity__fail__and_are_shown(void **state)
{
    (void)state;
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    static const int64_t widths[] = {COLS, 7};
    for (int w = 0; w < 2; w++) {
        for (int b = 0; b < 3; b++) {
            struct op_measured m = set(widths[w]);
            subject[2 * widths[w] + 4] = bad[b];
            struct op_output o = judged(&m);
            assert_true(o.failed);
            assert_int_equal(o.worst.row, 2);
            assert_int_equal(o.worst.col, 4);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(subject__passes__with_errors_of_the_profiles_size),
        cmocka_unit_test(row__fails_and_is_named__past_twice_the_profiles_error),
        cmocka_unit_test(narrow_rows__fail__pooled_or_alone),
        cmocka_unit_test(floor__is_one_ulp__where_the_profile_does_not_err),
        cmocka_unit_test(nan_and_infinity__fail__and_are_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
