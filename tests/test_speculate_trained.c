/* test_speculate_trained.c: a trained head: the tokens and the accepted drafts of every round are
 * those of another implementation. */
#include "harness/speculate.h"

#include "tests/drafted.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

static void ids_of(const json_t *array, int64_t *out)
{
    for (size_t i = 0; i < json_array_size(array); i++)
        out[i] = json_integer_value(json_array_get(array, i));
}

static void check_trace(struct drafted *d, const json_t *trace, const struct speculate_options *how)
{
    const json_t *start = json_object_get(trace, "prompt"),
                 *greedy = json_object_get(trace, "greedy"),
                 *accepted = json_object_get(trace, "accepted");
    int64_t first[64], wanted[64], n = (int64_t)json_array_size(start);
    int64_t count = (int64_t)json_array_size(greedy);
    assert_in_range(n, 1, 64);
    assert_in_range(count, 1, 64);
    ids_of(start, first);
    ids_of(greedy, wanted);
    drafted_start(d, how, n + count + how->drafts);
    drafted_begin(d, first, n);
    for (size_t round = 0; d->s.length < n + count; round++) {
        drafted_round(d);
        if (!how->tree && round < json_array_size(accepted))
            assert_int_equal(d->s.accepted, json_integer_value(json_array_get(accepted, round)));
    }
    for (int64_t i = 0; i < count; i++) assert_int_equal(d->s.text[n + i], wanted[i]);
    drafted_stop(d);
}

static void trained__head_gives_the_golden_traces(void **state)
{
    static const char fixtures[] = ASSAY_SOURCE_DIR "/fixtures";
    const struct speculate_options four = {.drafts = 4},
                                   few = {.drafts = 12, .tree = true, .depth = 3, .top_k = 4};
    struct drafted d = {.kind = DRAFTED_LLAMA, .options = session_defaults()};
    struct err err = ERR_INIT;
    char path[512];
    (void)state;
    d.options.threads = 1;
    snprintf(path, sizeof path, "%s/tiny-k25", fixtures);
    if (loaded_open(&d.loaded, path, &err) != ERR_OK) assert_ok(&err);
    snprintf(path, sizeof path, "%s/eagle-trained", fixtures);
    if (head_open(&d.head, path, &d.loaded.model, &err) != ERR_OK) assert_ok(&err);
    snprintf(path, sizeof path, "%s/eagle-trained/golden.json", fixtures);
    json_t *golden = json_load_file(path, 0, NULL), *traces = json_object_get(golden, "traces");
    assert_int_equal(json_array_size(traces), 16);
    for (size_t i = 0; i < 16; i++) {
        check_trace(&d, json_array_get(traces, i), &four);
        if (i < 4) check_trace(&d, json_array_get(traces, i), &few);
    }
    json_decref(golden);
    drafted_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trained__head_gives_the_golden_traces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
