/* states.c: see states.h. */
#include "harness/states.h"

#include "core/check.h"
#include "core/engine.h"
#include "core/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- what a forward pass gives ---- */

/* The entry id of a tap that holds the residual stream; -1: it holds something else. */
static int64_t entry_of(const char *name)
{
    enum tap_kind kind;
    int64_t layer;
    if (!tap_parse(name, &kind, &layer)) return -1;
    return kind == TAP_EMBED ? 0 : kind == TAP_OUTPUT ? layer + 1 : -1;
}

static int place_of(const struct states *s, int64_t entry)
{
    for (int k = 0; k < s->count; k++) {
        if (s->id[k] == entry) return k;
    }
    return -1;
}

static bool is_final_norm(const char *name)
{
    return strcmp(name, "final_norm") == 0;
}

static bool own(const struct states *s, const char *name)
{
    int64_t entry = entry_of(name);
    if (entry < 0) return s->normed && is_final_norm(name);
    return place_of(s, entry) >= 0 || (s->bad && entry < s->id[s->count - 1]);
}

static bool wants(void *ctx, const char *name)
{
    const struct states_capture *c = ctx;
    return own(c->states, name) || (c->next && c->next->wants(c->next->ctx, name));
}

static bool all_finite(const double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(x[i])) return false;
    }
    return true;
}

static void take(struct states *s, const char *name, const struct rows *rows, const double *data)
{
    int64_t entry = entry_of(name), H = s->hidden;
    int k = entry < 0 ? -1 : place_of(s, entry);
    for (int64_t i = 0; i < rows->count; i++) {
        int64_t r = rows->dump_row[i];
        const double *x = data + i * H;
        CHECK(r >= 0 && r < s->rows);
        if (entry < 0) memcpy(s->normed + r * H, x, (size_t)H * sizeof *x);
        if (k >= 0) memcpy(s->data + (r * s->count + k) * H, x, (size_t)H * sizeof *x);
        if (entry >= 0 && s->bad && s->bad[r] < 0 && !all_finite(x, H)) s->bad[r] = (int32_t)entry;
    }
}

static enum err_code reals(void *ctx, const char *name, const struct rows *rows, int64_t cols,
                           const double *data, struct err *err)
{
    const struct states_capture *c = ctx;
    const struct tap_sink *next = c->next;
    if (own(c->states, name)) {
        CHECK(cols == c->states->hidden);
        take(c->states, name, rows, data);
    }
    if (!next || !next->wants(next->ctx, name)) return ERR_OK;
    return next->reals(next->ctx, name, rows, cols, data, err);
}

static enum err_code ints(void *ctx, const char *name, const struct rows *rows, int64_t cols,
                          const int32_t *data, struct err *err)
{
    const struct states_capture *c = ctx;
    return c->next->ints(c->next->ctx, name, rows, cols, data, err);
}

static enum err_code replace(void *ctx, const char *name, const struct rows *rows, int64_t cols,
                             double *data, struct err *err)
{
    const struct states_capture *c = ctx;
    return c->next->replace(c->next->ctx, name, rows, cols, data, err);
}

struct tap_sink *states_sink(struct states_capture *keep, struct states *s, struct tap_sink *next)
{
    CHECK(s->count > 0);
    for (int64_t r = 0; s->bad && r < s->rows; r++) s->bad[r] = -1;
    *keep = (struct states_capture){.states = s, .next = next};
    keep->sink = (struct tap_sink){.wants = wants,
                                   .reals = reals,
                                   .ints = ints,
                                   .replace = next && next->replace ? replace : NULL,
                                   .ctx = keep};
    return &keep->sink;
}

/* ---- an engine of engine.h ---- */

struct own {
    struct loaded loaded;
    struct session_options options;
    struct load *load; /* one watch for all batches: a checkpoint is loaded once */
    int64_t passes;    /* over the layers, since the engine was opened */
    /* The batch that runs. */
    const struct states *states;
    int64_t step, steps;
};

/* The first pass over the layers is the load, and shown as one; later ones are the caller's. */
static void on_layer(void *ctx, const char *stage, int64_t done, int64_t total)
{
    struct own *r = ctx;
    if (strcmp(stage, ENGINE_LOADING) == 0) {
        if (r->load) load_progress(r->load, stage, done, total);
        return;
    }
    if (done == 0) {
        r->passes++;
        r->step++;
    }
    /* The watch learns that the second pass has begun, and then only tells stalls. */
    if (r->load && (r->passes == 1 || (r->passes == 2 && done == 0)))
        load_progress(r->load, stage, done, total);
    if (!r->states->progress || (r->load && r->passes == 1)) return;
    double share = (double)(r->step - 1) + (double)done / (double)total;
    r->states->progress(r->states->progress_ctx, share / (double)r->steps);
}

static int64_t longest_of(const struct tokens *t)
{
    int64_t longest = 0;
    for (int64_t q = 0; q < t->sequences; q++)
        longest = t->length[q] > longest ? t->length[q] : longest;
    return longest;
}

