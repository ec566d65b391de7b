/* test_cli_campaign.c: `assay fault run` as its user meets it: fields, words, refusals, plans, exit
 * statuses. */
#include "tests/cli.h"

#include <string.h>

/* A run that must pass. Its stderr may hold progress: a campaign is slow where it is instrumented.
 * The object is the caller's. */
static json_t *passed_run(const char *const *argv)
{
    struct cli r;
    cli_run(&r, argv);
    if (r.status != 0 || !r.json) fail_msg("exit %d: %s%s", r.status, r.out, r.err);
    assert_string_equal(field_text(r.json, "verdict"), "pass");
    json_t *json = json_incref(r.json);
    cli_free(&r);
    return json;
}
#define passed(...) passed_run((const char *const[]){__VA_ARGS__, "--json", NULL})

#define FEW "--fault", "mla.no_mscale", "--quick", "--clean", "2"

static void run__has_the_fields_that_scripts_rely_on(void **state)
{
    (void)state;
    json_t *r = passed("fault", "run", FEW, "--seed", "3", "--threads", "2");
    static const char *const whole[] = {"faults", "injected", "caught", "clean_runs",
                                        "false_alarms"};
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++)
        assert_true(json_is_integer(field(r, whole[i])));
    assert_true(json_is_array(field(r, "missed")));
    assert_true(json_real_value(field(r, "score")) == 1);
    json_decref(r);
}

static void run__says_it_in_words__and_progress_is_no_part_of_it(void **state)
{
    struct cli r;
    (void)state;
    cli(&r, "fault", "run", FEW);
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(r.out, "score 1.0000"));
    assert_non_null(strstr(r.out, "diagnosed faults named"));
    assert_non_null(strstr(r.out, "clean runs, 0 red"));
    cli_free(&r);
}

static void broken_detector__is_exit_4(void **state)
{
    struct cli r;
    (void)state;
    cli(&r, "fault", "run", FEW, "--bound", "1e30");
    assert_int_equal(r.status, 4);
    assert_non_null(strstr(r.out, "missed ("));
    assert_non_null(strstr(r.out, "mla.no_mscale@layer="));
    assert_non_null(strstr(r.err, "faults missed"));
    cli_free(&r);
}

static void run__refuses(void **state)
{
    cli_refuses(state, ((struct refusal){2, "option", "--fault", "x.y", "fault list"}), "fault",
                "run", "--fault", "x.y");
    cli_refuses(state, ((struct refusal){2, "arguments", "fault run", "--model alone", "--tokens"}),
                "fault", "run", "--model", FIXTURE("tiny-k25"));
    cli_refuses(state, ((struct refusal){2, "arguments", "fault", "\"go\"", "list or run"}),
                "fault", "go");
    cli_refuses(state, ((struct refusal){2, "arguments", "fault list", "\"x\"", "nothing"}),
                "fault", "list", "x");
    cli_refuses(state, ((struct refusal){2, "option", NULL, "\"-1\"", NULL}), "fault", "run",
                "--seed=-1");
    write_text(folder_path(state, "p.yaml"),
               "assay: 1\nmodel: m\ntokens: 1\nsteps:\n  - op: {name: norm}\n");
    cli_refuses(state, ((struct refusal){2, "plan", "p.yaml", "no step of faults", "- fault"}),
                "fault", "run", folder_path(state, "p.yaml"));
}

#define PLAN "assay: 1\nmodel: " FIXTURE("tiny-k25") "\ntokens: [1, 5, 9, 2, 7, 11]\nsteps:\n"

/* The plan's model and tokens; its patterns beside those of the line. */
static void plan__gives_model_tokens_and_patterns(void **state)
{
    write_text(folder_path(state, "p.yaml"),
               PLAN "  - fault: {include: [mla.no_mscale], seeds: 2}\n");
    json_t *r = passed("fault", "run", folder_path(state, "p.yaml"), "--quick", "--clean", "1");
    assert_int_equal(field_int(r, "cases"), 1);
    assert_int_equal(field_int(r, "faults"), 1);
    assert_true(field_int(r, "injected") >= 3); /* two seeds, and the op alone */
    json_decref(r);
}

static void plan_step__is_run__and_is_exit_4_where_a_fault_is_missed(void **state)
{
    write_text(folder_path(state, "p.yaml"),
               PLAN "  - name: faults\n"
                    "    fault: {include: [mla.no_mscale], quick: true, clean: 1}\n"
                    "expect: {compared_at_least: 2}\n");
    json_t *r = passed("run", folder_path(state, "p.yaml"), "--out", folder_path(state, "out"));
    const json_t *step = named(field(r, "steps"), "faults");
    assert_string_equal(field_text(step, "verdict"), "pass");
    assert_true(field_int(step, "compared") >= 2);
    json_decref(r);
    write_text(folder_path(state, "p.yaml"),
               PLAN "  - fault: {include: [mla.no_mscale], quick: true, clean: 0, bound: 1e30}\n");
    struct cli c;
    cli(&c, "run", folder_path(state, "p.yaml"), "--out", folder_path(state, "out"));
    assert_int_equal(c.status, 4);
    assert_non_null(strstr(c.err, "faults missed"));
    cli_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(run__has_the_fields_that_scripts_rely_on),
        cmocka_unit_test(run__says_it_in_words__and_progress_is_no_part_of_it),
        cmocka_unit_test(broken_detector__is_exit_4),
        cmocka_unit_test_setup_teardown(run__refuses, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(plan__gives_model_tokens_and_patterns, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(plan_step__is_run__and_is_exit_4_where_a_fault_is_missed,
                                        folder_setup, folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
