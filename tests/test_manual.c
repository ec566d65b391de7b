/* test_manual.c: the manual pages: each verb and option of --help is in its page, what stands there
 * is what was meant, and man finds nothing to complain of. */
#include "harness/manual.h"

#include "harness/help.h"
#include "harness/page.h"
#include "tests/cli.h"
#include "tests/outside.h"

#include <stdlib.h>
#include <string.h>

static const char *pages(void **state)
{
    struct err err = ERR_INIT;
    const char *folder = folder_path(state, "man1");
    int64_t count = 0;
    int n = 0;
    assert_int_equal(manual_write(folder, &count, &err), ERR_OK);
    while (verb_at(n)) n++;
    assert_int_equal(count, n + 1);
    assert_int_equal(folder_count(folder), n + 1);
    return folder;
}

/* The text as a terminal would show it: no macros, no escapes. The caller's. */
static char *shown(const char *page)
{
    char *out = calloc(1, strlen(page) + 1), *to = out;
    assert_non_null(out);
    for (const char *p = page; *p; p++) {
        if (strncmp(p, "\\(ga", 4) == 0 || strncmp(p, "\\(aq", 4) == 0 ||
            strncmp(p, "\\(ti", 4) == 0 || strncmp(p, "\\(ha", 4) == 0) {
            *to++ = p[2] == 'g' ? '`' : p[2] == 'a' ? '\'' : p[2] == 't' ? '~' : '^';
            p += 3;
        } else if (strncmp(p, "\\fB", 3) == 0 || strncmp(p, "\\fR", 3) == 0) {
            p += 2;
        } else if (p[0] == '\\' && p[1] == '&') {
            p++;
        } else if (p[0] == '\\' && p[1] == 'e') {
            *to++ = '\\';
            p++;
        } else if (p[0] == '\\' && p[1] == '-') {
            *to++ = '-';
            p++;
        } else {
            *to++ = *p == '\n' ? ' ' : *p;
        }
    }
    return out;
}

/* Words of `text` are in `page`, in order and with nothing between them. */
static void assert_says(const char *page, const char *text, const char *what)
{
    char *one = calloc(1, strlen(text) + 1), *to = one;
    assert_non_null(one);
    for (const char *p = text; *p; p++) {
        const bool space = *p == ' ' || *p == '\n';
        if (space && to > one && to[-1] == ' ') continue;
        *to++ = space ? ' ' : *p;
    }
    if (!strstr(page, one)) fail_msg("%s: not there: %s", what, one);
    free(one);
}

static void page__holds_every_verb_and_option(void **state)
{
    const char *folder = pages(state);
    size_t size;
    char *all = read_whole(textf("%s/assay.1", folder), &size), *overview = shown(all);
    for (int i = 0; verb_at(i); i++) {
        const struct verb *v = verb_at(i);
        char *raw = read_whole(textf("%s/assay-%s.1", folder, v->name), &size), *page = shown(raw);
        char left[HELP_LEFT];
        assert_says(overview, v->about, "assay.1");
        assert_says(overview, textf(".B %s ", v->name), "assay.1");
        assert_says(page, v->usage, v->name);
        assert_says(page, v->about, v->name);
        if (v->details) assert_says(page, v->details, v->name);
        for (const struct option_row *o = v->options; o && o->name; o++) {
            assert_says(page, textf(".TP %s", help_left(o, left)), v->name);
            assert_says(page, o->help, v->name);
        }
        for (const struct option_row *o = options_common(); o->name; o++)
            assert_says(page, textf(".TP %s ", o->name), v->name);
        free(page);
        free(raw);
    }
    for (const struct help_variable *e = help_variables; e->name; e++)
        assert_says(overview, e->about, e->name);
    free(overview);
    free(all);
}

static void text__reaches_the_page_as_it_is(void **state)
{
    static const char *const rows[][2] = {
        {"a-b", "a\\-b\n"},
        {".dot", "\\&.dot\n"},
        {"'quote'", "\\&\\(aqquote\\(aq\n"},
        {"back\\slash", "back\\eslash\n"},
        {"one. Two", "one.\nTwo\n"},
        {"one. .two", "one.\n\\&.two\n"},
        {"WORD...  -- A... B", "WORD... \\-\\- A... B\n"},
        {"1.5 GB", "1.5 GB\n"},
        {"a\n    b", "a b\n"},
        {"`x` ~^", "\\(gax\\(ga \\(ti\\(ha\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *text = NULL;
        size_t size;
        FILE *f = open_memstream(&text, &size);
        manual_text(f, rows[i][0]);
        fclose(f);
        assert_string_equal(text, rows[i][1]);
        free(text);
    }
}

/* groff is what Debian's man calls; mandoc is the other reader there is. Where neither is
 * installed, nothing is proven here, and the output says so. */
static void page__raises_no_warning(void **state)
{
    const char *folder = pages(state), *log = folder_path(state, "log");
    bool asked = false;
    for (int i = -1; i < 0 || verb_at(i); i++) {
        const char *page =
            i < 0 ? textf("%s/assay.1", folder) : textf("%s/assay-%s.1", folder, verb_at(i)->name);
        const char *const readers[][8] = {
            {"groff", "-man", "-ww", "-Tascii", "-z", page, NULL},
            {"mandoc", "-T", "lint", "-W", "warning", page, NULL},
        };
        for (int r = 0; r < 2; r++) {
            int status;
            char *text = outside(readers[r], log, &status);
            if (!text) continue;
            asked = true;
            if (status || text[0]) fail_msg("%s: exit %d: %s", readers[r][0], status, text);
            free(text);
        }
    }
    if (!asked) print_message("neither groff nor mandoc is here: the pages were not read\n");
}

static void page__is_not_written__where_it_cannot_be(void **state)
{
    struct err err = ERR_INIT;
    int64_t count = 0;
    const char *file = folder_path(state, "file");
    write_text(file, "x");
    assert_int_not_equal(manual_write(file, &count, &err), ERR_OK);
    assert_int_equal(count, 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, folder_setup, folder_teardown)
    const struct CMUnitTest tests[] = {
        TEST(page__holds_every_verb_and_option),
        cmocka_unit_test(text__reaches_the_page_as_it_is),
        TEST(page__raises_no_warning),
        TEST(page__is_not_written__where_it_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
