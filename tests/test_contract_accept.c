/* test_contract_accept.c: the file of accepted findings, read strictly. */
#include "harness/contract_accept.h"
#include "tests/support.h"

#include <string.h>

static enum err_code read_rows(void **state, const char *text, struct arena *a,
                               struct judge_accept **rows, int *n, struct err *err)
{
    const char *path = folder_path(state, "accept.yaml");
    write_text(path, text);
    *err = (struct err)ERR_INIT;
    return contract_accept_read(path, a, rows, n, err);
}

static void rows__are_read(void **state)
{
    struct arena a = ARENA_INIT;
    struct err err;
    struct judge_accept *rows;
    int n;
    assert_int_equal(read_rows(state,
                               "accept:\n  - symbol: lib.*\n    reason: later\n    until: "
                               "2027-01-31\n  - file: src/a.py\n    reason: never\n",
                               &a, &rows, &n, &err),
                     ERR_OK);
    assert_int_equal(n, 2);
    assert_string_equal(rows[0].symbol, "lib.*");
    assert_string_equal(rows[0].until, "2027-01-31");
    assert_null(rows[0].file);
    assert_non_null(strstr(rows[0].place, "accept.yaml:2"));
    assert_string_equal(rows[1].file, "src/a.py");
    assert_null(rows[1].until);
    arena_release(&a, NULL);
}

static void rows__that_say_too_little_are_refused(void **state)
{
    static const struct {
        const char *text, *found;
    } bad[] = {
        {"accept:\n  - symbol: a\n", "no reason"},
        {"accept:\n  - reason: a\n", "neither symbol nor file"},
        {"accept:\n  - symbol: a\n    reason: \"\"\n", "nothing"},
        {"accept:\n  - symbol: a\n    reason: b\n    till: c\n", "till"},
        {"accept:\n  - symbol: a\n    reason: b\n    until: tomorrow\n", "tomorrow"},
        {"accept:\n  - symbol: a\n    reason: b\n    until: 2027-1-31\n", "2027-1-31"},
        {"accept:\n  - text\n", "text"},
        {"accept: text\n", "mapping"},
        {"other: []\n", "mapping"},
        {"- a\n", "list"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct arena a = ARENA_INIT;
        struct err err;
        struct judge_accept *rows;
        int n;
        assert_int_equal(read_rows(state, bad[i].text, &a, &rows, &n, &err), ERR_INPUT);
        assert_err(&err, ERR_INPUT, "accepted findings", "accept.yaml:", bad[i].found, NULL);
        arena_release(&a, NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rows__are_read, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(rows__that_say_too_little_are_refused, folder_setup,
                                        folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
