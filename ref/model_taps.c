/* model_taps.c: see model_taps.h. */
#include "ref/model_taps.h"

#include "core/check.h"

#include <string.h>

/* Wishes: two taps of every layer, then three of the step. */
enum { WISH_LAYER = 2, WISH_FINAL_NORM = 0, WISH_LOGITS, WISH_REPLACES, WISHES };

static int64_t wishes_of(const struct model_taps *t)
{
    return t->step->model->config->layers * WISH_LAYER + WISHES;
}

static unsigned char *wish_of(const struct model_taps *t, enum tap_kind kind, int64_t layer)
{
    unsigned char *step = t->wishes + t->step->model->config->layers * WISH_LAYER;
    if (kind == TAP_LOGITS) return step + WISH_LOGITS;
    if (kind == TAP_FINAL_NORM) return step + WISH_FINAL_NORM;
    CHECK(kind == TAP_Q || kind == TAP_ATTN_CORE);
    return t->wishes + layer * WISH_LAYER + (kind == TAP_ATTN_CORE);
}

static bool wants(const struct tap_sink *sink, enum tap_kind kind, int64_t layer)
{
    char name[TAP_NAME];
    tap_format(kind, layer, name);
    return sink->wants(sink->ctx, name);
}

/* This rank's own. */
static bool needs(const struct model_taps *t, enum tap_kind kind)
{
    const struct tap_sink *sink = t->step->sink;
    return t->step->logits || t->run->faults || (sink && (sink->replace || wants(sink, kind, -1)));
}

static void make_wishes(const struct model_taps *t)
{
    static const enum tap_kind cut[] = {TAP_Q, TAP_ATTN_CORE};
    const struct tap_sink *sink = t->step->sink;
    for (int64_t l = t->step->layer_first; sink && l < t->step->layer_end; l++) {
        for (int k = 0; k < WISH_LAYER; k++)
            *wish_of(t, cut[k], l) = sink->replace || wants(sink, cut[k], l);
    }
    if (t->step->layer_end < t->step->model->config->layers) return;
    *wish_of(t, TAP_FINAL_NORM, -1) = needs(t, TAP_FINAL_NORM);
    *wish_of(t, TAP_LOGITS, -1) = needs(t, TAP_LOGITS);
}

/* The ranks are in the same step: its layers, its form, its arithmetic and its rows. */
static enum err_code agree(const struct model_taps *t, struct err *err)
{
    const struct step *s = t->step;
    const struct run *run = t->run;
    int64_t T = s->rows->count, name[2] = {0};
    memcpy(name, run->profile.name, sizeof name);
    const int64_t form[] = {T,
                            s->layer_first,
                            s->layer_end,
                            s->decode,
                            s->logits != NULL,
                            run->faults != NULL,
                            run->precision,
                            run->linear,
                            run->act,
                            name[0],
                            name[1]};
    enum { FORM = sizeof form / sizeof form[0] };
    int64_t n = FORM + 3 * T, *all = arena_alloc(run->arena, n, sizeof *all, "the step", err);
    if (!all) return err->code;
    memcpy(all, form, sizeof form);
    for (int64_t i = 0; i < T; i++) {
        all[FORM + 3 * i] = s->rows->token[i];
        all[FORM + 3 * i + 1] = s->rows->position[i];
        all[FORM + 3 * i + 2] = s->rows->sequence[i];
    }
    return collective_agree(t->shard->all, "step", all, n * (int64_t)sizeof *all, err);
}

