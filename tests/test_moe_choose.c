/* test_moe_choose.c: which kernel serves the products of packed experts: what each refuses, what is
 * taken at which number of rows on which card, and that --tactic can force every one. */
#include "tests/support.h"

#include "core/tactic.h"
#include "gpu/moe_choose.h"

#include <stdio.h>
#include <string.h>

/* `rows` an expert of 384 of hidden size 7168, intermediate 2048, on a card with every kernel. */
static struct moe_size size_of(int64_t rows)
{
    return (struct moe_size){.pairs = rows * 384,
                             .E = 384,
                             .H = 7168,
                             .strips = 64,
                             .sms = 132,
                             .has = {true, true, true}};
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
    struct moe_size s = size_of(1);
    s.pairs = 8; /* one token */
    assert_chosen(&s, "apart8");
    s.sms = 127; /* 512 strips, 508 blocks */
    assert_chosen(&s, "stream8");
    s.sms = 128;
    assert_chosen(&s, "apart8");
}

/* Tokens of which each has eight experts; a shard has eight strips of w13. */
static void two_strips_at_once__are_chosen__where_every_block_has_work_twice(void **state)
{
    (void)state;
    static const struct {
        int64_t tokens, strips;
        const char *name;
    } rows[] = {{1, 64, "apart8"},  {2, 64, "stream8"}, {4, 64, "stream8"},
                {16, 64, "two8"},   {256, 64, "two8"},  {1, 8, "apart8"},
                {16, 8, "stream8"}, {64, 8, "stream8"}, {256, 8, "two8"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct moe_size s = size_of(1);
        s.pairs = 8 * rows[i].tokens;
        s.strips = rows[i].strips;
        assert_chosen(&s, rows[i].name);
    }
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
                                              [MOE_LARGE] = {"wgmma", "gather"}};
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
            const struct moe_size s = size_of(rows);
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
        cmocka_unit_test(rows_are_gathered__where_few_blocks_read_them),
        cmocka_unit_test(widths_that_are_no_multiple_of_8__go_to_another_kernel),
        cmocka_unit_test(names__say_the_family_and_the_rows_of_a_tile),
        cmocka_unit_test(variants__can_be_forced__each_by_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
