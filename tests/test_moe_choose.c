/* test_moe_choose.c: which kernel serves the products of packed experts: what each refuses, what is
 * taken at which number of rows on which card, and that --tactic can force every one; and how the
 * kernel for the fewest tokens divides its memory. */
#include "tests/support.h"

#include "core/tactic.h"
#include "gpu/moe_choose.h"
#include "gpu/moe_fused.h"

#include <stdio.h>
#include <string.h>

/* `rows` an expert of 384 of hidden size 7168, intermediate 2048, on a card with every kernel. */
static struct moe_size size_of(int64_t rows)
{
    return (struct moe_size){.T = rows * 48,
                             .pairs = rows * 384,
                             .E = 384,
                             .H = 7168,
                             .I = 2048,
                             .strips = 64,
                             .sms = 132,
                             .shared = 227 << 10,
                             .has = {true, true, true, true}};
}

/* `tokens` of eight experts of intermediate I. */
static struct moe_size tokens_of(int64_t tokens, int64_t I)
{
    struct moe_size s = size_of(1);
    s.T = tokens;
    s.pairs = 8 * tokens;
    s.I = I;
    s.strips = 2 * I / 64;
    return s;
}

static void assert_chosen(const struct moe_size *s, const char *name)
{
    const char *why;
    const struct moe_variant *v = moe_choose(s, NULL, &why);
    assert_non_null(v);
    assert_string_equal(v->name, name);
}

