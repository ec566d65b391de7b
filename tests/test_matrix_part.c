/* test_matrix_part.c: parts of matrices in every stored format against the same rows and columns of
 * the whole, as the reference reads them and as the cases decode them; what cannot be cut. */
#include "core/linear.h"
#include "core/matrix.h"
#include "core/matrix_part.h"
#include "harness/case_make.h"
#include "ref/matrix.h"
#include "tests/op_fixture.h"
#include "tests/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct arena arena;

static int teardown(void **state)
{
    (void)state;
    arena_release(&arena, NULL);
    return 0;
}

static struct matrix made(const char *line)
{
    struct op_case c;
    struct case_data d;
    struct err err = ERR_INIT;
    (void)!case_parse(&c, line, &err);
    assert_ok(&err);
    (void)!case_make(&c, &arena, &d, &err);
    assert_ok(&err);
    return *((const struct linear *)d.op)->w;
}

/* All values as the reference reads them: [out, in]. */
static float *values(const struct matrix *m)
{
    int64_t ld = matrix_pad(m->in);
    float *padded = calloc((size_t)(m->out * ld), sizeof *padded);
    float *out = calloc((size_t)(m->out * m->in), sizeof *out);
    void *scratch = malloc((size_t)matrix_scratch(m, m->out));
    assert_true(padded && out && scratch);
    matrix_rows(m, 0, m->out, scratch, padded, NULL);
    for (int64_t r = 0; r < m->out; r++)
        memcpy(out + r * m->in, padded + r * ld, (size_t)m->in * sizeof *out);
    free(padded);
    free(scratch);
    return out;
}

/* Every value of the part is that of its place in the whole, in bits, and zero copies were made. */
static void check_part(const struct matrix *whole, const float *all, const struct matrix *part,
                       struct extent rows, struct extent columns)
{
    struct err err = ERR_INIT;
    (void)!matrix_check(part, &err);
    assert_ok(&err);
    assert_true(part->out == rows.count && part->in == columns.count);
    assert_ptr_equal(part->data.data, whole->data.data);
    float *own = values(part);
    double *decoded = calloc((size_t)part->in, sizeof *decoded);
    for (int64_t r = 0; r < part->out; r++) {
        const float *want = all + (rows.first + r) * whole->in + columns.first;
        assert_memory_equal(own + r * part->in, want, (size_t)part->in * sizeof *want);
        case_matrix_row(part, r, decoded);
        for (int64_t c = 0; c < part->in; c++) assert_true((float)decoded[c] == want[c]);
    }
    free(decoded);
    free(own);
}

/* Cuts rows and columns in steps of `rows`, `columns`; also twice as many, and a part of that. */
static void check_format(const char *line, int64_t rows, int64_t columns, bool twice)
{
    const struct matrix whole = made(line);
    float *all = values(&whole);
    int parts = 0;
    for (int64_t r = 0; r < whole.out; r += rows) {
        for (int64_t c = 0; c < whole.in; c += columns) {
            for (int64_t n = 1; n <= 1 + twice; n++) {
                struct extent a = {r, rows * n}, b = {c, columns * n};
                struct matrix part, inner;
                struct err err = ERR_INIT;
                if (a.first + a.count > whole.out) a.count = whole.out - a.first;
                if (b.first + b.count > whole.in) b.count = whole.in - b.first;
                (void)!matrix_part(&whole, a, b, &part, &err);
                if (err.code != ERR_OK) printf("%s\n", line);
                assert_ok(&err);
                check_part(&whole, all, &part, a, b);
                parts++;
                if (n == 1 || a.count <= rows || b.count <= columns) continue;
                const struct extent second = {rows, a.count - rows},
                                    right = {columns, b.count - columns};
                (void)!matrix_part(&part, second, right, &inner, &err);
                assert_ok(&err);
                check_part(&whole, all, &inner, (struct extent){r + rows, second.count},
                           (struct extent){c + columns, right.count});
            }
        }
    }
    assert_true(parts > 4);
    free(all);
}

