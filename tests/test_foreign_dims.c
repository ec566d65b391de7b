/* test_foreign_dims.c: the text by which SGLang's dumper says how ranks hold a tensor. */
#include "harness/foreign_dims.h"
#include "tests/support.h"

#include <string.h>

static void parse__finds_the_axis_that_tp_cuts(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int axis, axes;
    } cases[] = {
        {"t h", -1, 2},
        {"t h[tp]", 1, 2},
        {"t[tp] h", 0, 2},
        {"  b s  h[tp:sharded] d ", 2, 4},
        {"t (num_heads*head_dim)[tp]", 1, 2},
        {"t 1 h[tp:natural]", 2, 3},
        {"t h[cp:zigzag, tp] # dp:=moe_dp ep:replicated", 1, 2},
        {"t h[ep:partial]", -1, 2},
        {"t h # tp:replicated", -1, 2},
        {"t h[recompute_pseudo]", -1, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct err err = ERR_INIT;
        const struct dims_groups g = {.tp = 2, .cp = 1, .ep = 1, .sp = 1};
        int axis = 9, axes = 9;
        (void)!dims_parse(cases[i].text, &g, "a.pt", &axis, &axes, &err);
        assert_ok(&err);
        assert_int_equal(axis, cases[i].axis);
        assert_int_equal(axes, cases[i].axes);
    }
}

static void parse__without_ranks__cuts_nothing(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    const struct dims_groups g = {.tp = 1, .cp = 1, .ep = 1, .sp = 1};
    int axis, axes;
    assert_int_equal(dims_parse("t h[tp:partial] d[tp]", &g, "a.pt", &axis, &axes, &err), ERR_OK);
    assert_int_equal(axis, -1);
    assert_int_equal(axes, 3);
}

static void parse__refuses__what_cannot_be_joined_or_read(void **state)
{
    (void)state;
    static const struct {
        const char *text, *found;
    } cases[] = {
        {"t h[tp:partial]", "partial"},
        {"t s[cp]", "\": cp"},
        {"t s[cp:zigzag]", "zigzag"},
        {"t[tp] h[tp]", "two axes"},
        {"t h[xp]", "xp"},
        {"t h[tp:odd]", "odd"},
        {"", "no axis"},
        {"# ep:replicated", "no axis"},
        {"t h[tp", "a [ without ]"},
        {"t (a*b", "a ( without )"},
        {"t h[]", "no group"},
        {"t h-d", "without an end"},
        {"t h[tp:]", "no qualifier"},
        {"t [tp]", "no axis"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct err err = ERR_INIT;
        const struct dims_groups g = {.tp = 2, .cp = 2, .ep = 2, .sp = 1};
        int axis, axes;
        if (dims_parse(cases[i].text, &g, "a.pt", &axis, &axes, &err) == ERR_OK)
            fail_msg("\"%s\" was read", cases[i].text);
        assert_err(&err, ERR_INPUT, "read dims", "a.pt", cases[i].found, NULL);
        assert_true(err.wanted[0] != '\0');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parse__finds_the_axis_that_tp_cuts),
        cmocka_unit_test(parse__without_ranks__cuts_nothing),
        cmocka_unit_test(parse__refuses__what_cannot_be_joined_or_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
