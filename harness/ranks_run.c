/* ranks_run.c: the steps of a rank: what it says it does, and what rank 0 hands to the parent; see
 * ranks_parts.h. */
#include "core/check.h"
#include "harness/ranks_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A step that runs. */
struct running {
    struct worker *w;
    struct rank_state *s;
    struct rank_request q;
    struct ranks_step_head head;
    const unsigned char *wanted; /* [taps] */
    const unsigned char *forced; /* the layers and ids, as they were packed */
    int64_t tap;                 /* the one that was asked for last */
    struct err failed;           /* what a callback without an error of its own met */
};

/* ---- what it does ---- */

static void doing(void *ctx, const char *op, int64_t layer)
{
    const struct running *k = ctx;
    worker_doing(k->w, op, layer, -1);
}

/* Taps are mostly asked for in their order. */
static int64_t find_tap(struct running *k, const char *name)
{
    for (int64_t i = 0; i < k->s->tap_count; i++) {
        int64_t at = (k->tap + i) % k->s->tap_count;
        if (strcmp(k->s->taps[at].name, name) == 0) return k->tap = at;
    }
    return -1;
}

/* ---- pieces ---- */

static enum err_code hand_over(struct running *k, const struct ranks_piece *whole, const void *data,
                               int64_t size, struct err *err)
{
    struct ranks_piece p = *whole;
    int64_t row = p.cols * size, most = k->s->piece_most / row;
    struct segment *s = &k->s->piece;
    if (k->w->rank != 0) return ERR_OK;
    if (most < 1) most = 1;
    for (p.first = 0; p.first < whole->count && err->code == ERR_OK; p.first += p.count) {
        p.count = whole->count - p.first < most ? whole->count - p.first : most;
        if (segment_reserve_pages(s, "assay-piece", p.count * row, err) != ERR_OK) break;
        memcpy(s->data, (const char *)data + p.first * row, (size_t)(p.count * row));
        (void)!worker_part(k->w, &p, sizeof p, s, err);
    }
    return err->code;
}

static void progress(void *ctx, const char *stage, int64_t done, int64_t total)
{
    struct running *k = ctx;
    struct rank_state *s = k->s;
    bool loading = strcmp(stage, ENGINE_LOADING) == 0;
    const struct ranks_piece p = {
        .kind = PIECE_PROGRESS, .loading = loading, .done = done, .total = total};
    if (loading) worker_doing(k->w, stage, done, -1);
    if (!loading && done == 0) s->passes++;
    /* The watch learns that the second pass has begun, and then only tells stalls. */
    if (s->load && (loading || s->passes == 1)) load_progress(s->load, stage, done, total);
    if (k->w->rank != 0 || !k->q.head.progress || k->failed.code != ERR_OK) return;
    (void)!worker_part(k->w, &p, sizeof p, NULL, &k->failed);
}

/* ---- the sink ---- */

/* Every rank gives the same answer: a tap is gathered by all. */
static bool wants(void *ctx, const char *name)
{
    struct running *k = ctx;
    int64_t at = find_tap(k, name);
    return at >= 0 && k->wanted[at];
}

static enum err_code give(struct running *k, const char *name, enum ranks_piece_kind kind,
                          int64_t rows, int64_t cols, const void *data, struct err *err)
{
    int64_t at = find_tap(k, name);
    const struct ranks_piece p = {.kind = kind, .tap = at, .count = rows, .cols = cols};
    CHECK(at >= 0);
    return hand_over(k, &p, data,
                     kind == PIECE_INTS ? (int64_t)sizeof(int32_t) : (int64_t)sizeof(double), err);
}

static enum err_code reals(void *ctx, const char *name, const struct rows *rows, int64_t cols,
                           const double *data, struct err *err)
{
    return give(ctx, name, PIECE_REALS, rows->count, cols, data, err);
}

static enum err_code ints(void *ctx, const char *name, const struct rows *rows, int64_t cols,
                          const int32_t *data, struct err *err)
{
    return give(ctx, name, PIECE_INTS, rows->count, cols, data, err);
}

/* ---- the step ---- */

static int64_t ids_of(const struct running *k)
{
    return k->q.head.rows * k->s->whole.config->top_k;
}

/* One packed layer of forced ids: the layer, its ids. */
static int64_t forced_stride(const struct running *k)
{
    int64_t bytes = ids_of(k) * (int64_t)sizeof(int32_t);
    return (int64_t)sizeof(int64_t) + (bytes + 7) / 8 * 8;
}

static bool forced(void *ctx, int64_t layer, const struct rows *rows, int32_t *ids)
{
    const struct running *k = ctx;
    int64_t at;
    (void)rows;
    for (int64_t i = 0; i < k->head.forced; i++) {
        const unsigned char *one = k->forced + i * forced_stride(k);
        memcpy(&at, one, sizeof at);
        if (at != layer) continue;
        memcpy(ids, one + sizeof at, (size_t)ids_of(k) * sizeof *ids);
        return true;
    }
    return false;
}

static enum err_code read_step(struct running *k, struct err *err)
{
    const void *head = unpack_take(&k->q.rest, sizeof k->head);
    if (head) memcpy(&k->head, head, sizeof k->head);
    k->wanted = unpack_take(&k->q.rest, k->head.taps);
    k->forced = unpack_take(&k->q.rest, k->head.forced * forced_stride(k));
    if (k->q.rest.failed || k->head.taps != k->s->tap_count)
        return err_set(err, ERR_PROCESS, "a step's request|its taps|cut|those of this model");
    return ERR_OK;
}

/* Every rank tells how its load goes, and where a disk holds it up; the others less often than rank
 * 0, so that they have not more lines than it together. */
