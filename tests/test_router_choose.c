/* test_router_choose.c: which kernels make a router: what each refuses, what is taken at which
 * number of tokens, and that --tactic can force every one. */
#include "tests/support.h"

#include "core/tactic.h"
#include "gpu/router_choose.h"

#include <stdio.h>
#include <string.h>

/* A router of Kimi-K2.5. */
static struct router_size size_of(int64_t T)
{
    return (struct router_size){
        .T = T, .E = 384, .top_k = 8, .groups = 1, .sigmoid = true, .dense = true};
}

static void assert_chosen(const struct router_size *s, const char *name)
{
    const char *why;
    const struct router_variant *v = router_variant_for(s, NULL, &why);
    assert_non_null(v);
    assert_string_equal(v->name, name);
}

static void assert_refused(const struct router_size *s, const char *name, const char *part)
{
    const char *why;
    assert_null(router_variant_for(s, name, &why));
    assert_non_null(strstr(why, part));
}

static void choices__follow_the_number_of_tokens(void **state)
{
    (void)state;
    static const struct {
        int64_t T;
        const char *name;
    } rows[] = {{1, "sum16"},    {8, "sum16"},   {9, "block"},
                {1024, "block"}, {1025, "warp"}, {4096, "warp"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct router_size s = size_of(rows[i].T);
        assert_chosen(&s, rows[i].name);
    }
}

/* Sums make their own. */
static void logits_that_are_there__are_taken(void **state)
{
    (void)state;
    struct router_size s = size_of(1);
    s.summed = true;
    assert_chosen(&s, "block");
    s.T = 17;
    assert_chosen(&s, "block");
    s.forced = true;
    assert_chosen(&s, "warp");
}

static void sums__serve_so_many_tokens__and_no_more(void **state)
{
    (void)state;
    struct router_size s = size_of(8);
    assert_refused(&(struct router_size){.T = 17, .dense = true}, "sum16", "more tokens");
    s.dense = false;
    assert_refused(&s, "sum16", "dense bf16");
    assert_chosen(&s, "block"); /* a linear serves every matrix */
}

/* What a block does not do, a warp does. */
static void routers__that_a_block_cannot_serve__go_to_a_warp(void **state)
{
    (void)state;
    struct router_size bad[6];
    for (size_t i = 0; i < 6; i++) bad[i] = size_of(i % 2 ? 1 : 8);
    bad[0].E = 513;
    bad[1].top_k = 33;
    bad[2].groups = 8;
    bad[3].sigmoid = false;
    bad[4].forced = true;
    bad[5].forced = true;
    for (size_t i = 0; i < 6; i++) {
        assert_chosen(&bad[i], "warp");
        assert_refused(&bad[i], i % 2 ? "block" : "sum16", i < 2 ? "512 experts" : "softmax");
    }
    bad[0].E = 512;
    bad[1].top_k = 32;
    assert_chosen(&bad[0], "sum16");
    assert_chosen(&bad[1], "sum16");
}

/* Whatever the tokens, up to its most: each variant can be forced, and --tactic knows exactly their
 * names. */
static void variants__can_be_forced__each_by_its_name(void **state)
{
    (void)state;
    for (int i = 0; i < ROUTER_VARIANTS; i++) {
        const struct router_variant *v = &router_variants[i];
        char text[TACTIC_TEXT];
        struct err err;
        const char *why;
        err_clear(&err);
        tactic_clear();
        snprintf(text, sizeof text, "router=%s", v->name);
        assert_int_equal(tactic_force(text, &err), ERR_OK);
        for (int64_t T = 1; T <= (v->sums ? v->sums : 4096); T *= 2) {
            const struct router_size s = size_of(T);
            assert_ptr_equal(router_variant_for(&s, tactic_forced("router"), &why), v);
        }
    }
    tactic_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(choices__follow_the_number_of_tokens),
        cmocka_unit_test(logits_that_are_there__are_taken),
        cmocka_unit_test(sums__serve_so_many_tokens__and_no_more),
        cmocka_unit_test(routers__that_a_block_cannot_serve__go_to_a_warp),
        cmocka_unit_test(variants__can_be_forced__each_by_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
