/* test_linear_choose.c: which kernel makes a product: what each refuses, what is taken at which
 * number of rows and columns on which card, and that --tactic can force every one. */
#include "tests/support.h"

#include "core/tactic.h"
#include "gpu/linear_choose.h"

#include <stdio.h>
#include <string.h>

/* Dense bf16, aligned, on a card with everything. */
static struct linear_size size_of(int64_t T, int64_t in)
{
    return (struct linear_size){.T = T,
                                .in = in,
                                .blocks = 528,
                                .sms = 132,
                                .dense = true,
                                .aligned = true,
                                .overlap = true,
                                .lt = true};
}

static void assert_chosen(const struct linear_size *s, const char *name)
{
    const char *why;
    const struct linear_variant *v = linear_choose(s, NULL, &why);
    assert_non_null(v);
    assert_string_equal(v->name, name);
}

static void assert_refused(const struct linear_size *s, const char *name, const char *part)
{
    const char *why;
    assert_null(linear_choose(s, name, &why));
    assert_non_null(strstr(why, part));
}

static void choices__follow_rows_and_columns__of_dense_products(void **state)
{
    (void)state;
    static const struct {
        int64_t T, in;
        const char *name;
    } rows[] = {{1, 8, "whole4"},      {8, 1016, "whole4"},      {8, 1024, "whole8"},
                {1, 7168, "whole8"},   {2, 7168, "whole8"},      {3, 7168, "parts8"},
                {8, 7168, "parts8"},   {1, 20448, "whole8"},     {1, 20456, "parts8"},
                {9, 7168, "cublaslt"}, {4096, 7168, "cublaslt"}, {1, INT32_MAX, "cublaslt"},
                {9, 64, "cublaslt"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct linear_size s = size_of(rows[i].T, rows[i].in);
        assert_chosen(&s, rows[i].name);
    }
}

/* Rows that fit are whole: 40 KB, and 64 bytes beside each row. */
static void whole_rows__are_those_that_fit(void **state)
{
    (void)state;
    assert_int_equal(linear_whole_bytes(1, 20448), 40 << 10);
    for (int64_t T = 1; T <= LINEAR_FEW; T++) {
        int64_t in = ((40 << 10) / T - 64) / 16 * 8;
        struct linear_size s = size_of(T, in);
        assert_chosen(&s, "whole8");
        s.in += 8;
        assert_chosen(&s, "parts8");
        assert_refused(&s, "whole8", "40 KB");
        assert_refused(&s, "whole4", "40 KB");
    }
}

/* 132 multiprocessors, four blocks each. */
static void whole_rows__are_for_blocks_that_run_at_once(void **state)
{
    (void)state;
    const char *why;
    struct linear_size s = size_of(3, 1536);
    assert_chosen(&s, "whole8");
    s.blocks = 529;
    assert_chosen(&s, "parts8");
    s.T = 2;
    assert_chosen(&s, "whole8");
    s.T = 3;
    s.in = 512;
    assert_chosen(&s, "parts4");
    assert_string_equal(linear_choose(&s, "whole4", &why)->name, "whole4");
    s.sms = 133;
    assert_chosen(&s, "whole4");
}

static void choices__do_without__what_the_card_or_the_library_has_not(void **state)
{
    (void)state;
    struct linear_size s = size_of(1, 7168);
    s.overlap = false;
    assert_chosen(&s, "parts8");
    assert_refused(&s, "whole8", "no such copies");
    s.in = 1024;
    assert_chosen(&s, "parts8");
    s.in = 1016;
    assert_chosen(&s, "parts4");
    s = size_of(9, 7168);
    s.lt = false;
    assert_chosen(&s, "any");
    assert_refused(&s, "cublaslt", "no algorithm");
    s.T = 8;
    assert_chosen(&s, "parts8");
}

static void other_matrices__go_to_another_kernel(void **state)
{
    (void)state;
    static const char *const few[] = {"whole8", "whole4", "parts8", "parts4"};
    struct linear_size s = size_of(1, 1024), odd = s, heads = s, rows = size_of(9, 1024);
    s.dense = false;
    odd.aligned = false;
    heads.heads = true;
    assert_chosen(&s, "any");
    assert_refused(&s, "cublaslt", "not dense bf16");
    assert_chosen(&odd, "cublaslt");
    assert_chosen(&heads, "cublaslt");
    heads.lt = false;
    assert_chosen(&heads, "any");
    for (size_t i = 0; i < sizeof few / sizeof few[0]; i++) {
        assert_refused(&s, few[i], "not dense bf16");
        assert_refused(&odd, few[i], "multiple of 8");
        assert_refused(&heads, few[i], "over heads");
        assert_refused(&rows, few[i], "more than 8 rows");
    }
}

/* Whatever the columns: each variant can be forced, and --tactic knows exactly their names. */
static void variants__can_be_forced__each_by_its_name(void **state)
{
    (void)state;
    for (int i = 0; i < LINEAR_VARIANTS; i++) {
        char text[TACTIC_TEXT];
        struct err err;
        const char *why;
        err_clear(&err);
        tactic_clear();
        snprintf(text, sizeof text, "linear=%s", linear_variants[i].name);
        assert_int_equal(tactic_force(text, &err), ERR_OK);
        for (int64_t in = 8; in <= 2048; in *= 2) {
            const struct linear_size s = size_of(8, in);
            assert_ptr_equal(linear_choose(&s, tactic_forced("linear"), &why), &linear_variants[i]);
        }
    }
    tactic_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(choices__follow_rows_and_columns__of_dense_products),
        cmocka_unit_test(whole_rows__are_those_that_fit),
        cmocka_unit_test(whole_rows__are_for_blocks_that_run_at_once),
        cmocka_unit_test(choices__do_without__what_the_card_or_the_library_has_not),
        cmocka_unit_test(other_matrices__go_to_another_kernel),
        cmocka_unit_test(variants__can_be_forced__each_by_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