static enum err_code own_run(void *ctx, const struct tokens *t, struct states *s, struct err *err)
{
    struct own *r = ctx;
    struct session session;
    struct states_capture keep;
    struct session_options o = r->options;
    const struct config *c = r->loaded.model.config;
    CHECK(s->hidden == c->hidden && s->rows == t->count && s->id[s->count - 1] <= c->layers);
    o.layer_end = s->normed ? c->layers : s->id[s->count - 1];
    if (!r->load && r->passes == 0 && !ranks_is(&r->loaded.engine)) {
        const struct load_options watch = load_defaults();
        r->load = load_begin(r->loaded.model.weights, o.layer_end, &watch);
    }
    ranks_label(&r->loaded.engine, s->batch, s->samples ? s->samples : "");
    r->states = s;
    r->step = 0;
    r->steps = o.chunk ? (longest_of(t) + o.chunk - 1) / o.chunk : 1;
    if (session_open(&session, &r->loaded, &o, t->sequences, t->length, err) == ERR_OK) {
        session.run.progress = on_layer;
        session.run.progress_ctx = r;
        (void)!session_forward(&session, t, states_sink(&keep, s, NULL), NULL, NULL, err);
    }
    session_close(&session);
    return err->code;
}

static void own_close(void *ctx)
{
    struct own *r = ctx;
    load_end(r->load);
    loaded_close(&r->loaded);
    free(r);
}

enum err_code states_engine_open(struct states_engine *e, const char *on, const char *model,
                                 const struct session_options *o, struct err *err)
{
    *e = (struct states_engine){0};
    struct session_options by = *o;
    by.engine = strcmp(on, "gpu") == 0 ? gpu_engine() : ref_engine();
    if (engine_usable(by.engine, err) != ERR_OK) return err->code;
    struct own *r = calloc(1, sizeof *r);
    if (!r) return err_set(err, ERR_MEMORY, "open engine|%s|no memory", model);
    r->options = by;
    if (loaded_open_by(&r->loaded, model, &by, err) != ERR_OK) {
        own_close(r);
        return err->code;
    }
    const struct config *c = r->loaded.model.config;
    const struct engine_kind *kind = r->loaded.engine.kind;
    *e = (struct states_engine){.name = kind->about,
                                .rows_alone = kind->rows_alone,
                                .act = c->dtype,
                                .layers = c->layers,
                                .hidden = c->hidden,
                                .vocab = c->vocab,
                                .weights = &r->loaded.weights,
                                .ctx = r,
                                .run = own_run,
                                .close = own_close};
    return ERR_OK;
}

void states_engine_close(struct states_engine *e)
{
    if (e->close) e->close(e->ctx);
    *e = (struct states_engine){0};
}

struct loaded *states_engine_loaded(const struct states_engine *e)
{
    return e->run == own_run ? &((struct own *)e->ctx)->loaded : NULL;
}

/* ---- which states ---- */

/* One id of the list as an entry id. */
static enum err_code add_id(struct states *s, const char *text, bool output, int64_t layers,
                            struct err *err)
{
    int64_t id, last = output ? layers - 1 : layers;
    const char *numbering = output ? "output" : "entry";
    if (!text_int(text, &id))
        return err_set(err, ERR_USAGE, "option|--layers|\"%s\"|layer ids such as 2,30,58,60", text);
    if (id < 0 || id > last)
        return err_set(err, ERR_USAGE,
                       "option|--layers|%lld|0 to %lld in %s numbering: the model has %lld layers",
                       (long long)id, (long long)last, numbering, (long long)layers);
    int64_t entry = output ? id + 1 : id, before = s->count ? s->id[s->count - 1] : -1;
    if (entry <= before)
        return err_set(err, ERR_USAGE, "option|--layers|%lld %s|each id once, ascending",
                       (long long)id, place_of(s, entry) >= 0 ? "twice" : "after a larger one");
    if (s->count == STATES_MAX)
        return err_set(err, ERR_USAGE, "option|--layers|more than %d ids|at most %d", STATES_MAX,
                       STATES_MAX);
    s->id[s->count++] = entry;
    return ERR_OK;
}

enum err_code states_ids(struct states *s, const char *list, const char *numbering, int64_t layers,
                         struct err *err)
{
    bool output = strcmp(numbering, "output") == 0;
    if (!output && strcmp(numbering, "entry") != 0)
        return err_set(err, ERR_USAGE, "option|--numbering|\"%s\"|entry or output", numbering);
    s->count = 0;
    for (const char *at = list;; at++) {
        char text[32];
        size_t n = strcspn(at, ",");
        if (n == 0 || n >= sizeof text)
            return err_set(err, ERR_USAGE, "option|--layers|\"%s\"|layer ids such as 2,30,58,60",
                           list);
        memcpy(text, at, n);
        text[n] = '\0';
        if (add_id(s, text, output, layers, err) != ERR_OK) return err->code;
        at += n;
        if (!*at) return ERR_OK;
    }
}
