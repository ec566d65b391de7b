/* test_verb_report.c: `--report FORMAT=FILE` of the verbs and `assay report`: files beside the
 * text, the same bytes from the kept result, refusals before any work. */
#include "reports/fields.h"
#include "tests/cli.h"
#include "tests/reporting.h"

#include <stdlib.h>
#include <string.h>

#define CASE "norm", "T=2,H=8,seed=3"
#define TOKENS "1,5,9,33,250,61,4,44,8,77,12,301,42,120,489,7"

static void report__writes_every_format__beside_the_text(void **state)
{
    static const char *const formats[] = {"junit", "sarif", "html", "json", "text"};
    static const char *const wanted[] = {"<testsuites", "\"2.1.0\"", "<!DOCTYPE html>",
                                         "\"verdict\": \"pass\"", "pass: 1 cases"};
    struct cli r;
    const char *argv[16] = {"op", CASE};
    int n = 3;
    for (int i = 0; i < 5; i++) {
        argv[n++] = "--report";
        argv[n++] = textf("%s=%s/%s", formats[i], (const char *)*state, formats[i]);
    }
    cli_run(&r, argv);
    assert_int_equal(r.status, 0);
    assert_string_equal(r.err, "");
    assert_non_null(strstr(r.out, "1 passed, 0 failed"));
    cli_free(&r);
    for (int i = 0; i < 5; i++) {
        size_t size;
        char *text = read_whole(folder_path(state, formats[i]), &size);
        if (!strstr(text, wanted[i])) fail_msg("%s: no %s", formats[i], wanted[i]);
        free(text);
    }
    assert_int_equal(folder_count(*state), 5); /* no temporary file is left */
}

/* What --json printed, rendered again, is what --report wrote. */
static void report__gives_the_same_bytes__from_the_kept_result(void **state)
{
    static const char *const formats[] = {"junit", "sarif", "html", "json"};
    struct cli r;
    for (int i = 0; i < 4; i++) {
        const char *beside = folder_path(state, "beside"), *kept = folder_path(state, "kept"),
                   *again = folder_path(state, "again");
        size_t a_size, b_size;
        cli(&r, "op", CASE, "--json", "--report", textf("%s=%s", formats[i], beside));
        assert_int_equal(r.status, 0);
        write_text(kept, r.out);
        cli_free(&r);
        cli(&r, "report", kept, "--as", formats[i], "--out", again);
        assert_int_equal(r.status, 0);
        cli_free(&r);
        char *a = read_whole(beside, &a_size), *b = read_whole(again, &b_size);
        assert_string_equal(a, b);
        cli(&r, "report", kept, "--as", formats[i]);
        assert_string_equal(r.out, a);
        cli_free(&r);
        free(a);
        free(b);
    }
}

static void report__of_a_red_diff__has_the_verdict_and_the_map(void **state)
{
    const char *page = folder_path(state, "page");
    size_t size;
    struct cli r;
    cli(&r, "diff", FIXTURE("bugs/nibble.safetensors"), FIXTURE("tiny-k25/golden.safetensors"),
        "--json", "--report", textf("html=%s", page));
    assert_int_equal(r.status, 1);
    const json_t *map = field(r.json, "error_map"), *command = field(r.json, "command");
    assert_string_equal(field_text(map, "tap"), field_text(field(r.json, "first"), "tap"));
    assert_true(json_array_size(field(map, "levels")) <= 64);
    assert_string_equal(json_string_value(json_array_get(command, 1)), "diff");
    assert_true(field_int(field(r.json, "machine"), "processors") > 0);
    cli_free(&r);
    char *text = read_whole(page, &size);
    assert_non_null(strstr(text, "<b class=word>FAIL</b> assay diff"));
    assert_non_null(strstr(text, "Where the error lies"));
    free(text);
}

/* The largest page there is: every tap of a model as deep as the real ones is red, rows by the
 * hundred take other experts. Its size does not grow with any of it past what a mail may hold. */
static void report__of_61_layers__is_small__and_pure(void **state)
{
    const char *config = folder_path(state, "config.json"), *page = folder_path(state, "page.html"),
               *kept = folder_path(state, "kept.json");
    size_t size, again_size;
    struct cli r;
    char *text = read_whole(FIXTURE("tiny-k25/config.json"), &size);
    char *deep = replaced(text, "\"num_hidden_layers\": 6,", "\"num_hidden_layers\": 61,");
    write_text(config, deep);
    free(deep);
    free(text);
    const char *model = textf("synth:%s?seed=1", config), *dumps[2];
    for (int i = 0; i < 2; i++) {
        dumps[i] = textf("%s/%d.safetensors", (const char *)*state, i);
        json_decref(cli_passes("forward", model, "--tokens", TOKENS, "--profile", i ? "math" : "hf",
                               "--out", dumps[i]));
    }
    cli(&r, "diff", dumps[0], dumps[1], "--bound", "1e-9", "--json", "--report",
        textf("html=%s", page));
    assert_int_equal(r.status, 1);
    assert_true(field_int(r.json, "compared") > 800);
    assert_true(json_array_size(field(r.json, "flips")) > 100);
    write_text(kept, r.out);
    cli_free(&r);
    text = read_whole(page, &size);
    assert_in_range(size, 100000, 5000000);
    assert_non_null(strstr(text, "layers.60.output"));
    for (int i = 0; i < 2; i++) {
        const char *again = folder_path(state, "again.html");
        cli(&r, "report", kept, "--as", "html", "--out", again);
        assert_int_equal(r.status, 0);
        cli_free(&r);
        char *other = read_whole(again, &again_size);
        assert_int_equal(again_size, size);
        assert_memory_equal(other, text, size);
        free(other);
    }
    free(text);
}

