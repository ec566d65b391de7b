/* test_map.c: rules of a name map: what they mean, and what is refused, with line and column. */
#include "harness/map.h"
#include "tests/support.h"

#include <stdio.h>
#include <string.h>

#define TAPS "assay-map: 1\ntaps:\n"

static void parse(const char *text, struct arena *a, struct map *m)
{
    struct err err = ERR_INIT;
    (void)!map_parse(text, (int64_t)strlen(text), "names.yaml", a, m, &err);
    assert_ok(&err);
}

static void find__fills_the_layer_in__with_an_offset(void **state)
{
    (void)state;
    static const struct {
        const char *rule, *name, *to; /* to NULL: no such layer */
    } cases[] = {
        {"{from: \"m.{N}.o\", to: \"layers.{N}.attn\"}", "m.12.o", "layers.12.attn"},
        {"{from: \"m.{N}.o\", to: \"layers.{N-1}.attn\"}", "m.1.o", "layers.0.attn"},
        {"{from: \"m.{N}.o\", to: \"layers.{N+10}.attn\"}", "m.1.o", "layers.11.attn"},
        {"{from: \"m.{N}.o\", to: \"layers.{N-1}.attn\"}", "m.0.o", NULL},
        {"{from: \"m.{N}.*\", to: \"layers.{N}.q\"}", "m.3.q.weight", "layers.3.q"},
        {"{from: \"m.{N}.o\", to: \"layers.{N}.attn\"}", "m.x.o", "m.x.o"},
        {"{from: \"m.{N}.o\", to: \"layers.{N}.attn\"}", "other", "other"},
        {"{from: emb, to: embed}", "emb", "embed"},
        {"{from: \"*s.{N}.o\", to: \"layers.{N}.attn\"}", "a.0.layers.7.o", "layers.7.attn"},
        {"{from: \"*s.{N}.o\", to: \"layers.{N}.attn\"}", "layers.7.o", "layers.7.attn"},
        {"{from: \"*s.{N}.o\", to: \"layers.{N}.attn\"}", "layers.7.oo", "layers.7.oo"},
        {"{from: \"m?{N}.*\", to: \"layers.{N}.q\"}", "m.3.q", "layers.3.q"},
        {"{from: \"m.{N}.o\", to: \"layers.{N}.attn\"}", "mm.1.o", "mm.1.o"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena a = ARENA_INIT;
        struct map m;
        const struct map_rule *rule;
        char text[256], to[MAP_NAME] = "";
        snprintf(text, sizeof text, TAPS "  - %s\n", cases[i].rule);
        parse(text, &a, &m);
        bool found = map_find(&m, cases[i].name, &rule, to);
        assert_int_equal(found, cases[i].to != NULL);
        if (found) assert_string_equal(to, cases[i].to);
        arena_release(&a, NULL);
    }
}

static void find__takes_the_first_rule_that_fits(void **state)
{
    (void)state;
    struct arena a = ARENA_INIT;
    struct map m;
    const struct map_rule *rule;
    char to[MAP_NAME];
    parse(TAPS "  - {from: h.0, to: embed}\n  - {from: \"h.{N}\", to: \"layers.{N-1}.output\"}\n"
               "  - {from: \"*\", skip: true}\n",
          &a, &m);
    assert_true(map_find(&m, "h.0", &rule, to));
    assert_string_equal(to, "embed");
    assert_true(map_find(&m, "h.4", &rule, to));
    assert_string_equal(to, "layers.3.output");
    assert_true(map_find(&m, "else", &rule, to));
    assert_true(rule->skip);
    arena_release(&a, NULL);
}

static void stack__expands_ranges(void **state)
{
    (void)state;
    struct arena a = ARENA_INIT;
    struct map m;
    parse(TAPS "  - {from: h, axis: 1, stack: [embed, \"layers.{0..2}.output\", final_norm]}\n", &a,
          &m);
    static const char *const names[] = {"embed", "layers.0.output", "layers.1.output",
                                        "layers.2.output", "final_norm"};
    assert_int_equal(m.rules[0].stack_count, 5);
    assert_int_equal(m.rules[0].axis, 1);
    for (int i = 0; i < 5; i++) assert_string_equal(m.rules[0].stack[i], names[i]);
    arena_release(&a, NULL);
}

static void stack__of_an_open_range__has_as_many_names_as_fit(void **state)
{
    (void)state;
    static const struct {
        const char *stack;
        int64_t n, i;
        const char *name; /* NULL: no such stack */
    } cases[] = {
        {"[embed, \"layers.{0..}.output\", final_norm]", 5, 0, "embed"},
        {"[embed, \"layers.{0..}.output\", final_norm]", 5, 1, "layers.0.output"},
        {"[embed, \"layers.{0..}.output\", final_norm]", 5, 3, "layers.2.output"},
        {"[embed, \"layers.{0..}.output\", final_norm]", 5, 4, "final_norm"},
        {"[embed, \"layers.{0..}.output\", final_norm]", 2, 1, "final_norm"},
        {"[embed, \"layers.{0..}.output\", final_norm]", 1, 0, NULL},
        {"[\"layers.{3..}.output\"]", 4, 3, "layers.6.output"},
        {"[\"layers.{3..}.output\", a, b]", 3, 1, "a"},
        {"[a, b]", 2, 1, "b"},
        {"[a, b]", 3, 0, NULL},
        {"[a, b]", 1, 0, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena a = ARENA_INIT;
        struct map m;
        char text[256], name[MAP_NAME] = "";
        snprintf(text, sizeof text, TAPS "  - {from: h, axis: 1, stack: %s}\n", cases[i].stack);
        parse(text, &a, &m);
        assert_int_equal(map_stack_name(&m.rules[0], cases[i].n, cases[i].i, name),
                         cases[i].name != NULL);
        if (cases[i].name) assert_string_equal(name, cases[i].name);
        arena_release(&a, NULL);
    }
}

static void find__takes_last_for_the_highest_number_that_was_learnt(void **state)
{
    (void)state;
    struct arena a = ARENA_INIT;
    struct map m;
    const struct map_rule *rule;
    char to[MAP_NAME];
    parse(TAPS "  - {from: \"h.{last}\", to: final_norm}\n"
               "  - {from: \"h.{N}\", to: \"layers.{N-1}.output\"}\n",
          &a, &m);
    assert_true(map_find(&m, "h.3", &rule, to));
    assert_string_equal(to, "layers.2.output");
    static const char *const names[] = {"h.2", "h.11", "x.40", "h.3"};
    for (int i = 0; i < 4; i++) map_learn(&m, names[i]);
    assert_true(map_find(&m, "h.3", &rule, to));
    assert_string_equal(to, "layers.2.output");
    assert_true(map_find(&m, "h.11", &rule, to));
    assert_string_equal(to, "final_norm");
    arena_release(&a, NULL);
}

static void parse__refuses__with_line_and_column(void **state)
{
    (void)state;
    static const struct {
        const char *text, *where, *found;
    } cases[] = {
        {"taps:\n  - {from: a, to: b}\n", "names.yaml:1:1", "no assay-map"},
        {"assay-map: 2\ntaps:\n  - {from: a, to: b}\n", "names.yaml:1:12", "2"},
        {"assay-map: 1\n", "names.yaml:1:1", "no taps"},
        {TAPS "  - {to: b}\n", "names.yaml:3", "no from"},
        {TAPS "  - {from: a}\n", "names.yaml:3", "none of to, skip, stack"},
        {TAPS "  - {from: a, to: b, skip: true}\n", "names.yaml:3", "several"},
        {TAPS "  - {from: a, too: b}\n", "names.yaml:3", "too"},
        {TAPS "  - {from: a, to: b, axes: [0, 0]}\n", "names.yaml:3", "twice"},
        {TAPS "  - {from: a, to: b, axes: [0, 2]}\n", "names.yaml:3", "gap"},
        {TAPS "  - {from: a, to: b, axes: [1, 0, -2]}\n", "names.yaml:3", "-2"},
        {TAPS "  - {from: a, to: b, axes: [1, 0], transpose: true}\n", "names.yaml:3", "both"},
        {TAPS "  - {from: a, to: b, rope: half_split}\n", "names.yaml:3", "rope_dim"},
        {TAPS "  - {from: a, to: b, rope_dim: 3}\n", "names.yaml:3", "odd"},
        {TAPS "  - {from: a, to: b, rope_dim: 8, head_dim: 4}\n", "names.yaml:3", "wider"},
        {TAPS "  - {from: a, to: b, rope: halves}\n", "names.yaml:3", "halves"},
        {TAPS "  - {from: a, stack: [\"x{3..1}\"]}\n", "names.yaml:3", "x{3..1}"},
        {TAPS "  - {from: a, stack: x}\n", "names.yaml:3", "a text"},
        {TAPS "  - {from: a, stack: [\"x{1..}\", \"y{1..}\"]}\n", "names.yaml:3", "y{1..}"},
        {TAPS "  - {from: a, stack: [\"x{-1..}\"]}\n", "names.yaml:3", "x{-1..}"},
        {TAPS "  - {from: a, to: b, shard: 8}\n", "names.yaml:3", "8"},
        {TAPS "  - {from: a, to: b, shard: 1, partial: true}\n", "names.yaml:3", "both shard"},
        {TAPS "  - {from: a, to: b, partial: maybe}\n", "names.yaml:3", "maybe"},
        {TAPS "  - 7\n", "names.yaml:3", "a text"},
        {"assay-map: 1\nnames: x\n", "names.yaml:2:1", "names"},
        {"[1]\n", "names.yaml:1", "a list"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct err err = ERR_INIT;
        struct arena a = ARENA_INIT;
        struct map m;
        (void)!map_parse(cases[i].text, (int64_t)strlen(cases[i].text), "names.yaml", &a, &m, &err);
        assert_err(&err, ERR_INPUT, "map", cases[i].where, cases[i].found, NULL);
        arena_release(&a, NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(find__fills_the_layer_in__with_an_offset),
        cmocka_unit_test(find__takes_the_first_rule_that_fits),
        cmocka_unit_test(stack__expands_ranges),
        cmocka_unit_test(stack__of_an_open_range__has_as_many_names_as_fit),
        cmocka_unit_test(find__takes_last_for_the_highest_number_that_was_learnt),
        cmocka_unit_test(parse__refuses__with_line_and_column),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
