/* moe.cu: op moe on the device; see moe.cuh. Steps: permutation (moe_align.cu), gate and up with
 * SwiGLU, down (moe_gemm.cu, moe_stream.cu, moe_gemm_large.cu, moe_any.cu), sum (moe_combine.cu).
 * For the fewest tokens all of it is moe_fused.cu. */
#include "gpu/moe_parts.cuh"

#include "core/matrix.h"
#include "core/tactic.h"
#include "gpu/ops.h"

#include <stdlib.h>
#include <string.h>

/* ---- on the device ---- */

/* The variant for a step of packed experts; --tactic moe=NAME forces one. NULL: it is refused. */
static const struct moe_variant *variant_for(const struct gpu *g, const struct gpu_experts *x,
                                             int64_t T, int64_t top_k, struct err *err)
{
    const char *why;
    struct moe_size s = {};
    s.T = T;
    s.pairs = T * top_k;
    s.E = x->all;
    s.H = x->H;
    s.I = x->I;
    s.strips = moe_w13_rows(x->I) / MOE_TILE_ROWS;
    s.sms = g->sms;
    s.shared = (int64_t)g->shared_max;
    s.mps = g->mps;
    s.has[MOE_MMA] = true;
    s.has[MOE_STREAM] = moe_has_stream(g);
    s.has[MOE_LARGE] = moe_has_large(g);
    s.has[MOE_FUSED] = moe_has_stream(g);
    const struct moe_variant *v = moe_choose(&s, tactic_forced("moe"), &why);
    if (!v) (void)tactic_none("moe", why, err);
    return v;
}

/* One after the other, by the kernels that make one at a time. */
static enum err_code product(struct gpu *g, const struct moe_product *p, bool gated,
                             const struct moe_variant *how, struct err *err)
{
    if (how->kernel == MOE_LARGE) return moe_product_large(g, p, gated, err);
    return moe_product_mma(g, p, gated, how->cap, err);
}

__global__ static void moe_widen(int64_t T, int64_t H, int64_t ld, const bf16 *x, bf16 *y)
{
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < T * ld; i += step) {
        int64_t h = i % ld;
        y[i] = h < H ? x[i / ld * H + h] : __float2bfloat16_rn(0.0f);
    }
}

/* x with rows of whole tiles, 16-byte aligned: itself, or a copy padded with zeros. */
static const bf16 *widened(struct gpu *g, const struct gpu_moe *op, int64_t ld, struct err *err)
{
    int64_t H = op->experts->H;
    if (ld == H && (uintptr_t)op->x % 16 == 0) return op->x;
    bf16 *y = gpu_new<bf16>(g, op->T * ld, "rows of whole tiles", err);
    if (!y || GPU_LAUNCH(g, err, "moe_widen", "", dim3((unsigned)(g->sms * 8)), dim3(256), 0,
                         moe_widen, op->T, H, ld, op->x, y) != ERR_OK)
        return NULL;
    g->fresh = true; /* where the plan is older, products read it before they wait */
    return y;
}

/* w13 reads the op's rows and makes act, w2 reads act and makes out. */
static enum err_code describe(struct gpu *g, const struct gpu_moe *op, const struct moe_plan *plan,
                              bf16 *act, bf16 *out, struct moe_product p[2], struct err *err)
{
    const struct gpu_experts *e = op->experts;
    p[0] = {};
    p[0].every_lane = g->every_lane;
    p[0].tile = plan->tile;
    p[0].tiles = plan->tiles;
    p[0].rows = plan->pairs;
    p[1] = p[0];
    p[0].taken = plan->ready;
    p[1].taken = plan->ready + 1;
    p[0].weights = (const char *)e->w13;
    p[0].step = (int64_t)e->w13_step;
    p[0].tiles_k = moe_tiles_k(e->H);
    p[0].strips = moe_w13_rows(e->I) / MOE_TILE_ROWS;
    p[0].ldx = p[0].tiles_k * MOE_TILE_K;
    p[0].x = widened(g, op, p[0].ldx, err);
    p[0].gather = plan->token_of;
    p[0].y = act;
    p[0].ldy = moe_pad(e->I, MOE_TILE_K);
    p[0].cols = e->I;
    p[1].weights = (const char *)e->w2;
    p[1].step = (int64_t)e->w2_step;
    p[1].tiles_k = moe_tiles_k(e->I);
    p[1].strips = moe_pad(e->H, MOE_TILE_ROWS) / MOE_TILE_ROWS;
    p[1].ldx = p[0].ldy;
    p[1].x = act;
    p[1].y = out;
    p[1].ldy = p[1].cols = e->H;
    return err->code;
}

