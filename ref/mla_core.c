/* mla_core.c: op mla.core, attention over the paged latent cache. Contract: core/mla.h; tests
 * tests/test_mla.c, tests/test_mla_core.c.
 *
 * One work item is one head of one sequence. Its keys are laid out transposed, [columns][tokens],
 * so that the sum of a score runs over columns in order while neighbouring tokens share a vector:
 *   expanded   keys [P + R][S]: k_nope from W_kvb, then k_pe     values [S][V] from W_kvb
 *   absorbed   keys [L + R][S]: latent, then k_pe                values [S][L]: the latents
 * Both forms then do the same: scores, softmax, weighted sum. */
#include "core/mla.h"

#include "core/check.h"
#include "core/matrix.h"
#include "ref/attend.h"
#include "ref/kernel.h"
#include "ref/matrix.h"

#include <math.h>
#include <string.h>

/* Buffers of one worker. S: the longest context. */
struct worker {
    struct panel *panel;
    double *kv;     /* [S][P + V]: one head's expansion */
    double *keys;   /* expanded: [P + R][Spad] */
    double *values; /* expanded: [S][Vpad] */
    double *query;  /* [K] */
    double *up;     /* absorbed: [P + V][Lpad] of this head's W_kvb */
    double *score;  /* [Spad] */
    double *mixed;  /* [Vpad] */
};

/* One sequence of the step: its cached entries and its rows. */
struct context {
    struct row_span rows;
    double *entries; /* [tokens][L + R], in token order */
    void *latents;   /* expanded: the same latents packed for products */
    double *keys;    /* absorbed: [L + R][Spad], the same for every head */
    double *values;  /* absorbed: [tokens][Lpad] */
};

struct attention {
    const struct mla_core *op;
    struct run *run;
    struct context *contexts;
    int64_t context_count;
    int64_t K, W; /* columns of a key; width of a value */
    struct worker *workers;
};

static void load_expanded(const struct attention *a, const struct context *c, int64_t head,
                          struct worker *w)
{
    const struct mla_core *op = a->op;
    int64_t width = op->P + op->V, ld = attend_pad(c->rows.tokens), ldv = attend_pad(op->V);
    for (int64_t r = 0; r < width; r += w->panel->rows) {
        int64_t n = width - r < w->panel->rows ? width - r : w->panel->rows;
        matrix_product(a->run, op->kv_b, head * width + r, n, c->rows.tokens, c->latents, w->panel,
                       w->kv + r, width);
    }
    run_round(a->run, RP_LINEAR, w->kv, c->rows.tokens * width);
    for (int64_t s = 0; s < c->rows.tokens; s++) {
        const double *kv = w->kv + s * width, *k_pe = c->entries + s * (op->L + op->R) + op->L;
        for (int64_t p = 0; p < op->P; p++) w->keys[p * ld + s] = kv[p];
        for (int64_t r = 0; r < op->R; r++) w->keys[(op->P + r) * ld + s] = k_pe[r];
        for (int64_t v = 0; v < ldv; v++) w->values[s * ldv + v] = v < op->V ? kv[op->P + v] : 0;
    }
}

static void load_absorbed(const struct attention *a, int64_t head, struct worker *w)
{
    const struct mla_core *op = a->op;
    int64_t width = op->P + op->V, ldl = attend_pad(op->L), pad = matrix_pad(op->L);
    for (int64_t r = 0; r < width; r += w->panel->rows) {
        int64_t n = width - r < w->panel->rows ? width - r : w->panel->rows;
        matrix_rows(op->kv_b, head * width + r, n, w->panel->scratch, w->panel->w, NULL);
        for (int64_t i = 0; i < n; i++) {
            for (int64_t l = 0; l < ldl; l++)
                w->up[(r + i) * ldl + l] = l < op->L ? (double)w->panel->w[i * pad + l] : 0;
        }
    }
}

/* The query of one row as it meets the keys; returns nothing else than what q holds in the expanded
 * form. */
