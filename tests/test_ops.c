/* test_ops.c: the one list of ops, and the join of the sides with it. */
#include "tests/support.h"

#include "core/ops.h"

#include <signal.h>
#include <stdio.h>

static enum err_code no_op(const void *op, struct run *run, struct err *err)
{
    (void)op, (void)run, (void)err;
    return ERR_OK;
}

static void list__names_each_op_once_with_places_that_exist(void **state)
{
    (void)state;
    assert_true(op_count > 0);
    for (int i = 0; i < op_count; i++) {
        const struct op_row *row = &op_rows[i];
        const char *const places[] = {row->header, row->ref, row->contract, row->test};
        assert_ptr_equal(op_find(row->name),
                         row); /* the first of its name: so there is no second */
        for (size_t k = 0; k < sizeof places / sizeof *places; k++) {
            char path[FILE_PATH];
            assert_non_null(places[k]);
            snprintf(path, sizeof path, "%s/%s", ASSAY_SOURCE_DIR, places[k]);
            if (!file_exists(path)) fail_msg("op %s: there is no %s", row->name, places[k]);
        }
    }
}

static void list__holds_the_ops_of_the_command_line(void **state)
{
    (void)state;
    static const char *const names[] = {
        "embed",    "norm",       "rope",     "linear",      "mla.q",       "mla.kv",
        "mla.core", "mla.output", "router",   "int4",        "moe",         "moe.shared",
        "mlp",      "logits",     "eagle.fc", "eagle.layer", "eagle.verify"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) assert_non_null(op_find(names[i]));
    assert_null(op_find("mla"));
    assert_null(op_find(""));
    assert_null(op_find("Norm"));
}

static void reference__implements_every_op_and_nothing_else(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    const struct op_side *ref = ref_side();
    assert_string_equal(ref->name, "ref");
    assert_true(ref->available);
    (void)!op_side_check(ref, &err);
    assert_ok(&err);
    for (int i = 0; i < op_count; i++) {
        if (!op_side_find(ref, op_rows[i].name)) fail_msg("ref lacks %s", op_rows[i].name);
    }
}

static void sides__join_and_say_why__when_they_are_not_available(void **state)
{
    (void)state;
    const struct op_side *const sides[] = {ref_side(), gpu_side(), naive_side()};
    for (size_t i = 0; i < 3; i++) {
        struct err err = ERR_INIT;
        (void)!op_side_check(sides[i], &err);
        assert_ok(&err);
        assert_true(sides[i]->about && sides[i]->about[0]);
        assert_true(sides[i]->available || (sides[i]->why_not && sides[i]->why_not[0]));
    }
}

static void find__gives_null__when_a_side_lacks_the_op(void **state)
{
    (void)state;
    const struct op_entry entries[] = {{"norm", no_op}, {NULL, NULL}};
    const struct op_side side = {.name = "half", .available = true, .entries = entries};
    assert_true(op_side_find(&side, "norm") == no_op);
    assert_null(op_side_find(&side, "rope"));
}

static void check__names_the_entry__when_it_is_not_in_the_list(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    const struct op_entry entries[] = {{"norm", no_op}, {"nrom", no_op}, {NULL, NULL}};
    const struct op_side side = {.name = "odd", .available = true, .entries = entries};
    assert_int_equal(op_side_check(&side, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "join the ops", "side odd", "\"nrom\"", "core/ops.c");
}

static void check_empty_entry(void *ctx)
{
    struct err err = ERR_INIT;
    (void)!op_side_check(ctx, &err);
}

static void check__aborts__when_an_entry_has_no_function(void **state)
{
    (void)state;
    const struct op_entry entries[] = {{"norm", NULL}, {NULL, NULL}};
    struct op_side side = {.name = "empty", .available = true, .entries = entries};
    assert_int_equal(signal_of(check_empty_entry, &side, NULL), SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(list__names_each_op_once_with_places_that_exist),
        cmocka_unit_test(list__holds_the_ops_of_the_command_line),
        cmocka_unit_test(reference__implements_every_op_and_nothing_else),
        cmocka_unit_test(sides__join_and_say_why__when_they_are_not_available),
        cmocka_unit_test(find__gives_null__when_a_side_lacks_the_op),
        cmocka_unit_test(check__names_the_entry__when_it_is_not_in_the_list),
        cmocka_unit_test(check__aborts__when_an_entry_has_no_function),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
