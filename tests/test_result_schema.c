/* test_result_schema.c: what the verbs print with --json against docs/schema/result.schema.json.
 * Not run here: extract, bench, contract check, lint, guard; kept results stand in for some. */
#include "tests/cli.h"
#include "tests/reporting.h"
#include "tests/schema.h"

#include <stdlib.h>
#include <string.h>

static void assert_conforms(const json_t *value, const char *what)
{
    char why[1024];
    json_t *schema = schema_read();
    if (!schema_holds(schema, value, why, sizeof why)) fail_msg("%s: %s", what, why);
    json_decref(schema);
}

/* Its output is one object that conforms. */
#define conforms(...)                                                                              \
    do {                                                                                           \
        struct cli r;                                                                              \
        cli(&r, __VA_ARGS__, "--json");                                                            \
        assert_non_null(r.json);                                                                   \
        assert_conforms(r.json, #__VA_ARGS__);                                                     \
        cli_free(&r);                                                                              \
    } while (0)

static void schema__holds__of_what_verbs_print(void **state)
{
    const char *dump = folder_path(state, "a.safetensors"), *plan = folder_path(state, "p.yaml"),
               *out = folder_path(state, "out");
    conforms("forward", FIXTURE("tiny-k25"), "--tokens", "1,5,9", "--on", "ref", "--out", dump);
    conforms("inspect", dump);
    conforms("inspect", FIXTURE("tiny-k25"));
    conforms("diff", dump, dump, "--bound", "1e-3");
    conforms("diff", FIXTURE("bugs/nibble.safetensors"), FIXTURE("tiny-k25/golden.safetensors"));
    conforms("op", "norm", "T=2,H=8");
    conforms("op", "norm", "T=2,H=8,fault=norm.eps");
    conforms("op", "--list");
    conforms("generate", FIXTURE("tiny-k25"), "--tokens", "1,489,120", "-n", "2");
    conforms("fault", "list");
    conforms("fault", "run", "--fault", "norm.eps", "--quick", "--clean", "1");
    conforms("doctor");
    write_text(plan, textf("assay: 1\nsteps:\n  - diff: {subject: %s, truth: %s, bound: 1e-3}\n",
                           dump, dump));
    conforms("run", plan, "--out", out);
    conforms("run", folder_path(state, "none.yaml"));
    write_text(plan, "assay: 1\nmodel: " FIXTURE(
                         "tiny-k25") "\npreflight: {layers: [2, 7], "
                                     "numbering: entry, tp: 3, commands: [\"ls 'x\"], "
                                     "rehearse: {run: 'ls {model}'}}\n");
    conforms("preflight", plan);
    conforms("preflight", plan, "--rehearse");
    conforms("forward", "--tokens");
}

static void schema__holds__of_kept_results(void **state)
{
    (void)state;
    for (int i = 0; kept_results[i]; i++) {
        json_t *r = kept_result(kept_results[i]);
        if (strcmp(kept_results[i], "hostile") != 0) assert_conforms(r, kept_results[i]);
        json_decref(r);
    }
}

static json_t *at(json_t *r, const char *list)
{
    json_t *one = json_array_get(json_object_get(r, list), 0);
    assert_non_null(one);
    return one;
}

/* The result without a field, or with one of another type, does not hold. */
static void assert_wrong(json_t *r, const char *path)
{
    char why[1024];
    json_t *schema = schema_read();
    assert_false(schema_holds(schema, r, why, sizeof why));
    if (!strstr(why, path)) fail_msg("not about %s: %s", path, why);
    json_decref(schema);
    json_decref(r);
}

static void schema__goes_red__on_what_is_wrong(void **state)
{
    (void)state;
    json_t *r = kept_result("diff");
    json_object_del(r, "exit");
    assert_wrong(r, "result: lacks exit");
    r = kept_result("diff");
    json_object_del(r, "flips");
    assert_wrong(r, "result: lacks flips");
    r = kept_result("diff");
    json_object_del(at(r, "taps"), "bound_from");
    assert_wrong(r, "result.taps[0]: lacks bound_from");
    r = kept_result("diff");
    json_object_set_new(at(r, "taps"), "verdict", json_string("maybe"));
    assert_wrong(r, "result.taps[0].verdict");
    r = kept_result("diff");
    json_object_set_new(json_object_get(r, "first"), "row", json_string("3"));
    assert_wrong(r, "result.first.row: is of another type");
    r = kept_result("diff");
    json_object_set_new(json_array_get(json_object_get(r, "taps"), 1), "worst", json_integer(1));
    assert_wrong(r, "result.taps[1].worst");
    r = kept_result("error");
    json_object_del(r, "error");
    assert_wrong(r, "lacks error");
    r = kept_result("check");
    json_object_del(r, "counts");
    assert_wrong(r, "lacks counts");
    r = kept_result("op");
    json_object_set_new(r, "exit", json_integer(7));
    assert_wrong(r, "result.exit");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(schema__holds__of_what_verbs_print, folder_setup,
                                        folder_teardown),
        cmocka_unit_test(schema__holds__of_kept_results),
        cmocka_unit_test(schema__goes_red__on_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
