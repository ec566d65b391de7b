/* test_help.c: --help, `assay help` and its JSON: every verb, every option, no line wider than the
 * terminal. */
#include "harness/help.h"

#include "harness/terminal.h"
#include "tests/cli.h"

#include <pty.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static char *help_of(const struct verb *v, int columns)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    assert_non_null(f);
    if (v)
        help_verb(v, f, columns);
    else
        help_overview(f, columns);
    fclose(f);
    return text;
}

/* Length of the longest line that could have been broken: one of more than one word behind its
 * indent. */
static int longest(const char *text)
{
    int most = 0;
    for (const char *p = text; *p; p += strcspn(p, "\n") + 1) {
        const size_t n = strcspn(p, "\n"), indent = strspn(p, " ");
        const bool one_word = strcspn(p + indent, " \n") + indent >= n;
        if (!one_word && (int)n > most) most = (int)n;
    }
    return most;
}

static void help__names_every_verb_and_option(void **state)
{
    (void)state;
    char *all = help_of(NULL, HELP_COLUMNS);
    for (int i = 0; verb_at(i); i++) {
        const struct verb *v = verb_at(i);
        char left[HELP_LEFT], *text = help_of(v, HELP_COLUMNS);
        assert_non_null(strstr(all, textf("  assay %s ", v->name)));
        for (const struct option_row *o = v->options; o && o->name; o++) {
            if (!strstr(text, textf("\n  %s", help_left(o, left))))
                fail_msg("assay %s --help: no %s", v->name, left);
        }
        for (const struct option_row *o = options_common(); o->name; o++)
            assert_non_null(strstr(text, textf("\n  %s", o->name)));
        free(text);
    }
    free(all);
}

static void left__shows_what_a_value_is__and_how_it_is_given(void **state)
{
    static const struct option_row rows[] = {{"--count", "N", "", false},
                                             {"--bless", "=show|write", "", false},
                                             {"--sweep", NULL, "", false}};
    static const char *const wanted[] = {"--count N", "--bless=show|write", "--sweep"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        char left[HELP_LEFT];
        assert_string_equal(help_left(&rows[i], left), wanted[i]);
    }
}

static void help__of_a_verb__is_what_its_option_prints(void **state)
{
    (void)state;
    for (int i = 0; verb_at(i); i++) {
        struct cli r, again;
        cli(&r, verb_at(i)->name, "--help");
        cli(&again, "help", verb_at(i)->name);
        assert_int_equal(r.status, 0);
        assert_int_equal(again.status, 0);
        assert_string_equal(r.out, again.out);
        cli_free(&r);
        cli_free(&again);
    }
}

/* What --help shows of a verb is one line; more stands in `details`. */
static void about__is_one_short_line(void **state)
{
    (void)state;
    for (int i = 0; verb_at(i); i++) {
        const struct verb *v = verb_at(i);
        const size_t n = strlen(v->about);
        if (n > 82) fail_msg("%s: about has %zu characters, at most 82", v->name, n);
        if (v->about[n - 1] == '.' || strstr(v->about, ". "))
            fail_msg("%s: about is more than a line: details are for sentences", v->name);
        for (const struct option_row *o = v->options; o && o->name; o++) {
            assert_true(o->help[0] != '\0');
            if (o->repeat && !strstr(o->help, "may be repeated"))
                fail_msg("%s %s may be repeated and does not say so", v->name, o->name);
        }
    }
}

static void help__is_no_wider_than_the_terminal(void **state)
{
    static const int widths[] = {40, 57, 58, 72, 80, 100};
    (void)state;
    for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
        for (int i = -1; i < 0 || verb_at(i); i++) {
            char *text = help_of(i < 0 ? NULL : verb_at(i), widths[w]);
            /* The left of an option stays whole, whatever its length. */
            if (i < 0 || widths[w] >= 72) assert_in_range(longest(text), 1, widths[w]);
            free(text);
        }
    }
}

static void columns__are_those_of_the_terminal(void **state)
{
    static const struct {
        unsigned short has;
        int wanted;
    } rows[] = {
        {80, 80}, {57, 57}, {5, TERMINAL_COLUMNS_LEAST}, {0, HELP_COLUMNS}, {250, HELP_COLUMNS}};
    int leader, terminal;
    (void)state;
    assert_int_equal(openpty(&leader, &terminal, NULL, NULL, NULL), 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct winsize size = {.ws_row = 24, .ws_col = rows[i].has};
        assert_int_equal(ioctl(leader, TIOCSWINSZ, &size), 0);
        assert_int_equal(help_columns(terminal), rows[i].wanted);
    }
    close(leader);
    close(terminal);
    assert_int_equal(help_columns(-1), HELP_COLUMNS);
}

static void fill__breaks_between_words__and_keeps_long_ones(void **state)
{
    static const struct {
        const char *text;
        int at, indent, columns;
        const char *wanted;
    } rows[] = {
        {"a b c", 0, 0, 3, "a b\nc\n"},         {"a b c", 2, 2, 5, "a b\n  c\n"},
        {"aa\n   bb", 0, 1, 5, "aa bb\n"},      {"aa bb", 0, 1, 4, "aa\n bb\n"},
        {"longest a", 0, 0, 3, "longest\na\n"}, {"", 4, 4, 10, "\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *text = NULL;
        size_t size;
        FILE *f = open_memstream(&text, &size);
        help_fill(f, rows[i].text, rows[i].at, rows[i].indent, rows[i].columns);
        fclose(f);
        assert_string_equal(text, rows[i].wanted);
        free(text);
    }
}

static void json__has_the_table(void **state)
{
    (void)state;
    json_t *r = cli_passes("help"), *one = cli_passes("help", "bench");
    const json_t *verbs = field(r, "verbs");
    int n = 0;
    while (verb_at(n)) n++;
    assert_int_equal(json_array_size(verbs), n);
    const json_t *op = named(verbs, "op"), *sweep = named(field(op, "options"), "--sweep");
    assert_true(json_is_null(field(sweep, "metavar")));
    assert_string_equal(field_text(named(field(op, "options"), "--count"), "metavar"), "N");
    assert_int_equal(json_array_size(field(one, "verbs")), 1);
    assert_string_equal(field_text(json_array_get(field(one, "verbs"), 0), "name"), "bench");
    json_decref(one);
    json_decref(r);
}

static void word__is_refused__when_no_verb(void **state)
{
    cli_refuses(state, ((struct refusal){2, "help", "assay", "\"forwrad\"", "a verb"}), "help",
                "forwrad");
    cli_refuses(state, ((struct refusal){2, "help", "--man", "\"op\"", "no word"}), "help", "op",
                "--man", "x");
}

static void exits__are_those_of_the_errors(void **state)
{
    (void)state;
    assert_null(help_exit(-1));
    for (int i = 0; i < ERR_COUNT; i++) assert_non_null(help_exit(err_exit((enum err_code)i)));
    assert_null(help_exit(5));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help__names_every_verb_and_option),
        cmocka_unit_test(left__shows_what_a_value_is__and_how_it_is_given),
        cmocka_unit_test(help__of_a_verb__is_what_its_option_prints),
        cmocka_unit_test(about__is_one_short_line),
        cmocka_unit_test(help__is_no_wider_than_the_terminal),
        cmocka_unit_test(columns__are_those_of_the_terminal),
        cmocka_unit_test(fill__breaks_between_words__and_keeps_long_ones),
        cmocka_unit_test(json__has_the_table),
        cmocka_unit_test_setup_teardown(word__is_refused__when_no_verb, folder_setup,
                                        folder_teardown),
        cmocka_unit_test(exits__are_those_of_the_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
