/* test_plan_run.c: verb run as a user meets it: the verdict of a plan, what turns it red, what
 * stops it, what is skipped, and what is left on disk. */
#include "core/ops.h"
#include "harness/plan_run.h"
#include "tests/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define K25 FIXTURE("tiny-k25")
#define HEAD "assay: 1\nmodel: " K25 "\ntokens: 1,489,120\nsteps:\n"
#define EQUAL "  - diff: {subject: a.safetensors, truth: a.safetensors}\n"
#define PLANTED "  - diff: {subject: b.safetensors, truth: a.safetensors, bound: 0.1}\n"

/* Two dumps: b differs from a in layers.1.mlp, row 2. */
static int dumps_setup(void **state)
{
    float v[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, w[12];
    struct st_part parts[] = {{"layers.0.attn", DT_F32, 2, {4, 3}, v},
                              {"layers.1.mlp", DT_F32, 2, {4, 3}, v}};
    if (folder_setup(state) != 0) return 1;
    memcpy(w, v, sizeof v);
    w[7] = -80;
    write_safetensors(folder_path(state, "a.safetensors"), parts, 2, NULL, 0);
    parts[1].data = w;
    write_safetensors(folder_path(state, "b.safetensors"), parts, 2, NULL, 0);
    return 0;
}

/* Runs a plan written to DIR/p.yaml; results go to DIR/out. Its object is the caller's. */
static json_t *run_plan(void **state, const char *text, int status)
{
    struct cli r;
    write_text(folder_path(state, "p.yaml"), text);
    cli(&r, "run", folder_path(state, "p.yaml"), "--json", "--out", folder_path(state, "out"));
    if (r.status != status) print_error("%s\n%s\n%s\n", text, r.err, r.out);
    assert_int_equal(r.status, status);
    assert_non_null(r.json);
    json_t *j = json_incref(r.json);
    cli_free(&r);
    return j;
}

static const json_t *step_at(const json_t *j, size_t i)
{
    return json_array_get(field(j, "steps"), i);
}

static void run__is_green_and_recorded__when_all_holds(void **state)
{
    json_t *j = run_plan(
        state,
        HEAD "  - name: x\n    forward: {precision: f64, taps: [embed, 'layers.1.*'], layers: "
             "'0:2'}\n"
             "  - name: y\n    forward: {layers: '0:2', rows: '1:3', experts: x}\n"
             "  - name: x-y\n    diff: {subject: y, truth: x, require: layers.1.mlp}\n"
             "  - op: {name: norm, case: 'T=3,H=64'}\n"
             "  - op: {name: linear, sweep: true, count: 3}\n"
             "  - generate: {n: 2}\n"
             "    if: ref\n"
             "  - generate: {n: 2}\n"
             "    if: not ref\n"
             "expect: {compared_at_least: 19}\n",
        0);
    assert_string_equal(field_text(j, "verdict"), "pass");
    assert_int_equal(field_int(j, "exit"), 0);
    assert_int_equal(field_int(j, "passed"), 6);
    assert_int_equal(field_int(j, "failed"), 0);
    assert_int_equal(field_int(j, "skipped"), 1);
    assert_int_equal(json_array_size(field(j, "why")), 0);
    int64_t taps = field_int(field(step_at(j, 2), "result"), "compared");
    assert_int_equal(taps, 15);
    assert_int_equal(field_int(j, "compared"), taps + 4); /* a generate without equals: none */
    assert_string_equal(field_text(step_at(j, 0), "verdict"), "pass");
    assert_string_equal(field_text(step_at(j, 6), "verdict"), "skipped");
    assert_non_null(strstr(field_text(step_at(j, 6), "why"), "not ref"));
    assert_int_equal(folder_count(folder_path(state, "out")), 4);
    assert_true(file_exists(folder_path(state, "out/x.safetensors")));
    json_t *recorded = json_load_file(folder_path(state, "out/result.json"), 0, NULL);
    assert_non_null(recorded);
    assert_true(json_equal(recorded, j));
    size_t size;
    char *text = read_whole(folder_path(state, "out/result.txt"), &size);
    assert_int_equal(strncmp(text, "PASS: ", 6), 0);
    assert_non_null(strstr(text, "6 of 7 steps as expected, 0 not, 1 skipped; 19 compared"));
    assert_non_null(strstr(text, "skip  step-7"));
    free(text);
    json_decref(recorded);
    json_decref(j);
}

static void run__follows_the_plan_of_ci(void **state)
{
    json_t *j = cli_passes("run", FIXTURE("plans/tiny-k25.yaml"), "--out", (const char *)*state);
    assert_true(field_int(j, "compared") >= 440);
    assert_int_equal(field_int(j, "failed"), 0);
    const json_t *planted = named(field(j, "steps"), "planted");
    assert_string_equal(field_text(planted, "outcome"), "fail");
    assert_string_equal(field_text(planted, "verdict"), "pass");
    assert_null(json_object_get(planted, "note")); /* guilty came from anchoring */
    const json_t *result = field(named(field(j, "steps"), "planted-rank"), "result");
    assert_int_equal(field_int(field(result, "guilty"), "rank"), 3);
    assert_int_equal(
        json_array_size(field(field(named(field(j, "steps"), "greedy"), "result"), "tokens")), 48);
    json_decref(j);
}

static void run__is_red__when_an_expectation_is_violated(void **state)
{
    static const struct {
        const char *step, *expect, *why;
    } rows[] = {
        {PLANTED, NULL, NULL},
        {PLANTED, "{verdict: pass}", "fail, expected pass"},
        {EQUAL, "{verdict: fail}", "pass, expected fail"},
        {EQUAL, "{verdict: error}", "pass, expected error"},
        {EQUAL, "{exit: 1}", "pass, expected fail"},
        {PLANTED, "{first: {layer: 0}}", "first layer is 1, not 0"},
        {PLANTED, "{first: {row: 3}}", "first row is 2, not 3"},
        {PLANTED, "{first: {op: moe}}", "first op is mlp, not moe"},
        {PLANTED, "{first: {tap: layers.0.attn}}", "first tap is layers.1.mlp, not layers.0.attn"},
        {PLANTED, "{guilty: {op: norm, layer: 1}}", "guilty op is mlp, not norm"},
        {PLANTED, "{guilty: {layer: 2}}", "guilty layer is 1, not 2"},
    };
    char text[4096] = HEAD;
    const int n = sizeof rows / sizeof rows[0];
    for (int i = 0; i < n; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s%s%s", rows[i].step,
                 rows[i].expect ? "    expect: " : "", rows[i].expect ? rows[i].expect : "", "\n");
    }
    json_t *j = run_plan(state, text, 1);
    assert_string_equal(field_text(j, "verdict"), "fail");
    assert_int_equal(field_int(j, "failed"), n);
    assert_int_equal(field_int(j, "passed"), 0);
    assert_non_null(strstr(json_string_value(json_array_get(field(j, "why"), 0)), "11 of 11"));
    for (int i = 0; i < n; i++) {
        assert_string_equal(field_text(step_at(j, (size_t)i), "verdict"), "fail");
        if (rows[i].why) assert_string_equal(field_text(step_at(j, (size_t)i), "why"), rows[i].why);
    }
    json_decref(j);
}

