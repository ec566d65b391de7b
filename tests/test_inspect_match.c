/* test_inspect_match.c: the measure that tells entries and rows apart, on rows that are drawn:
 * noise of many sizes, rows in any order, candidates that lie close together. */
#include "harness/inspect_samples.h"

#include "core/synth.h"
#include "tests/support.h"

#include <math.h>
#include <stdlib.h>

enum { LAYERS = 5, ROWS = 24, H = 96, CANDIDATES = LAYERS + 1 + TRUTH_NORMED };

static float data[CANDIDATES][ROWS][H];
static double stored[ROWS][H];
static int64_t source[ROWS];
static double row_error[ROWS];
static struct truth truth = {LAYERS, ROWS, H, CANDIDATES, &data[0][0][0], NULL, 0, NULL};

/* About normal, of variance 1: a pure function of its place. */
static double drawn(uint64_t seed, int64_t i)
{
    double sum = 0;
    for (int k = 0; k < 12; k++)
        sum += (double)(synth_x(synth_base(seed, "match"), i * 12 + k) >> 11) * 0x1p-53;
    return sum - 6;
}

/* A residual stream: all rows share a part of size `common`, each layer adds `step`. */
static void make(double common, double step)
{
    for (int64_t r = 0; r < ROWS; r++) {
        for (int64_t j = 0; j < H; j++) {
            double x = common * drawn(1, j) + drawn(2, r * H + j);
            for (int64_t c = 0; c <= LAYERS; c++) {
                data[c][r][j] = (float)x;
                x += step * drawn(3, (c * ROWS + r) * H + j);
            }
        }
    }
    for (int64_t c = LAYERS + 1; c < CANDIDATES; c++) {
        for (int64_t r = 0; r < ROWS; r++) {
            double sum = 0;
            for (int64_t j = 0; j < H; j++)
                sum += data[c - TRUTH_NORMED][r][j] * data[c - TRUTH_NORMED][r][j];
            for (int64_t j = 0; j < H; j++)
                data[c][r][j] = (float)(data[c - TRUTH_NORMED][r][j] / sqrt(sum / H));
        }
    }
}

/* Row p of the store is row order(p) of candidate c, with noise of that share of its length. */
static void store(int64_t c, int64_t by, double noise)
{
    for (int64_t p = 0; p < ROWS; p++) {
        double length = 0;
        const float *from = data[c][(p + by + ROWS) % ROWS];
        for (int64_t j = 0; j < H; j++) length += (double)from[j] * from[j];
        for (int64_t j = 0; j < H; j++)
            stored[p][j] = from[j] + noise * sqrt(length / H) * drawn(4, p * H + j);
    }
}

static struct match matched(void)
{
    struct err err = ERR_INIT;
    struct match m = {.source = source, .row_error = row_error};
    const struct match_job job = {&truth, &stored[0][0], ROWS, 0, dtype_unit(DT_BF16), 2};
    (void)!match_state(&job, &m, &err);
    assert_ok(&err);
    return m;
}

/* Noise three times as long as what separates neighbouring entries does not hide the right one. */
static void entry__is_found__through_noise(void **state)
{
    static const double noises[] = {0, 0.001, 0.02, 0.05};
    (void)state;
    make(3, 0.05);
    for (int64_t c = 0; c <= LAYERS; c++) {
        for (size_t i = 0; i < sizeof noises / sizeof *noises; i++) {
            store(c, 0, noises[i]);
            struct match m = matched();
            assert_int_equal(m.kind, MATCH_CLEAR);
            assert_int_equal(m.candidate, c);
            assert_true(m.margin > 0.5 && m.scale == 1);
            assert_int_equal(m.exact, noises[i] < 0.002);
            for (int64_t p = 0; p < ROWS; p++) assert_int_equal(source[p], p);
        }
    }
}

static void norm__is_told_from_the_plain_state(void **state)
{
    (void)state;
    make(1, 0.5);
    for (int64_t c = LAYERS - 1; c < CANDIDATES; c++) {
        store(c, 0, 0.05);
        struct match m = matched();
        assert_int_equal(m.kind, MATCH_CLEAR);
        assert_int_equal(m.candidate, c);
        assert_int_equal(truth_entry(&truth, c), c <= LAYERS ? c : c - TRUTH_NORMED);
        assert_int_equal(truth_normed(&truth, c), c > LAYERS);
    }
}