static void load_query(const struct attention *a, const double *q, struct worker *w)
{
    const struct mla_core *op = a->op;
    if (op->form == MLA_EXPANDED) {
        memcpy(w->query, q, (size_t)(op->P + op->R) * sizeof *q);
        return;
    }
    kernel_best()->mix(op->P, attend_pad(op->L), q, w->up, attend_pad(op->L),
                       w->query); /* U^T q_nope */
    if (a->run->profile.rounds[RP_Q_LATENT]) run_round(a->run, RP_Q_LATENT, w->query, op->L);
    memcpy(w->query + op->L, q + op->P, (size_t)op->R * sizeof *q);
}

static void finish_head(const struct attention *a, struct worker *w, double *y)
{
    const struct mla_core *op = a->op;
    if (op->form == MLA_EXPANDED) {
        memcpy(y, w->mixed, (size_t)op->V * sizeof *y);
    } else {
        int64_t ldl = attend_pad(op->L);
        if (a->run->profile.rounds[RP_O_LATENT]) run_round(a->run, RP_O_LATENT, w->mixed, op->L);
        for (int64_t v = 0; v < op->V; v++) {
            const double *g = w->up + (op->P + v) * ldl;
            double acc = 0;
            for (int64_t l = 0; l < op->L; l++) acc += g[l] * w->mixed[l];
            y[v] = acc;
        }
    }
    run_round(a->run, RP_ATTN_CORE, y, op->V);
}

static void attend(void *ctx, int64_t item, int worker)
{
    const struct attention *a = ctx;
    const struct mla_core *op = a->op;
    const struct context *c = &a->contexts[item / op->heads];
    struct worker *w = &a->workers[worker];
    int64_t head = item % op->heads, qk = op->P + op->R;
    bool absorbed = op->form == MLA_ABSORBED;
    if (absorbed)
        load_absorbed(a, head, w);
    else
        load_expanded(a, c, head, w);
    const struct attend one = {.K = a->K,
                               .W = a->W,
                               .ld = attend_pad(c->rows.tokens),
                               .scale = op->scale,
                               .keys = absorbed ? c->keys : w->keys,
                               .values = absorbed ? c->values : w->values,
                               .score = w->score};
    for (int64_t i = c->rows.first; i < c->rows.first + c->rows.count; i++) {
        load_query(a, op->q + (i * op->heads + head) * qk, w);
        attend_row(a->run, &one, op->rows, i, w->query, w->mixed);
        finish_head(a, w, op->y + (i * op->heads + head) * op->V);
    }
}

static enum err_code find_contexts(struct attention *a, struct err *err)
{
    struct arena *arena = a->run->arena;
    struct row_span *spans = attend_spans(a->op->rows, arena, &a->context_count, err);
    a->contexts =
        arena_alloc(arena, a->context_count, sizeof *a->contexts, "attention contexts", err);
    if (!spans || !a->contexts) return err->code;
    for (int64_t i = 0; i < a->context_count; i++)
        a->contexts[i] = (struct context){.rows = spans[i]};
    return ERR_OK;
}

/* Latents of one sequence as the expanded form multiplies them. */
static enum err_code pack_latents(struct attention *a, struct context *c, struct err *err)
{
    const struct mla_core *op = a->op;
    double *latent =
        arena_alloc(a->run->arena, c->rows.tokens * op->L, sizeof *latent, "latents", err);
    c->latents = arena_alloc(a->run->arena, matrix_packed_bytes(a->run, c->rows.tokens, op->L), 1,
                             "packed latents", err);
    if (!latent || !c->latents) return err->code;
    for (int64_t s = 0; s < c->rows.tokens; s++)
        memcpy(latent + s * op->L, c->entries + s * (op->L + op->R),
               (size_t)op->L * sizeof(double));
    matrix_pack(a->run, c->rows.tokens, op->L, latent, c->latents);
    return ERR_OK;
}

/* Keys and values of the absorbed form are the cache itself, once for all heads. */
static enum err_code share_cache(struct attention *a, struct context *c, struct err *err)
{
    const struct mla_core *op = a->op;
    int64_t width = op->L + op->R, ld = attend_pad(c->rows.tokens), ldl = attend_pad(op->L);
    c->keys = arena_alloc(a->run->arena, width * ld, sizeof(double), "keys", err);
    c->values = arena_alloc(a->run->arena, c->rows.tokens * ldl, sizeof(double), "values", err);
    if (!c->keys || !c->values) return err->code;
    for (int64_t s = 0; s < ld; s++) {
        const double *e = c->entries + s * width;
        for (int64_t k = 0; k < width; k++) c->keys[k * ld + s] = s < c->rows.tokens ? e[k] : 0;
        for (int64_t l = 0; s < c->rows.tokens && l < ldl; l++)
            c->values[s * ldl + l] = l < op->L ? e[l] : 0;
    }
    return ERR_OK;
}