static void run__is_green__when_what_was_expected_to_fail_does(void **state)
{
    json_t *j =
        run_plan(state,
                 HEAD PLANTED "    expect: {verdict: fail, exit: 1, guilty: {op: mlp, layer: 1}, "
                              "first: {tap: layers.1.mlp, op: mlp, layer: 1, row: 2}}\n"
                              "  - diff: {subject: absent, truth: a.safetensors}\n"
                              "    expect: {exit: 2}\n"
                              "  - diff: {subject: absent, truth: a.safetensors}\n"
                              "    expect: {verdict: error}\n",
                 0);
    assert_int_equal(field_int(j, "passed"), 3);
    assert_string_equal(field_text(step_at(j, 1), "outcome"), "error");
    assert_non_null(json_object_get(step_at(j, 1), "error"));
    json_decref(j);
    json_decref(run_plan(state,
                         HEAD EQUAL "  - diff: {subject: absent, truth: a.safetensors}\n"
                                    "    expect: {exit: 3}\n",
                         2));
}

static void run__is_red__when_too_little_was_compared(void **state)
{
    json_t *j = run_plan(state, HEAD EQUAL "expect: {compared_at_least: 3}\n", 1);
    assert_string_equal(json_string_value(json_array_get(field(j, "why"), 0)),
                        "2 compared, at least 3 wanted");
    json_decref(j);
    json_decref(run_plan(state, HEAD EQUAL "expect: {compared_at_least: 2}\n", 0));
    static const char *const nothing[] = {
        HEAD EQUAL "    if: not ref\n",
        HEAD "  - forward: {layers: '0:1'}\n",
        HEAD "  - generate: {n: 1}\n",
        HEAD "  - diff: {subject: absent, truth: a.safetensors}\n    expect: {exit: 2}\n",
    };
    for (int i = 0; i < 4; i++) {
        j = run_plan(state, nothing[i], 1);
        assert_string_equal(json_string_value(json_array_get(field(j, "why"), 0)),
                            "nothing was compared: that is never a pass");
        json_decref(j);
    }
}

