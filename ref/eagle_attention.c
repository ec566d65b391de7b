/* eagle_attention.c: see eagle_attention.h. One work item is one key head of one sequence, and all
 * the query heads that read it. */
#include "ref/eagle_attention.h"

#include "ref/attend.h"

#include <string.h>

/* Buffers of one worker, for the longest context. */
struct worker {
    double *keys, *values, *score, *mixed;
};

struct attention {
    const struct eagle_attention *op;
    struct run *run;
    struct row_span *spans;
    int64_t span_count;
    struct worker *workers;
};

/* One key head of one sequence, laid out as attend.h wants it. */
static void load(const struct attention *a, const struct row_span *s, int64_t head,
                 struct worker *w)
{
    const struct eagle_attention *op = a->op;
    int64_t hd = op->head_dim, ld = attend_pad(s->tokens), ldv = attend_pad(hd);
    for (int64_t t = 0; t < s->tokens; t++) {
        const double *k = cache_read(op->cache, op->layer, s->sequence, t) + head * hd;
        const double *v = k + op->kv_heads * hd;
        for (int64_t i = 0; i < hd; i++) w->keys[i * ld + t] = k[i];
        for (int64_t i = 0; i < ldv; i++) w->values[t * ldv + i] = i < hd ? v[i] : 0;
    }
}

static void attend_head(void *ctx, int64_t item, int worker)
{
    const struct attention *a = ctx;
    const struct eagle_attention *op = a->op;
    const struct row_span *s = &a->spans[item / op->kv_heads];
    struct worker *w = &a->workers[worker];
    int64_t head = item % op->kv_heads, share = op->heads / op->kv_heads, hd = op->head_dim;
    load(a, s, head, w);
    const struct attend one = {.K = hd,
                               .W = hd,
                               .ld = attend_pad(s->tokens),
                               .scale = op->scale,
                               .keys = w->keys,
                               .values = w->values,
                               .score = w->score};
    for (int64_t i = s->first; i < s->first + s->count; i++) {
        for (int64_t h = head * share; h < (head + 1) * share; h++) {
            double *y = op->y + (i * op->heads + h) * hd;
            attend_row(a->run, &one, op->rows, i, op->q + (i * op->heads + h) * hd, w->mixed);
            memcpy(y, w->mixed, (size_t)hd * sizeof *y);
            run_round(a->run, RP_ATTN_CORE, y, hd);
        }
    }
}

static enum err_code make_workers(struct attention *a, struct err *err)
{
    struct arena *arena = a->run->arena;
    int64_t S = 0, hd = a->op->head_dim;
    for (int64_t i = 0; i < a->span_count; i++) S = a->spans[i].tokens > S ? a->spans[i].tokens : S;
    a->workers = arena_alloc(arena, a->run->threads, sizeof *a->workers, "attention workers", err);
    for (int i = 0; i < a->run->threads && err->code == ERR_OK; i++) {
        int64_t cells = hd * attend_pad(S);
        struct worker *w = &a->workers[i];
        w->keys = arena_alloc(arena, cells, sizeof(double), "keys", err);
        w->values = arena_alloc(arena, S * attend_pad(hd), sizeof(double), "values", err);
        w->score = arena_alloc(arena, attend_pad(S), sizeof(double), "scores", err);
        w->mixed = arena_alloc(arena, attend_pad(hd), sizeof(double), "mixed value", err);
        /* Columns past the last token are read in whole vectors. */
        if (err->code == ERR_OK) memset(w->keys, 0, (size_t)cells * sizeof *w->keys);
    }
    return err->code;
}

enum err_code eagle_attention_ref(const struct eagle_attention *op, struct run *run,
                                  struct err *err)
{
    struct arena_block *mark = arena_mark(run->arena);
    struct attention a = {.op = op, .run = run};
    a.spans = attend_spans(op->rows, run->arena, &a.span_count, err);
    if (a.spans && make_workers(&a, err) == ERR_OK)
        run_parallel(run, a.span_count * op->kv_heads, attend_head, &a);
    arena_release(run->arena, mark);
    return err->code;
}
