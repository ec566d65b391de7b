/* test_spread.c: the worst tokens and channels of a tap. */
#include "harness/spread.h"
#include "tests/support.h"

#include <math.h>

enum { ROWS = 8, COLS = 6 };

static void spread_of(const float *s, const double *t, const int64_t *map, struct spread *out)
{
    struct err err = ERR_INIT;
    const struct st_tensor a = {.name = "s", .dtype = DT_F32, .data = s},
                           b = {.name = "s", .dtype = DT_F64, .data = t};
    const struct dump_tap sub = {.name = "s", .tensor = &a, .rows = ROWS, .cols = COLS},
                          tru = {.name = "s", .tensor = &b, .rows = ROWS, .cols = COLS};
    const struct pair p = {.subject = &sub, .truth = &tru};
    assert_int_equal(spread_find(&p, map, out, &err), ERR_OK);
}

static void spread__ranks_rows_and_columns__by_rms(void **state)
{
    (void)state;
    float s[ROWS * COLS];
    double t[ROWS * COLS];
    struct spread out;
    for (int i = 0; i < ROWS * COLS; i++) {
        t[i] = 2;
        s[i] = 2;
    }
    s[3 * COLS + 1] = 5;  /* row 3, column 1: off by 3 */
    s[6 * COLS + 1] = -2; /* row 6, column 1: off by 4 */
    s[6 * COLS + 4] = 3;
    spread_of(s, t, NULL, &out);
    assert_int_equal(out.rows, SPREAD_WORST);
    assert_int_equal(out.cols, SPREAD_WORST);
    assert_int_equal(out.row[0].at, 6);
    assert_true(fabs(out.row[0].rms - (sqrt(17.0 / COLS))) <= 1e-12);
    assert_true(fabs(out.row[0].rel - (sqrt(17.0 / COLS) / 2)) <= 1e-12);
    assert_int_equal(out.row[1].at, 3);
    assert_int_equal(out.row[2].at, 0); /* equals: the first */
    assert_int_equal(out.col[0].at, 1);
    assert_true(fabs(out.col[0].rms - (sqrt(25.0 / ROWS))) <= 1e-12);
    assert_int_equal(out.col[1].at, 4);
    assert_true(out.row_median == 0 && out.col_median == 0);
}

static void spread__leaves_rows_out__and_puts_what_is_not_finite_first(void **state)
{
    (void)state;
    float s[ROWS * COLS] = {0};
    double t[ROWS * COLS] = {0};
    int64_t map[ROWS] = {-1, 0, 1, 2, 3, 4, 5, 6};
    struct spread out;
    s[2 * COLS] = NAN;
    t[4 * COLS + 2] = NAN; /* truth of subject row 5, which has a number there */
    s[0] = 100;            /* a row without a partner */
    spread_of(s, t, map, &out);
    assert_int_equal(out.row[0].at, 2);
    assert_true(isinf(out.row[0].rms) && isinf(out.row[0].rel));
    assert_int_equal(out.row[1].at, 5);
    assert_int_equal(out.col[0].at, 0);
    assert_int_equal(out.col[1].at, 2);
    assert_true(out.row[2].rms == 0);
    t[COLS] = NAN; /* of subject row 2: the same on both sides */
    spread_of(s, t, map, &out);
    assert_int_equal(out.row[0].at, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spread__ranks_rows_and_columns__by_rms),
        cmocka_unit_test(spread__leaves_rows_out__and_puts_what_is_not_finite_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
