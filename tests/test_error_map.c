/* test_error_map.c: the map of an error: cells, levels, bounds of its size, divisions. */
#include "harness/error_map.h"
#include "reports/fields.h"
#include "tests/support.h"

#include <math.h>
#include <stdlib.h>

struct input {
    int64_t rows, cols, heads, ranks;
    float *subject;
    double *truth;
    const int64_t *map;
};

static struct input input_make(int64_t rows, int64_t cols)
{
    struct input in = {.rows = rows, .cols = cols};
    in.subject = malloc((size_t)(rows * cols) * sizeof *in.subject);
    in.truth = malloc((size_t)(rows * cols) * sizeof *in.truth);
    assert_true(in.subject && in.truth);
    for (int64_t i = 0; i < rows * cols; i++) in.subject[i] = 2, in.truth[i] = 2;
    return in;
}

static json_t *map_of(struct input *in, enum tap_kind kind)
{
    struct err err = ERR_INIT;
    json_t *out = NULL;
    const struct st_tensor a = {.name = "s", .dtype = DT_F32, .data = in->subject},
                           b = {.name = "s", .dtype = DT_F64, .data = in->truth};
    const struct dump_tap sub = {.name = "s",
                                 .tensor = &a,
                                 .rows = in->rows,
                                 .cols = in->cols,
                                 .known = true,
                                 .kind = kind},
                          tru = {.name = "s", .tensor = &b, .rows = in->rows, .cols = in->cols};
    const struct pair p = {.subject = &sub, .truth = &tru};
    (void)!error_map_make(&p, in->map, in->heads, in->ranks, &out, &err);
    assert_ok(&err);
    free(in->subject);
    free(in->truth);
    return out;
}

static const json_t *cell(const json_t *map, size_t row, size_t col)
{
    const json_t *v = json_array_get(json_array_get(json_object_get(map, "levels"), row), col);
    assert_non_null(v);
    return v;
}

