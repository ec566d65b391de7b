/* test_compare.c: the comparator under everything that makes comparators pass: NaN, infinities,
 * nothing at all. */
#include "tests/assert_array.h"
#include "tests/support.h"

#include "core/compare.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static struct view f64_view(const double *x, int64_t rows, int64_t cols)
{
    return (struct view){DT_F64, x, rows, cols};
}

static struct measure measured(const double *subject, const double *truth, int64_t rows,
                               int64_t cols)
{
    struct measure m;
    measure_views(f64_view(subject, rows, cols), f64_view(truth, rows, cols), NULL, &m, NULL, NULL,
                  NULL);
    return m;
}

static void judge__fails__unless_the_value_is_within_the_bound(void **state)
{
    (void)state;
    assert_false(judge_fails(0, 0));
    assert_false(judge_fails(1, 1));
    assert_false(judge_fails(1, INFINITY));
    assert_true(judge_fails(nextafter(1, 2), 1));
    assert_true(judge_fails(NAN, 1));
    assert_true(judge_fails(1, NAN));
    assert_true(judge_fails(NAN, NAN));
    assert_true(judge_fails(INFINITY, 1e308));
    assert_true(judge_fails(0, -1));
}

static void measure__is_zero__when_both_sides_are_equal(void **state)
{
    (void)state;
    const double x[6] = {1, -2, 3, -4, 5, -6};
    struct measure m = measured(x, x, 2, 3);
    assert_int_equal(m.rows, 2);
    assert_int_equal(m.cols, 3);
    assert_int_equal(m.elements, 6);
    assert_f64_is(m.rel_rms, 0);
    assert_f64_is(m.max_abs, 0);
    assert_f64_is(m.rms_diff, 0);
    assert_f64_close(m.rms_truth, sqrt(91.0 / 6), 0, 1e-15);
    assert_f64_close(m.cosine, 1, 0, 1e-15);
    assert_int_equal(m.differing, 0);
    assert_int_equal(m.first_differing.row, -1);
    assert_int_equal(m.special_mismatch, 0);
    assert_f64_is(measure_equal_share(&m), 1);
}

static void measure__gives_norms_and_the_worst_cell(void **state)
{
    (void)state;
    const double truth[6] = {3, 4, 0, 0, 0, 10}, subject[6] = {3, 4, 0.5, 0, 0, 8};
    struct measure m = measured(subject, truth, 2, 3);
    assert_f64_is(m.max_abs, 2);
    assert_int_equal(m.worst.row, 1);
    assert_int_equal(m.worst.col, 2);
    assert_f64_is(m.worst.subject, 8);
    assert_f64_is(m.worst.truth, 10);
    assert_int_equal(m.differing, 2);
    assert_int_equal(m.first_differing.row, 0);
    assert_int_equal(m.first_differing.col, 2);
    assert_f64_close(m.rel_rms, sqrt(4.25 / 125), 0, 1e-15);
    assert_f64_close(m.rms_diff, sqrt(4.25 / 6), 0, 1e-15);
    assert_f64_close(m.worst_row_rel, 0.2, 0, 1e-15);
    assert_int_equal(m.worst_row, 1);
    assert_f64_close(measure_equal_share(&m), 4.0 / 6, 0, 1e-15);
}

static void measure__shows_one_bad_row_among_many_good_ones(void **state)
{
    (void)state;
    enum { R = 1000, C = 8 };
    static double truth[R * C], subject[R * C];
    for (int i = 0; i < R * C; i++) truth[i] = subject[i] = 1 + i % 7;
    for (int c = 0; c < C; c++)
        subject[517 * C + c] = 0; /* one row of zeros: a mean error would hide it */
    struct measure m = measured(subject, truth, R, C);
    assert_int_equal(m.worst_row, 517);
    assert_f64_is(m.worst_row_rel, 1);
    assert_true(m.rel_rms < 0.05);
}

