/* test_junit.c: recorded results as JUnit XML: a case for each thing that was asked, causes on
 * failures, never green where the verdict is not, well formed whatever the names are. */
#include "reports/cases.h"
#include "reports/fields.h"
#include "tests/outside.h"
#include "tests/reporting.h"

#include <stdlib.h>
#include <string.h>

/* The text of a kept result holds each of these, up to NULL. */
#define assert_holds(name, ...)                                                                    \
    do {                                                                                           \
        const char *const wanted[] = {__VA_ARGS__, NULL};                                          \
        char *text = rendered(name, "junit");                                                      \
        for (int at_ = 0; wanted[at_]; at_++) {                                                    \
            if (!strstr(text, wanted[at_])) fail_msg("not there: %s\n%s", wanted[at_], text);      \
        }                                                                                          \
        free(text);                                                                                \
    } while (0)

static void junit__is_well_formed__of_every_result(void **state)
{
    (void)state;
    for (int i = 0; kept_results[i]; i++) {
        char *text = rendered(kept_results[i], "junit");
        assert_xml(text);
        free(text);
    }
}

/* docs/schema/junit.xsd, by a validator that is not ours; it is stricter than what CI systems take.
 */
static void junit__holds_by_the_schema__of_every_result(void **state)
{
    const char *file = folder_path(state, "report.xml"), *log = folder_path(state, "log");
    const char *const argv[] = {
        "xmllint", "--noout", "--schema", ASSAY_SOURCE_DIR "/docs/schema/junit.xsd", file, NULL};
    int status;
    for (int i = 0; kept_results[i]; i++) {
        char *text = rendered(kept_results[i], "junit"), *said;
        write_text(file, text);
        free(text);
        said = outside(argv, log, &status);
        if (!said) {
            print_message("no xmllint here: the schema was not asked\n");
            return;
        }
        if (status != 0) fail_msg("%s: %s", kept_results[i], said);
        free(said);
    }
    write_text(file, "<testsuites name=\"a\" tests=\"0\" failures=\"0\" errors=\"0\"/>\n");
    free(outside(argv, log, &status));
    assert_int_not_equal(status, 0); /* the validator is one */
}

static void junit__counts_what_it_holds(void **state)
{
    (void)state;
    for (int i = 0; kept_results[i]; i++) {
        char *text = rendered(kept_results[i], "junit"), counts[96];
        snprintf(counts, sizeof counts,
                 "name=\"assay\" tests=\"%d\" failures=\"%d\" errors=\"%d\">",
                 times(text, "<testcase "), times(text, "<failure "), times(text, "<error "));
        if (!strstr(text, counts)) fail_msg("%s: not %s\n%s", kept_results[i], counts, text);
        free(text);
    }
}

static void junit__is_never_green__where_the_verdict_is_not(void **state)
{
    (void)state;
    for (int i = 0; kept_results[i]; i++) {
        char *text = rendered(kept_results[i], "junit");
        if (times(text, "<failure ") + times(text, "<error ") == 0)
            fail_msg("%s is green", kept_results[i]);
        free(text);
    }
    assert_holds("nothing", "<failure message=\"the verdict is not a pass, and no case says why");
}

static void junit__is_green_and_not_empty__of_a_pass(void **state)
{
    (void)state;
    json_t *r = json_pack("{s:s, s:s}", "verb", "forward", "verdict", "pass");
    char *text = rendered_of(r, "junit");
    assert_xml(text);
    assert_int_equal(times(text, "<testcase "), 1);
    assert_int_equal(times(text, "<failure ") + times(text, "<error "), 0);
    free(text);
    json_decref(r);
}

static void junit__has_a_case_a_tap__with_the_cause(void **state)
{
    (void)state;
    assert_holds("diff",
                 "<testsuite name=\"assay.diff\" tests=\"6\" failures=\"1\" errors=\"0\" "
                 "skipped=\"1\">",
                 "<testcase name=\"embed\" classname=\"assay.diff\"/>",
                 "<testcase name=\"layers.1.mlp\" classname=\"assay.diff\">\n      <failure "
                 "message=\"relative RMS 1.25 above 0.00929\" type=\"failure\">",
                 "worst element: row 6, column 54: subject 2.188, truth -3.477",
                 "<skipped message=\"not in the subject\"/>");
}