static void part__has_the_values_of_its_place(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        int64_t rows, columns;
        bool twice;
    } formats[] = {
        {"linear out=10,in=33,format=bf16", 3, 7, true},
        {"linear out=7,in=20,format=f32", 1, 1, true},
        {"linear out=9,in=64,format=f16", 4, 16, true},
        {"linear out=12,in=128,format=int4,group=32", 5, 32, true},  /* whole groups */
        {"linear out=12,in=128,format=int4,group=64", 3, 16, false}, /* inside one */
        {"linear out=6,in=64,format=int4,group=0", 2, 24, true},     /* one scale a row */
        {"linear out=24,in=128,format=int4a,group=32", 8, 32,
         true}, /* zero points: words of rows */
        {"linear out=20,in=96,format=int4a,group=96", 8, 8, true},
        {"linear out=12,in=96,format=int8,group=32", 5, 32, true},
        {"linear out=12,in=64,format=int4,group=32,order=2", 5, 32, true}, /* an index not in use */
        {"linear out=40,in=48,format=fp8,group=16", 16, 16, true},
        {"linear out=48,in=64,format=fp8,group=16", 8, 8, false}, /* inside a block */
    };
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        check_format(formats[i].line, formats[i].rows, formats[i].columns, formats[i].twice);
}

/* ---- made by rule ---- */

static void part__of_a_rule_makes_the_elements_of_the_whole(void **state)
{
    (void)state;
    struct matrix whole = {.format = MATRIX_DENSE, .out = 6, .in = 10}, part;
    struct err err = ERR_INIT;
    whole.data = (struct tensor){
        .name = "w",
        .dtype = DT_BF16,
        .dims = 2,
        .shape = {6, 10},
        .rule = {.kind = SYNTH_REAL, .base = synth_base(3, "w"), .scale = 1, .offset = 0}};
    (void)!matrix_part(&whole, (struct extent){1, 4}, (struct extent){3, 5}, &part, &err);
    assert_ok(&err);
    uint16_t all[60], own[20], buf[20];
    memcpy(all, tensor_elements(&whole.data, 0, 60, all), sizeof all);
    for (int64_t first = 0; first < 20; first++) {
        for (int64_t n = 0; first + n <= 20; n++) {
            memset(buf, 0xff, sizeof buf);
            const uint16_t *got = tensor_elements(&part.data, first, n, buf);
            for (int64_t i = 0; i < n; i++) {
                int64_t at = first + i;
                assert_int_equal(got[i], all[(1 + at / 5) * 10 + 3 + at % 5]);
                assert_int_equal(tensor_place(&part.data, at), (1 + at / 5) * 10 + 3 + at % 5);
            }
            for (int64_t i = n; i < 20; i++) assert_int_equal(buf[i], 0xffff);
        }
    }
    memcpy(own, tensor_elements(&part.data, 0, 20, own), sizeof own);
    assert_false(tensor_is_contiguous(&part.data));
    tensor_hold(&part.data, own);
    assert_true(tensor_is_contiguous(&part.data));
    assert_ptr_equal(tensor_elements(&part.data, 5, 15, NULL), own + 5);
}

/* A mapped part: a pointer within a row, a copy across rows; whole rows lie side by side. */
static void part__of_a_mapping_is_a_pointer_where_it_can_be(void **state)
{
    (void)state;
    float data[24], buf[24];
    for (int i = 0; i < 24; i++) data[i] = (float)i;
    const struct tensor t = tensor_of("t", DT_F32, 2, (const int64_t[]){4, 6}, data);
    const struct matrix whole = {.format = MATRIX_DENSE, .out = 4, .in = 6, .data = t};
    struct matrix part;
    struct tensor rows;
    struct err err = ERR_INIT;
    (void)!matrix_part(&whole, (struct extent){1, 3}, (struct extent){2, 3}, &part, &err);
    assert_ok(&err);
    assert_ptr_equal(tensor_elements(&part.data, 3, 3, NULL), data + 14);
    assert_ptr_equal(tensor_elements(&part.data, 4, 0, NULL), data + 15);
    const float *over = tensor_elements(&part.data, 1, 4, buf);
    assert_ptr_equal(over, buf);
    assert_true(over[0] == 9 && over[1] == 10 && over[2] == 14 && over[3] == 15);
    (void)!tensor_rows_part(&t, (struct extent){2, 2}, &rows, &err);
    assert_ok(&err);
    assert_true(tensor_is_contiguous(&rows));
    assert_ptr_equal(tensor_elements(&rows, 0, 12, NULL), data + 12);
    const struct tensor vector = tensor_of("v", DT_F32, 1, (const int64_t[]){24}, data);
    (void)!tensor_rows_part(&vector, (struct extent){5, 7}, &rows, &err);
    assert_ok(&err);
    assert_ptr_equal(tensor_elements(&rows, 1, 6, NULL), data + 6);
}

