/* eagle_case.c: see eagle_case.h. */
#include "tests/eagle_case.h"

#include "core/compare.h"
#include "core/cover.h"
#include "core/json.h"
#include "tests/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAP_BOUND 5e-5
#define ROW_BOUND 2e-4

const struct eagle_spec eagle_llama = {"eagle-llama", "tiny-k25", false, false, 3};
const struct eagle_spec eagle_llama_nbr = {"eagle-llama-nbr", "tiny-k25", false, false, 3};
const struct eagle_spec eagle_mla = {"eagle-mla", "tiny-k25", false, false, 3};
const struct eagle_spec eagle_trained = {"eagle-trained", "tiny-k25", true, true, 4};
const struct eagle_spec eagle_full = {"eagle-full", "full-k25-2l", false, false, 3};

/* Token ids of one of the trace's lists, added to `out`. */
static void add_ids(struct tokens *out, const json_t *list)
{
    size_t n = json_array_size(list);
    out->id = realloc(out->id, ((size_t)out->count + n) * sizeof *out->id);
    assert_non_null(out->id);
    for (size_t i = 0; i < n; i++)
        out->id[out->count++] = json_integer_value(json_array_get(list, i));
}

static void find_tokens(struct eagle_case *c, const json_t *golden)
{
    struct err err = ERR_INIT;
    struct tokens ids = {0};
    const json_t *trace = json_array_get(json_object_get(golden, "traces"), 0);
    if (c->spec->trace) {
        add_ids(&ids, json_object_get(trace, "prompt"));
        add_ids(&ids, json_object_get(trace, "greedy"));
    }
    const struct tokens *from = c->spec->trace ? &ids : &c->target.tokens;
    (void)!tokens_copy(from->id, from->count, NULL, 1, &c->tokens, &err);
    assert_ok(&err);
    assert_true(c->tokens.count > 10);
    c->rows = c->tokens.count - 1;
    free(ids.id);
}

static void run_target(struct eagle_case *c, const struct session_options *o)
{
    struct err err = ERR_INIT;
    struct states_capture capture;
    const struct head_config *h = &c->head.config;
    struct session_options options = *o;
    c->states =
        (struct states){.count = h->aux_count, .rows = c->tokens.count, .hidden = h->target_hidden};
    for (int i = 0; i < h->aux_count; i++) c->states.id[i] = h->aux[i];
    c->states.data =
        calloc((size_t)(c->states.rows * c->states.count * c->states.hidden), sizeof(double));
    assert_non_null(c->states.data);
    options.layer_end = h->aux[h->aux_count - 1];
    (void)!session_open(&c->session, &c->loaded, &options, 1, &c->tokens.count, &err);
    assert_ok(&err);
    (void)!session_forward(&c->session, &c->tokens, states_sink(&capture, &c->states, NULL), NULL,
                           NULL, &err);
    assert_ok(&err);
}

void eagle_case_open(struct eagle_case *c, const struct eagle_spec *spec,
                     const struct session_options *o)
{
    struct err err = ERR_INIT;
    char folder[FILE_PATH], path[FILE_PATH];
    json_t *j = NULL;
    *c = (struct eagle_case){.spec = spec};
    golden_open(&c->target, spec->target);
    snprintf(folder, sizeof folder, "%s/fixtures/%s", ASSAY_SOURCE_DIR, spec->name);
    (void)!file_join(folder, "golden.json", path, &err);
    (void)!json_read(path, &j, &err);
    (void)!file_join(folder, "golden.safetensors", path, &err);
    (void)!dump_open(&c->golden, path, &err);
    /* The files hold the bits of their rule (test_golden.c), and are read sooner than made. */
    char model[FILE_PATH];
    (void)!file_join(c->target.folder, "model.safetensors", model, &err);
    bool files = file_exists(model);
    (void)!loaded_open(&c->loaded, files ? c->target.folder : c->target.model, &err);
    assert_ok(&err);
    int n = spec->files
                ? snprintf(c->head_spec, sizeof c->head_spec, "%s", folder)
                : snprintf(c->head_spec, sizeof c->head_spec, "synth:%s/config.json?seed=%lld",
                           folder, (long long)json_integer_value(json_object_get(j, "seed")));
    assert_true(n > 0 && n < FILE_PATH);
    (void)!head_open(&c->head, c->head_spec, &c->loaded.model, &err);
    assert_ok(&err);
    find_tokens(c, j);
    json_decref(j);
    run_target(c, o);
}

void eagle_case_close(struct eagle_case *c)
{
    session_close(&c->session);
    free(c->states.data);
    head_close(&c->head);
    loaded_close(&c->loaded);
    dump_close(&c->golden);
    tokens_free(&c->tokens);
    golden_close(&c->target);
}