static void run__stops__at_an_error(void **state)
{
    json_t *j = run_plan(state,
                         HEAD PLANTED "  - name: bad\n    diff: {subject: absent, truth: "
                                      "a.safetensors}\n" EQUAL EQUAL "    if: not ref\n",
                         2);
    assert_string_equal(field_text(j, "verdict"), "error");
    assert_int_equal(field_int(j, "exit"), 2);
    assert_string_equal(json_string_value(json_array_get(field(field(j, "error"), "chain"), 0)),
                        "step bad, line 6");
    static const char *const verdicts[] = {"fail", "error", "not run", "skipped"};
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(field_text(step_at(j, i), "verdict"), verdicts[i]);
    json_t *recorded = json_load_file(folder_path(state, "out/result.json"), 0, NULL);
    assert_true(json_equal(recorded, j));
    json_decref(recorded);
    json_decref(j);
    /* An option that only the model can refuse. */
    j = run_plan(state, HEAD "  - forward: {layers: '0:99'}\n", 2);
    assert_non_null(strstr(field_text(field(j, "error"), "found"), "0:99"));
    json_decref(j);
    /* The dump of a step that was expected to fail. */
    j = run_plan(state,
                 HEAD "  - name: x\n    forward: {taps: none}\n    expect: {exit: 2}\n"
                      "  - diff: {subject: x, truth: a.safetensors}\n",
                 2);
    assert_non_null(strstr(field_text(field(j, "error"), "found"), "wrote no dump"));
    json_decref(j);
}

/* It is another verb's: what is not run is said. */
static void run__leaves_a_preflight_alone__and_says_so(void **state)
{
    json_t *j = run_plan(state, HEAD EQUAL "preflight: {library: vllm}\n", 0);
    assert_non_null(strstr(field_text(j, "preflight"), "not run"));
    size_t size;
    char *text = read_whole(folder_path(state, "out/result.txt"), &size);
    assert_non_null(strstr(text, "preflight: not run: assay preflight"));
    free(text);
    json_decref(j);
    j = run_plan(state, HEAD EQUAL, 0);
    assert_null(json_object_get(j, "preflight"));
    json_decref(j);
    write_text(folder_path(state, "p.yaml"), "assay: 1\npreflight: {library: vllm}\n");
    cli_refuses(state, ((struct refusal){2, "plan", "p.yaml", "no key \"steps\"", "a list"}), "run",
                folder_path(state, "p.yaml"), "--out", folder_path(state, "out2"));
}