static void report__of_a_campaign__has_a_case_a_fault(void **state)
{
    const char *file = folder_path(state, "faults.xml"), *fault;
    const json_t *one;
    int64_t injected = 0, caught = 0;
    size_t size;
    struct cli r;
    cli(&r, "fault", "run", "--fault", "int4.nibble_swap", "--fault", "norm.eps", "--quick",
        "--clean", "0", "--json", "--report", textf("junit=%s", file));
    assert_int_equal(r.status, 0);
    json_object_foreach((json_t *)(uintptr_t)field(r.json, "by_fault"), fault, one)
    {
        injected += field_int(one, "injected");
        caught += field_int(one, "caught");
    }
    assert_true(injected > 0);
    assert_int_equal(injected, field_int(r.json, "injected"));
    assert_int_equal(caught, field_int(r.json, "caught"));
    cli_free(&r);
    char *text = read_whole(file, &size);
    assert_non_null(strstr(text, "<testcase name=\"int4.nibble_swap\""));
    free(text);
}

static void report__is_written__of_an_error_too(void **state)
{
    const char *file = folder_path(state, "error.xml");
    size_t size;
    struct cli r;
    cli(&r, "inspect", folder_path(state, "none"), "--report", textf("junit=%s", file));
    assert_int_equal(r.status, 2);
    cli_free(&r);
    char *text = read_whole(file, &size);
    assert_non_null(strstr(text, "errors=\"1\""));
    free(text);
}

static void report__is_of_every_verb_that_has_a_verdict(void **state)
{
    static const char *const verbs[] = {"diff",  "op",       "run", "inspect",
                                        "fault", "contract", "lint"};
    (void)state;
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        struct cli r;
        cli(&r, verbs[i], "--help");
        if (!strstr(r.out, "--report FORMAT=FILE")) fail_msg("%s has no --report", verbs[i]);
        cli_free(&r);
    }
}

/* `guard --report FILE` was there before, and is another. */
static void report__leaves_guards_own_option_alone(void **state)
{
    const char *file = folder_path(state, "guard.json");
    struct cli r;
    cli(&r, "guard", "--report", file, "--", "true");
    assert_int_equal(r.status, 0);
    assert_true(file_exists(file));
    cli_free(&r);
}

static void report__that_cannot_be_written__is_an_error_of_the_run(void **state)
{
    struct cli r;
    cli(&r, "op", CASE, "--report", textf("junit=%s/none/a.xml", (const char *)*state));
    assert_int_equal(r.status, 2);
    assert_non_null(strstr(r.err, "none/a.xml"));
    cli_free(&r);
}

static void report__refuses_before_the_run(void **state)
{
    const char *out = folder_path(state, "x");
    cli_refuses(state, ((struct refusal){2, "option", "--report", "foo", "junit, sarif"}), "op",
                CASE, "--report", "foo=a");
    cli_refuses(state, ((struct refusal){2, "option", "--report", "junit", "junit=FILE"}), "op",
                CASE, "--report", "junit");
    cli_refuses(state, ((struct refusal){2, "option", "--report", "junit=", "junit=FILE"}), "op",
                CASE, "--report", "junit=");
    cli_refuses(state, ((struct refusal){2, "option", "--report", "twice", "once"}), "op", CASE,
                "--report", textf("junit=%s", out), "--report", textf("html=%s", out));
    cli_refuses(state, ((struct refusal){2, "option", "--as", "foo", "junit, sarif"}), "report",
                FIXTURE("reports/op.json"), "--as", "foo", "--out", out);
    cli_refuses(state, ((struct refusal){2, "option", "--as", "none", "junit, sarif"}), "report",
                FIXTURE("reports/op.json"));
    cli_refuses(state, ((struct refusal){2, "read result", "config.json", "no verb", "--json"}),
                "report", FIXTURE("tiny-k25/config.json"), "--as", "html", "--out", out);
    cli_refuses(state, ((struct refusal){2, NULL, "README.md", NULL, NULL}), "report",
                FIXTURE("README.md"), "--as", "html", "--out", out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(report__writes_every_format__beside_the_text, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(report__gives_the_same_bytes__from_the_kept_result,
                                        folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(report__of_a_red_diff__has_the_verdict_and_the_map,
                                        folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(report__of_61_layers__is_small__and_pure, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(report__of_a_campaign__has_a_case_a_fault, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(report__is_written__of_an_error_too, folder_setup,
                                        folder_teardown),
        cmocka_unit_test(report__is_of_every_verb_that_has_a_verdict),
        cmocka_unit_test_setup_teardown(report__leaves_guards_own_option_alone, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(report__that_cannot_be_written__is_an_error_of_the_run,
                                        folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(report__refuses_before_the_run, folder_setup,
                                        folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
