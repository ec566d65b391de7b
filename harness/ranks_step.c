/* ranks_step.c: a step over ranks, seen from their parent: the request, and the pieces that rank 0
 * hands over while it runs; see ranks_parts.h. */
#include "harness/ranks_parts.h"

#include <stdlib.h>
#include <string.h>

/* A step that runs. */
struct running {
    struct ranks *r;
    const struct step *step;
    struct run *run;
};

static enum err_code check(const struct step *s, const struct run *run, struct err *err)
{
    const char *what = s->sink && s->sink->replace        ? "values put in for its own"
                       : s->after_layer || s->layer_first ? "state kept layer by layer"
                       : run->faults                      ? "faults of ops"
                                                          : NULL;
    if (!what) return ERR_OK;
    return err_set(err, ERR_USAGE, "run over ranks|a step|%s|a run of one process", what);
}

/* ---- the request ---- */

static bool wants(struct ranks *r, const struct step *s)
{
    bool logits = false, last = s->layer_end == r->model->config->layers;
    for (int64_t i = 0; i < r->tap_count; i++) {
        const struct tap *t = &r->taps[i];
        bool runs = t->layer >= 0 ? t->layer < s->layer_end : t->kind == TAP_EMBED || last;
        r->wanted[i] = runs && s->sink && s->sink->wants(s->sink->ctx, t->name);
        if (t->kind == TAP_LOGITS) logits = r->wanted[i];
    }
    return logits;
}

/* The ids that are forced, asked for now: a decision of the parent's. */
static int64_t pack_forced(struct ranks *r, const struct step *s, struct err *err)
{
    int64_t n = s->rows->count * r->model->config->top_k, layers = 0;
    int32_t *ids = malloc((size_t)(n + 1) * sizeof *ids);
    if (!ids) err_set(err, ERR_MEMORY, "forced experts||no memory|%lld ids", (long long)n);
    for (int64_t l = 0; ids && l < s->layer_end; l++) {
        if (!r->model->layers[l].moe || !s->forced(s->forced_ctx, l, s->rows, ids)) continue;
        pack_add(&r->pack, &l, sizeof l);
        pack_add(&r->pack, ids, n * (int64_t)sizeof *ids);
        layers++;
    }
    free(ids);
    return layers;
}

static enum err_code pack_step(struct ranks *r, const struct step *s, const struct run *run,
                               struct err *err)
{
    ranks_pack_head(r, s->cache, s->rows, run);
    struct ranks_step_head h = {
        .layer_end = s->layer_end, .taps = r->tap_count, .decode = s->decode};
    bool as_tap = wants(r, s);
    int64_t at = r->pack.bytes;
    h.logits = s->logits && !as_tap;
    pack_add(&r->pack, &h, sizeof h);
    pack_add(&r->pack, r->wanted, r->tap_count);
    if (s->forced) h.forced = pack_forced(r, s, err);
    if (!r->pack.failed) memcpy(r->pack.data + at, &h, sizeof h);
    return err->code;
}

/* ---- pieces ---- */

static struct rows part_of(const struct rows *rows, const struct ranks_piece *p)
{
    struct rows part = *rows;
    int64_t first = p->first;
    part.count = p->count;
    part.sequence += first;
    part.position += first;
    part.token += first;
    part.dump_row += first;
    if (part.slot) part.slot += first;
    if (part.span) part.span += first;
    if (part.extra) part.extra += first * rows->extra_max;
    return part;
}

static enum err_code unreadable(const char *what, struct err *err)
{
    return err_set(err, ERR_PROCESS, "a piece of a step|from rank 0|%s|one of this step", what);
}

static enum err_code check_piece(const struct running *k, const struct ranks_piece *p,
                                 const struct worker_reply *part, struct err *err)
{
    const struct tap *t = &k->r->taps[p->tap];
    int64_t size = p->kind == PIECE_INTS ? sizeof(int32_t) : sizeof(double);
    if (p->first < 0 || p->count < 1 || p->count > k->step->rows->count - p->first)
        return unreadable("rows outside of it", err);
    if (p->cols != t->cols || t->ints != (p->kind == PIECE_INTS))
        return unreadable("cells of another tap", err);
    if (part->segments != 1 || part->segment[0].bytes < p->count * p->cols * size)
        return unreadable("too few cells", err);
    return ERR_OK;
}

static void take_logits(const struct running *k, const struct ranks_piece *p, const double *data)
{
    if (k->step->logits)
        memcpy(k->step->logits + p->first * p->cols, data,
               (size_t)(p->count * p->cols) * sizeof *data);
}

static enum err_code take_piece(void *ctx, const struct worker_reply *part, struct err *err)
{
    const struct running *k = ctx;
    const struct step *s = k->step;
    struct ranks_piece p;
    if (part->rank != 0 || part->bytes != sizeof p) return unreadable("other bytes", err);
    memcpy(&p, part->data, sizeof p);
    if (p.kind == PIECE_PROGRESS) {
        if (k->run->progress)
            k->run->progress(k->run->progress_ctx, p.loading ? ENGINE_LOADING : "layer", p.done,
                             p.total);
        return ERR_OK;
    }
    if (p.tap < 0 || p.tap >= k->r->tap_count) return unreadable("no tap of the model", err);
    if (check_piece(k, &p, part, err) != ERR_OK) return err->code;
    const struct tap *t = &k->r->taps[p.tap];
    const void *cells = part->segment[0].data;
    struct rows rows = part_of(s->rows, &p);
    if (t->kind == TAP_LOGITS) take_logits(k, &p, cells);
    if (p.kind == PIECE_LOGITS) return ERR_OK;
    if (!s->sink || !k->r->wanted[p.tap]) return unreadable("a tap that nobody wants", err);
    return p.kind == PIECE_INTS ? s->sink->ints(s->sink->ctx, t->name, &rows, p.cols, cells, err)
                                : s->sink->reals(s->sink->ctx, t->name, &rows, p.cols, cells, err);
}

enum err_code ranks_step(void *self, const struct step *s, struct run *run, struct err *err)
{
    struct ranks *r = self;
    struct running running = {r, s, run};
    struct worker_request q = {.task = "shard.step", .part = take_piece, .part_ctx = &running};
    if (check(s, run, err) != ERR_OK || pack_step(r, s, run, err) != ERR_OK) return err->code;
    rows_extend(s->rows, s->cache);
    return ranks_call(r, true, &q, s->cache, run, err);
}