/* Strips of w2 that are one task of moe_stream.cu. A shard's are short (256 columns: 9 KB), and
 * looking up tasks costs more than reading them: on an H200 four at a time are 6 % faster at 64
 * tokens. Long ones, or few, go one by one. */
static int32_t strips_of_task(const struct gpu *g, const struct moe_plan *plan,
                              const struct moe_product *p)
{
    const int64_t few = 16; /* strips a multiprocessor, at most, that are not worth it */
    bool is_short = p->tiles_k <= 8, many = plan->pairs * p->strips > few * g->sms;
    return is_short && many ? 4 : 1;
}

/* The tiles by size, and w13's rows in the order of wgmma where it does not gather them. */
static enum err_code prepare_large(struct gpu *g, const struct moe_plan *plan,
                                   const struct moe_variant *how, bf16 *out,
                                   struct moe_product p[2], struct err *err)
{
    p[0].tile = p[1].tile = moe_by_size(g, plan, err);
    if (!p[0].tile || how->gather) return err->code;
    if (moe_swizzle(g, plan, p[0].x, p[0].ldx, out, err) != ERR_OK) return err->code;
    p[0].x = out;
    p[0].gather = NULL;
    return ERR_OK;
}

/* Every element of w2's results is NaN before the product. They are stored by the copy engine
 * through a map, which compute-sanitizer's initcheck does not see: without, it finds all of them
 * unwritten. */
static enum err_code prefill(struct gpu *g, const struct moe_product *p, struct err *err)
{
    return gpu_call(
        g, cudaMemsetAsync(p->y, 0xFF, (size_t)(p->rows * p->ldy) * sizeof(bf16), g->stream),
        "fill the experts' place", err);
}

/* w13 with SwiGLU, then w2. act and out [pairs, ld of whole tiles], out with room before it; out
 * holds w13's input in the order of wgmma first where that kernel wants it, the rows [pairs, H] in
 * the end. */
static enum err_code products(struct gpu *g, const struct gpu_moe *op, const struct moe_plan *plan,
                              const struct moe_variant *how, bf16 *act, bf16 *out, struct err *err)
{
    struct moe_stream_job job = {};
    struct moe_product *p = job.p;
    job.run[0] = 1;
    job.run[1] = strips_of_task(g, plan, &p[1]);
    job.ready = plan->ready;
    job.planned = plan->made;
    job.every_lane = g->every_lane;
    if (describe(g, op, plan, act, out, p, err) != ERR_OK) return err->code;
    if (how->kernel == MOE_STREAM) return moe_products_stream(g, &job, how, err);
    if (how->kernel == MOE_LARGE && prepare_large(g, plan, how, out, p, err) != ERR_OK)
        return err->code;
    if (product(g, &p[0], true, how, err) != ERR_OK) return err->code;
    if (g->prefill && how->kernel == MOE_LARGE && prefill(g, &p[1], err) != ERR_OK)
        return err->code;
    return product(g, &p[1], false, how, err);
}