/* NaN, +inf and -inf on one side only, in every combination, at the first, middle and last cell. */
static void measure__is_infinite__when_special_values_do_not_match(void **state)
{
    (void)state;
    const double special[4] = {NAN, INFINITY, -INFINITY, 2};
    for (int a = 0; a < 4; a++) {
        for (int b = 0; b < 4; b++) {
            for (int at = 0; at < 6; at += 5) {
                double subject[6] = {1, 2, 3, 4, 5, 6}, truth[6] = {1, 2, 3, 4, 5, 6};
                subject[at] = special[a];
                truth[at] = special[b];
                struct measure m = measured(subject, truth, 2, 3);
                assert_int_equal(m.nan_subject, a == 0);
                assert_int_equal(m.nan_truth, b == 0);
                assert_int_equal(m.inf_subject, a == 1 || a == 2);
                assert_int_equal(m.inf_truth, b == 1 || b == 2);
                assert_int_equal(m.special_mismatch, a != b);
                assert_int_equal(m.differing, a != b);
                assert_int_equal(judge_fails(m.rel_rms, 1e300), a != b);
                assert_int_equal(judge_fails(m.max_abs, 1e300), a != b);
                assert_int_equal(judge_fails(m.worst_row_rel, 1e300), a != b);
                assert_int_equal(judge_fails(m.rms_diff, 1e300), a != b);
                if (a == b) continue;
                assert_int_equal(m.first_mismatch.row, at / 3);
                assert_int_equal(m.first_mismatch.col, at % 3);
                assert_int_equal(m.worst.row, at / 3);
                assert_int_equal(m.worst.col, at % 3);
                assert_int_equal(m.worst_row, at / 3);
            }
        }
    }
}

/* Of several that are as far off the first in rows and columns, so that two runs name one place; a
 * smaller difference before them is the first that differs. */
static void worst__is_the_first_of_equals(void **state)
{
    static const int64_t widths[] = {3, 40, 5000};
    static double subject[3 * 5000], truth[3 * 5000];
    (void)state;
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
        const int64_t cols = widths[i];
        memset(subject, 0, sizeof subject);
        subject[1] = 0.5;
        subject[2] = 0.25;
        subject[cols + 1] = 2;
        subject[cols + 2] = subject[2 * cols - 1] = -2; /* the last column too */
        subject[2 * cols] = 2;
        struct measure m = measured(subject, truth, 3, cols);
        assert_f64_is(m.max_abs, 2);
        assert_int_equal(m.worst.row, 1);
        assert_int_equal(m.worst.col, 1);
        assert_f64_is(m.worst.subject, 2);
        assert_int_equal(m.first_differing.row, 0);
        assert_int_equal(m.first_differing.col, 1);
        assert_int_equal(m.differing, cols == 3 ? 5 : 6);
    }
}

static void worst__stays_the_mismatch__when_large_differences_follow(void **state)
{
    (void)state;
    const double truth[4] = {1, 2, 3, 4}, subject[4] = {1, NAN, 1e300, -1e300};
    struct measure m = measured(subject, truth, 2, 2);
    assert_int_equal(m.worst.row, 0);
    assert_int_equal(m.worst.col, 1);
    assert_true(isinf(m.max_abs));
    assert_int_equal(m.differing, 3);
}

static void measure__has_no_elements_and_no_cells__when_empty(void **state)
{
    (void)state;
    double x = 0;
    const int64_t shapes[3][2] = {{0, 3}, {0, 0}, {2, 0}};
    for (int i = 0; i < 3; i++) {
        struct measure m = measured(&x, &x, shapes[i][0], shapes[i][1]);
        assert_int_equal(m.elements, 0);
        assert_int_equal(m.worst.row, -1);
        assert_int_equal(m.first_differing.row, -1);
        assert_int_equal(m.first_mismatch.row, -1);
        assert_f64_is(measure_equal_share(&m), 0);
        assert_true(judge_fails(1 - m.cosine, 1));
    }
    assert_int_equal(measured(&x, &x, 0, 3).worst_row, -1);
}

static void measure__works_on_a_single_element(void **state)
{
    (void)state;
    const double a = 3, b = -4;
    struct measure m = measured(&a, &b, 1, 1);
    assert_f64_is(m.max_abs, 7);
    assert_f64_is(m.rel_rms, 7.0 / 4);
    assert_f64_is(m.cosine, -1);
    assert_int_equal(m.worst_row, 0);
}