static void *kept(const void *data, int64_t count, size_t size)
{
    void *copy = malloc((size_t)count * size + 1);
    assert_non_null(copy);
    memcpy(copy, data, (size_t)count * size);
    return copy;
}

static enum err_code keep(void *ctx, const struct drafting_out *out, struct err *err)
{
    struct eagle_drafts *d = ctx;
    int64_t s = out->step;
    assert_true(s == d->steps && s < 8);
    assert_true((out->fused != NULL) == (s == 0));
    d->given[s] = out->rows;
    if (s == 0) d->fused = kept(out->fused, out->rows * d->H, sizeof(double));
    d->hidden[s] = kept(out->hidden, out->rows * d->H, sizeof(double));
    d->logits[s] = kept(out->logits, out->rows * d->V, sizeof(double));
    d->token[s] = kept(out->token, out->rows, sizeof(int32_t));
    d->steps++;
    return err->code;
}

void eagle_case_draft(struct eagle_case *c, const struct head *head, const double *aux,
                      const int64_t *teacher, struct eagle_drafts *out)
{
    struct err err = ERR_INIT;
    *out = (struct eagle_drafts){
        .rows = c->rows, .H = head->config.base.hidden, .V = head->config.draft_vocab};
    const struct drafting d = {.head = head,
                               .run = c->session.run,
                               .steps = c->spec->steps,
                               .teacher = teacher,
                               .give = keep,
                               .ctx = out};
    (void)!drafting_run(&d, 0, c->rows, aux ? aux : c->states.data, c->tokens.id, &err);
    assert_ok(&err);
}

void eagle_drafts_free(struct eagle_drafts *d)
{
    free(d->fused);
    for (int s = 0; s < 8; s++) {
        free(d->hidden[s]);
        free(d->logits[s]);
        free(d->token[s]);
    }
}

/* The rows of the drafts that the golden kept, its last ones, beside one of its taps. */
static void measure_tap(const struct dump_tap *t, const struct eagle_drafts *d, struct measure *m)
{
    int64_t skip = d->rows - t->rows;
    const double *x = t->kind == TAP_DRAFT_FUSED    ? d->fused
                      : t->kind == TAP_DRAFT_HIDDEN ? d->hidden[t->layer]
                                                    : d->logits[t->layer];
    assert_true(t->known && tap_is_draft(t->kind) && t->layer < d->steps && t->rows > 0);
    assert_true(skip >= 0 && d->given[t->layer] == d->rows);
    const struct view truth = {t->tensor->dtype, t->tensor->data, t->rows, t->cols};
    if (t->kind == TAP_DRAFT_TOKENS)
        measure_views((struct view){DT_I32, d->token[t->layer] + skip, t->rows, 1}, truth, NULL, m,
                      NULL, NULL, NULL);
    else
        measure_views((struct view){DT_F64, x + skip * t->cols, t->rows, t->cols}, truth, NULL, m,
                      NULL, NULL, NULL);
    assert_int_equal(m->elements, t->rows * t->cols);
}

double eagle_case_distance(const struct eagle_case *c, const struct eagle_drafts *d,
                           int64_t *tokens_differ)
{
    double worst = 0;
    *tokens_differ = 0;
    for (int64_t i = 0; i < c->golden.count; i++) {
        struct measure m;
        measure_tap(&c->golden.taps[i], d, &m);
        if (c->golden.taps[i].kind == TAP_DRAFT_TOKENS)
            *tokens_differ += m.differing;
        else if (!(m.rel_rms <= worst))
            worst = m.rel_rms;
    }
    return worst;
}

void eagle_case_check(const struct eagle_spec *spec, enum precision precision)
{
    struct eagle_case c;
    struct eagle_drafts d;
    struct session_options o = session_defaults();
    o.precision = precision;
    eagle_case_open(&c, spec, &o);
    eagle_case_draft(&c, &c.head, NULL, NULL, &d);
    assert_true(c.golden.count >= 8);
    for (int64_t i = 0; i < c.golden.count; i++) {
        const struct dump_tap *t = &c.golden.taps[i];
        struct measure m;
        measure_tap(t, &d, &m);
        bool ints = t->kind == TAP_DRAFT_TOKENS;
        if (m.special_mismatch == 0 && (ints ? m.differing == 0
                                             : !judge_fails(m.rel_rms, TAP_BOUND) &&
                                                   !judge_fails(m.worst_row_rel, ROW_BOUND))) {
            cover_note(tap_op(t->kind, false), COVER_GOLDEN);
            continue;
        }
        fail_msg("%s: %s: relative RMS %g, worst row %lld: %g, %lld of %lld cells differ",
                 spec->name, t->name, m.rel_rms, (long long)m.worst_row, m.worst_row_rel,
                 (long long)m.differing, (long long)m.elements);
    }
    eagle_drafts_free(&d);
    eagle_case_close(&c);
}
