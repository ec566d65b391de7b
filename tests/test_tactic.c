/* test_tactic.c: a forced choice is given to who asks for it, and one that nobody asks for is said.
 */
#include "core/tactic.h"

#include "tests/cli.h"

#include <stdio.h>
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
    cli_refuses(state, ((struct refusal){2, "option --tactic", "linear", "\"few\"", "whole8"}),
                "op", "linear", "--tactic", "linear=few");
    cli_refuses(state,
                ((struct refusal){2, "option --tactic", "router", "\"few\"", "sum16, block"}), "op",
                "router", "--tactic", "router=few");
    cli_refuses(state, ((struct refusal){2, "option --tactic", NULL, "\"mma\"", "WHAT=NAME"}), "op",
                "norm", "--tactic", "mma");
    cli_refuses(state, ((struct refusal){2, "bench collectives", "--tactic", "ranks", "ops"}),
                "bench", "collectives", "--tp", "2", "--tactic", "linear=any");
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

/* "mla.prefill=wgmma" of a line "CARDS TACTIC CASE" of the list; false at its end. */
static bool next_line(FILE *f, char cards[8], char tactic[TACTIC_TEXT])
{
    char line[512];
    while (fgets(line, sizeof line, f)) {
        char op[32], text[400];
        if (line[0] == '#') continue;
        assert_int_equal(sscanf(line, "%7s %63s %31s %399s", cards, tactic, op, text), 4);
        return true;
    }
    return false;
}

static bool list_has(const char *wanted)
{
    char cards[8], tactic[TACTIC_TEXT];
    bool found = false;
    FILE *f = fopen(ASSAY_SOURCE_DIR "/fixtures/gpu/tactics.txt", "r");
    assert_non_null(f);
    while (next_line(f, cards, tactic))
        found = found || (strcmp(tactic, wanted) == 0 && strcmp(cards, "no") != 0);
    fclose(f);
    return found;
}

/* What a refusal says that there is: "a, b, c" as words, the last of them NULL. */
static void split_names(char *text, char *names[32])
{
    int n = 0;
    while (*text && n < 31) {
        size_t length = strcspn(text, ",");
        char *next = text + length + strspn(text + length, ", ");
        text[length] = '\0';
        names[n++] = text;
        text = next;
    }
    names[n] = NULL;
}

/* Of each name that there is the list that ci/gpu.sh runs has a case which it serves. */
static void kernels__have_a_case_each__in_the_list_of_the_device(void **state)
{
    (void)state;
    struct err err;
    char *choices[32], *names[32], text[TACTIC_TEXT];
    int known = 0;
    err_clear(&err);
    tactic_clear();
    assert_int_equal(tactic_force("none=x", &err), ERR_USAGE);
    char *all = strstr(err.wanted, ": ");
    assert_non_null(all);
    split_names(all + 2, choices);
    for (int i = 0; choices[i]; i++) {
        struct err each;
        err_clear(&each);
        snprintf(text, sizeof text, "%s=none", choices[i]);
        assert_int_equal(tactic_force(text, &each), ERR_USAGE);
        split_names(each.wanted, names);
        for (int k = 0; names[k]; k++, known++) {
            snprintf(text, sizeof text, "%s=%s", choices[i], names[k]);
            if (!list_has(text)) print_error("%s: no case in fixtures/gpu/tactics.txt\n", text);
            assert_true(list_has(text));
        }
    }
    assert_true(known >= 24);
}

static void list_of_the_device__forces_only_what_there_is(void **state)
{
    (void)state;
    static const char *const cards_known[] = {"all", "9.0", "9.0+", "no"};
    char cards[8], tactic[TACTIC_TEXT];
    FILE *f = fopen(ASSAY_SOURCE_DIR "/fixtures/gpu/tactics.txt", "r");
    assert_non_null(f);
    while (next_line(f, cards, tactic)) {
        struct err err;
        int i = 0;
        err_clear(&err);
        tactic_clear();
        assert_int_equal(tactic_force(tactic, &err), ERR_OK);
        while (i < 4 && strcmp(cards_known[i], cards) != 0) i++;
        assert_true(i < 4);
    }
    fclose(f);
    tactic_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(choices__are_free__but_those_that_are_forced),
        cmocka_unit_test(texts__are_refused__that_force_nothing_or_twice),
        cmocka_unit_test_setup_teardown(tactics__are_refused__by_verbs_that_run_kernels,
                                        folder_setup, folder_teardown),
        cmocka_unit_test(tactics__that_nothing_asks_for__are_no_pass),
        cmocka_unit_test(kernels__have_a_case_each__in_the_list_of_the_device),
        cmocka_unit_test(list_of_the_device__forces_only_what_there_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