static void run__refuses_the_device__where_there_is_none(void **state)
{
    if (gpu_side()->available && gpu_side()->entries[0].name) {
        print_message("not looked at: this machine has a device, and the build has ops for it\n");
        return;
    }
    static const char *const gpu[] = {"  - forward: {on: gpu}\n",
                                      "  - op: {name: norm, on: [ref, gpu]}\n"};
    for (int i = 0; i < 2; i++) {
        char text[512];
        snprintf(text, sizeof text, HEAD EQUAL "%s", gpu[i]);
        write_text(folder_path(state, "p.yaml"), text);
        cli_refuses(state, ((struct refusal){3, "plan", ":6:", "on: gpu, and", "if: gpu"}), "run",
                    folder_path(state, "p.yaml"), "--out", folder_path(state, "out"));
        snprintf(text, sizeof text, HEAD EQUAL "%s    if: gpu\n", gpu[i]);
        json_decref(run_plan(state, text, 0));
        assert_int_equal(remove(folder_path(state, "out/result.json")), 0);
        assert_int_equal(remove(folder_path(state, "out/result.txt")), 0);
        assert_int_equal(rmdir(folder_path(state, "out")), 0);
    }
    write_text(folder_path(state, "p.yaml"),
               HEAD "  - name: x\n    forward: {on: gpu}\n    if: gpu\n"
                    "  - diff: {subject: x, truth: a.safetensors}\n");
    cli_refuses(state, ((struct refusal){2, "plan", ":8:21", "skipped here", "the same `if`"}),
                "run", folder_path(state, "p.yaml"), "--out", folder_path(state, "out"));
}

static void generate__is_held_against_its_tokens(void **state)
{
    json_t *j = run_plan(state, HEAD "  - generate: {n: 3}\n", 1);
    const char *tokens = joined(field(field(step_at(j, 0), "result"), "tokens"), 3);
    char text[1024];
    snprintf(text, sizeof text,
             HEAD "  - generate: {equals: [%s]}\n  - generate: {equals: [%s, 1], n: 3}\n", tokens,
             tokens);
    json_decref(j);
    j = run_plan(state, text, 0);
    assert_int_equal(field_int(j, "compared"), 2);
    assert_int_equal(json_array_size(field(field(step_at(j, 0), "result"), "tokens")), 3);
    json_decref(j);
    j = run_plan(state, HEAD "  - generate: {equals: [511, 511]}\n", 1);
    assert_non_null(strstr(field_text(step_at(j, 0), "why"), "token 0 is"));
    json_decref(j);
    j = run_plan(state, HEAD "  - generate: {n: 2, equals: '@" K25 "/golden.json'}\n", 1);
    json_decref(j);
    write_text(folder_path(state, "g.json"), "{\"greedy\": []}");
    j = run_plan(state, HEAD "  - generate: {n: 2, equals: '@g.json'}\n", 2);
    assert_non_null(strstr(field_text(field(j, "error"), "where"), "g.json: greedy"));
    json_decref(j);
}

static void generate__must_not_give_more_than_it_is_compared_with(void **state)
{
    json_t *j = run_plan(state, HEAD "  - generate: {n: 1}\n", 1);
    const char *one = joined(field(field(step_at(j, 0), "result"), "tokens"), 1);
    char text[512];
    snprintf(text, sizeof text, HEAD "  - generate: {equals: [%s], n: 2}\n", one);
    json_decref(j);
    j = run_plan(state, text, 1);
    assert_string_equal(field_text(step_at(j, 0), "why"), "2 tokens, and 1 to compare with");
    json_decref(j);
}