static enum err_code plan_for(struct gpu *g, const struct gpu_moe *op,
                              const struct moe_variant *how, struct moe_plan *plan, struct err *err)
{
    if (op->plan && op->plan->made) {
        *plan = *op->plan;
        return ERR_OK;
    }
    if (moe_plan_new(g, op->T, op->top_k, op->experts->E, how ? how->cap : MOE_CAP_MMA, plan,
                     err) != ERR_OK)
        return err->code;
    return moe_align(g, plan, op->top_k, op->ids, err);
}

static enum err_code run_moe(struct gpu *g, const struct gpu_moe *op, struct err *err)
{
    const struct gpu_experts *x = op->experts;
    struct moe_plan plan;
    const struct moe_variant *how = x->packed ? variant_for(g, x, op->T, op->top_k, err) : NULL;
    if (x->packed && !how) return err->code;
    if (how && how->kernel == MOE_FUSED) return moe_fused_run(g, op, err);
    int64_t wide_I = x->packed ? moe_pad(x->I, MOE_TILE_K) : x->I;
    int64_t wide_H = x->packed ? moe_pad(x->H, MOE_TILE_K) : x->H;
    /* moe_stream.cu counts 16-byte pieces of the rows it reads in 32 bits. */
    if (op->T * op->top_k * (wide_I > wide_H ? wide_I : wide_H) / 8 > UINT32_MAX)
        return err_set(err, ERR_INPUT, "run experts|op moe on gpu|%lld rows at once|fewer",
                       (long long)op->T);
    if (plan_for(g, op, how, &plan, err) != ERR_OK) return err->code;
    bf16 *act = gpu_new<bf16>(g, plan.pairs * wide_I, "experts' activations", err);
    int64_t before = how && how->kernel == MOE_LARGE ? MOE_CAP_LARGE * wide_H : 0;
    bf16 *out = gpu_new<bf16>(g, before + plan.pairs * wide_H, "experts' rows", err);
    if (!act || !out ||
        (x->packed ? products(g, op, &plan, how, act, out + before, err)
                   : moe_any(g, op, &plan, act, out + before, err)) != ERR_OK)
        return err->code;
    return moe_combine(g, op, &plan, out + before, err);
}

enum err_code gpu_moe_plan(struct gpu *g, const struct gpu_experts *x, int64_t T, int64_t top_k,
                           struct moe_plan *out, struct err *err)
{
    const struct moe_variant *how = x->packed ? variant_for(g, x, T, top_k, err) : NULL;
    if (x->packed && !how) return err->code;
    return moe_plan_new(g, T, top_k, x->E, how ? how->cap : MOE_CAP_MMA, out, err);
}

enum err_code gpu_moe(struct gpu *g, const struct gpu_moe *op, struct err *err)
{
    if (op->T == 0) return ERR_OK;
    struct gpu_mark mark = gpu_mark(g);
    (void)!run_moe(g, op, err);
    gpu_release(g, mark);
    return err->code;
}

/* ---- the op's adapter ---- */

/* The experts that were chosen, in ascending id, under numbers of their own. */
struct chosen {
    int32_t *number; /* [E]: -1 or the number */
    int32_t *ids;    /* [T, top_k]: numbers */
    int64_t count;
};

static enum err_code choose(const struct moe *op, struct chosen *c, struct err *err)
{
    int64_t pairs = op->T * op->top_k;
    c->number = (int32_t *)calloc((size_t)op->E, sizeof *c->number);
    c->ids = (int32_t *)calloc((size_t)pairs, sizeof *c->ids);
    if (!c->number || !c->ids)
        return err_set(err, ERR_MEMORY, "list experts|op moe on gpu|%lld pairs|memory",
                       (long long)pairs);
    for (int64_t i = 0; i < pairs; i++) {
        if (op->ids[i] >= 0) c->number[op->ids[i]] = 1;
    }
    c->count = 0;
    for (int64_t e = 0; e < op->E; e++) c->number[e] = c->number[e] ? (int32_t)c->count++ : -1;
    for (int64_t i = 0; i < pairs; i++) c->ids[i] = op->ids[i] < 0 ? -1 : c->number[op->ids[i]];
    return ERR_OK;
}

