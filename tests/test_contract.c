/* test_contract.c: the reader of op contracts: what it takes, and that every mistake gets a message
 * with file, line and column. */
#include "compat/contract.h"
#include "tests/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char good[] = "stem: demo\n"
                           "ops:\n"
                           "  demo.a:\n"
                           "    formula: \"y = x\"\n"
                           "    inputs: {x: \"[T] f64\", eps: scalar}\n"
                           "    outputs: {y: \"[T] f64\"}\n"
                           "    limits: {T: {min: 1, max: 12}, eps: {min: -0.5}}\n"
                           "    rules: [one, two]\n"
                           "accept: [\"demo.a T=1\"]\n"
                           "reject:\n"
                           "  - {case: \"demo.a T=0\", error: \"T: found\"}\n";

static enum err_code read_text(void **state, const char *text, struct contract *c, struct arena *a,
                               struct err *err)
{
    const char *path = folder_path(state, "demo.yaml");
    write_text(path, text);
    return contract_read(c, path, a, err);
}

static void contract__is_read_whole(void **state)
{
    struct contract *c = calloc(1, sizeof *c);
    struct arena a = ARENA_INIT;
    struct err err = ERR_INIT;
    assert_non_null(c);
    if (read_text(state, good, c, &a, &err) != ERR_OK) assert_ok(&err);
    assert_string_equal(c->stem, "demo");
    assert_int_equal(c->ops, 1);
    const struct contract_op *op = &c->op[0];
    assert_string_equal(op->name, "demo.a");
    assert_string_equal(op->formula, "y = x");
    assert_int_equal(op->inputs, 2);
    assert_string_equal(op->input[0].shape, "[T] f64");
    assert_int_equal(op->outputs, 1);
    assert_int_equal(op->limits, 2);
    assert_true(op->limit[0].has_min && op->limit[0].has_max && op->limit[0].max == 12);
    assert_true(op->limit[1].has_min && !op->limit[1].has_max && op->limit[1].min == -0.5);
    assert_int_equal(op->rules, 2);
    assert_int_equal(c->accepts, 1);
    assert_null(c->accept[0].error);
    assert_int_equal(c->accept[0].at, 9);
    assert_int_equal(c->rejects, 1);
    assert_string_equal(c->reject[0].error, "T: found");
    assert_int_equal(c->reject[0].at, 11);
    arena_release(&a, NULL);
    free(c);
}

static void contract__is_refused_with_its_place__when_wrong(void **state)
{
    static const struct {
        const char *from, *to, *where, *found;
    } bad[] = {
        {"stem: demo\n", "stem: demo\nstems: x\n", "demo.yaml:2:1", "stems"},
        {"stem: demo\n", "", "demo.yaml:1:1", "a part is missing"},
        {"stem: demo\n", "stem:\n", "demo.yaml:1:1", "an empty text"},
        {"stem: demo\n", "stem: demo\n\"\": x\n", "demo.yaml:2:2", "an empty text"},
        {"stem: demo\n", "stem: [a]\n", "demo.yaml:1", "a list"},
        {"accept: [\"demo.a T=1\"]\n", "accept: []\n", "demo.yaml:9", "an empty list"},
        {"accept: [\"demo.a T=1\"]\n", "accept: demo.a\n", "demo.yaml:9:9", "a text"},
        {"accept: [\"demo.a T=1\"]\n", "accept: [\"\"]\n", "demo.yaml:9:11", "an empty text"},
        {"accept: [\"demo.a T=1\"]\n", "accept: [{a: b}]\n", "demo.yaml:9:11", "a mapping"},
        {"error: \"T: found\"", "errors: x", "demo.yaml:11:26", "errors"},
        {", error: \"T: found\"", "", "demo.yaml:11:6", "one of the two"},
        {"max: 12", "max: 12x", "demo.yaml:7:31", "12x"},
        {"max: 12", "max: nan", "demo.yaml:7:31", "nan"},
        {"max: 12", "maximum: 12", "demo.yaml:7:26", "maximum"},
        {"max: 12", "max: 0", "demo.yaml:7:14", "min above max"},
        {"{min: -0.5}", "{}", "demo.yaml:7:36", "neither"},
        {"{min: -0.5}", "-0.5", "demo.yaml:7:41", "a text"},
        {"formula: \"y = x\"\n", "formulas: x\n", "demo.yaml:4:5", "formulas"},
        {"    formula: \"y = x\"\n", "", "demo.yaml:3:3", "no formula"},
        {"    outputs: {y: \"[T] f64\"}\n", "", "demo.yaml:3:3", "a part is missing"},
        {"{y: \"[T] f64\"}", "{y: \"T f64\"}", "demo.yaml:6:19", "T f64"},
        {"rules: [one, two]", "rules: one", "demo.yaml:8:12", "a text"},
        {"rules: [one, two]", "rules: [&a one, *a]", "demo.yaml:8:16", "an anchor"},
        {"rules: [one, two]", "rules: [one, *a]", "demo.yaml:8:19", "an alias"},
        {"rules: [one, two]", "rules:", "demo.yaml:8:5", "nothing"},
        {"rules: [one, two]", "rules: [one, two", "demo.yaml:10:1", "flow sequence"},
        {"formula: \"y = x\"\n", "formula: \"y = x\"\n    formula: \"y\"\n", "demo.yaml:5",
         "duplicate"},
        {"reject:\n", "---\nreject:\n", "demo.yaml:9:11", "a second document"},
        {"T: found\"}\n", "T: found\"}\n---\nstem: x\n", "demo.yaml:11:34", "a second document"},
    };
    struct contract *c = calloc(1, sizeof *c);
    assert_non_null(c);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        char *text = replaced(good, bad[i].from, bad[i].to);
        enum err_code rc = read_text(state, text, c, &a, &err);
        if (rc != ERR_INPUT) fprintf(stderr, "accepted: %s -> %s\n", bad[i].from, bad[i].to);
        assert_int_equal(rc, ERR_INPUT);
        assert_err(&err, ERR_INPUT, NULL, bad[i].where, bad[i].found, NULL);
        assert_true(err.what[0] && err.found[0] && err.wanted[0]);
        arena_release(&a, NULL);
        free(text);
    }
    free(c);
}

static void contract__is_refused__when_missing_or_empty(void **state)
{
    struct contract *c = calloc(1, sizeof *c);
    struct arena a = ARENA_INIT;
    struct err err = ERR_INIT;
    assert_non_null(c);
    assert_int_equal(contract_read(c, folder_path(state, "none.yaml"), &a, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, NULL, "none.yaml", NULL, NULL);
    err_clear(&err);
    assert_int_equal(read_text(state, "", c, &a, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, NULL, "demo.yaml", NULL, NULL);
    err_clear(&err);
    assert_int_equal(read_text(state, "# nothing\n", c, &a, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, NULL, "demo.yaml", NULL, NULL);
    arena_release(&a, NULL);
    free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(contract__is_read_whole, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(contract__is_refused_with_its_place__when_wrong,
                                        folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(contract__is_refused__when_missing_or_empty, folder_setup,
                                        folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