static void run__leaves_nothing_half_written(void **state)
{
    struct cli r;
    const char *plan = textf("%s/p.yaml", (const char *)*state);
    write_text(folder_path(state, "p.yaml"), HEAD EQUAL);
    cli_refuses(state, ((struct refusal){2, "make folder", "a.safetensors", NULL, NULL}), "run",
                plan, "--out", folder_path(state, "a.safetensors"));
    cli_run_to(&r, "/dev/full",
               (const char *const[]){"run", plan, "--out", folder_path(state, "out"), NULL});
    assert_int_equal(r.status, 3);
    assert_non_null(strstr(r.err, "standard output"));
    cli_free(&r);
    assert_int_equal(folder_count(folder_path(state, "out")), 2);
    /* A result that cannot be recorded is no result. */
    assert_int_equal(remove(folder_path(state, "out/result.json")), 0);
    struct err err = ERR_INIT;
    assert_int_equal(file_make_folder(folder_path(state, "out/result.json"), &err), ERR_OK);
    cli(&r, "run", plan, "--json", "--out", folder_path(state, "out"));
    assert_true(r.status == 2 || r.status == 3);
    assert_string_equal(field_text(r.json, "verdict"), "error");
    assert_int_equal(folder_count(folder_path(state, "out")), 2);
    cli_free(&r);
    /* The first cause wins. */
    write_text(folder_path(state, "p.yaml"), HEAD "  - diff: {subject: absent, truth: a}\n");
    cli(&r, "run", plan, "--json", "--out", folder_path(state, "out"));
    assert_int_equal(r.status, 2);
    assert_non_null(strstr(field_text(field(r.json, "error"), "where"), "absent"));
    cli_free(&r);
    cli_refuses(state, ((struct refusal){2, "open", "absent.yaml", NULL, NULL}), "run",
                folder_path(state, "absent.yaml"));
    write_text(folder_path(state, "p.yaml"), "assay: 1\nsteps: x\n");
    cli_refuses(state, ((struct refusal){2, "plan", "p.yaml:2:8", "a text", "a list"}), "run",
                folder_path(state, "p.yaml"), "--out", folder_path(state, "new"));
}

/* ---- the judge alone ---- */

static bool judged(const struct plan_expect *x, const char *json, char why[PLAN_WHY],
                   char note[PLAN_WHY])
{
    json_t *result = json_loads(json, 0, NULL);
    assert_non_null(result);
    const struct plan_outcome o = {"fail", 1, result};
    bool good = plan_as_expected(x, &o, why, note);
    json_decref(result);
    return good;
}

static void judge__takes_the_anchor__when_there_is_one(void **state)
{
    char why[PLAN_WHY], note[PLAN_WHY];
    (void)state;
    struct plan_expect x = {.given = true,
                            .verdict = "fail",
                            .exit = -1,
                            .guilty_op = "moe",
                            .guilty_layer = 1,
                            .first_layer = PLAN_ANY,
                            .first_row = PLAN_ANY};
    assert_true(judged(&x,
                       "{\"guilty\": {\"op\": \"moe\", \"layer\": 1}, \"first\": {\"op\": "
                       "\"norm\", \"layer\": 3}}",
                       why, note));
    assert_string_equal(note, "");
    assert_false(judged(&x,
                        "{\"guilty\": {\"op\": \"moe\", \"layer\": 2}, \"first\": {\"op\": "
                        "\"moe\", \"layer\": 1}}",
                        why, note));
    assert_string_equal(why, "guilty layer is 2, not 1");
    assert_false(judged(&x, "{\"guilty\": null, \"first\": null}", why, note));
    assert_string_equal(why, "guilty op is not said, not moe");
    x.guilty_op = NULL;
    x.guilty_layer = PLAN_ANY;
    x.diagnosis = "int4.nibble_swap";
    assert_true(judged(&x,
                       "{\"diagnosis\": [{\"fault\": \"a\"}, {\"fault\": "
                       "\"int4.nibble_swap\"}]}",
                       why, note));
    assert_false(judged(&x, "{\"diagnosis\": [{\"fault\": \"a\"}]}", why, note));
    assert_false(judged(&x, "{\"diagnosis\": []}", why, note));
    char text[PLAN_WHY];
    assert_string_equal(plan_expect_text(&x, text, sizeof text),
                        "fail, diagnosis int4.nibble_swap");
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, dumps_setup, folder_teardown)
    const struct CMUnitTest tests[] = {
        CASE(run__is_green_and_recorded__when_all_holds),
        CASE(run__follows_the_plan_of_ci),
        CASE(run__is_red__when_an_expectation_is_violated),
        CASE(run__is_green__when_what_was_expected_to_fail_does),
        CASE(run__is_red__when_too_little_was_compared),
        CASE(run__stops__at_an_error),
        CASE(run__leaves_a_preflight_alone__and_says_so),
        CASE(run__refuses_the_device__where_there_is_none),
        CASE(generate__is_held_against_its_tokens),
        CASE(generate__must_not_give_more_than_it_is_compared_with),
        CASE(run__leaves_nothing_half_written),
        cmocka_unit_test(judge__takes_the_anchor__when_there_is_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
