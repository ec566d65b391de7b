/* test_report_text.c: a recorded result as text: verdict first, place, bound, names; nothing but
 * ASCII and no colour where none is asked for. */
#include "reports/text.h"

#include "reports/guard_text.h"
#include "tests/reporting.h"

#include <stdlib.h>
#include <string.h>

static char *render(const char *json, bool colour, int rows)
{
    char *text = NULL;
    size_t size = 0;
    json_t *r = json_loads(json, 0, NULL);
    assert_non_null(r);
    FILE *f = open_memstream(&text, &size);
    assert_non_null(f);
    report_diff_text(r, f, (struct text_view){.colour = colour, .most = rows});
    fclose(f);
    json_decref(r);
    return text;
}

static const char *const failing =
    "{\"verdict\": \"fail\", \"compared\": 2, \"failed\": 1, \"unchecked\": [\"logits\"], "
    "\"profile\": \"hf4\","
    " \"profile_how\": \"as asked\", \"first\": {\"tap\": \"layers.1.mlp\", \"op\": \"moe\", "
    "\"layer\": 1, \"row\": 3, \"col\": 7},"
    " \"taps\": [{\"name\": \"embed\", \"op\": \"embed\", \"verdict\": \"pass\", \"rel_rms\": 0.0, "
    "\"bound\": 1e-3,"
    " \"bound_from\": \"user\", \"max_abs\": 0.0, \"worst\": null, \"why\": \"\"},"
    " {\"name\": \"layers.1.mlp\", \"op\": \"moe\", \"verdict\": \"fail\", \"rel_rms\": \"inf\", "
    "\"bound\": 1e-3,"
    " \"bound_from\": \"user: --bound\", \"max_abs\": 2.5, \"worst\": {\"row\": 3, \"col\": 7, "
    "\"subject\": \"nan\","
    " \"truth\": 0.5}, \"why\": \"1 cells are NaN\"}],"
    " \"flips\": [{\"layer\": 1, \"row\": 4, \"gap\": 0.5, \"allowed\": 0.01, \"certified\": "
    "false},"
    " {\"layer\": 1, \"row\": 5, \"gap\": 0.001, \"allowed\": 0.01, \"certified\": true}],"
    " \"missing\": [\"logits\"], \"extra\": [], \"promised\": [\"logits\"], \"note\": \"mind "
    "this\"}";

static void report__says_verdict_place_and_bound__of_a_failure(void **state)
{
    (void)state;
    static const char *const wanted[] = {
        "FAIL: 2 taps compared, 1 differ, 1 unchecked; profile hf4, as asked\n",
        "first divergence: layers.1.mlp (op moe, layer 1, row 3, column 7)\n",
        "bound: user: --bound\n",
        "worst element: row 3, column 7: subject nan, truth 0.5\n",
        "router: 2 rows chose other experts, 1 certified as near ties\n",
        "layer 1, row 4: gap 0.5, score errors allow 0.01\n",
        "promised or required, and absent (1): logits\n",
        "note: mind this\n",
    };
    char *text = render(failing, false, 12);
    assert_int_equal(strncmp(text, "FAIL", 4), 0);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        if (!strstr(text, wanted[i])) fail_msg("not in the report: %s\n%s", wanted[i], text);
    }
    for (const char *p = text; *p; p++)
        assert_true((unsigned char)*p < 0x7f && (*p >= ' ' || *p == '\n'));
    assert_null(strstr(text, "\nembed"));
    free(text);
    text = render(failing, false, 0);
    assert_non_null(strstr(text, "\nembed"));
    free(text);
}

/* One screen: the result has them all. */
static void report__shows_a_few_flips__and_counts_the_rest(void **state)
{
    (void)state;
    json_t *r = json_loads(failing, 0, NULL), *flips = json_object_get(r, "flips");
    for (int i = 0; i < 20; i++)
        json_array_append_new(flips, json_pack("{s:i, s:i, s:f, s:f, s:b}", "layer", 2, "row", i,
                                               "gap", 0.5, "allowed", 0.01, "certified", i == 3));
    char *json = json_dumps(r, 0), *text = render(json, false, 12);
    assert_non_null(strstr(text, "router: 22 rows chose other experts, 2 certified"));
    assert_non_null(strstr(text, "  layer 2, row 7: gap")); /* 1 above, row 3 is certified */
    assert_null(strstr(text, "  layer 2, row 8: gap"));
    assert_non_null(strstr(text, "  ... and 12 more\n"));
    free(text);
    text = render(json, false, 0);
    assert_non_null(strstr(text, "  layer 2, row 19: gap"));
    assert_null(strstr(text, "more\n"));
    free(text);
    free(json);
    json_decref(r);
}

