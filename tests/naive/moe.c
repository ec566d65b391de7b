/* moe.c: y = scale * sum of weight * expert(x), from moe.h, one token and slot at a time; see
 * naive.h. */
#include "tests/naive/naive.h"

/* Adds weight * expert(x) of one token to y. */
static enum err_code add_expert(const struct moe *op, int64_t t, int64_t slot, double *term,
                                struct run *run, struct err *err)
{
    struct expert e;
    if (op->expert(op->ctx, op->ids[t * op->top_k + slot], &e, err) != ERR_OK) return err->code;
    struct mlp mlp = {
        .T = 1, .x = op->x + t * op->H, .gate = &e.gate, .up = &e.up, .down = &e.down, .y = term};
    if (e.gate.in != op->H || e.gate.out != op->I || e.down.out != op->H)
        return err_set(err, ERR_INPUT,
                       "naive oracle|op moe, expert %d|shapes that do not chain|H and I of the op",
                       op->ids[t * op->top_k + slot]);
    if (mlp_naive(&mlp, run, err) != ERR_OK) return err->code;
    for (int64_t i = 0; i < op->H; i++)
        op->y[t * op->H + i] += op->weights[t * op->top_k + slot] * term[i];
    return ERR_OK;
}

enum err_code moe_naive(const struct moe *op, struct run *run, struct err *err)
{
    if (naive_begin(run, "moe", err) != ERR_OK || moe_check(op, err) != ERR_OK) return err->code;
    struct arena_block *mark = arena_mark(run->arena);
    double *term = arena_alloc(run->arena, op->H, sizeof *term, "naive expert", err);
    enum err_code rc = term ? ERR_OK : err->code;
    for (int64_t t = 0; rc == ERR_OK && t < op->T; t++) {
        for (int64_t i = 0; i < op->H; i++) op->y[t * op->H + i] = 0;
        for (int64_t j = 0; rc == ERR_OK && j < op->top_k; j++)
            rc = add_expert(op, t, j, term, run, err);
        for (int64_t i = 0; i < op->H; i++) op->y[t * op->H + i] *= op->sum_scale;
    }
    arena_release(run->arena, mark);
    return rc;
}
