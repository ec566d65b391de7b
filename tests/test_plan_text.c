/* test_plan_text.c: a plan's result on one screen: the verdict with its counts, a line a step, what
 * went as it should left out first, goldens that were blessed. */
#include "tests/reporting.h"

#include <stdlib.h>
#include <string.h>

#define STEPS                                                                                      \
    "{'name': 'truth', 'kind': 'forward', 'verdict': 'pass', 'result': {'taps': 82, 'rows': 48, "  \
    "'profile': 'math'}}, "                                                                        \
    "{'name': 'd', 'kind': 'diff', 'verdict': 'pass', 'expected': 'fail', 'result': {'taps': [], " \
    "'compared': 5, 'failed': 2, 'unchecked': ['a'], 'first': {'tap': 'x', 'op': 'moe', 'layer': " \
    "1, 'row': 3}}, 'note': 'mind'}, "                                                             \
    "{'name': 'e', 'kind': 'diff', 'verdict': 'fail', 'expected': 'pass', 'why': '2 differ', "     \
    "'result': {'taps': [], 'compared': 5, 'failed': 2, 'first': {'tap': 'x', 'op': 'norm', "      \
    "'layer': -1, 'row': -1}}}, "                                                                  \
    "{'name': 'o', 'kind': 'diff', 'verdict': 'error', 'why': 'stopped', 'result': {'compared': "  \
    "0}, 'error': {'what': 'read', "                                                               \
    "'where': 'a.bin'}}, "                                                                         \
    "{'name': 'g', 'kind': 'generate', 'verdict': 'pass', 'result': {'tokens': [1, 2, 3]}}, "      \
    "{'name': 'p', 'kind': 'op', 'verdict': 'pass', 'result': {'passed': 3, 'failed': 1, "         \
    "'not_implemented': 2}}, "                                                                     \
    "{'name': 's', 'kind': 'forward', 'verdict': 'skipped', 'why': 'no gpu'}, "                    \
    "{'name': 'n', 'kind': 'forward', 'verdict': 'not run', 'why': 'after an error'}"
#define COUNTS                                                                                     \
    "'plan': 'a.yaml', 'passed': 3, 'failed': 2, 'skipped': 1, 'compared': 10, "                   \
    "'compared_at_least': 4"

static void steps__have_a_line_each(void **state)
{
    (void)state;
    char *text = said_of(report_plan_text,
                         "{'verdict': 'error', " COUNTS ", 'why': ['too few'], 'preflight': "
                         "'not looked at', 'steps': [" STEPS "]}",
                         (struct text_view){0});
    assert_string_equal(
        text,
        "ERROR: a.yaml: 3 of 8 steps as expected, 2 not, 1 skipped; 10 compared (at least 4 "
        "wanted)\n"
        "too few\n"
        "preflight: not looked at\n"
        "  ok    truth            forward  82 taps of 48 rows, profile math\n"
        "  ok    d                diff     5 taps compared, 2 differ, 1 unchecked; first: x (op "
        "moe, layer 1, row 3); as expected: fail\n"
        "        note: mind\n"
        "  FAIL  e                diff     5 taps compared, 2 differ, 0 unchecked; first: x (op "
        "norm); expected: pass; 2 differ\n"
        "  ERROR o                diff     stopped [read: a.bin]\n"
        "  ok    g                generate 3 tokens\n"
        "  ok    p                op       3 cases passed, 1 failed, 2 not implemented\n"
        "  skip  s                forward  no gpu\n"
        "  -     n                forward  after an error\n");
    free(text);
}

/* On a short screen: what did not pass, the rest counted. */
static void steps__as_expected_are_left_out_first(void **state)
{
    (void)state;
    const char *json = "{'verdict': 'fail', " COUNTS ", 'steps': [" STEPS "]}";
    char *text = said_of(report_plan_text, json, (struct text_view){.most = 7});
    assert_int_equal(strncmp(text, "FAIL: a.yaml", 12), 0);
    assert_null(strstr(text, "  ok "));
    assert_int_equal(times(text, "\n  FAIL "), 1);
    assert_int_equal(times(text, "\n  skip "), 1);
    assert_non_null(strstr(text, "after an error\n  ... and 4 as expected\n"));
    free(text);
    text = said_of(report_plan_text, json, (struct text_view){.most = 8});
    assert_int_equal(times(text, "\n  ok "), 4);
    assert_null(strstr(text, "... and"));
    free(text);
}

static void goldens__say_what_changed_and_whether_they_were_written(void **state)
{
    static const char *const json =
        "{'verdict': 'pass', " COUNTS ", 'steps': [], 'blessed': ["
        "{'golden': 'g1', 'fresh': true, 'written': true, 'changes': 1, 'meta': [{'key': "
        "'assay.engine', 'old': '', 'new': 'mine 2'}], 'taps': [{'name': 'embed', 'change': "
        "'differs', 'rel_rms': 0.25}, {'name': 'logits', 'change': 'differs', 'rel_rms': 'inf'}, "
        "{'name': 'q', 'change': 'new'}]}, "
        "{'golden': 'g2', 'changes': 0, 'meta': [], 'taps': []}, "
        "{'golden': 'g3', 'changes': 2, 'meta': [], 'taps': [TAPS]}]}";
    char taps[1024] = "";
    (void)state;
    for (int i = 0; i < 14; i++)
        strncat(taps, i ? ", {'name': 't', 'change': 'gone'}" : "{'name': 't', 'change': 'gone'}",
                sizeof taps - strlen(taps) - 1);
    char *with = replaced(json, "TAPS", taps);
    char *text = said_of(report_plan_text, with, (struct text_view){.most = 40});
    assert_non_null(strstr(text,
                           "golden g1: new, 3 taps differ, 1 facts of its origin: recorded\n"
                           "  assay.engine: \"\" -> \"mine 2\"\n"
                           "  embed                          differs, rel RMS 0.25\n"
                           "  logits                         differs, rel RMS inf\n"
                           "  q                              new\n"
                           "golden g2: 0 taps differ, 0 facts of its origin: as it is\n"
                           "golden g3: 14 taps differ, 0 facts of its origin: not recorded\n"));
    assert_int_equal(times(text, "\n  t  "), 12);
    assert_non_null(strstr(text, "  ... and 2 more\n"));
    free(text);
    text = said_of(report_plan_text, with, (struct text_view){0});
    assert_int_equal(times(text, "\n  t  "), 14);
    assert_null(strstr(text, "... and"));
    free(text);
    free(with);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps__have_a_line_each),
        cmocka_unit_test(steps__as_expected_are_left_out_first),
        cmocka_unit_test(goldens__say_what_changed_and_whether_they_were_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
