/* test_tactic.c: a forced choice is given to who asks for it, and one that nobody asks for is said.
 */
#include "core/tactic.h"

#include "tests/cli.h"

#include <string.h>

static void choices__are_free__but_those_that_are_forced(void **state)
{
    (void)state;
    struct err err;
    err_clear(&err);
    tactic_clear();
    assert_null(tactic_forced("mla.prefill"));
    assert_int_equal(tactic_force("mla.prefill=mma", &err), ERR_OK);
    assert_null(tactic_forced("mla"));
    assert_int_equal(tactic_check(&err), ERR_USAGE);
    assert_string_equal(err.where, "mla.prefill");
    err_clear(&err);
    assert_string_equal(tactic_forced("mla.prefill"), "mma");
    assert_int_equal(tactic_check(&err), ERR_OK);
    assert_int_equal(tactic_none("mla.prefill", "no products", &err), ERR_USAGE);
    assert_string_equal(err.where, "mma");
    tactic_clear();
    assert_null(tactic_forced("mla.prefill"));
}

static void texts__are_refused__that_force_nothing_or_twice(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",          "mla.prefill",    "=mma",           "mla.prefill=",
        "mla.x=mma", "mla.prefill=mm", "mla.prefill=mma"};
    struct err err;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        err_clear(&err);
        tactic_clear();
        assert_int_equal(tactic_force("mla.prefill=wgmma", &err), ERR_OK);
        assert_int_equal(tactic_force(bad[i], &err), ERR_USAGE);
        assert_string_equal(tactic_forced("mla.prefill"), "wgmma");
    }
    tactic_clear();
}

static void tactics__are_refused__by_verbs_that_run_kernels(void **state)
{
    cli_refuses(state, ((struct refusal){2, "option --tactic", NULL, "\"norm\"", "mla.prefill"}),
                "bench", "norm", "--tactic", "norm=x");
    cli_refuses(state,
                ((struct refusal){2, "option --tactic", "mla.prefill", "\"x\"", "wgmma, mma"}),
                "op", "norm", "--tactic", "mla.prefill=x");
    cli_refuses(state, ((struct refusal){2, "option --tactic", "moe", "\"x\"", "apart8, two8"}),
                "op", "moe", "--tactic", "moe=x");
    cli_refuses(state, ((struct refusal){2, "option --tactic", NULL, "\"mma\"", "WHAT=NAME"}), "op",
                "norm", "--tactic", "mma");
}

static void tactics__that_nothing_asks_for__are_no_pass(void **state)
{
    (void)state;
    struct cli r;
    cli(&r, "op", "norm", "--tactic", "mla.prefill=mma");
    assert_int_equal(r.status, 2);
    assert_non_null(strstr(r.err, "mla.prefill: found nothing that ran has this choice"));
    cli_free(&r);
    cli(&r, "bench", "norm", "--tactic", "mla.prefill=mma");
    assert_int_equal(r.status, 2);
    cli_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(choices__are_free__but_those_that_are_forced),
        cmocka_unit_test(texts__are_refused__that_force_nothing_or_twice),
        cmocka_unit_test_setup_teardown(tactics__are_refused__by_verbs_that_run_kernels,
                                        folder_setup, folder_teardown),
        cmocka_unit_test(tactics__that_nothing_asks_for__are_no_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