static enum err_code gather_cache(struct attention *a, struct err *err)
{
    const struct mla_core *op = a->op;
    int64_t width = op->L + op->R;
    for (int64_t i = 0; i < a->context_count && err->code == ERR_OK; i++) {
        struct context *c = &a->contexts[i];
        c->entries = arena_alloc(a->run->arena, c->rows.tokens * width, sizeof(double),
                                 "cached entries", err);
        if (!c->entries) return err->code;
        for (int64_t s = 0; s < c->rows.tokens; s++)
            memcpy(c->entries + s * width, cache_read(op->cache, op->layer, c->rows.sequence, s),
                   (size_t)width * sizeof(double));
        if (op->form == MLA_ABSORBED)
            (void)!share_cache(a, c, err);
        else
            (void)!pack_latents(a, c, err);
    }
    return err->code;
}

static enum err_code make_workers(struct attention *a, int count, struct err *err)
{
    const struct mla_core *op = a->op;
    struct arena *arena = a->run->arena;
    const struct matrix *kv_b = op->kv_b;
    int64_t S = 0, width = op->P + op->V;
    for (int64_t i = 0; i < a->context_count; i++)
        S = a->contexts[i].rows.tokens > S ? a->contexts[i].rows.tokens : S;
    bool absorbed = op->form == MLA_ABSORBED;
    struct panel *panels = matrix_panels(a->run, count, &kv_b, 1, err);
    a->workers = arena_alloc(arena, count, sizeof *a->workers, "attention workers", err);
    if (!panels || !a->workers) return err->code;
    for (int i = 0; i < count && err->code == ERR_OK; i++) {
        struct worker *w = &a->workers[i];
        *w = (struct worker){.panel = &panels[i]};
        w->kv = arena_alloc(arena, absorbed ? 0 : S * width, sizeof(double),
                            "expanded keys and values", err);
        w->keys =
            arena_alloc(arena, absorbed ? 0 : a->K * attend_pad(S), sizeof(double), "keys", err);
        w->values =
            arena_alloc(arena, absorbed ? 0 : S * attend_pad(a->W), sizeof(double), "values", err);
        w->query = arena_alloc(arena, attend_pad(a->K) + 32, sizeof(double), "query", err);
        w->up = arena_alloc(arena, absorbed ? width * attend_pad(op->L) : 0, sizeof(double),
                            "up-projection", err);
        w->score = arena_alloc(arena, attend_pad(S), sizeof(double), "scores", err);
        w->mixed = arena_alloc(arena, attend_pad(a->W), sizeof(double), "mixed value", err);
        /* Columns past the last token take part in whole vectors, and their results are dropped. */
        if (err->code == ERR_OK && !absorbed)
            memset(w->keys, 0, (size_t)(a->K * attend_pad(S)) * sizeof(double));
    }
    return err->code;
}

enum err_code mla_core_ref(const struct mla_core *op, struct run *run, struct err *err)
{
    if (mla_core_check(op, err) != ERR_OK || op->rows->count == 0) return err->code;
    struct arena_block *mark = arena_mark(run->arena);
    bool absorbed = op->form == MLA_ABSORBED;
    struct attention a = {.op = op,
                          .run = run,
                          .K = (absorbed ? op->L : op->P) + op->R,
                          .W = absorbed ? op->L : op->V};
    if (find_contexts(&a, err) == ERR_OK && gather_cache(&a, err) == ERR_OK &&
        make_workers(&a, run->threads, err) == ERR_OK) {
        run_parallel(run, a.context_count * op->heads, attend, &a);
        for (int64_t i = 0; i < op->rows->count * op->heads * op->V && err->code == ERR_OK; i++) {
            if (!isfinite(op->y[i])) {
                (void)!matrix_find_bad(op->kv_b, err);
                break;
            }
        }
    }
    arena_release(run->arena, mark);
    return err->code;
}