static void watch_load(struct running *k)
{
    struct rank_state *s = k->s;
    struct load_options options = load_defaults();
    if (s->passes > 0) {
        load_end(s->load);
        s->load = NULL;
        return;
    }
    if (k->w->rank != 0) options.line_s *= k->w->world;
    if (!s->load) s->load = load_begin(&s->weights, k->head.layer_end, &options);
}

/* Without a sink a device may replay a step that it has captured. */
static bool any_wanted(const struct running *k)
{
    return memchr(k->wanted, 1, (size_t)k->head.taps) != NULL;
}

static enum err_code run_step(struct running *k, double *logits, struct err *err)
{
    struct run run = rank_run(k->w, &k->q);
    struct tap_sink sink = {.wants = wants, .reals = reals, .ints = ints, .ctx = k};
    const struct step step = {.model = &k->s->part.model,
                              .cache = &k->q.cache->cache,
                              .rows = &k->q.rows,
                              .layer_end = k->head.layer_end,
                              .decode = k->head.decode,
                              .sink = any_wanted(k) ? &sink : NULL,
                              .forced = k->head.forced > 0 ? forced : NULL,
                              .forced_ctx = k,
                              .logits = logits};
    run.progress = progress;
    run.progress_ctx = run.doing_ctx = k;
    run.doing = doing;
    if (engine_step(&k->s->engine, &step, &run, err) != ERR_OK) return err->code;
    if (k->failed.code != ERR_OK) *err = k->failed;
    return err->code;
}

enum err_code rank_step_task(struct worker *w, struct err *err)
{
    struct running k = {.w = w, .s = w->state, .failed = ERR_INIT};
    if (rank_request_read(w, &k.q, err) != ERR_OK || read_step(&k, err) != ERR_OK) return err->code;
    int64_t V = k.s->whole.config->vocab, T = k.q.head.rows, logits_tap = k.s->tap_count - 1;
    struct arena_block *mark = arena_mark(&k.s->arena);
    double *logits = NULL;
    watch_load(&k);
    if (k.head.logits) logits = arena_alloc(&k.s->arena, T * V, sizeof *logits, "logits", err);
    if (err->code == ERR_OK && run_step(&k, logits, err) == ERR_OK && logits) {
        const struct ranks_piece p = {
            .kind = PIECE_LOGITS, .tap = logits_tap, .count = T, .cols = V};
        (void)!hand_over(&k, &p, logits, sizeof *logits, err);
    }
    arena_release(&k.s->arena, mark);
    return err->code == ERR_OK ? rank_reply(w, err) : err->code;
}

/* ---- a draft step ---- */

static enum err_code find_head(struct rank_state *s, const char *path, struct head **out,
                               struct err *err)
{
    struct rank_head *h = s->heads;
    while (h && strcmp(h->path, path) != 0) h = h->next;
    if (!h) {
        h = calloc(1, sizeof *h);
        if (!h) return err_set(err, ERR_MEMORY, "draft head|%s|no memory|its tensors", path);
        snprintf(h->path, sizeof h->path, "%s", path);
        if (head_open(&h->head, path, &s->whole, err) != ERR_OK) {
            head_close(&h->head);
            free(h);
            return err->code;
        }
        h->next = s->heads;
        s->heads = h;
    }
    *out = &h->head;
    return ERR_OK;
}

/* The next segment of the reply, for [rows, cols]; NULL where it is not wanted, or no memory. */
static double *output(struct worker *w, bool wanted, int64_t rows, int64_t cols, struct err *err)
{
    if (!wanted || err->code != ERR_OK) return NULL;
    struct segment *s = worker_reply_segment(w, rows * cols * (int64_t)sizeof(double), err);
    return s ? (double *)(void *)s->data : NULL;
}

static enum err_code run_draft(struct worker *w, const struct rank_request *q,
                               const struct ranks_draft_head *h, const struct head *head,
                               struct err *err)
{
    struct rank_state *s = w->state;
    const struct head_config *c = &head->config;
    struct run run = rank_run(w, q);
    int64_t n = q->head.rows, H = c->base.hidden;
    int64_t width = h->aux ? c->aux_count * c->target_hidden : H;
    if (w->segments != 1 || w->segment[0].bytes < n * width * (int64_t)sizeof(double))
        return err_set(err, ERR_PROCESS, "a draft step's request|its states|cut|[%lld, %lld]",
                       (long long)n, (long long)width);
    const double *in = (const double *)(const void *)w->segment[0].data;
    struct draft_step step = {.head = head,
                              .cache = &q->cache->cache,
                              .rows = &q->rows,
                              .aux = h->aux ? in : NULL,
                              .hidden = h->aux ? NULL : in,
                              .number = h->number};
    step.fused = output(w, h->fused, n, H, err);
    step.out = output(w, h->out, n, H, err);
    step.feed = output(w, h->feed, n, H, err);
    step.logits = output(w, h->logits, n, c->draft_vocab, err);
    return err->code == ERR_OK ? engine_draft(&s->engine, &step, &run, err) : err->code;
}

enum err_code rank_draft_task(struct worker *w, struct err *err)
{
    struct rank_request q;
    struct head *head = NULL;
    worker_doing(w, "draft step", -1, -1);
    if (rank_request_read(w, &q, err) != ERR_OK) return err->code;
    const struct ranks_draft_head *h = unpack_take(&q.rest, sizeof *h);
    const char *path = unpack_text(&q.rest);
    if (!h || !path) return err_set(err, ERR_PROCESS, "a draft step's request||cut|a whole one");
    if (find_head(w->state, path, &head, err) != ERR_OK) return err->code;
    worker_doing(w, "eagle.layer", h->number, -1);
    if (run_draft(w, &q, h, head, err) != ERR_OK) return err->code;
    return rank_reply(w, err);
}
