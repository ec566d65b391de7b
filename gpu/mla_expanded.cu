/* mla_expanded.cu: mla.core in the expanded form, sequence by sequence: its latents gathered from
 * the paged cache, taken through kv_b to keys and values, then attention over these. The expansion
 * of one sequence has the same shape in every batch, so a row's bits do not depend on the others.
 * Contract: core/mla.h. */
#include "gpu/linear.cuh"
#include "gpu/mla_core.cuh"

#include "core/cache.h"

/* One sequence's rows [first, first + T), and what was expanded of it. */
struct expanded {
    int64_t sequence, first, T, context;
    bool plain; /* each row sees one token more than the row before, the last all of them */
    bf16 *kv;   /* [context, heads, P + V] */
    bf16 *rope; /* [context, R] */
};

struct gathered {
    struct mla_keys keys;
    int64_t sequence, L, R;
    bf16 *latent, *rope; /* [context, L], [context, R] */
};

/* One block a token. */
__global__ static void gather(struct gathered p)
{
    int64_t token = blockIdx.x;
    const bf16 *entry = p.keys.key + mla_entry(p.keys, p.sequence, token) * p.keys.step;
    for (int64_t i = threadIdx.x; i < p.L; i += blockDim.x) p.latent[token * p.L + i] = entry[i];
    for (int64_t i = threadIdx.x; i < p.R; i += blockDim.x)
        p.rope[token * p.R + i] = entry[p.L + i];
}

/* The run of rows that begins at `first`, from what the host knows. */
static struct expanded find_sequence(const struct rows *r, int64_t first)
{
    struct expanded e = {r->sequence[first], first, 0, 0, true, NULL, NULL};
    for (int64_t i = first; i < r->count && r->sequence[i] == e.sequence; i++) {
        const int64_t *extra;
        int64_t context = rows_context(r, i);
        e.plain = e.plain && rows_extras(r, i, &extra) == 0 &&
                  rows_span(r, i) == rows_span(r, first) + i - first;
        if (context > e.context) e.context = context;
        e.T++;
    }
    return e;
}

static enum err_code expand(struct gpu *g, const struct gpu_mla_core *op, struct expanded *e,
                            struct err *err)
{
    const struct gpu_cache *c = op->cache;
    struct gathered p = {};
    p.keys.table = c->table;
    p.keys.blocks_max = c->blocks_max;
    p.keys.block = c->block;
    p.keys.key = c->pool + op->layer * c->blocks * c->block * c->width;
    p.keys.step = c->width;
    p.sequence = e->sequence;
    p.L = op->L;
    p.R = op->R;
    p.latent = gpu_new<bf16>(g, e->context * op->L, "gathered latents", err);
    p.rope = e->rope = gpu_new<bf16>(g, e->context * op->R, "gathered keys", err);
    e->kv =
        gpu_new<bf16>(g, e->context * op->heads * (op->P + op->V), "expanded keys and values", err);
    if (err->code != ERR_OK || GPU_LAUNCH(g, err, "mla_gather", "", dim3((unsigned)e->context),
                                          dim3(128), 0, gather, p) != ERR_OK)
        return err->code;
    return gpu_linear(g, e->context, p.latent, op->kv_b, e->kv, DT_BF16, err);
}

static bool fits_prefill(const struct gpu_mla_core *op, const struct expanded *e)
{
    return op->P == 128 && op->R == 64 && op->V == 128 && op->scale > 0 && e->plain &&
           e->context >= e->T && (uintptr_t)op->q % 16 == 0 && (uintptr_t)op->y % 16 == 0;
}

static enum err_code attend_prefill(struct gpu *g, const struct gpu_mla_core *op,
                                    const struct expanded *e, struct err *err)
{
    const struct mla_prefill p = {e->T,
                                  op->heads,
                                  e->context,
                                  mla_scale(op->scale),
                                  op->q + e->first * op->heads * (op->P + op->R),
                                  e->kv,
                                  e->rope,
                                  op->y + e->first * op->heads * op->V};
    return mla_prefill(g, &p, err);
}

static enum err_code attend_any(struct gpu *g, const struct gpu_mla_core *op,
                                const struct expanded *e, int64_t first, int64_t n, struct err *err)
{
    int64_t qk = op->P + op->R, pv = op->P + op->V;
    struct mla_attend a;
    mla_attend_begin(op, first, n, &a);
    a.K = op->P;
    a.W = op->V;
    a.keys =
        (struct mla_keys){NULL, 0, 0, e->kv, e->kv + op->P, e->rope, op->heads * pv, op->R, pv};
    a.q = op->q + first * op->heads * qk;
    a.q_rope = a.q + op->P;
    a.q_row = a.rope_row = op->heads * qk;
    a.q_head = a.rope_head = qk;
    a.y = op->y + first * op->heads * op->V;
    return mla_any(g, &a, err);
}

static enum err_code attend(struct gpu *g, const struct gpu_mla_core *op, const struct expanded *e,
                            struct err *err)
{
    if (fits_prefill(op, e)) return attend_prefill(g, op, e, err);
    for (int64_t first = e->first; first < e->first + e->T && err->code == ERR_OK;) {
        struct gpu_mark parts = gpu_mark(g);
        int64_t n = mla_rows_now(e->first + e->T - first);
        (void)!attend_any(g, op, e, first, n, err);
        gpu_release(g, parts);
        first += n;
    }
    return err->code;
}

enum err_code mla_expanded(struct gpu *g, const struct gpu_mla_core *op, struct err *err)
{
    const struct rows *r = op->rows->host;
    if (!r)
        return err_set(err, ERR_USAGE,
                       "mla.core on gpu|expanded form|rows that only the device knows|the absorbed "
                       "form in a captured graph");
    for (int64_t first = 0; first < r->count && err->code == ERR_OK;) {
        struct gpu_mark mark = gpu_mark(g);
        struct expanded e = find_sequence(r, first);
        if (expand(g, op, &e, err) == ERR_OK) (void)!attend(g, op, &e, err);
        gpu_release(g, mark);
        first += e.T;
    }
    return err->code;
}