static void choices__follow_the_rows_of_an_expert__with_every_kernel(void **state)
{
    (void)state;
    static const struct {
        int64_t rows;
        const char *name;
    } rows[] = {{1, "two8"},  {6, "two8"},   {7, "stream16"}, {8, "stream16"},
                {9, "wgmma"}, {28, "wgmma"}, {4096, "wgmma"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct moe_size s = size_of(rows[i].rows);
        assert_chosen(&s, rows[i].name);
    }
    struct moe_size between = size_of(6);
    between.pairs++;
    assert_chosen(&between, "stream16");
    between.E = 1; /* few pairs, but not for an expert */
    between.pairs = 7;
    assert_chosen(&between, "stream16");
}

static void choices__do_without__what_the_card_has_not(void **state)
{
    (void)state;
    static const struct {
        int64_t rows;
        const char *newer, *older; /* without wgmma; without both */
    } rows[] = {{6, "two8", "mma8"},       {14, "stream16", "mma16"}, {15, "stream32", "mma32"},
                {28, "stream32", "mma32"}, {29, "mma64", "mma64"},    {4096, "mma64", "mma64"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct moe_size s = size_of(rows[i].rows);
        s.has[MOE_LARGE] = false;
        assert_chosen(&s, rows[i].newer);
        s.has[MOE_STREAM] = false;
        assert_chosen(&s, rows[i].older);
    }
}

static void two_launches__are_chosen__where_each_strip_has_a_block(void **state)
{
    (void)state;
    struct moe_size s = tokens_of(1, 2048);
    assert_chosen(&s, "apart8");
    s.sms = 127; /* 512 strips, 508 blocks */
    assert_chosen(&s, "stream8");
    s.sms = 128;
    assert_chosen(&s, "apart8");
}

static void two_strips_at_once__are_chosen__where_every_block_has_work_twice(void **state)
{
    (void)state;
    static const struct {
        int64_t tokens, I;
        const char *name;
    } rows[] = {{1, 2048, "apart8"},  {2, 2048, "stream8"}, {4, 2048, "stream8"},
                {16, 2048, "two8"},   {256, 2048, "two8"},  {4, 256, "apart8"},
                {16, 256, "stream8"}, {64, 256, "stream8"}, {256, 256, "two8"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct moe_size s = tokens_of(rows[i].tokens, rows[i].I);
        assert_chosen(&s, rows[i].name);
    }
}

/* Up to three strips of w13 on two multiprocessors. */
static void one_launch__is_chosen__where_multiprocessors_are_more_than_strips(void **state)
{
    (void)state;
    static const struct {
        int64_t tokens, I;
        const char *name;
    } rows[] = {{1, 256, "fused"}, {3, 256, "fused"},  {4, 256, "apart8"},
                {1, 768, "fused"}, {2, 768, "apart8"}, {1, 1024, "apart8"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct moe_size s = tokens_of(rows[i].tokens, rows[i].I);
        assert_chosen(&s, rows[i].name);
    }
    struct moe_size s = tokens_of(3, 256);
    s.sms = 127; /* 192 strips, 190.5 for these */
    assert_chosen(&s, "apart8");
    s = tokens_of(1, 256);
    s.has[MOE_FUSED] = false;
    assert_chosen(&s, "apart8");
}

/* Why, in words, and that the choice then goes on to the next. */
static void one_launch__is_refused__for_what_it_has_no_room_for(void **state)
{
    (void)state;
    static const struct {
        int64_t tokens, pairs, H, I, shared;
        const char *why;
    } rows[] = {{5, 5, 7168, 64, 227 << 10, "4 tokens"},
                {1, 33, 7168, 64, 227 << 10, "32 experts"},
                {4, 32, 7168, 520, 227 << 10, "16384 activations"},
                {1, 8, 7168, 2112, 227 << 10, "16384 activations"},
                {1, 8, 65537, 64, 1 << 30, "shared memory"},
                {4, 32, 16384, 64, 227 << 10, "shared memory"},
                {1, 8, 7168, 256, 99 << 10, "shared memory"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct moe_size s = tokens_of(1, 256);
        const char *why;
        s.T = rows[i].tokens;
        s.pairs = rows[i].pairs;
        s.H = rows[i].H;
        s.I = rows[i].I;
        s.shared = rows[i].shared;
        assert_null(moe_choose(&s, "fused", &why));
        assert_non_null(strstr(why, rows[i].why));
        assert_chosen(&s, "apart8");
    }
    struct moe_size s = tokens_of(4, 512);
    const char *why;
    assert_non_null(moe_choose(&s, "fused", &why));
    s.mps = true;
    assert_null(moe_choose(&s, "fused", &why));
    assert_non_null(strstr(why, "shared by MPS"));
    s = tokens_of(1, 256);
    s.mps = true;
    assert_chosen(&s, "apart8");
}

/* Many rows of a tile that two blocks read at most are not copied into order first. */
static void rows_are_gathered__where_few_blocks_read_them(void **state)
{
    (void)state;
    struct moe_size s = size_of(41);
    s.strips = 8;
    assert_chosen(&s, "gather");
    s.strips = 10;
    assert_chosen(&s, "wgmma");
    s = size_of(40);
    s.strips = 8;
    assert_chosen(&s, "wgmma");
}

static void widths_that_are_no_multiple_of_8__go_to_another_kernel(void **state)
{
    (void)state;
    const char *why;
    struct moe_size s = size_of(9);
    s.H = 7161;
    assert_chosen(&s, "stream16");
    assert_null(moe_choose(&s, "wgmma", &why));
    assert_non_null(strstr(why, "multiple of 8"));
    s.H = 7168;
    s.has[MOE_LARGE] = false;
    assert_null(moe_choose(&s, "wgmma", &why));
    assert_non_null(strstr(why, "no such products"));
}

/* The family, and the rows of a tile where there is a choice of them. */
static void names__say_the_family_and_the_rows_of_a_tile(void **state)
{
    (void)state;
    static const char *const families[][3] = {[MOE_MMA] = {"mma"},
                                              [MOE_STREAM] = {"stream", "two", "apart"},
                                              [MOE_LARGE] = {"wgmma", "gather"},
                                              [MOE_FUSED] = {"fused"}};
    for (int i = 0; i < MOE_VARIANTS; i++) {
        const struct moe_variant *v = &moe_variants[i];
        size_t digits = strcspn(v->name, "0123456789");
        bool found = false;
        char rows[16];
        for (int k = 0; k < 3; k++) {
            const char *family = families[v->kernel][k];
            found = found || (family && strncmp(v->name, family, digits) == 0);
        }
        assert_true(found);
        snprintf(rows, sizeof rows, "%d", (int)v->cap);
        if (v->name[digits]) assert_string_equal(v->name + digits, rows);
        assert_int_equal(v->apart, strncmp(v->name, "apart", 5) == 0);
        assert_int_equal(v->gather, strcmp(v->name, "gather") == 0);
    }
}

/* Where a token's columns stand: each lane has its operands of a tile together, in the order of the
 * steps of k, as the weights have them. */
static void fused__words_of_a_row__are_the_operands_of_the_lanes(void **state)
{
    (void)state;
    for (uint32_t column = 0; column < 192; column += 2) {
        uint32_t tile = column / 64, step = column % 64 / 16, half = column % 16 / 8;
        uint32_t lane = column % 8 / 2;
        assert_int_equal(fused_word_at(column / 2), 32 * tile + 8 * lane + 2 * step + half);
    }
}

/* Whatever the rows: each variant can be forced, and --tactic knows exactly their names. */
static void variants__can_be_forced__each_by_its_name(void **state)
{
    (void)state;
    for (int i = 0; i < MOE_VARIANTS; i++) {
        char text[TACTIC_TEXT];
        struct err err;
        const char *why;
        err_clear(&err);
        tactic_clear();
        snprintf(text, sizeof text, "moe=%s", moe_variants[i].name);
        assert_int_equal(tactic_force(text, &err), ERR_OK);
        for (int64_t rows = 1; rows <= 4096; rows *= 8) {
            const struct moe_size s =
                moe_variants[i].kernel == MOE_FUSED ? tokens_of(1 + rows % 4, 256) : size_of(rows);
            assert_ptr_equal(moe_choose(&s, tactic_forced("moe"), &why), &moe_variants[i]);
        }
    }
    tactic_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(choices__follow_the_rows_of_an_expert__with_every_kernel),
        cmocka_unit_test(choices__do_without__what_the_card_has_not),
        cmocka_unit_test(two_launches__are_chosen__where_each_strip_has_a_block),
        cmocka_unit_test(two_strips_at_once__are_chosen__where_every_block_has_work_twice),
        cmocka_unit_test(one_launch__is_chosen__where_multiprocessors_are_more_than_strips),
        cmocka_unit_test(one_launch__is_refused__for_what_it_has_no_room_for),
        cmocka_unit_test(rows_are_gathered__where_few_blocks_read_them),
        cmocka_unit_test(widths_that_are_no_multiple_of_8__go_to_another_kernel),
        cmocka_unit_test(names__say_the_family_and_the_rows_of_a_tile),
        cmocka_unit_test(fused__words_of_a_row__are_the_operands_of_the_lanes),
        cmocka_unit_test(variants__can_be_forced__each_by_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