enum err_code model_taps_open(struct model_taps *t, const struct step *step, struct run *run,
                              struct err *err)
{
    const struct shard *shard = step->model->shard;
    *t = (struct model_taps){.step = step, .run = run, .sink = step->sink};
    t->replaces = step->sink && step->sink->replace;
    if (!shard || shard->world == 1) return ERR_OK;
    if (!shard->all || !shard->tensor)
        return err_set(err, ERR_INPUT, "step|rank %d of %d|no group of ranks|shard_join()",
                       shard->rank, shard->world);
    t->shard = shard;
    if (agree(t, err) != ERR_OK) return err->code;
    int64_t n = wishes_of(t);
    t->wishes = arena_alloc(run->arena, n, 1, "wanted taps", err);
    if (!t->wishes) return err->code;
    memset(t->wishes, 0, (size_t)n);
    if (shard->rank == 0) make_wishes(t);
    t->wishes[n - WISHES + WISH_REPLACES] = t->replaces;
    if (shard->rank != 0) t->sink = NULL;
    if (collective_broadcast(shard->all, "wanted taps", t->wishes, n, 0, err) != ERR_OK)
        return err->code;
    t->replaces = t->wishes[n - WISHES + WISH_REPLACES];
    return ERR_OK;
}

bool model_taps_need(const struct model_taps *t, enum tap_kind kind)
{
    return t->shard ? *wish_of(t, kind, -1) : needs(t, kind);
}

/* What rank 0's sink made of it goes on everywhere. */
static enum err_code spread(const struct model_taps *t, const char *name, int64_t cols,
                            double *data, struct err *err)
{
    if (!t->shard || !t->replaces) return ERR_OK;
    return collective_broadcast(t->shard->all, name, data,
                                t->step->rows->count * cols * (int64_t)sizeof *data, 0, err);
}

static enum err_code hand_over(const struct model_taps *t, const char *name, bool wanted,
                               int64_t cols, double *data, struct err *err)
{
    const struct tap_sink *sink = t->sink;
    if (sink && wanted && sink->reals(sink->ctx, name, t->step->rows, cols, data, err) != ERR_OK)
        return err->code;
    if (sink && sink->replace &&
        sink->replace(sink->ctx, name, t->step->rows, cols, data, err) != ERR_OK)
        return err->code;
    return spread(t, name, cols, data, err);
}

enum err_code model_taps_give(const struct model_taps *t, enum tap_kind kind, int64_t layer,
                              int64_t cols, double *data, struct err *err)
{
    char name[TAP_NAME];
    if (!t->sink && !t->shard) return ERR_OK;
    tap_format(kind, layer, name);
    return hand_over(t, name, t->sink && t->sink->wants(t->sink->ctx, name), cols, data, err);
}

enum err_code model_taps_give_cut(const struct model_taps *t, enum tap_kind kind, int64_t layer,
                                  int64_t width, double *data, struct err *err)
{
    if (!t->shard) return model_taps_give(t, kind, layer, width, data, err);
    if (!*wish_of(t, kind, layer)) return ERR_OK;
    int64_t tp = t->shard->plan.tp, T = t->step->rows->count, cols = tp * width;
    char name[TAP_NAME];
    tap_format(kind, layer, name);
    const struct shard_site at = {
        .op = kind == TAP_Q ? "q" : "attn_core", .layer = layer, .T = T, .width = width};
    struct arena_block *mark = arena_mark(t->run->arena);
    double *whole = arena_alloc(t->run->arena, T * cols, sizeof *whole, "a gathered tap", err);
    /* A wish is what rank 0 wants, or may replace. */
    if (whole && shard_gather_columns(t->shard, &at, data, whole, err) == ERR_OK &&
        hand_over(t, name, t->sink && wants(t->sink, kind, layer), cols, whole, err) == ERR_OK) {
        for (int64_t i = 0; t->replaces && i < T; i++)
            memcpy(data + i * width, whole + i * cols + t->shard->t * width,
                   (size_t)width * sizeof *data);
    }
    arena_release(t->run->arena, mark);
    return err->code;
}

enum err_code model_taps_give_ids(const struct model_taps *t, int64_t layer, int64_t cols,
                                  const int32_t *data, struct err *err)
{
    char name[TAP_NAME];
    const struct tap_sink *sink = t->sink;
    tap_format(TAP_EXPERTS, layer, name);
    if (!sink || !sink->wants(sink->ctx, name)) return ERR_OK;
    return sink->ints(sink->ctx, name, t->step->rows, cols, data, err);
}