static void report__uses_colour__only_when_asked(void **state)
{
    (void)state;
    char *text = render(failing, true, 12);
    assert_int_equal(strncmp(text, "\x1b[31mFAIL\x1b[0m", 12), 0);
    free(text);
}

/* A terminal obeys what the name of a tensor may hold. */
static void report__writes_controls_out__of_hostile_names(void **state)
{
    (void)state;
    json_t *r = json_loads(failing, 0, NULL);
    json_t *tap = json_array_get(json_object_get(r, "taps"), 1);
    json_object_set_new(json_object_get(r, "first"), "tap", json_string("a\x1b[2J\r\xE2\x80\xAE<"));
    json_object_set_new(tap, "name", json_string("a\x1b[2J\r\xE2\x80\xAE<\xC3\xA9"));
    char *json = json_dumps(r, 0), *text = render(json, false, 0);
    assert_non_null(strstr(text, "first divergence: a\\x1b[2J\\x0d\\u202e< (op moe"));
    assert_non_null(strstr(text, "\na\\x1b[2J\\x0d\\u202e<\xC3\xA9 "));
    for (const char *p = text; *p; p++) assert_true((unsigned char)*p >= ' ' || *p == '\n');
    free(json);
    free(text);
    json_decref(r);
}

/* The same of every verb's text, wherever the name stands; what a text does not show is not said.
 */
