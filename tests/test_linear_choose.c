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
                                .out = 256,
                                .blocks = 528,
                                .sms = 132,
                                .shared = 227 << 10,
                                .dense = true,
                                .aligned = true,
                                .overlap = true,
                                .wgmma = true,
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
    } rows[] = {{1, 8, "whole4"},         {8, 1016, "whole4"},        {8, 1024, "ring8"},
                {1, 7168, "ring8"},       {8, 11872, "ring8"},        {8, 11880, "parts8"},
                {1, 95200, "ring8"},      {1, 95208, "parts8"},       {9, 7168, "cluster"},
                {64, 7168, "cluster"},    {65, 7168, "cublaslt"},     {9, 64, "cluster"},
                {4096, 7168, "cublaslt"}, {1, INT32_MAX, "cublaslt"}, {9, INT32_MAX, "cublaslt"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct linear_size s = size_of(rows[i].T, rows[i].in);
        assert_chosen(&s, rows[i].name);
    }
}

/* A unit of eight outputs each, and others. */
static void rings__are_for_more_outputs_than_one_unit_each(void **state)
{
    (void)state;
    static const struct {
        int64_t T, in;
        const char *name;
    } rows[] = {{8, 1024, "whole8"}, {1, 7168, "whole8"},  {2, 7168, "whole8"}, {3, 7168, "parts8"},
                {8, 7168, "parts8"}, {1, 20448, "whole8"}, {1, 20456, "parts8"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct linear_size s = size_of(rows[i].T, rows[i].in);
        s.blocks = 132;
        assert_chosen(&s, rows[i].name);
        s.blocks++;
        assert_chosen(&s, "ring8");
    }
}

/* What is planned for a block fits it, leaves no room for a second on the multiprocessor, and holds
 * every column. */
static void rings__fit_a_block__and_two_do_not(void **state)
{
    (void)state;
    const int64_t shared = 227 << 10;
    for (int64_t T = 1; T <= LINEAR_FEW; T++) {
        for (int64_t in = 8; in <= 40960; in += 8) {
            const struct linear_ring r = linear_ring_of(T, in, shared);
            if (r.stages == 0) continue;
            assert_in_range(r.stages, 2, LINEAR_RING_STAGES);
            assert_true(r.bytes + LINEAR_RING_BESIDE <= shared);
            assert_true(2 * r.bytes > shared);
            assert_int_equal(r.columns % LINEAR_RING_CHUNK, 0);
            assert_int_equal(r.row % 128, 64); /* bytes: rows side by side in different banks */
            assert_true(r.stage >= 8 * r.row);
            assert_true(r.stages * r.stage + linear_whole_bytes(T, in) <= r.bytes);
        }
    }
    assert_int_equal(linear_ring_of(1, 7168, shared).stages, 6);
    assert_int_equal(linear_ring_of(8, 11880, shared).stages, 0);
}

/* Rows that fit are whole: 40 KB, and 64 bytes beside each row. */
static void whole_rows__are_those_that_fit(void **state)
{
    (void)state;
    assert_int_equal(linear_whole_bytes(1, 20448), 40 << 10);
    for (int64_t T = 1; T <= LINEAR_FEW; T++) {
        int64_t in = ((40 << 10) / T - 64) / 16 * 8;
        struct linear_size s = size_of(T, in);
        s.blocks = s.sms;
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
    s.shared = 48 << 10; /* no ring */
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

/* Whatever is made alone and is large is read as fast by cuBLASLt. */
static void clusters__are_for_what_is_small__or_not_alone(void **state)
{
    (void)state;
    struct linear_size s = size_of(64, 8192);
    s.out = 2048; /* 16 times 2^20 elements */
    assert_chosen(&s, "cluster");
    s.out++;
    assert_chosen(&s, "cublaslt");
    s.joint = true;
    assert_chosen(&s, "cluster");
    s.T = 128;
    assert_chosen(&s, "cluster");
    s.T = 129;
    assert_chosen(&s, "cublaslt");
    s.T = 8;
    assert_chosen(&s, "ring8");
}

/* As many blocks as the card has room for at once, of enough steps of 64 columns each. */
static void clusters__fill_the_card__with_whole_powers_of_two(void **state)
{
    (void)state;
    static const struct {
        int64_t strips, in, blocks;
    } rows[] = {{70, 7168, 4},  {14, 7168, 8}, {6, 7168, 8},   {33, 7168, 8},  {49, 7168, 8},
                {50, 7168, 4},  {99, 7168, 4}, {100, 7168, 2}, {198, 7168, 2}, {199, 7168, 1},
                {112, 2048, 2}, {112, 256, 1}, {1, 64, 1},     {1, 448, 1},    {1, 449, 2},
                {1, 960, 2},    {1, 961, 4},   {1, 1984, 4},   {1, 1985, 8},   {2560, 7168, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(linear_cluster_of(rows[i].strips, rows[i].in, 132), rows[i].blocks);
    assert_int_equal(linear_cluster_of(14, 7168, 56), 8);
    assert_int_equal(linear_cluster_of(14, 7168, 37), 4);
}

static void choices__do_without__what_the_card_or_the_library_has_not(void **state)
{
    (void)state;
    struct linear_size s = size_of(1, 7168);
    s.overlap = false;
    assert_chosen(&s, "parts8");
    assert_refused(&s, "whole8", "no such copies");
    assert_refused(&s, "ring8", "no such copies");
    s.in = 1024;
    assert_chosen(&s, "parts8");
    s.in = 1016;
    assert_chosen(&s, "parts4");
    s = size_of(9, 7168);
    s.wgmma = false;
    assert_chosen(&s, "cublaslt");
    assert_refused(&s, "cluster", "no such products");
    s.lt = false;
    assert_chosen(&s, "any");
    assert_refused(&s, "cublaslt", "no algorithm");
    s.T = 8;
    assert_chosen(&s, "ring8");
    s.shared = 99 << 10;
    assert_chosen(&s, "parts8");
    assert_refused(&s, "ring8", "no room");
}

static void other_matrices__go_to_another_kernel(void **state)
{
    (void)state;
    static const char *const few[] = {"ring8", "whole8", "whole4", "parts8", "parts4", "cluster"};
    struct linear_size s = size_of(1, 1024), odd = s, heads = s, rows = size_of(129, 1024);
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
        assert_refused(&rows, few[i], i < 5 ? "more than 8 rows" : "more than 128 rows");
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
        cmocka_unit_test(rings__are_for_more_outputs_than_one_unit_each),
        cmocka_unit_test(rings__fit_a_block__and_two_do_not),
        cmocka_unit_test(whole_rows__are_those_that_fit),
        cmocka_unit_test(whole_rows__are_for_blocks_that_run_at_once),
        cmocka_unit_test(clusters__are_for_what_is_small__or_not_alone),
        cmocka_unit_test(clusters__fill_the_card__with_whole_powers_of_two),
        cmocka_unit_test(choices__do_without__what_the_card_or_the_library_has_not),
        cmocka_unit_test(other_matrices__go_to_another_kernel),
        cmocka_unit_test(variants__can_be_forced__each_by_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
