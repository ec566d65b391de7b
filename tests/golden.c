/* golden.c: see golden.h. */
#include "tests/golden.h"

#include "core/compare.h"
#include "core/cover.h"
#include "core/json.h"
#include "core/logits.h"
#include "harness/align.h"
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
    (void)!replay_run(&l, &g->tokens, o, forced, NULL, NULL, DT_F64, out, &err);
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

#define TAP_BOUND 5e-5
#define ROW_BOUND 2e-4

static struct view view_of(const struct dump_tap *t)
{
    return (struct view){t->tensor->dtype, t->tensor->data, t->rows, t->cols};
}

static void check_tap(const char *name, const struct pair *p, const int64_t *row)
{
    struct measure m;
    measure_views(view_of(p->subject), view_of(p->truth), row, &m, NULL, NULL, NULL);
    bool ints = dtype_is_int(p->truth->tensor->dtype);
    bool holds =
        m.elements > 0 && m.special_mismatch == 0 &&
        (ints ? m.differing == 0
              : !judge_fails(m.rel_rms, TAP_BOUND) && !judge_fails(m.worst_row_rel, ROW_BOUND));
    if (holds) {
        /* Evidence for `assay cover`: taps of these cases come from every op on the way. */
        cover_note(tap_op(p->truth->kind, p->moe), COVER_GOLDEN);
        if (p->truth->kind == TAP_MLP) cover_note(p->moe ? "moe" : "mlp", COVER_GOLDEN);
        return;
    }
    fail_msg("%s: %s: relative RMS %g, worst row %lld: %g, %lld of %lld cells differ", name,
             p->truth->name, m.rel_rms, (long long)m.worst_row, m.worst_row_rel,
             (long long)m.differing, (long long)m.elements);
}

void golden_check(const char *name, enum precision precision, const char *model, int64_t taps_min)
{
    struct golden g;
    struct dump ref, golden;
    struct alignment a;
    struct err err = ERR_INIT;
    struct session_options o = session_defaults();
    o.precision = precision;
    golden_open(&g, name);
    golden_run(&g, model, &o, NULL, &ref);
    golden_dump(&g, "golden.safetensors", &golden);
    (void)!align_dumps(&ref, &golden, &a, &err);
    assert_ok(&err);
    assert_int_equal(a.missing_count, 0);
    assert_int_equal(a.count, golden.count);
    assert_true(a.count >= taps_min);
    assert_int_equal(a.matched, golden.rows);
    for (int64_t i = 0; i < a.count; i++) check_tap(name, &a.pairs[i], a.row);
    align_free(&a);
    dump_close(&golden);
    dump_close(&ref);
    golden_close(&g);
}

void golden_check_greedy(const char *name)
{
    struct golden g;
    struct loaded l;
    struct session s;
    struct err err = ERR_INIT;
    struct session_options o = session_defaults();
    golden_open(&g, name);
    int64_t room = g.prompt + g.greedy.count;
    struct tokens prompt = {
        .id = g.tokens.id, .count = g.prompt, .length = &g.prompt, .sequences = 1};
    (void)!loaded_open(&l, g.model, &err);
    assert_ok(&err);
    int64_t V = l.model.config->vocab;
    double *logits = malloc((size_t)V * sizeof *logits);
    (void)!session_open(&s, &l, &o, 1, &room, &err);
    assert_ok(&err);
    (void)!session_forward(&s, &prompt, NULL, NULL, logits, &err);
    assert_ok(&err);
    for (int64_t i = 0; i < g.greedy.count; i++) {
        double margin;
        int64_t id = logits_argmax(logits, V, &margin);
        if (id != g.greedy.id[i])
            fail_msg("%s: greedy token %lld is %lld, golden %lld, margin %g", name, (long long)i,
                     (long long)id, (long long)g.greedy.id[i], margin);
        (void)!session_decode(&s, &id, logits, &err);
        assert_ok(&err);
    }
    assert_true(g.greedy.count >= 12);
    session_close(&s);
    free(logits);
    loaded_close(&l);
    golden_close(&g);
}