static enum err_code give_expert(const struct moe *op, int64_t e, struct expert *out,
                                 struct err *err)
{
    if (op->expert(op->ctx, e, out, err) != ERR_OK ||
        matrix_want(&out->gate, "expert gate", op->I, op->H, err) != ERR_OK ||
        matrix_want(&out->up, "expert up", op->I, op->H, err) != ERR_OK ||
        matrix_want(&out->down, "expert down", op->H, op->I, err) != ERR_OK)
        return err_note(err, "expert %lld", (long long)e);
    return ERR_OK;
}

/* Opens and loads them. Packed where every one of them can be. */
static enum err_code load_chosen(struct gpu *g, const struct moe *op, const struct chosen *c,
                                 struct gpu_experts *out, struct err *err)
{
    struct expert from;
    bool packed = true;
    for (int64_t e = 0; e < op->E; e++) {
        if (c->number[e] < 0) continue;
        if (give_expert(op, e, &from, err) != ERR_OK) return err->code;
        packed = packed && gpu_expert_packs(&from);
    }
    if (gpu_experts_open(g, c->count, op->H, op->I, packed, out, err) != ERR_OK) return err->code;
    for (int64_t e = 0; e < op->E; e++) {
        if (c->number[e] < 0) continue;
        if (give_expert(op, e, &from, err) != ERR_OK) return err->code;
        if (gpu_experts_load(g, out, c->number[e], &from, err) != ERR_OK)
            return err_note(err, "expert %lld", (long long)e);
    }
    return ERR_OK;
}

static enum err_code run_chosen(struct gpu *g, const struct moe *op, const struct chosen *c,
                                const struct gpu_experts *experts, struct err *err)
{
    int64_t pairs = op->T * op->top_k, n = op->T * op->H;
    int32_t *ids = gpu_new<int32_t>(g, pairs, "expert ids", err);
    bf16 *x = gpu_send_act(g, op->x, op->T, op->H, "the rows", err);
    float *weights = gpu_send_f32(g, op->weights, pairs, "the routing weights", err);
    enum dtype type = op->partial ? DT_F32 : DT_BF16;
    void *y = gpu_alloc(g, n, (size_t)dtype_size(type), "the result", err);
    if (!ids || !x || !weights || !y ||
        gpu_send(g, ids, c->ids, (size_t)pairs * sizeof *ids, "expert ids", err) != ERR_OK)
        return err->code;
    struct gpu_moe moe = {};
    moe.T = op->T;
    moe.top_k = op->top_k;
    moe.x = x;
    moe.ids = ids;
    moe.weights = weights;
    moe.experts = experts;
    moe.sum_scale = op->partial ? 1 : op->sum_scale;
    if (op->partial)
        moe.partial = (float *)y;
    else
        moe.y = (bf16 *)y;
    if (gpu_moe(g, &moe, err) != ERR_OK) return err->code;
    return gpu_fetch_as(g, op->y, type, y, n, "the result", err);
}

enum err_code moe_gpu(const struct moe *op, struct run *run, struct err *err)
{
    if (moe_check(op, err) != ERR_OK || op->T == 0) return err->code;
    struct gpu *g = gpu_enter("moe", run, err);
    if (!g) return err->code;
    struct gpu_mark mark = gpu_mark(g);
    struct gpu_experts experts = {};
    struct chosen c = {};
    bool chosen = choose(op, &c, err) == ERR_OK;
    if (chosen && c.count == 0)
        memset(op->y, 0, (size_t)(op->T * op->H) * sizeof *op->y); /* all are of other ranks */
    else if (chosen && load_chosen(g, op, &c, &experts, err) == ERR_OK)
        (void)!run_chosen(g, op, &c, &experts, err);
    gpu_experts_close(g, &experts);
    free(c.number);
    free(c.ids);
    return gpu_leave(g, mark, err);
}
