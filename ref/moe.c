/* moe.c: op moe, the routed experts. Contract: core/moe.h; test tests/test_moe.c.
 *
 * One expert at a time, in ascending id, on all its tokens: its weights are read once, a panel at a
 * time, and the sum of a token runs in a fixed order whatever tokens stand beside it. */
#include "core/moe.h"

#include "core/matrix.h"
#include "ref/matrix.h"
#include "ref/swiglu.h"

#include <string.h>

struct batch {
    int64_t n;
    int64_t *token; /* [T] rows that chose this expert */
    double *weight; /* [T] */
    char *x;        /* their packed rows */
    double *y;      /* [n, H] */
};

static void gather(const struct moe *op, int64_t e, const char *x, int64_t row_bytes,
                   struct batch *b)
{
    b->n = 0;
    for (int64_t t = 0; t < op->T; t++) {
        for (int64_t j = 0; j < op->top_k; j++) {
            if (op->ids[t * op->top_k + j] != e) continue;
            memcpy(b->x + b->n * row_bytes, x + t * row_bytes, (size_t)row_bytes);
            b->token[b->n] = t;
            b->weight[b->n++] = op->weights[t * op->top_k + j];
        }
    }
}

static void scatter(const struct moe *op, const struct run *run, struct batch *b)
{
    for (int64_t i = 0; i < b->n; i++) {
        double *sum = op->y + b->token[i] * op->H, *y = b->y + i * op->H, w = b->weight[i];
        if (run->profile.rounds[RP_EXPERT_WEIGHT]) w = run_round_one(run, RP_EXPERT_WEIGHT, w);
        bool whole = !op->cut;
        for (int64_t h = 0; h < op->H; h++) y[h] *= w;
        if (whole && run->profile.rounds[RP_EXPERT_TERM]) run_round(run, RP_EXPERT_TERM, y, op->H);
        for (int64_t h = 0; h < op->H; h++) sum[h] += y[h];
        if (whole && run->profile.rounds[RP_EXPERT_SUM]) run_round(run, RP_EXPERT_SUM, sum, op->H);
    }
}

static enum err_code run_expert(const struct moe *op, struct run *run, int64_t e, struct batch *b,
                                struct err *err)
{
    struct expert w;
    if (op->expert(op->ctx, e, &w, err) != ERR_OK ||
        matrix_want(&w.gate, "expert gate", op->I, op->H, err) != ERR_OK ||
        matrix_want(&w.up, "expert up", op->I, op->H, err) != ERR_OK ||
        matrix_want(&w.down, "expert down", op->H, op->I, err) != ERR_OK)
        return err_note(err, "expert %lld", (long long)e);
    if (swiglu(run, &w.gate, &w.up, &w.down, b->n, b->x, b->y, op->cut ? RP_NONE : RP_LINEAR,
               err) != ERR_OK)
        return err_note(err, "expert %lld", (long long)e);
    scatter(op, run, b);
    return ERR_OK;
}

enum err_code moe_ref(const struct moe *op, struct run *run, struct err *err)
{
    if (moe_check(op, err) != ERR_OK) return err->code;
    struct arena_block *mark = arena_mark(run->arena);
    int64_t bytes = matrix_packed_bytes(run, op->T, op->H),
            row_bytes = matrix_packed_bytes(run, 1, op->H);
    char *x = arena_alloc(run->arena, bytes, 1, "packed rows", err);
    struct batch b = {
        .token = arena_alloc(run->arena, op->T, sizeof(int64_t), "expert tokens", err),
        .weight = arena_alloc(run->arena, op->T, sizeof(double), "expert weights", err),
        .x = arena_alloc(run->arena, bytes, 1, "expert rows", err),
        .y = arena_alloc(run->arena, op->T * op->H, sizeof(double), "expert output", err),
    };
    if (err->code != ERR_OK) goto done;
    matrix_pack(run, op->T, op->H, op->x, x);
    memset(op->y, 0, (size_t)(op->T * op->H) * sizeof *op->y);
    for (int64_t e = 0; e < op->E; e++) {
        gather(op, e, x, row_bytes, &b);
        if (b.n > 0 && run_expert(op, run, e, &b, err) != ERR_OK) goto done;
    }
    if (!op->partial) moe_round(run, op->sum_scale, op->T * op->H, op->y);
done:
    arena_release(run->arena, mark);
    return err->code;
}
