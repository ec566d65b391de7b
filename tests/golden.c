/* golden.c: see golden.h. */
#include "tests/golden.h"

#include "core/json.h"
#include "harness/replay.h"
#include "tests/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void read_ids(const json_t *array, struct tokens *out)
{
    struct err err = ERR_INIT;
    char *text = json_dumps(array, JSON_COMPACT);
    assert_non_null(text);
    assert_int_equal(tokens_parse_json(text, (int64_t)strlen(text), "golden.json", out, &err),
                     ERR_OK);
    free(text);
}

void golden_open(struct golden *g, const char *name)
{
    struct err err = ERR_INIT;
    char path[FILE_PATH];
    json_t *j = NULL;
    *g = (struct golden){0};
    snprintf(g->folder, sizeof g->folder, "%s/fixtures/%s", ASSAY_SOURCE_DIR, name);
    (void)!file_join(g->folder, "golden.json", path, &err);
    (void)!json_read(path, &j, &err);
    assert_ok(&err);
    int n = snprintf(g->model, sizeof g->model, "synth:%s/config.json?seed=%lld&latent_gain=%.17g",
                     g->folder, (long long)json_integer_value(json_object_get(j, "seed")),
                     json_number_value(json_object_get(j, "latent_gain")));
    assert_true(n > 0 && n < FILE_PATH);
    read_ids(json_object_get(j, "tokens"), &g->tokens);
    read_ids(json_object_get(j, "greedy"), &g->greedy);
    g->prompt = json_integer_value(json_object_get(j, "greedy_prompt"));
    json_decref(j);
}

void golden_close(struct golden *g)
{
    tokens_free(&g->tokens);
    tokens_free(&g->greedy);
}

void golden_run(const struct golden *g, const char *model, const struct session_options *o,
                struct forced *forced, struct dump *out)
{
    struct err err = ERR_INIT;
    struct loaded l;
    (void)!loaded_open(&l, model ? model : g->model, &err);
    assert_ok(&err);
    (void)!replay_run(&l, &g->tokens, o, forced, DT_F64, out, &err);
    assert_ok(&err);
    loaded_close(&l);
}

void golden_dump(const struct golden *g, const char *file, struct dump *out)
{
    struct err err = ERR_INIT;
    char path[FILE_PATH];
    (void)!file_join(g->folder, file, path, &err);
    (void)!dump_open(out, path, &err);
    assert_ok(&err);
}