static void relative__is_infinite__only_when_the_truth_is_zero_and_the_subject_not(void **state)
{
    (void)state;
    const double zero[2] = {0, -0.0}, plus[2] = {0, 0}, tiny[2] = {0, 1e-30};
    assert_f64_is(measured(zero, plus, 1, 2).rel_rms, 0);
    assert_int_equal(measured(zero, plus, 1, 2).differing, 0);
    assert_true(isinf(measured(tiny, plus, 1, 2).rel_rms));
    assert_f64_is(measured(plus, tiny, 1, 2).rel_rms, 1);
}

/* Squares of float64 values under- and overflow long before the values do. */
static void relative__fails__when_squares_of_unequal_values_leave_the_range(void **state)
{
    (void)state;
    static const double scales[] = {1e-200, 1e-320, 1e200, 1e300};
    for (int i = 0; i < 4; i++) {
        const double truth[2] = {scales[i], 0}, subject[2] = {scales[i] * 2, 0};
        struct measure m = measured(subject, truth, 1, 2);
        assert_int_equal(m.differing, 1);
        assert_true(judge_fails(m.rel_rms, 0.5));
        assert_true(judge_fails(m.worst_row_rel, 0.5));
        assert_f64_is(measured(truth, truth, 1, 2).rel_rms, 0);
        assert_f64_is(measured(truth, truth, 1, 2).worst_row_rel, 0);
    }
}

static void map__chooses_truth_rows_and_leaves_out_minus_one(void **state)
{
    (void)state;
    const double subject[8] = {5, 6, 9, 9, 1, 2, 7, 7}, truth[6] = {1, 2, 3, 4, 5, 6};
    const int64_t map[4] = {2, -1, 0, -1};
    struct measure m;
    double rel[4], diff[4], norm[4];
    measure_views(f64_view(subject, 4, 2), f64_view(truth, 3, 2), map, &m, rel, diff, norm);
    assert_int_equal(m.rows, 2);
    assert_int_equal(m.elements, 4);
    assert_int_equal(m.differing, 0);
    assert_f64_is(m.rel_rms, 0);
    assert_f64_bits(rel, ((const double[]){0, -1, 0, -1}), 1, 4);
    assert_f64_bits(diff, ((const double[]){0, -1, 0, -1}), 1, 4);
    assert_f64_near(norm, ((const double[]){sqrt(30.5), -1, sqrt(2.5), -1}), 1, 4, 0, 1e-15);
    const int64_t none[4] = {-1, -1, -1, -1};
    measure_views(f64_view(subject, 4, 2), f64_view(truth, 3, 2), none, &m, rel, NULL, NULL);
    assert_int_equal(m.elements, 0);
    assert_int_equal(m.worst_row, -1);
    assert_f64_bits(rel, ((const double[]){-1, -1, -1, -1}), 1, 4);
}

static void rows__have_their_own_errors(void **state)
{
    (void)state;
    const double truth[6] = {3, 4, 0, 0, 1, 1}, subject[6] = {3, 4.5, 0, 1, NAN, 1};
    struct measure m;
    double rel[3], diff[3], norm[3];
    measure_views(f64_view(subject, 3, 2), f64_view(truth, 3, 2), NULL, &m, rel, diff, norm);
    assert_f64_close(rel[0], 0.1, 0, 1e-15);
    assert_true(isinf(rel[1]) && isinf(rel[2]) && isinf(diff[2]));
    assert_f64_close(diff[0], sqrt(0.125), 0, 1e-15);
    assert_f64_close(norm[0], sqrt(12.5), 0, 1e-15);
    assert_f64_is(norm[1], 0);
}

