/* forward_draft.c: see forward_draft.h. */
#include "harness/forward_draft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum err_code forward_draft_open(struct forward_draft *d, const char *head, int64_t steps,
                                 const struct model *target, const struct tokens *t,
                                 struct err *err)
{
    struct states *s = &d->states;
    int64_t longest = 0;
    size_t n = 0;
    for (int64_t q = 0; q < t->sequences; q++)
        longest = t->length[q] > longest ? t->length[q] : longest;
    if (longest < 2)
        return err_set(err, ERR_USAGE,
                       "option|--draft|sequences of one token|two or more: a row pairs the states "
                       "of a token with the one behind it");
    d->steps = steps;
    if (head_open(&d->head, head, target, err) != ERR_OK ||
        checkpoint_name(&d->head.weights, d->checkpoint, err) != ERR_OK)
        return err->code;
    const struct head_config *c = &d->head.config;
    *s = (struct states){.count = c->aux_count, .rows = t->count, .hidden = c->target_hidden};
    for (int i = 0; i < c->aux_count; i++) {
        s->id[i] = c->aux[i];
        n += (size_t)snprintf(d->aux + n, sizeof d->aux - n, "%s%lld", i ? "," : "[",
                              (long long)c->aux[i]);
    }
    snprintf(d->aux + n, sizeof d->aux - n, "]");
    s->data = calloc((size_t)(t->count * s->count * s->hidden) + 1, sizeof *s->data);
    return s->data ? ERR_OK : err_set(err, ERR_MEMORY, "draft head|%s|no memory", head);
}

/* Adds an entry id that the target has, once and in its place. */
static bool add_entry(struct states *s, int64_t id, int64_t layers)
{
    int at = 0;
    if (id < 0 || id > layers) return true;
    while (at < s->count && s->id[at] < id) at++;
    if (at < s->count && s->id[at] == id) return true;
    if (s->count == STATES_MAX) return false;
    memmove(s->id + at + 1, s->id + at, (size_t)(s->count - at) * sizeof *s->id);
    s->id[at] = id;
    s->count++;
    return true;
}

enum err_code forward_draft_around(struct forward_draft *d, int64_t layers, struct err *err)
{
    struct states all = {.rows = d->states.rows, .hidden = d->states.hidden};
    size_t n = (size_t)(all.rows * d->states.count * all.hidden) + 1;
    for (int i = 0; i < d->states.count; i++) {
        for (int64_t by = -1; by <= 1; by++) {
            if (!add_entry(&all, d->states.id[i] + by, layers)) return ERR_OK;
        }
    }
    all.data = calloc((size_t)(all.rows * all.count * all.hidden) + 1, sizeof *all.data);
    d->near[0] = calloc(n, sizeof *all.data);
    d->near[1] = calloc(n, sizeof *all.data);
    d->around = all;
    if (!all.data || !d->near[0] || !d->near[1])
        return err_set(err, ERR_MEMORY, "draft head|%s|no memory", d->head.weights.path);
    return ERR_OK;
}

/* d->near from d->around; where the target has no such state, the nearest. */
static void fill_near(struct forward_draft *d)
{
    const struct states *s = &d->states, *all = &d->around;
    for (int side = 0; side < 2 && d->near[0]; side++) {
        for (int i = 0; i < s->count; i++) {
            int own = 0, at;
            while (all->id[own] != s->id[i]) own++;
            at = side ? own + 1 : own - 1;
            if (at < 0 || at >= all->count || all->id[at] != s->id[i] + (side ? 1 : -1)) at = own;
            for (int64_t r = 0; r < s->rows; r++)
                memcpy(d->near[side] + (r * s->count + i) * s->hidden,
                       all->data + (r * all->count + at) * s->hidden,
                       (size_t)s->hidden * sizeof *s->data);
        }
    }
}

void forward_draft_close(struct forward_draft *d)
{
    head_close(&d->head);
    free(d->around.data);
    free(d->near[0]);
    free(d->near[1]);
    free(d->states.data);
    *d = (struct forward_draft){0};
}

enum err_code forward_draft_taps(const struct forward_draft *d, struct tap **taps, int64_t *count,
                                 struct err *err)
{
    struct tap *own = NULL, *both;
    int64_t n;
    const struct head_config *c = &d->head.config;
    if (tap_list_draft(d->steps, c->base.hidden, c->draft_vocab, &own, &n, err) != ERR_OK)
        return err->code;
    both = realloc(*taps, (size_t)(*count + n + 1) * sizeof *both);
    if (both) {
        memcpy(both + *count, own, (size_t)n * sizeof *own);
        *taps = both;
        *count += n;
    } else {
        err_set(err, ERR_MEMORY, "list taps||no memory");
    }
    free(own);
    return err->code;
}

