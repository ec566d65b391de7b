/* test_bench_against.c: rows beside a recorded run: which are the same, what is more than noise,
 * and what is no such file. */
#include "harness/bench_against.h"

#include "tests/cli.h"

#include <math.h>
#include <string.h>

static json_t *row(const char *op, const char *text, double seconds, double spread)
{
    return json_pack("{s:s, s:s, s:s, s:f, s:f}", "op", op, "case", text, "on", "gpu", "seconds",
                     seconds, "spread", spread);
}

/* A recorded run of the rows, in the folder. */
static const char *recorded(void **state, const char *shape, json_t *rows)
{
    const char *path = folder_path(state, "run.json");
    json_t *run = json_pack("{s:s, s:o}", "device", "a card", "rows", rows);
    json_t *file = strcmp(shape, "whole") == 0 ? json_pack("{s:o}", "bench", run) : run;
    assert_int_equal(json_dump_file(file, path, 0), 0);
    json_decref(file);
    return path;
}

static const char *verdict_of(struct bench_against *b, json_t *r)
{
    static char said[16];
    struct err err;
    err_clear(&err);
    assert_int_equal(bench_against_row(b, r, &err), ERR_OK);
    const json_t *against = field(r, "against");
    snprintf(said, sizeof said, "%s", field_text(against, "verdict"));
    json_decref(r);
    return said;
}

static void noise__is_both_spreads_and_a_drift(void **state)
{
    (void)state;
    assert_true(fabs(bench_noise(0, 0) - 0.04) < 1e-12);
    assert_true(fabs(bench_noise(0.02, 0.06) - 0.08) < 1e-12);
}

static void rows__are_told_apart_beyond_noise_alone(void **state)
{
    struct bench_against b;
    struct err err;
    err_clear(&err);
    json_t *rows = json_pack("[o]", row("moe", "INT4, T=1; graph, 16 sets", 100e-6, 0.02));
    const char *path = recorded(state, "plain", rows);
    assert_int_equal(bench_against_open(&b, path, &err), ERR_OK);
    /* noise: 1 % + 1 % + 4 % */
    assert_string_equal(verdict_of(&b, row("moe", "INT4, T=1; graph, 8 sets", 95e-6, 0.02)),
                        "noise");
    assert_string_equal(verdict_of(&b, row("moe", "INT4, T=1; graph, 8 sets", 105e-6, 0.02)),
                        "noise");
    assert_string_equal(verdict_of(&b, row("moe", "INT4, T=1", 94e-6, 0.02)), "faster");
    assert_string_equal(verdict_of(&b, row("moe", "INT4, T=1; launches", 107e-6, 0.02)), "slower");
    assert_string_equal(verdict_of(&b, row("moe", "INT4, T=16; graph", 95e-6, 0.02)), "new");
    assert_string_equal(verdict_of(&b, row("moe", "INT4, T=", 95e-6, 0.02)), "new");
    assert_string_equal(verdict_of(&b, row("mlp", "INT4, T=1; graph", 95e-6, 0.02)), "new");
    assert_int_equal(b.faster * 1000 + b.slower * 100 + b.noise * 10 + b.fresh, 1123);
    bench_against_close(&b);
}

static bool is_moe(const void *ctx, const char *op)
{
    (void)ctx;
    return strcmp(op, "moe") == 0;
}

static void recorded_rows_that_nobody_met__are_named__of_what_was_asked_for(void **state)
{
    struct bench_against b;
    struct err err;
    err_clear(&err);
    json_t *rows = json_pack("[o,o,o]", row("moe", "one", 1, 0), row("moe", "two", 1, 0),
                             row("norm", "three", 1, 0));
    assert_int_equal(bench_against_open(&b, recorded(state, "whole", rows), &err), ERR_OK);
    assert_string_equal(verdict_of(&b, row("moe", "one", 2, 0)), "slower");
    json_t *said = bench_against_json(&b, is_moe, NULL), *all = bench_against_json(&b, NULL, NULL);
    assert_int_equal(json_array_size(field(said, "missing")), 1);
    assert_string_equal(json_string_value(json_array_get(field(said, "missing"), 0)), "moe: two");
    assert_int_equal(json_array_size(field(all, "missing")), 2);
    assert_string_equal(field_text(said, "device"), "a card");
    json_decref(said);
    json_decref(all);
    bench_against_close(&b);
}

static void files__are_refused__that_are_no_recorded_run(void **state)
{
    const char *none = folder_path(state, "none.json");
    json_t *bad[] = {
        json_pack("[o]", row("moe", "one", 0, 0)),
        json_pack("[o]", row("moe", "one", -1, 0)),
        json_pack("[{s:s}]", "op", "moe"),
        json_pack("[s]", "moe"),
        json_array(),
    };
    cli_refuses(state, ((struct refusal){2, NULL, "none.json", NULL, NULL}), "bench", "norm",
                "--against", none);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *path = recorded(state, i % 2 ? "whole" : "plain", bad[i]);
        cli_refuses(state, ((struct refusal){2, NULL, "run.json", NULL, NULL}), "bench", "norm",
                    "--against", path);
    }
    cli_refuses(state, ((struct refusal){2, "bench collectives", "--against", NULL, NULL}), "bench",
                "collectives", "--tp", "2", "--against", none);
}

static void bench__says_how_a_row_compares(void **state)
{
    json_t *rows = json_array(), *first = cli_passes("bench", "norm");
    json_t *old = json_deep_copy(json_array_get(field(first, "rows"), 0));
    json_object_set_new(old, "seconds",
                        json_real(1e6)); /* whatever this machine does, it is less */
    json_array_append_new(rows, old);
    json_array_append_new(rows, row("norm", "gone", 1, 0));
    json_t *r = cli_passes("bench", "norm", "--against", recorded(state, "plain", rows));
    const json_t *against = field(json_array_get(field(r, "rows"), 0), "against");
    assert_string_equal(field_text(against, "verdict"), "faster");
    assert_true(json_number_value(field(against, "ratio")) > 1000);
    assert_int_equal(json_integer_value(field(field(r, "against"), "faster")), 1);
    assert_int_equal(json_array_size(field(field(r, "against"), "missing")), 1);
    json_decref(first);
    json_decref(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(noise__is_both_spreads_and_a_drift),
        cmocka_unit_test_setup_teardown(rows__are_told_apart_beyond_noise_alone, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(
            recorded_rows_that_nobody_met__are_named__of_what_was_asked_for, folder_setup,
            folder_teardown),
        cmocka_unit_test_setup_teardown(files__are_refused__that_are_no_recorded_run, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(bench__says_how_a_row_compares, folder_setup,
                                        folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
