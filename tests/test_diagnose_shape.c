/* test_diagnose_shape.c: errors with a shape are described by it, and noise by none. */
#include "harness/diagnose_shape.h"
#include "core/synth.h"
#include "tests/support.h"

#include <math.h>
#include <string.h>

enum { ROWS = 16, COLS = 64, N = ROWS * COLS };

static double clean[N], subject[N], first[N], second[N];

static void fill(double *x, const char *name)
{
    for (int i = 0; i < N; i++) x[i] = synth_u(synth_base(5, name), i);
}

static int setup(void **state)
{
    (void)state;
    fill(clean, "clean");
    memcpy(subject, clean, sizeof clean);
    return 0;
}

static struct error_shape shape_of(const struct shape_input *extra)
{
    struct err err = ERR_INIT;
    struct error_shape out;
    struct shape_input in = extra ? *extra : (struct shape_input){0};
    in.rows = ROWS;
    in.cols = COLS;
    in.subject = subject;
    in.clean = clean;
    assert_int_equal(error_shape_find(&in, &out, &err), ERR_OK);
    return out;
}

static const struct shape_part *part(const struct error_shape *s, const char *what)
{
    for (int i = 0; i < s->parts; i++) {
        if (strcmp(s->part[i].what, what) == 0) return &s->part[i];
    }
    fail_msg("no part %s", what);
    return NULL;
}

static void rows_that_are_wrong__are_found(void **state)
{
    (void)state;
    for (int c = 0; c < COLS; c++) {
        subject[3 * COLS + c] += 1;
        subject[9 * COLS + c] -= 1;
    }
    const struct error_shape s = shape_of(NULL);
    const struct shape_part *p = part(&s, "row");
    assert_int_equal(p->places, 2);
    assert_true(p->at[0] == 3 && p->at[1] == 9 && p->share > 0.999);
    assert_int_equal(part(&s, "column")->places, 0);
    assert_non_null(strstr(s.text, "100 % of it in rows 3, 9"));
}

static void head_group_and_rank__are_found(void **state)
{
    (void)state;
    for (int r = 0; r < ROWS; r++) {
        for (int c = 48; c < 56; c++) subject[r * COLS + c] *= -1;
    }
    const struct error_shape s = shape_of(&(struct shape_input){.heads = 8});
    assert_true(part(&s, "head")->places == 1 && part(&s, "head")->at[0] == 6);
    assert_true(part(&s, "group of 32")->places == 1 && part(&s, "group of 32")->at[0] == 1);
    assert_true(part(&s, "rank of 4")->places == 1 && part(&s, "rank of 4")->at[0] == 3);
    assert_true(part(&s, "rank of 8")->places == 1 && part(&s, "rank of 8")->at[0] == 6);
    assert_int_equal(part(&s, "row")->places, 0);
}

static void expert_whose_rows_are_wrong__is_found(void **state)
{
    (void)state;
    int32_t ids[ROWS * 2];
    for (int r = 0; r < ROWS; r++) {
        ids[2 * r] = r % 4;
        ids[2 * r + 1] = 4 + r % 3;
        for (int c = 0; c < COLS && r % 3 == 1; c++) subject[r * COLS + c] += 0.5;
    }
    const struct error_shape s =
        shape_of(&(struct shape_input){.ids = ids, .top_k = 2, .experts = 8});
    assert_int_equal(part(&s, "expert")->at[0], 5);
    assert_non_null(strstr(s.text, "expert 5"));
}

static void scale__is_fitted(void **state)
{
    (void)state;
    for (int i = 0; i < N; i++) subject[i] = 0.353 * clean[i];
    const struct error_shape s = shape_of(NULL);
    assert_true(fabs(s.scale - 0.353) < 1e-9 && s.scale_explains > 0.999999);
    assert_non_null(strstr(s.text, "the reference times 0.353 explains 100.0 %"));
    assert_true(fabs(s.relative - 0.647) < 1e-9);
}

static void factors_of_rows_and_columns__are_fitted(void **state)
{
    (void)state;
    for (int i = 0; i < N; i++) subject[i] = clean[i] * (1 + i / COLS);
    struct error_shape s = shape_of(NULL);
    assert_true(s.row_scale_explains > 0.999 && s.column_scale_explains < 0.9);
    assert_non_null(strstr(s.text, "a factor for each row"));
    for (int i = 0; i < N; i++) subject[i] = clean[i] * (1 + i % COLS);
    s = shape_of(NULL);
    assert_true(s.column_scale_explains > 0.999 && s.row_scale_explains < 0.9);
    for (int i = 0; i < N; i++) subject[i] = clean[i] + (i % COLS == 7 ? 3 : 0.5);
    s = shape_of(NULL);
    assert_true(s.offset_explains > 0.999);
    assert_non_null(strstr(s.text, "a value added to each column"));
}

static void order_of_columns__is_found(void **state)
{
    (void)state;
    for (int i = 0; i < N; i++) subject[i] = clean[i / COLS * COLS + (i % COLS * 8) % 63];
    const struct error_shape s = shape_of(NULL);
    assert_true(s.permutation_explains > 0.999);
    assert_non_null(strstr(s.text, "the columns in another order"));
}

static void missing_term_of_a_sum__is_fitted(void **state)
{
    (void)state;
    fill(first, "first");
    fill(second, "second");
    for (int i = 0; i < N; i++) {
        clean[i] = first[i] + second[i];
        subject[i] = first[i] + 2.5 * second[i];
    }
    const struct error_shape s =
        shape_of(&(struct shape_input){.term_name = {"routed", "shared"}, .term = {first, second}});
    assert_int_equal(s.terms, 2);
    assert_true(fabs(s.term[0].factor - 1) < 1e-9 && fabs(s.term[1].factor - 2.5) < 1e-9);
    assert_true(s.terms_explain > 0.999999);
    assert_non_null(strstr(s.text, "1 x routed + 2.5 x shared"));
}

static void noise__has_no_shape(void **state)
{
    (void)state;
    fill(first, "noise");
    for (int i = 0; i < N; i++) subject[i] += first[i];
    const struct error_shape s = shape_of(NULL);
    assert_true(s.scale_explains < 0.5 && s.offset_explains < 0.5 && s.permutation_explains < 0.9);
    for (int i = 0; i < s.parts; i++) assert_int_equal(s.part[i].places, 0);
    assert_non_null(strstr(s.text, "spread over all rows and columns"));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup(f, setup)
    const struct CMUnitTest tests[] = {
        TEST(rows_that_are_wrong__are_found),          TEST(head_group_and_rank__are_found),
        TEST(expert_whose_rows_are_wrong__is_found),   TEST(scale__is_fitted),
        TEST(factors_of_rows_and_columns__are_fitted), TEST(order_of_columns__is_found),
        TEST(missing_term_of_a_sum__is_fitted),        TEST(noise__has_no_shape),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
