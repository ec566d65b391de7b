/* test_lint_text.c: findings of lint on one screen: the verdict, rules by severity with their
 * remedy once, what is left out counted. */
#include "tests/reporting.h"

#include <stdlib.h>
#include <string.h>

#define COUNTS                                                                                     \
    "'counts': {'open': 4, 'python': 2, 'shell': 1, 'handlers': 9, 'calls': 8, 'commands': 7, "    \
    "'accepted': 1, 'notes': 1}"
#define FINDING(rule, severity, line, more)                                                        \
    "{'rule': '" rule "', 'severity': '" severity "', 'why': 'why " rule "', 'remedy': 'do " rule  \
    "', 'file': 'a.py', 'line': " line ", 'message': 'm" line "'" more "}"
#define HEAD                                                                                       \
    "FAIL: 4 findings in 2 Python and 1 shell files (9 handlers, 8 calls, 7 shell commands "       \
    "looked at), 1 accepted, 1 notes"

/* clang-format off */
static const char *const result =
    "{" COUNTS ", 'findings': ["
    FINDING("w", "warning", "1", ", 'function': 'f'") ", "
    FINDING("e", "error", "2", "") ", "
    FINDING("n", "note", "3", "") ", "
    FINDING("w", "warning", "4", "") ", "
    FINDING("w", "warning", "5", "") ", "
    FINDING("w", "warning", "6", ", 'accepted': 'meant'") "]}";
/* clang-format on */

/* The worst first; notes and what was accepted only where all is asked for. */
static void rules__come_by_severity_with_their_remedy_once(void **state)
{
    (void)state;
    char *text = said_of(report_lint_text, result, (struct text_view){.most = 40});
    assert_string_equal(text, HEAD "\n"
                                   "  e (error): why e; remedy: do e\n"
                                   "    a.py:2: m2\n"
                                   "  w (warning): why w; remedy: do w\n"
                                   "    a.py:1 f: m1\n"
                                   "    a.py:4: m4\n"
                                   "    a.py:5: m5\n");
    free(text);
    text = said_of(report_lint_text, result, (struct text_view){0});
    assert_string_equal(text, HEAD "\n"
                                   "  e (error): why e; remedy: do e\n"
                                   "    a.py:2: m2\n"
                                   "  w (warning): why w; remedy: do w\n"
                                   "    a.py:1 f: m1\n"
                                   "    a.py:4: m4\n"
                                   "    a.py:5: m5\n"
                                   "    a.py:6: m6 (accepted: meant)\n"
                                   "  n (note): why n; remedy: do n\n"
                                   "    a.py:3: m3\n");
    free(text);
}

/* Each rule has its share of the lines, three at the least: its head and two places. */
static void lines__are_shared_by_the_rules_and_the_rest_counted(void **state)
{
    (void)state;
    char *text = said_of(report_lint_text, result, (struct text_view){.most = 1});
    assert_non_null(
        strstr(text, "    a.py:1 f: m1\n    a.py:4: m4\n    and 1 more: --all shows them\n"));
    free(text);
    text = said_of(report_lint_text, result, (struct text_view){.most = 8}); /* four a rule */
    assert_non_null(strstr(text, "    a.py:5: m5\n"));
    assert_null(strstr(text, "more"));
    free(text);
}

static void places__that_could_not_be_read_are_red(void **state)
{
    char json[1024] = "{'counts': {'python': 1}, 'findings': [], 'unread': [";
    (void)state;
    for (int i = 1; i <= 6; i++) {
        size_t n = strlen(json);
        snprintf(json + n, sizeof json - n, "%s{'file': 'b.sh', 'line': %d, 'what': 'odd'}",
                 i > 1 ? ", " : "", i);
    }
    strncat(json, "]}", sizeof json - strlen(json) - 1);
    char *text = said_of(report_lint_text, json, (struct text_view){.most = 40});
    assert_int_equal(strncmp(text, "FAIL: 0 findings", 16), 0);
    assert_non_null(strstr(text, ", 6 places could not be read\n  not read: b.sh:1: odd\n"));
    assert_non_null(strstr(text, "b.sh:5: odd\n  and more that could not be read: --all"));
    assert_null(strstr(text, "b.sh:6"));
    free(text);
    text = said_of(report_lint_text, json, (struct text_view){0});
    assert_non_null(strstr(text, "  not read: b.sh:6: odd\n"));
    free(text);
    /* Nothing was looked at: that is no pass. */
    text = said_of(report_lint_text, "{'counts': {}}", (struct text_view){0});
    assert_int_equal(strncmp(text, "FAIL: 0 findings in 0 Python", 28), 0);
    free(text);
    text = said_of(report_lint_text, "{'counts': {'shell': 1}}", (struct text_view){0});
    assert_int_equal(strncmp(text, "PASS: ", 6), 0);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules__come_by_severity_with_their_remedy_once),
        cmocka_unit_test(lines__are_shared_by_the_rules_and_the_rest_counted),
        cmocka_unit_test(places__that_could_not_be_read_are_red),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
