/* mla.c: latent attention, from mla.h; see naive.h. The core always uses the expanded formula,
 * whatever form the op asks for: they are equal in exact arithmetic, so the absorbed form is held
 * against a different computation. */
#include "tests/naive/naive.h"

#include <math.h>

enum err_code mla_q_naive(const struct mla_q *op, struct run *run, struct err *err)
{
    if (naive_begin(run, "mla.q", err) != ERR_OK || mla_q_check(op, err) != ERR_OK)
        return err->code;
    if (!op->a) return naive_product(op->b, op->T, op->x, op->q, run, err);
    struct arena_block *mark = arena_mark(run->arena);
    double *latent =
        arena_alloc(run->arena, op->T * op->a->out, sizeof *latent, "naive query latent", err);
    struct norm norm = {
        .T = op->T, .H = op->a->out, .eps = op->eps, .x = latent, .w = op->norm, .y = latent};
    enum err_code rc = latent ? naive_product(op->a, op->T, op->x, latent, run, err) : err->code;
    if (rc == ERR_OK) rc = norm_naive(&norm, run, err);
    if (rc == ERR_OK) rc = naive_product(op->b, op->T, latent, op->q, run, err);
    arena_release(run->arena, mark);
    return rc;
}

enum err_code mla_kv_naive(const struct mla_kv *op, struct run *run, struct err *err)
{
    if (naive_begin(run, "mla.kv", err) != ERR_OK || mla_kv_check(op, err) != ERR_OK)
        return err->code;
    struct arena_block *mark = arena_mark(run->arena);
    int64_t width = op->L + op->R;
    double *both =
        arena_alloc(run->arena, op->T * width, sizeof *both, "naive latent and key", err);
    enum err_code rc = both ? naive_product(op->a, op->T, op->x, both, run, err) : err->code;
    for (int64_t t = 0; rc == ERR_OK && t < op->T; t++) {
        for (int64_t i = 0; i < op->L; i++) op->latent[t * op->L + i] = both[t * width + i];
        for (int64_t i = 0; i < op->R; i++) op->k_rope[t * op->R + i] = both[t * width + op->L + i];
    }
    struct norm norm = {
        .T = op->T, .H = op->L, .eps = op->eps, .x = op->latent, .w = op->norm, .y = op->latent};
    struct rope rope = {.T = op->T,
                        .heads = 1,
                        .stride = op->R,
                        .offset = 0,
                        .position = op->position,
                        .table = op->table,
                        .interleaved = op->interleaved,
                        .x = op->k_rope};
    if (rc == ERR_OK) rc = norm_naive(&norm, run, err);
    if (rc == ERR_OK) rc = rope_naive(&rope, run, err);
    arena_release(run->arena, mark);
    return rc;
}

/* Row `row` of W_kvb times the latent of one cached token. */
static double expand(const struct mla_core *op, const double *kv_b, int64_t row,
                     const double *latent)
{
    double sum = 0;
    for (int64_t l = 0; l < op->L; l++) sum += kv_b[row * op->L + l] * latent[l];
    return sum;
}

/* One head of one row: scores, softmax, weighted values. p [position + 1]. */
static void attend(const struct mla_core *op, const double *kv_b, int64_t i, int64_t h, double *p)
{
    int64_t sequence = op->rows->sequence[i], last = op->rows->position[i],
            first_row = h * (op->P + op->V);
    const double *q = op->q + (i * op->heads + h) * (op->P + op->R);
    double *y = op->y + (i * op->heads + h) * op->V, largest = -INFINITY, sum = 0;
    for (int64_t s = 0; s <= last; s++) {
        const double *entry = cache_read(op->cache, op->layer, sequence, s);
        double dot = 0;
        for (int64_t d = 0; d < op->P; d++) dot += q[d] * expand(op, kv_b, first_row + d, entry);
        for (int64_t d = 0; d < op->R; d++) dot += q[op->P + d] * entry[op->L + d];
        p[s] = op->scale * dot;
        largest = p[s] > largest ? p[s] : largest;
    }
    for (int64_t s = 0; s <= last; s++) {
        p[s] = exp(p[s] - largest);
        sum += p[s];
    }
    for (int64_t d = 0; d < op->V; d++) {
        y[d] = 0;
        for (int64_t s = 0; s <= last; s++)
            y[d] += p[s] / sum *
                    expand(op, kv_b, first_row + op->P + d,
                           cache_read(op->cache, op->layer, sequence, s));
    }
}

enum err_code mla_core_naive(const struct mla_core *op, struct run *run, struct err *err)
{
    if (naive_begin(run, "mla.core", err) != ERR_OK || mla_core_check(op, err) != ERR_OK)
        return err->code;
    int64_t longest = 0;
    for (int64_t i = 0; i < op->rows->count; i++)
        longest = op->rows->position[i] + 1 > longest ? op->rows->position[i] + 1 : longest;
    struct arena_block *mark = arena_mark(run->arena);
    double *kv_b = naive_matrix(op->kv_b, run, err);
    double *p = kv_b ? arena_alloc(run->arena, longest, sizeof *p, "naive scores", err) : NULL;
    for (int64_t i = 0; p && i < op->rows->count; i++) {
        for (int64_t h = 0; h < op->heads; h++) attend(op, kv_b, i, h, p);
    }
    arena_release(run->arena, mark);
    return p ? ERR_OK : err->code;
}

enum err_code mla_output_naive(const struct mla_output *op, struct run *run, struct err *err)
{
    if (naive_begin(run, "mla.output", err) != ERR_OK || mla_output_check(op, err) != ERR_OK)
        return err->code;
    return naive_product(op->o, op->T, op->x, op->y, run, err);
}
