/* test_bench_counters.c: the profiler's CSV beside the rows of a benchmark: which launches are of
 * which case, how they come together, and what is no such file. */
#include "harness/bench_counters.h"

#include "tests/cli.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define HEAD                                                                                       \
    "==PROF== Connected to process 7 (/x/assay)\n"                                                 \
    "\"ID\",\"Kernel Name\",\"Grid Size\",\"gpu__time_duration.sum\",\"dram__bytes_read.sum\","    \
    "\"dram__bytes_write.sum\",\"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_"         \
    "elapsed\"\n"                                                                                  \
    "\"\",\"\",\"\",\"ns\",\"byte\",\"byte\",\"%\"\n"

static const struct bench_ceilings ceilings = {.read = 4e12, .copy = 4e12, .matmul = 8e14};

static const char *written(void **state, const char *text)
{
    const char *path = folder_path(state, "ncu.csv");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    return path;
}

static void opened(void **state, const char *text, struct bench_counters *b)
{
    struct err err;
    err_clear(&err);
    assert_int_equal(bench_counters_open(b, written(state, text), &err), ERR_OK);
}

static void launches__belong_to_the_case_marked_before_them(void **state)
{
    struct bench_counters b;
    json_t *third = json_object(), *seventh = json_object(), *other = json_object();
    opened(state,
           HEAD
           "\"0\",\"stray\",\"(1, 1, 1)\",\"1000\",\"1\",\"1\",\"0\"\n"
           "\"1\",\"bench_case\",\"(3, 1, 1)\",\"900\",\"0\",\"0\",\"0\"\n"
           "\"2\",\"few_kernel\",\"(896, 1, 1)\",\"2,000\",\"4,000,000\",\"1,000,000\",\"10\"\n"
           "\"3\",\"norm \"\"x\"\"\",\"(1, 1, 1)\",\"1000\",\"0\",\"0\",\"0\"\n"
           "\"4\",\"few_kernel\",\"(896, 1, 1)\",\"6000\",\"11000000\",\"0\",\"50\"\n"
           "\"5\",\"bench_case\",\"(7, 1, 1)\",\"900\",\"0\",\"0\",\"0\"\n"
           "\"6\",\"few_kernel\",\"(1, 1, 1)\",\"1000\",\"n/a\",\"0\",\"nan\"\n",
           &b);
    bench_counters_row(&b, 3, &ceilings, third);
    bench_counters_row(&b, 7, &ceilings, seventh);
    bench_counters_row(&b, 1, &ceilings, other);
    const json_t *list = field(third, "counters"), *k = json_array_get(list, 0);
    assert_int_equal(json_array_size(list), 2);
    assert_string_equal(field_text(k, "kernel"), "few_kernel");
    assert_int_equal(json_integer_value(field(k, "launches")), 2);
    assert_true(fabs(json_number_value(field(k, "seconds")) - 8e-6) < 1e-15);
    assert_true(fabs(json_number_value(field(k, "gbps")) - 2000) < 1e-6); /* 16 MB in 8 us */
    assert_true(fabs(json_number_value(field(k, "read_share")) - 0.5) < 1e-9);
    assert_true(fabs(json_number_value(field(k, "tensor_share")) - 0.4) < 1e-9); /* by time */
    assert_string_equal(field_text(json_array_get(list, 1), "kernel"), "norm \"x\"");
    k = json_array_get(field(seventh, "counters"), 0);
    assert_int_equal(json_array_size(field(seventh, "counters")), 1);
    assert_null(json_object_get(k, "gbps")); /* what is no number is not reported */
    assert_null(json_object_get(k, "tensor_share"));
    assert_null(json_object_get(other, "counters"));
    json_decref(third);
    json_decref(seventh);
    json_decref(other);
    bench_counters_close(&b);
}

static void the_profilers_errors__are_told_in_its_words(void **state)
{
    struct bench_counters b;
    opened(state, "==PROF== Connected\n==ERROR== ERR_NVGPUCTRPERM - no permission\n", &b);
    json_t *said = bench_counters_json(&b);
    assert_int_equal(json_integer_value(field(said, "cases")), 0);
    assert_string_equal(json_string_value(json_array_get(field(said, "errors"), 0)),
                        "==ERROR== ERR_NVGPUCTRPERM - no permission");
    json_decref(said);
    bench_counters_close(&b);
}

static void a_file_without_counts__is_refused(void **state)
{
    static const char *const texts[] = {
        "", "no csv\n", HEAD, /* then a launch that no marker was before */
        HEAD "\"0\",\"few_kernel\",\"(1, 1, 1)\",\"1000\",\"1\",\"1\",\"0\"\n",
        HEAD "\"0\",\"bench_case\",\"(0, 1, 1)\",\"1000\",\"1\",\"1\",\"0\"\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct bench_counters b;
        struct err err;
        err_clear(&err);
        assert_int_equal(bench_counters_open(&b, written(state, texts[i]), &err), ERR_INPUT);
        assert_string_equal(err.what, "bench --counters");
        bench_counters_close(&b);
    }
}

static void bench__refuses_counters_that_are_none(void **state)
{
    const char *file = written(state, "nothing\n");
    cli_refuses(state, ((struct refusal){2, "bench --counters", "ncu.csv", NULL, NULL}), "bench",
                "norm", "--counters", file);
    cli_refuses(state, ((struct refusal){2, "bench collectives", "--counters", NULL, NULL}),
                "bench", "collectives", "--tp", "2", "--counters", file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(launches__belong_to_the_case_marked_before_them,
                                        folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(the_profilers_errors__are_told_in_its_words, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(a_file_without_counts__is_refused, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(bench__refuses_counters_that_are_none, folder_setup,
                                        folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