static void error_map_step__is_the_least_that_fits_and_aligns(void **state)
{
    (void)state;
    static const int64_t rows[][2] = {{1, 1},     {64, 1},    {65, 2},     {256, 4},      {257, 8},
                                      {2048, 32}, {2049, 64}, {7168, 128}, {163840, 2560}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(error_map_step(rows[i][0]), rows[i][1]);
    for (int64_t n = 1; n < 20000; n++) {
        const int64_t step = error_map_step(n);
        assert_true((n + step - 1) / step <= ERROR_MAP_SIDE);
        assert_true(32 % step == 0 || step % 32 == 0);
    }
}

static void error_map__has_the_level_of_each_cell(void **state)
{
    (void)state;
    struct input in = input_make(3, 130); /* steps of 1 and 4; the last cell has two columns */
    in.subject[0 * 130 + 5] = 4;          /* cell 0, 1: RMS 2 / sqrt(4) = 1, of a truth of 2 */
    in.subject[1 * 130 + 129] = 2.02f;    /* cell 1, 32: RMS 0.02 / sqrt(2) */
    in.subject[2 * 130] = NAN;
    in.subject[2 * 130 + 9] = INFINITY;
    in.truth[2 * 130 + 9] = INFINITY; /* equal */
    json_t *map = map_of(&in, TAP_MLP);
    assert_int_equal(int_at(map, "row_step"), 1);
    assert_int_equal(int_at(map, "col_step"), 4);
    assert_int_equal(json_integer_value(cell(map, 0, 1)), lround(100 * log10(0.5)));
    assert_int_equal(json_integer_value(cell(map, 1, 32)), lround(100 * log10(0.01 / sqrt(2))));
    assert_string_equal(json_string_value(cell(map, 2, 0)), "inf");
    assert_true(json_is_null(cell(map, 0, 0)));
    assert_true(json_is_null(cell(map, 2, 2)));
    assert_true(json_is_null(cell(map, 2, 32)));
    assert_null(json_array_get(json_array_get(json_object_get(map, "levels"), 0), 33));
    json_decref(map);
}

static void error_map__of_a_last_block_of_fewer_rows__counts_those(void **state)
{
    (void)state;
    struct input in = input_make(65, 1); /* 32 blocks of two rows, and one */
    in.subject[64] = 4;
    json_t *map = map_of(&in, TAP_MLP);
    assert_int_equal(int_at(map, "row_step"), 2);
    assert_int_equal(json_integer_value(cell(map, 32, 0)), 0);
    json_decref(map);
}

static void error_map__leaves_rows_without_a_partner_out(void **state)
{
    (void)state;
    const int64_t partner[] = {-1, 0};
    struct input in = input_make(2, 8);
    in.map = partner;
    in.subject[0] = 100;
    in.subject[8] = 4; /* truth row 0 */
    in.truth[8] = 50;  /* of truth row 1: nobody's partner */
    json_t *map = map_of(&in, TAP_MLP);
    assert_true(json_is_null(cell(map, 0, 0)));
    assert_int_equal(json_integer_value(cell(map, 1, 0)), 0);
    json_decref(map);
}

static void error_map__of_a_truth_of_zeros__is_not_finite(void **state)
{
    (void)state;
    struct input in = input_make(1, 2);
    in.truth[0] = in.truth[1] = 0;
    in.subject[0] = 0;
    json_t *map = map_of(&in, TAP_MLP);
    assert_true(json_is_null(cell(map, 0, 0)));
    assert_string_equal(json_string_value(cell(map, 0, 1)), "inf");
    json_decref(map);
}

static void error_map__is_bounded(void **state)
{
    (void)state;
    struct input in = input_make(1000, 7168);
    for (int64_t i = 0; i < in.rows * in.cols; i++) in.subject[i] = (float)(i % 7);
    json_t *map = map_of(&in, TAP_OUTPUT);
    const json_t *levels = json_object_get(map, "levels");
    assert_int_equal(json_array_size(levels), (1000 + 15) / 16);
    assert_int_equal(json_array_size(json_array_get(levels, 0)), 7168 / 128);
    json_decref(map);
}

static void error_map__names_its_divisions(void **state)
{
    (void)state;
    struct input in = input_make(1, 96);
    in.heads = 4;
    json_t *map = map_of(&in, TAP_ATTN_CORE), *d = json_object_get(map, "divisions");
    assert_int_equal(json_array_size(d), 2);
    assert_string_equal(text_at(json_array_get(d, 0), "what"), "heads");
    assert_int_equal(int_at(json_array_get(d, 0), "size"), 24);
    assert_int_equal(int_at(json_array_get(d, 1), "size"), 32);
    json_decref(map);
    in = input_make(1, 96);
    in.heads = 4;
    in.ranks = 2;
    map = map_of(&in, TAP_ATTN_CORE);
    d = json_object_get(map, "divisions");
    assert_int_equal(json_array_size(d), 3);
    assert_string_equal(text_at(json_array_get(d, 0), "what"), "ranks");
    assert_int_equal(int_at(json_array_get(d, 0), "size"), 48);
    json_decref(map);
    in = input_make(1, 30);
    in.ranks = 4; /* no equal parts */
    map = map_of(&in, TAP_Q);
    assert_int_equal(json_array_size(json_object_get(map, "divisions")), 0);
    json_decref(map);
    in = input_make(1, 16);
    map = map_of(&in, TAP_ROUTER_LOGITS);
    d = json_object_get(map, "divisions");
    assert_int_equal(json_array_size(d), 1);
    assert_string_equal(text_at(json_array_get(d, 0), "what"), "experts");
    json_decref(map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(error_map_step__is_the_least_that_fits_and_aligns),
        cmocka_unit_test(error_map__has_the_level_of_each_cell),
        cmocka_unit_test(error_map__of_a_last_block_of_fewer_rows__counts_those),
        cmocka_unit_test(error_map__leaves_rows_without_a_partner_out),
        cmocka_unit_test(error_map__of_a_truth_of_zeros__is_not_finite),
        cmocka_unit_test(error_map__is_bounded),
        cmocka_unit_test(error_map__names_its_divisions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
