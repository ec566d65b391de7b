/* mla_absorbed.cu: mla.core in the absorbed form: queries taken into the latent space, attention
 * over the cache as it lies, results taken back (mla_project.cu). Contract: core/mla.h. */
#include "gpu/mla_core.cuh"

#include "core/cache.h"

static bool fits_decode(const struct gpu_mla_core *op)
{
    bool aligned = ((uintptr_t)op->q % 16 | (uintptr_t)op->cache->pool % 16) == 0;
    return op->L == 512 && op->R == 64 && op->P % 8 == 0 && op->scale > 0 && aligned;
}

static enum err_code attend_rows(struct gpu *g, const struct gpu_mla_core *op, const bf16 *q_latent,
                                 int64_t first, int64_t n, bool overlap, bf16 *o_latent,
                                 struct err *err)
{
    int64_t qk = op->P + op->R, width = op->L + op->R;
    const struct gpu_cache *c = op->cache;
    const bf16 *pool = c->pool + op->layer * c->blocks * c->block * c->width;
    struct mla_attend a;
    mla_attend_begin(op, first, n, &a);
    a.overlap = overlap;
    a.K = a.W = op->L;
    a.keys = (struct mla_keys){c->table,     c->blocks_max, c->block, pool, pool,
                               pool + op->L, width,         width,    0,    c->blocks * c->block};
    a.q = q_latent + first * op->heads * op->L;
    a.q_row = op->heads * op->L;
    a.q_head = op->L;
    a.q_rope = op->q + first * op->heads * qk + op->P;
    a.rope_row = op->heads * qk;
    a.rope_head = qk;
    a.y = o_latent + first * op->heads * op->L;
    return fits_decode(op) ? mla_decode(g, &a, err) : mla_any(g, &a, err);
}

static enum err_code attend(struct gpu *g, const struct gpu_mla_core *op, const bf16 *q_latent,
                            bool overlap, bf16 *o_latent, struct err *err)
{
    int64_t rows = op->rows->count;
    for (int64_t first = 0; first < rows && err->code == ERR_OK;) {
        struct gpu_mark parts = gpu_mark(g);
        int64_t n = mla_rows_now(rows - first);
        (void)!attend_rows(g, op, q_latent, first, n, overlap, o_latent, err);
        gpu_release(g, parts);
        first += n;
    }
    return err->code;
}

enum err_code gpu_mla_attend(struct gpu *g, const struct gpu_mla_core *op, const bf16 *q_latent,
                             bf16 *o_latent, struct err *err)
{
    return attend(g, op, q_latent, false, o_latent, err);
}

enum err_code mla_absorbed(struct gpu *g, const struct gpu_mla_core *op, struct err *err)
{
    int64_t n = op->rows->count * op->heads * op->L;
    struct gpu_mark mark = gpu_mark(g);
    bf16 *q_latent = gpu_new<bf16>(g, n, "queries as latents", err);
    bf16 *o_latent = gpu_new<bf16>(g, n, "attended latents", err);
    if (q_latent && o_latent && mla_project_queries(g, op, q_latent, err) == ERR_OK &&
        attend(g, op, q_latent, true, o_latent, err) == ERR_OK)
        (void)!mla_project_values(g, op, o_latent, err);
    gpu_release(g, mark);
    return err->code;
}
