/* test_preflight_story.c: the whole story replayed: a checkpoint of 64 shards, a consumer whose
 * calls no longer bind, a handler that prints an empty line, a remote command whose quotes are
 * lost. Preflight finds all of it before the load; guard shows the error when it is run anyway. */
#include "tests/preflighting.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Copies a file of the sources into the test's folder. */
static void copy(void **state, const char *from, const char *name)
{
    size_t size;
    char *text = read_whole(textf(ASSAY_SOURCE_DIR "/%s/%s", from, name), &size);
    write_whole(folder_path(state, name), text, size);
    free(text);
}

/* The checkpoint: tiny-k25 with as many layers as the real one has. */
static void make_checkpoint(void **state, bool cut)
{
    size_t size;
    char *config = read_whole(FIXTURE("tiny-k25/config.json"), &size);
    char *deep = replaced(config, "\"num_hidden_layers\": 6", "\"num_hidden_layers\": 61");
    write_text(folder_path(state, "config.json"), deep);
    free(config);
    free(deep);
    json_decref(cli_passes("synth", folder_path(state, "config.json"), "--seed", "1", "--shards",
                           "64", "--out", folder_path(state, "checkpoint")));
    if (!cut) return;
    const char *shard = folder_path(state, "checkpoint/model-00041-of-000064.safetensors");
    char *bytes = read_whole(shard, &size);
    free(bytes);
    assert_int_equal(truncate(shard, (off_t)size - 100), 0);
}

static void make_story(void **state, bool cut)
{
    make_checkpoint(state, cut);
    copy(state, "fixtures/story", "consumer.py");
    copy(state, "fixtures/story", "generate.py");
    copy(state, "fixtures/story", "plan.yaml");
    copy(state, "compat/api", "vllm-0.16.0.yaml");
    copy(state, "compat/api", "vllm-0.11.0.yaml");
}

/* What the story holds, and where. */
static const struct {
    const char *rule, *file;
    int line;
    const char *key, *text;
} told[] = {
    {"contract.call", "consumer.py", 11, "message", "is_encoder_decoder"},
    {"contract.call", "consumer.py", 15, "message", "kv_cache_specs"},
    {"contract.call", "consumer.py", 21, "message", "block_size"},
    {"contract.result", "consumer.py", 33, "message", "single reply"},
    {"contract.call", "consumer.py", 33, "message", "enable_prefix_caching: None -> True"},
    {"lint.handler.message", "generate.py", 41, "message", "the text can be empty"},
    {"lint.assert.empty", "generate.py", 16, "message", "empty text"},
    {"checkpoint.shard", "checkpoint", 0, "message", "model-00041-of-000064.safetensors"},
    {"layers.range", "plan.yaml", 10, "found", "by entry it is r_61"},
    {"disk.room", "plan.yaml", 5, "message", "the disk is full after sample"},
    {"ranks.divide", "plan.yaml", 5, "found", "8 over --tp 3"},
    {"device.missing", "plan.yaml", 5, "found", "2 of the target"},
    {"commands.break", "plan.yaml", 21, "message",
     "hop 3 of zsh,ssh,bash: an unquoted parenthesis"},
};

static const json_t *found_at(const json_t *result, const char *rule, const char *file, int line)
{
    const json_t *one;
    size_t i;
    json_array_foreach(field(result, "findings"), i, one)
    {
        if (strcmp(field_text(one, "rule"), rule) == 0 && field_int(one, "line") == line &&
            strstr(field_text(one, "file"), file))
            return one;
    }
    return NULL;
}

static json_t *result_of(void **state, const char *more, int status)
{
    struct cli r;
    const char *const argv[] = {"preflight", folder_path(state, "plan.yaml"), "--json", more, NULL};
    cli_run(&r, argv);
    if (r.status != status || !r.json) fail_msg("exit %d\n%s\n%s", r.status, r.err, r.out);
    json_t *result = json_incref(r.json);
    cli_free(&r);
    return result;
}

static void preflight__finds_the_whole_story(void **state)
{
    make_story(state, true);
    json_t *r = result_of(state, NULL, 1);
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++) {
        const json_t *f = found_at(r, told[i].rule, told[i].file, told[i].line);
        if (!f) fail_msg("no %s at %s:%d", told[i].rule, told[i].file, told[i].line);
        assert_holds(f, told[i].key, told[i].text);
    }
    /* Nothing more: what it says is what there is. */
    assert_int_equal(field_int(field(r, "counts"), "errors"), 10);
    /* Six of them after a whole load of 18 minutes, one 40 shards into it, three at the start. */
    double minutes = json_number_value(field(r, "minutes"));
    assert_true(minutes > 6 * 18 + 11 && minutes < 6 * 18 + 13);
    json_decref(r);
}

/* A small checkpoint of the same config, in as many shards as there are layers and one. */
static void rehearsal__finds_it_in_a_run(void **state)
{
    make_story(state, false);
    json_t *r = result_of(state, "--rehearse", 1);
    assert_null(finding_of(r, "checkpoint.shard"));
    const json_t *f = found_at(r, "rehearsal.empty_text", "generate.py", 16);
    assert_non_null(f);
    assert_holds(f, "message", "AssertionError");
    assert_holds(f, "message", "generate.py:41");
    json_decref(r);
}

static void guard__shows_the_error__when_it_is_run_anyway(void **state)
{
    struct cli r;
    make_story(state, false);
    const char *python = getenv("ASSAY_PYTHON") ? getenv("ASSAY_PYTHON") : "python3";
    cli(&r, "guard", "--json", "--", python, folder_path(state, "generate.py"),
        folder_path(state, "checkpoint"), *state);
    assert_int_equal(r.status, 1);
    assert_non_null(strstr(r.err, "ERROR in batch 0-3: \n")); /* as it was printed */
    const json_t *f = json_array_get(field(r.json, "findings"), 0);
    assert_string_equal(field_text(f, "type"), "AssertionError");
    assert_string_equal(field_text(f, "rule"), "empty_text");
    assert_int_equal(field_int(f, "line"), 16);
    assert_int_equal(field_int(field(f, "handler"), "line"), 41);
    assert_int_equal(field_int(r.json, "command_exit"), 0);
    cli_free(&r);
}

#define TEST(t) cmocka_unit_test_setup_teardown(t, folder_setup, folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(preflight__finds_the_whole_story),
        TEST(rehearsal__finds_it_in_a_run),
        TEST(guard__shows_the_error__when_it_is_run_anyway),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
