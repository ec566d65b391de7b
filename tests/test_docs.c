/* test_docs.c: ci/docs.sh, which runs what the pages document, goes red on what is wrong in a page.
 * That the pages themselves hold is the ctest `docs`. */
#include "tests/cli.h"
#include "tests/outside.h"

#include <stdlib.h>
#include <string.h>

/* Runs the script on one page; *text (the caller's) is what it said on both streams. */
static int checked(void **state, const char *page, char **text)
{
    const char *path = folder_path(state, "page.md"), *log = folder_path(state, "log");
    const char *const argv[] = {"bash", ASSAY_SOURCE_DIR "/ci/docs.sh", ASSAY_PROGRAM, path, NULL};
    int status;
    write_text(path, page);
    *text = outside(argv, log, &status);
    assert_non_null(*text);
    return status;
}

#define CASE "assay op norm T=2,H=8"
#define GREEN "```sh\n" CASE "\n```\n"

static void page__is_green__when_all_of_it_holds(void **state)
{
    static const char page[] =
        "Text with `assay op`, `--sweep`, `core/tap.h` and `core/NAME.h`.\n\n" GREEN
        "<!-- not run: needs a GPU -->\n```sh\nassay op norm --sweep --on gpu\n```\n"
        "```sh\nN=2\n" CASE ",fault=norm.eps   # exit 1: red\ntest $N = 2\n```\n"
        "```console\n$ assay op norm \\\n  T=2,H=8\nnorm T=2,...\n$ printf "
        "'a\\nb\\nc\\n'\na\n...\nc\n"
        "$ true\n```\n```yaml\nassay: 1\n```\n";
    char *text;
    if (checked(state, page, &text) != 1) fail_msg("%s", text); /* one line is missing above */
    assert_non_null(strstr(text, "other output than the page shows: assay op norm"));
    free(text);
    char *whole = replaced(page, "norm T=2,...\n", "norm T=2,...\n1 passed, ...\n");
    if (checked(state, whole, &text) != 0) fail_msg("%s", text);
    assert_non_null(strstr(text, "docs: not run: 1 needs a GPU\n"));
    assert_non_null(strstr(text, "docs: 1 pages, 7 commands run, 1 not run, 0 wrong\n"));
    free(whole);
    free(text);
}

static void page__is_red__on_each_mistake(void **state)
{
    static const char *const rows[][2] = {
        {"```sh\n" CASE ",fault=norm.eps\n```\n", "page.md:2: exit 1, wanted 0: assay op norm"},
        {"```sh\n" CASE " # exit 1\n```\n", "page.md:2: exit 0, wanted 1"},
        {"```sh\nfalse || true\nnone-such-program\n```\n", "page.md:3: exit 127"},
        {"```console\n$ echo a\nb\n```\n", "page.md:2: other output"},
        {"```console\n$ echo a\n```\n", "page.md:2: other output"},
        {"```console\n$ echo a\na\nb\n```\n", "page.md:2: other output"},
        {"```console\n$ printf 'a\\nb\\n'\n...\na\n```\n", "page.md:2: other output"},
        {"<!-- not run: why -->\n```sh\nassay op norm --sweeep\n```\n" GREEN,
         "page.md:3: assay op has no --sweeep"},
        {"<!-- not run: why -->\n```sh\nassay opp norm\n```\n" GREEN, "page.md:3: no verb opp"},
        {"    assay op norm\n" GREEN, "page.md:1: a command outside a fence"},
        {"```text\nassay op norm\n```\n" GREEN, "page.md:2: a command outside a fence"},
        {"```sh\n" CASE "\n", "a fence that does not end"},
        {"[a](none.md)\n" GREEN, "a link to none.md"},
        {"`core/none.h`\n" GREEN, "names core/none.h"},
        {"`assay opp`\n" GREEN, "no verb opp"},
        {"`--sweeep`\n" GREEN, "no verb has --sweeep"},
        {"Nothing to run.\n", "0 commands run"},
        {"<!-- not run: all of it -->\n" GREEN, "0 commands run"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *text;
        if (checked(state, rows[i][0], &text) != 1 || !strstr(text, rows[i][1]))
            fail_msg("\"%s\" should say \"%s\": %s", rows[i][0], rows[i][1], text);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(page__is_green__when_all_of_it_holds, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(page__is_red__on_each_mistake, folder_setup,
                                        folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