/* Rows that share most of their length are still told apart: only differences count. */
static void rows__are_followed__where_they_went(void **state)
{
    (void)state;
    for (int common = 0; common <= 4; common += 4) {
        make(common, 0.5);
        for (int64_t by = -5; by <= 5; by++) {
            store(2, by, 0.05);
            struct match m = matched();
            assert_int_equal(m.kind, MATCH_CLEAR);
            assert_int_equal(m.candidate, 2);
            for (int64_t p = 0; p < ROWS; p++) assert_int_equal(source[p], (p + by + ROWS) % ROWS);
        }
    }
}

static void row__half_way__is_left_alone__and_past_it_is_not(void **state)
{
    (void)state;
    make(1, 0.5);
    for (int share = 0; share <= 8; share++) {
        store(3, 0, 0);
        for (int64_t j = 0; j < H; j++)
            stored[7][j] += 0.125 * share * ((double)data[3][11][j] - data[3][7][j]);
        (void)matched();
        assert_int_equal(source[7], share < 5 ? 7 : share > 5 ? 11 : source[7]);
        assert_int_equal(source[8], 8);
    }
}

static void entries__alike__are_not_told_apart(void **state)
{
    (void)state;
    make(1, 0.5);
    for (int64_t r = 0; r < ROWS; r++) {
        for (int64_t j = 0; j < H; j++) stored[r][j] = 0.5 * (data[2][r][j] + data[3][r][j]);
    }
    struct match m = matched();
    assert_int_equal(m.kind, MATCH_UNCLEAR);
    assert_true((m.candidate == 2 && m.rival == 3) || (m.candidate == 3 && m.rival == 2));
    assert_true(fabs(m.margin) < 0.2);
}

static void scale__is_found__with_rows_in_any_order(void **state)
{
    static const double scales[] = {0.25, 0.9, 1.5, 8};
    (void)state;
    make(1, 0.5);
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        store(4, (int64_t)i, 0.001);
        for (int64_t p = 0; p < ROWS; p++) {
            for (int64_t j = 0; j < H; j++) stored[p][j] *= scales[i];
        }
        struct match m = matched();
        assert_int_equal(m.kind, MATCH_CLEAR);
        assert_int_equal(m.candidate, 4);
        assert_true(fabs(m.scale / scales[i] - 1) < 0.01);
        assert_int_equal(source[0], i);
    }
}

static void rows__unrelated__match_nothing(void **state)
{
    (void)state;
    make(1, 0.5);
    for (int64_t p = 0; p < ROWS; p++) {
        for (int64_t j = 0; j < H; j++) stored[p][j] = 3 * drawn(9, p * H + j);
    }
    struct match m = matched();
    assert_int_equal(m.kind, MATCH_NONE);
    for (int64_t p = 0; p < ROWS; p++) assert_int_equal(source[p], -1);
}

static void rows__that_are_no_numbers__are_left_out(void **state)
{
    (void)state;
    make(1, 0.5);
    store(1, 0, 0.01);
    stored[5][3] = NAN;
    stored[6][0] = INFINITY;
    struct match m = matched();
    assert_int_equal(m.kind, MATCH_CLEAR);
    assert_int_equal(m.candidate, 1);
    assert_int_equal(source[5], -2);
    assert_int_equal(source[6], -2);
    assert_true(isfinite(m.error));
    for (int64_t p = 0; p < ROWS; p++) stored[p][0] = NAN;
    assert_int_equal(matched().kind, MATCH_NONE);
}

static void median__is_the_middle(void **state)
{
    double x[] = {5, 1, 3, 2};
    (void)state;
    assert_true(match_median(x, 3) == 3);
    double y[] = {5, 1, 3, 2};
    assert_true(match_median(y, 4) == 2.5);
    assert_true(isnan(match_median(y, 0)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entry__is_found__through_noise),
        cmocka_unit_test(norm__is_told_from_the_plain_state),
        cmocka_unit_test(rows__are_followed__where_they_went),
        cmocka_unit_test(row__half_way__is_left_alone__and_past_it_is_not),
        cmocka_unit_test(entries__alike__are_not_told_apart),
        cmocka_unit_test(scale__is_found__with_rows_in_any_order),
        cmocka_unit_test(rows__unrelated__match_nothing),
        cmocka_unit_test(rows__that_are_no_numbers__are_left_out),
        cmocka_unit_test(median__is_the_middle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