static void every_report__writes_controls_out(void **state)
{
    static const struct {
        text_report *report;
        const char *json;
    } rows[] = {
        {report_diff_text, "{'missing': ['%'], 'profile': '%', 'note': '%'}"},
        {report_inspect_text,
         "{'kind': '%', 'problems': [{'what': '%', 'where': '%', 'found': '%', 'wanted': '%'}]}"},
        {report_check_text,
         "{'consumer': {'name': '%'}, 'library': {'name': '%'}, 'findings': [{'verdict': 'broken', "
         "'file': '%', 'symbol': '%', 'why': '%', 'severity': 'breaks now', 'found': '%'}]}"},
        {report_lint_text,
         "{'findings': [{'rule': 'handler.log', 'severity': 'error', 'file': '%', "
         "'function': '%', 'message': '%'}], 'unread': [{'file': '%'}]}"},
        {report_preflight_text,
         "{'plan': '%', 'findings': [{'rule': 'lint', 'severity': 'error', 'file': '%', 'message': "
         "'%', 'remedy': '%'}], 'checks': [{'state': 'checked', 'check': '%'}]}"},
        {report_plan_text, "{'plan': '%', 'verdict': 'fail', 'why': ['%'], 'steps': [{'verdict': "
                           "'fail', 'name': '%', 'kind': 'op', 'why': '%', 'result': {}}]}"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char json[512];
        size_t marks = 0, seen = 0, n = 0;
        for (const char *p = rows[i].json; *p; p++) {
            const char one[2] = {*p, '\0'};
            marks += *p == '%';
            n += (size_t)snprintf(json + n, sizeof json - n, "%s", *p == '%' ? "a\\u001b[2J" : one);
        }
        char *text = said_of(rows[i].report, json, (struct text_view){0});
        for (const char *p = text; (p = strstr(p, "a\\x1b[2J")); p++) seen++;
        if (seen != marks) fail_msg("%zu of %zu names in the report: %s", seen, marks, text);
        assert_null(strchr(text, '\x1b'));
        free(text);
    }
}

/* What a program raised and what its variables held is shown by guard. */
static void guard__writes_controls_out(void **state)
{
    char *text = NULL;
    size_t size = 0;
    (void)state;
    json_t *r = quoted(
        "{'lost': 1, 'command_exit': 0, 'findings': [{'rule': 'swallowed', 'line': 3, 'type': "
        "'E', 'message': 'a\\u001b[2J', 'file': 'a\\u001b[2J', 'function': "
        "'a\\u001b[2J', 'locals': {'f': {'x': 'a\\u001b[2J'}}}]}");
    FILE *f = open_memstream(&text, &size);
    assert_non_null(f);
    guard_text_print(f, r);
    fclose(f);
    assert_int_equal(strncmp(text, "assay guard: FAIL: 1 lost; the command's exit", 45), 0);
    assert_int_equal(times(text, "a\\x1b[2J"), 4);
    assert_null(strchr(text, '\x1b'));
    free(text);
    json_decref(r);
}

/* With what is wrong behind it the row has 87 columns. */
static void report__keeps_the_table__to_the_columns(void **state)
{
    static const char *const row = "layers.1.mlp             moe              inf     0.001       "
                                   "2.5 fail";
    (void)state;
    for (int columns = 86; columns <= 88; columns++) {
        char *text = NULL;
        size_t size = 0;
        json_t *r = json_loads(failing, 0, NULL);
        FILE *f = open_memstream(&text, &size);
        assert_non_null(f);
        report_diff_text(r, f, (struct text_view){.columns = columns, .most = 12});
        fclose(f);
        json_decref(r);
        char wanted[128];
        snprintf(wanted, sizeof wanted, "\n%s%s1 cells are NaN\n", row,
                 columns < 87 ? "\n    " : ": ");
        if (!strstr(text, wanted)) fail_msg("not in the report: %s\n%s", wanted, text);
        free(text);
    }
}

static void report__says_that_nothing_was_compared(void **state)
{
    (void)state;
    char *text = render("{\"verdict\": \"fail\", \"compared\": 0, \"failed\": 0, \"first\": null}",
                        false, 12);
    assert_non_null(strstr(text, "never a pass"));
    free(text);
}

static const char *const diagnosed =
    "{\"verdict\": \"fail\", \"compared\": 2, \"failed\": 1, \"first\": null, \"guilty\": "
    "{\"tap\": "
    "\"layers.0.output\", \"op\": \"mlp\", \"layer\": 0, \"rank\": null, \"span\": [\"norm\", "
    "\"mlp\"], \"rebuilt_from\": [\"embed\"], \"rebuilt\": true}, \"replay\": \"assay op mlp "
    "'T=2'\", FIELDS}";

static void assert_says(const char *fields, const char *const *wanted)
{
    char *json = replaced(diagnosed, "FIELDS", fields);
    char *text = render(json, false, 12);
    free(json);
    for (int i = 0; wanted[i]; i++) {
        if (!strstr(text, wanted[i])) fail_msg("not in the report: %s\n%s", wanted[i], text);
    }
    free(text);
}

static void report__names_what_explains_the_guilty_op__or_shows_its_shape(void **state)
{
    (void)state;
    assert_says(
        "\"diagnosis\": [{\"fault\": \"a.b\", \"site\": \"layer=0\", \"explains\": 0.9995, "
        "\"with\": {\"fault\": \"c.d\", \"site\": \"\"}}], \"inject\": [\"a.b@layer=0 + c.d\"], "
        "\"hypotheses\": []",
        (const char *const[]){
            "guilty: op mlp, layer 0, from the subject's own inputs\n",
            "  inputs that were not dumped were rebuilt: from embed; over ops norm, mlp\n",
            "diagnosis: a.b@layer=0 and c.d, explains 0.9995 of the squared error\n",
            "replay: assay op mlp 'T=2'\n", "inject: a.b@layer=0 + c.d\n", NULL});
    assert_says(
        "\"diagnosis\": [{\"fault\": \"a.b\", \"site\": \"\", \"explains\": 1}, {\"fault\": "
        "\"e.f\", \"site\": \"row=3\", \"explains\": 1}], \"inject\": [\"a.b\", \"e.f@row=3\"]",
        (const char *const[]){"diagnosis: one of 2 that cannot be told apart here:\n  a.b, ",
                              "\n  e.f@row=3, explains 1 ", "inject: a.b, e.f@row=3\n", NULL});
    assert_says(
        "\"diagnosis\": [], \"inject\": [], \"hypotheses\": [{\"fault\": \"a.b\", "
        "\"explains\": 0.25}, {\"fault\": \"e.f\", \"explains\": 0}], \"shape\": {\"text\": "
        "\"half of it\"}",
        (const char *const[]){
            "diagnosis: none of 2 known faults explains it; the nearest, a.b, 0.25 of the "
            "squared error\n  shape: half of it\n",
            NULL});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(report__says_verdict_place_and_bound__of_a_failure),
        cmocka_unit_test(report__shows_a_few_flips__and_counts_the_rest),
        cmocka_unit_test(report__uses_colour__only_when_asked),
        cmocka_unit_test(report__writes_controls_out__of_hostile_names),
        cmocka_unit_test(every_report__writes_controls_out),
        cmocka_unit_test(guard__writes_controls_out),
        cmocka_unit_test(report__keeps_the_table__to_the_columns),
        cmocka_unit_test(report__says_that_nothing_was_compared),
        cmocka_unit_test(report__names_what_explains_the_guilty_op__or_shows_its_shape),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