static void bad_value__is_named_by_its_place_in_the_file(void **state)
{
    (void)state;
    float data[24] = {0};
    data[3 * 6 + 4] = (float)strtod("nan", NULL);
    const struct tensor t = tensor_of("t", DT_F32, 2, (const int64_t[]){4, 6}, data);
    const struct matrix whole = {.format = MATRIX_DENSE, .out = 4, .in = 6, .data = t};
    struct matrix part;
    struct err err = ERR_INIT;
    (void)!matrix_part(&whole, (struct extent){1, 3}, (struct extent){2, 3}, &part, &err);
    assert_ok(&err);
    (void)!matrix_find_bad(&part, &err);
    assert_err(&err, ERR_INPUT, "read tensor", "t row 3, column 4", "NaN", "finite");
}

/* ---- refused ---- */

static void cut__that_a_format_does_not_allow_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        struct extent rows, columns;
        const char *found, *wanted;
    } rows[] = {
        {"linear out=8,in=16", {0, 9}, {0, 16}, "9 rows from 0 on", "some of the 8"},
        {"linear out=8,in=16", {-1, 2}, {0, 16}, "2 rows from -1 on", "some of the 8"},
        {"linear out=8,in=16", {0, 8}, {12, 5}, "5 columns from 12 on", "some of the 16"},
        {"linear out=8,in=16", {0, 8}, {0, 0}, "0 columns from 0 on", "some of the 16"},
        {"linear out=8,in=64,format=int4,group=32",
         {0, 8},
         {0, 12},
         "columns 0 to 11",
         "whole words of 8"},
        {"linear out=8,in=64,format=int4,group=32",
         {0, 8},
         {4, 8},
         "columns 4 to 11",
         "whole words of 8"},
        {"linear out=8,in=96,format=int4,group=32",
         {0, 8},
         {0, 48},
         "columns 0 to 47",
         "whole groups, or some of one group, of 32"},
        {"linear out=8,in=96,format=int4,group=32",
         {0, 8},
         {24, 16},
         "columns 24 to 39",
         "some of one group, of 32"},
        {"linear out=8,in=64,format=int8,group=32",
         {0, 8},
         {0, 6},
         "columns 0 to 5",
         "whole words of 4"},
        {"linear out=16,in=64,format=int4a,group=32",
         {4, 8},
         {0, 64},
         "rows 4 to 11",
         "whole words of zero points of 8"},
        {"linear out=8,in=64,format=int4,group=32,order=1",
         {0, 8},
         {0, 32},
         "group index in use",
         "all columns"},
        {"linear out=32,in=32,format=fp8,group=16",
         {8, 16},
         {0, 32},
         "rows 8 to 23",
         "the first of a block on, or some of one, of 16"},
        {"linear out=32,in=32,format=fp8,group=16",
         {0, 32},
         {15, 2},
         "columns 15 to 16",
         "some of one, of 16"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct matrix whole = made(rows[i].line);
        struct matrix part;
        struct err err = ERR_INIT;
        (void)!matrix_part(&whole, rows[i].rows, rows[i].columns, &part, &err);
        assert_err(&err, ERR_INPUT, "cut a matrix", "w", rows[i].found, rows[i].wanted);
    }
}

static void rows__are_cut_with_a_group_index_in_use(void **state)
{
    (void)state;
    const struct matrix indexed = made("linear out=8,in=64,format=int4,group=32,order=1");
    float *all = values(&indexed);
    struct matrix part;
    struct err err = ERR_INIT;
    (void)!matrix_part(&indexed, (struct extent){3, 4}, (struct extent){0, 64}, &part, &err);
    assert_ok(&err);
    check_part(&indexed, all, &part, (struct extent){3, 4}, (struct extent){0, 64});
    free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(part__has_the_values_of_its_place),
        cmocka_unit_test(part__of_a_rule_makes_the_elements_of_the_whole),
        cmocka_unit_test(part__of_a_mapping_is_a_pointer_where_it_can_be),
        cmocka_unit_test(bad_value__is_named_by_its_place_in_the_file),
        cmocka_unit_test(rows__are_cut_with_a_group_index_in_use),
        cmocka_unit_test(cut__that_a_format_does_not_allow_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
