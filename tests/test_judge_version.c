/* test_judge_version.c: versions in the order of PEP 440, and conditions over them. */
#include "compat/judge_parts.h"
#include "tests/support.h"

#include <string.h>

static void versions__are_ordered(void **state)
{
    (void)state;
    static const char *const rising[] = {"0.9",     "0.10.dev1", "0.10a1",     "0.10b2", "0.10rc1",
                                         "0.10rc2", "0.10",      "0.10.post1", "0.10.1", "1"};
    enum { N = sizeof rising / sizeof rising[0] };
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            int order = 7;
            assert_true(judge_version_compare(rising[i], rising[j], &order));
            if (order != (i > j) - (i < j)) fail_msg("%s, %s: %d", rising[i], rising[j], order);
        }
    }
}

static void versions__may_be_written_otherwise(void **state)
{
    (void)state;
    static const char *const same[][2] = {{"v0.16.0", "0.16"},
                                          {"1.0", "1"},
                                          {"1.0+cu128", "1.0"},
                                          {"1.0-rc1", "1.0rc1"},
                                          {"1.0.alpha.2", "1.0a2"}};
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        int order = 7;
        assert_true(judge_version_compare(same[i][0], same[i][1], &order));
        assert_int_equal(order, 0);
    }
    static const char *const none[] = {"", "x", "1.0zzz", "main"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        int order;
        assert_false(judge_version_compare(none[i], "1", &order));
        assert_false(judge_version_compare("1", none[i], &order));
    }
    int order;
    assert_false(judge_version_compare(NULL, "1", &order));
}

static void conditions__are_decided_where_both_are_versions(void **state)
{
    (void)state;
    struct arena arena = ARENA_INIT;
    struct pool pool = {.arena = &arena};
    struct err err = ERR_INIT;
    struct judge_run run = {.pool = &pool, .err = &err};
    struct frame f = {.run = &run};
    const struct value *lib = judge_value_of_kind(&run, VALUE_VERSION, "0.16.0");
    const struct value *text = judge_value_of_kind(&run, VALUE_STR, "0.12");
    assert_int_equal(judge_version_truth(&f, lib, ">=", text), 1);
    assert_int_equal(judge_version_truth(&f, lib, "<", text), 0);
    assert_int_equal(judge_version_truth(&f, text, "<", lib), 1);
    assert_int_equal(judge_version_truth(&f, lib, "==", text), 0);
    assert_int_equal(judge_version_truth(&f, lib, "!=", text), 1);
    assert_int_equal(judge_version_truth(&f, lib, "is", text), -1);
    assert_int_equal(judge_version_truth(&f, text, "<", text), -1);
    const struct value *unset = judge_value_of_kind(&run, VALUE_VERSION, NULL);
    assert_int_equal(judge_version_truth(&f, unset, ">=", text), -1);
    const struct value *python = judge_value_of_kind(&run, VALUE_OUTSIDE, "sys.version_info");
    const struct value *number[2] = {
        judge_value_make(&run, (struct value){.kind = VALUE_NUMBER, .number = 3}),
        judge_value_make(&run, (struct value){.kind = VALUE_NUMBER, .number = 2})};
    struct value old = {.kind = VALUE_ITEMS, .item = number, .items = 2};
    assert_int_equal(judge_version_truth(&f, python, "<", &old), 0);
    assert_int_equal(judge_version_truth(&f, python, ">=", &old), 1);
    number[1] = judge_value_make(&run, (struct value){.kind = VALUE_NUMBER, .number = 12});
    assert_int_equal(judge_version_truth(&f, python, ">=", &old), -1);
    assert_int_equal(judge_version_part("2.7.1", "minor"), 7);
    assert_int_equal(judge_version_part("2.7.1", "local"), -1);
    arena_release(&arena, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions__are_ordered),
        cmocka_unit_test(versions__may_be_written_otherwise),
        cmocka_unit_test(conditions__are_decided_where_both_are_versions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