static void views__of_different_types_are_compared_as_values(void **state)
{
    (void)state;
    const float truth[4] = {1, -2.5f, 0.1f, INFINITY};
    unsigned char room[2 * 4 + 1];
    uint16_t bf[4];
    for (int i = 0; i < 4; i++) bf[i] = bf16_from_f32(truth[i]);
    memcpy(room + 1, bf, sizeof bf); /* at an odd address, as in a file */
    struct measure m;
    measure_views((struct view){DT_BF16, room + 1, 2, 2}, (struct view){DT_F32, truth, 2, 2}, NULL,
                  &m, NULL, NULL, NULL);
    assert_int_equal(m.differing, 1);
    assert_int_equal(m.first_differing.row, 1);
    assert_int_equal(m.first_differing.col, 0);
    assert_int_equal(m.special_mismatch, 0);
    assert_int_equal(m.inf_subject, 1);
    assert_f64_is(m.max_abs, (double)0.1f - (double)bf16_to_f32(bf[2]) < 0
                                 ? (double)bf16_to_f32(bf[2]) - (double)0.1f
                                 : (double)0.1f - (double)bf16_to_f32(bf[2]));
}

static void views__of_integers_are_compared_across_widths(void **state)
{
    (void)state;
    const int32_t subject[4] = {1, 2, 300, -4};
    const int64_t truth[4] = {1, 2, 3, -4};
    struct measure m;
    measure_views((struct view){DT_I32, subject, 2, 2}, (struct view){DT_I64, truth, 2, 2}, NULL,
                  &m, NULL, NULL, NULL);
    assert_int_equal(m.differing, 1);
    assert_f64_is(m.max_abs, 297);
    assert_int_equal(m.worst.row, 1);
    assert_int_equal(m.worst.col, 0);
}

static void wide_rows__are_measured_to_their_last_column(void **state)
{
    (void)state;
    static const int64_t widths[] = {511, 512, 513, 1024, 1537};
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        int64_t n = widths[w];
        double *a = calloc((size_t)n * 2, sizeof *a), *b = calloc((size_t)n * 2, sizeof *b);
        assert_true(a && b);
        for (int64_t i = 0; i < n * 2; i++) a[i] = b[i] = 1;
        a[2 * n - 1] = 3;
        struct measure m = measured(a, b, 2, n);
        assert_int_equal(m.differing, 1);
        assert_int_equal(m.worst.row, 1);
        assert_int_equal(m.worst.col, n - 1);
        assert_f64_close(m.rel_rms, 2 / sqrt(2.0 * (double)n), 0, 1e-14);
        free(a);
        free(b);
    }
}

static void measure_past_the_truth(void *ctx)
{
    const double x[2] = {1, 2};
    struct measure m;
    measure_views(f64_view(x, 1, 2), f64_view(x, 1, *(int *)ctx == 0 ? 1 : 2),
                  *(int *)ctx ? &(int64_t){1} : NULL, &m, NULL, NULL, NULL);
}

static void measure__aborts__when_columns_differ_or_a_map_points_outside(void **state)
{
    (void)state;
    int columns = 0, map = 1;
    assert_int_equal(signal_of(measure_past_the_truth, &columns, NULL), SIGABRT);
    assert_int_equal(signal_of(measure_past_the_truth, &map, NULL), SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(judge__fails__unless_the_value_is_within_the_bound),
        cmocka_unit_test(measure__is_zero__when_both_sides_are_equal),
        cmocka_unit_test(measure__gives_norms_and_the_worst_cell),
        cmocka_unit_test(measure__shows_one_bad_row_among_many_good_ones),
        cmocka_unit_test(measure__is_infinite__when_special_values_do_not_match),
        cmocka_unit_test(worst__is_the_first_of_equals),
        cmocka_unit_test(worst__stays_the_mismatch__when_large_differences_follow),
        cmocka_unit_test(measure__has_no_elements_and_no_cells__when_empty),
        cmocka_unit_test(measure__works_on_a_single_element),
        cmocka_unit_test(relative__is_infinite__only_when_the_truth_is_zero_and_the_subject_not),
        cmocka_unit_test(relative__fails__when_squares_of_unequal_values_leave_the_range),
        cmocka_unit_test(map__chooses_truth_rows_and_leaves_out_minus_one),
        cmocka_unit_test(rows__have_their_own_errors),
        cmocka_unit_test(views__of_different_types_are_compared_as_values),
        cmocka_unit_test(views__of_integers_are_compared_across_widths),
        cmocka_unit_test(wide_rows__are_measured_to_their_last_column),
        cmocka_unit_test(measure__aborts__when_columns_differ_or_a_map_points_outside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