static void junit__has_a_case_an_op_case__with_its_replay(void **state)
{
    (void)state;
    assert_holds("op", "tests=\"5\" failures=\"3\" errors=\"1\"", "message=\"y on naive at ",
                 "replay: assay op &#39;moe T=24,", "message=\"not implemented on gpu\"",
                 "<error message=\"moe: T: found 9, wanted less\"");
}

static void junit__has_a_case_a_fault(void **state)
{
    (void)state;
    assert_holds(
        "fault", "<testcase name=\"norm.eps\" classname=\"assay.fault.run\"/>",
        "<testcase name=\"int4.nibble_swap@layer=1 on tiny\"",
        "message=\"injected, and not caught: no tap is red\"",
        "<error message=\"fault campaign: found 2 of 5 faults missed, wanted all caught\"");
    char *text = rendered("fault", "junit");
    assert_null(strstr(text, "<testcase name=\"int4.nibble_swap\""));
    free(text);
}

static void junit__has_a_case_a_finding(void **state)
{
    (void)state;
    assert_holds("check",
                 "name=\"assay.contract.check\" tests=\"4\" failures=\"1\" errors=\"0\" "
                 "skipped=\"2\"",
                 "name=\"extract one.py:12 vllm.LLM.generate\"",
                 "<failure message=\"no parameter of that name\"",
                 "<skipped message=\"cannot tell: the receiver&#39;s type is unknown\"/>",
                 "<skipped message=\"accepted: until 2027-01-01: known\"/>");
    assert_holds("lint", "name=\"/srv/a b/serve.py:7 empty-handler\"", "message=\"RuntimeError\"",
                 "message=\"except Exception: goes on: nobody learns of it\"", "\nremedy raise<",
                 "<skipped message=\"note: a wide handler\"/>");
    assert_holds("guard", "tests=\"3\" failures=\"2\"", "<testcase name=\"stall\"",
                 "<skipped message=\"harmless: a lookup that is asked twice\"/>");
    assert_holds("guard_quiet", "message=\"the command ended with 3\"");
    assert_holds("inspect", "found none, wanted [4, 4]");
}

static void junit__leaves_planted_bugs_of_a_plan_out(void **state)
{
    (void)state;
    assert_holds("plan", "<testcase name=\"planted\" classname=\"assay.run\"/>",
                 "<testsuite name=\"assay.run.mine\"", "relative RMS 1 above 0.1",
                 "<skipped message=\"if: gpu\"/>");
    char *text = rendered("plan", "junit");
    assert_null(strstr(text, "assay.run.planted"));
    free(text);
}

static void junit__shows_what_xml_forbids(void **state)
{
    (void)state;
    assert_holds("hostile", "a\\u202e&lt;script&gt;alert(1)", "\\x01\\x1b[31m]]&gt;\\uffff");
    /* A cause is one line. */
    json_t *r = kept_result("hostile"), *cases = report_cases(r), *c;
    size_t i;
    json_array_foreach(cases, i, c) assert_null(strchr(text_at(c, "cause"), '\n'));
    json_decref(cases);
    json_decref(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(junit__is_well_formed__of_every_result),
        cmocka_unit_test_setup_teardown(junit__holds_by_the_schema__of_every_result, folder_setup,
                                        folder_teardown),
        cmocka_unit_test(junit__counts_what_it_holds),
        cmocka_unit_test(junit__is_never_green__where_the_verdict_is_not),
        cmocka_unit_test(junit__is_green_and_not_empty__of_a_pass),
        cmocka_unit_test(junit__has_a_case_a_tap__with_the_cause),
        cmocka_unit_test(junit__has_a_case_an_op_case__with_its_replay),
        cmocka_unit_test(junit__has_a_case_a_fault),
        cmocka_unit_test(junit__has_a_case_a_finding),
        cmocka_unit_test(junit__leaves_planted_bugs_of_a_plan_out),
        cmocka_unit_test(junit__shows_what_xml_forbids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
