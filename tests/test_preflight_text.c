/* test_preflight_text.c: the page of preflight: the verdict with the minutes, findings, gaps, what
 * was looked at and what was not. */
#include "tests/reporting.h"

#include <stdlib.h>
#include <string.h>

#define LOAD "'load': {'minutes': 18, 'from': 'load_minutes of the plan'}"

static void page__has_all_its_parts(void **state)
{
    (void)state;
    char *text = said_of(
        report_preflight_text,
        "{'plan': 'p.yaml', 'minutes': 29.84, " LOAD ", 'counts': {'errors': 2, 'warnings': 1, "
        "'notes': 3, 'undecidable': 1, 'not_checked': 1}, 'findings': ["
        "{'rule': 'contract.call', 'severity': 'error', 'minutes': 18, 'strikes': 'after the "
        "load', 'file': 'c.py', 'line': 21, 'function': 'take', 'symbol': 'vllm.Scheduler', "
        "'message': 'breaks now', 'found': '()', 'wanted': '(a)', 'remedy': 'pass a'}, "
        "{'rule': 'layers.serving', 'severity': 'error', 'minutes': null, 'strikes': 'never: what "
        "is written is wrong', 'file': 'p.yaml', 'line': 0, 'message': 'out of order'}, "
        "{'rule': 'contract.attr', 'severity': 'warning', 'verdict': 'undecidable', 'minutes': "
        "0.5, "
        "'strikes': 'at the start', 'file': 'c.py', 'line': 3, 'message': 'untyped'}], "
        "'not_checked': [{'check': 'device', 'why': 'no device here', 'remedy': 'say target'}], "
        "'checks': [{'check': 'config', 'state': 'checked', 'about': 'tiny'}, {'check': 'ranks', "
        "'state': 'not asked', 'about': 'no tp'}, {'check': 'disk', 'state': 'checked', 'about': "
        "'room'}]}",
        (struct text_view){0});
    assert_string_equal(
        text, "FAIL: p.yaml: 2 errors, 1 warnings, 3 notes, 1 that cannot be told; 1 NOT CHECKED\n"
              "a load: 18.0 min (load_minutes of the plan); the errors, met one by one: at least "
              "29.8 min\n"
              "  error    18.0 min  after the load  contract.call  c.py:21 take vllm.Scheduler\n"
              "      breaks now\n"
              "      found   ()\n"
              "      wanted  (a)\n"
              "      remedy  pass a\n"
              "  error       ? min  never           layers.serving  p.yaml\n"
              "      out of order\n"
              "  unknown   0.5 min  at the start    contract.attr  c.py:3\n"
              "      untyped\n"
              "NOT CHECKED\n"
              "  device      no device here\n"
              "      remedy  say target\n"
              "looked at\n"
              "  config      tiny\n"
              "  disk        room\n"
              "not asked\n"
              "  ranks       no tp\n");
    free(text);
}

static void findings__past_the_most_are_counted(void **state)
{
    char json[2048] = "{'counts': {'errors': 5}, 'findings': [";
    (void)state;
    for (int i = 0; i < 5; i++) {
        size_t n = strlen(json);
        snprintf(json + n, sizeof json - n, "%s{'rule': 'r', 'message': 'm%d'}", i ? ", " : "", i);
    }
    strncat(json, "]}", sizeof json - strlen(json) - 1);
    char *text = said_of(report_preflight_text, json, (struct text_view){.most = 3});
    assert_non_null(strstr(text, "m2\n  and 2 more: --all shows them\n"));
    assert_null(strstr(text, "m3"));
    free(text);
    text = said_of(report_preflight_text, json, (struct text_view){.most = 5});
    assert_non_null(strstr(text, "m4\n"));
    assert_null(strstr(text, "more"));
    free(text);
}

/* A gap alone is no pass. */
static void verdict__is_red_for_each_of_its_counts(void **state)
{
    static const struct {
        const char *counts, *head;
    } rows[] = {
        {"'notes': 4, 'undecidable': 2", "\x1b[32mPASS\x1b[0m: p: 0 errors"},
        {"'errors': 1", "\x1b[31mFAIL\x1b[0m: p: 1 errors"},
        {"'warnings': 1", "\x1b[31mFAIL\x1b[0m: p: 0 errors, 1 warnings"},
        {"'not_checked': 1", "\x1b[31mFAIL\x1b[0m: p: 0 errors"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char json[256];
        snprintf(json, sizeof json, "{'plan': 'p', " LOAD ", 'counts': {%s}}", rows[i].counts);
        char *text = said_of(report_preflight_text, json, (struct text_view){.colour = true});
        assert_int_equal(strncmp(text, rows[i].head, strlen(rows[i].head)), 0);
        assert_int_equal(strstr(text, "met one by one") != NULL, i == 1);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(page__has_all_its_parts),
        cmocka_unit_test(findings__past_the_most_are_counted),
        cmocka_unit_test(verdict__is_red_for_each_of_its_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