void forward_draft_meta(const struct forward_draft *d, const char *head,
                        struct st_meta out[FORWARD_DRAFT_METAS])
{
    const struct st_meta meta[FORWARD_DRAFT_METAS] = {
        {"assay.draft", head},
        {"assay.draft_config_sha256", d->head.config.base.sha256},
        {"assay.draft_checkpoint", d->checkpoint},
        {"assay.aux", d->aux},
    };
    memcpy(out, meta, sizeof meta);
}

int64_t forward_draft_layers(const struct forward_draft *d, const struct tap *taps, int64_t count,
                             int64_t layers)
{
    const struct states *widest = d->near[0] ? &d->around : &d->states;
    int64_t end = widest->id[widest->count - 1];
    for (int64_t i = 0; i < count; i++) {
        const struct tap *t = &taps[i];
        if (tap_is_draft(t->kind)) continue;
        bool last = t->kind == TAP_FINAL_NORM || t->kind == TAP_LOGITS;
        int64_t needs = last ? layers : t->layer + 1;
        if (needs > end) end = needs;
    }
    return end;
}

struct tap_sink *forward_draft_sink(struct forward_draft *d, struct tap_sink *sink)
{
    struct tap_sink *own = states_sink(&d->capture, &d->states, sink);
    return d->near[0] ? states_sink(&d->around_capture, &d->around, own) : own;
}

/* Where one sequence's taps go. */
struct target {
    struct tap_sink *sink;
    struct rows rows; /* of the first step; later ones take its beginning */
    const struct head_config *config;
};

static enum err_code give_reals(const struct target *g, enum tap_kind kind, int64_t cols,
                                const struct drafting_out *out, const double *data, struct err *err)
{
    char name[TAP_NAME];
    struct rows rows = g->rows;
    rows.count = out->rows;
    tap_format(kind, out->step, name);
    if (!data || !g->sink->wants(g->sink->ctx, name)) return ERR_OK;
    return g->sink->reals(g->sink->ctx, name, &rows, cols, data, err);
}

static enum err_code give(void *ctx, const struct drafting_out *out, struct err *err)
{
    const struct target *g = ctx;
    char name[TAP_NAME];
    struct rows rows = g->rows;
    int64_t H = g->config->base.hidden, V = g->config->draft_vocab;
    rows.count = out->rows;
    tap_format(TAP_DRAFT_TOKENS, out->step, name);
    if (give_reals(g, TAP_DRAFT_FUSED, H, out, out->fused, err) != ERR_OK ||
        give_reals(g, TAP_DRAFT_HIDDEN, H, out, out->hidden, err) != ERR_OK ||
        give_reals(g, TAP_DRAFT_LOGITS, V, out, out->logits, err) != ERR_OK ||
        !g->sink->wants(g->sink->ctx, name))
        return err->code;
    return g->sink->ints(g->sink->ctx, name, &rows, 1, out->token, err);
}

static enum err_code run_sequence(struct forward_draft *d, const struct run *run, int64_t sequence,
                                  int64_t begin, const struct tokens *t, int64_t *dump_row,
                                  struct tap_sink *sink, struct err *err)
{
    int64_t rows = t->length[sequence] - 1, first = begin * d->states.count * d->states.hidden;
    struct target target = {
        .sink = sink, .rows = {.dump_row = dump_row}, .config = &d->head.config};
    struct drafting drafting = {.engine = d->engine,
                                .head = &d->head,
                                .run = *run,
                                .steps = d->steps,
                                .first_row = begin,
                                .hold = d->hold,
                                .give = give,
                                .ctx = &target};
    for (int i = 0; i < 2 && d->near[0]; i++) drafting.aux_near[i] = d->near[i] + first;
    for (int64_t p = 0; p < rows; p++) dump_row[p] = begin + p;
    return drafting_run(&drafting, sequence, rows, d->states.data + first, t->id + begin, err);
}

enum err_code forward_draft_run(struct forward_draft *d, const struct run *run,
                                const struct tokens *t, struct tap_sink *sink, struct err *err)
{
    struct arena_block *mark = arena_mark(run->arena);
    int64_t begin = 0;
    int64_t *row = arena_alloc(run->arena, t->count, sizeof *row, "draft rows", err);
    fill_near(d);
    for (int64_t q = 0; row && err->code == ERR_OK && q < t->sequences; begin += t->length[q++])
        (void)!run_sequence(d, run, q, begin, t, row, sink, err);
    arena_release(run->arena, mark);
    return err->code == ERR_OK ? ERR_OK : err_note(err, "draft head %s", d->head.weights.path);
}
