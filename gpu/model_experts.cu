/* model_experts.cu: the ops of a feed-forward, as model_ops.cu has the others. */
#include "gpu/model_ops.cuh"

#include "core/check.h"
#include "gpu/linear.cuh"
#include "gpu/mlp.cuh"
#include "gpu/ops.h"
#include "gpu/router.cuh"

#include <string.h>

static enum err_code fetch_ids(struct gpu_pass *p, const int32_t *device, int32_t **ids,
                               struct err *err)
{
    int64_t n = p->T * p->c->top_k;
    *ids = (int32_t *)arena_alloc(p->run->arena, n, sizeof **ids, "expert ids", err);
    if (!*ids || !device) return err->code;
    return gpu_fetch(p->g, *ids, device, (size_t)n * sizeof **ids, "expert ids", err);
}

/* The router of this layer, without what it reads and writes. */
static struct router router_of(const struct gpu_pass *p)
{
    const struct config *c = p->c;
    struct router op = {};
    op.T = p->T;
    op.H = c->hidden;
    op.E = c->experts;
    op.top_k = c->top_k;
    op.groups = c->groups;
    op.top_groups = c->top_groups;
    op.scoring = c->scoring;
    op.method = c->topk_method;
    op.norm_topk = c->norm_topk;
    op.routed_scale = c->routed_scale;
    return op;
}

static enum err_code router_by_adapter(struct gpu_pass *p, struct err *err)
{
    const struct config *c = p->c;
    const struct layer *l = host_layer(p);
    int64_t chosen = p->T * c->top_k;
    int32_t *forced = NULL;
    struct router op = router_of(p);
    op.x = in(p, p->h, c->hidden, err);
    op.w = &l->router;
    op.bias = tensor_exists(&l->bias) ? &l->bias : NULL;
    if (p->force && fetch_ids(p, p->force, &forced, err) != ERR_OK) return err->code;
    op.forced = forced;
    op.logits = out(p, c->experts, err);
    op.weights = out(p, c->top_k, err);
    if (!op.x || !op.logits || !op.weights || fetch_ids(p, NULL, &op.ids, err) != ERR_OK ||
        call(p, "router", TAP_ROUTER_LOGITS, &op, err) != ERR_OK ||
        gpu_seam_back_f32(p->g, p->router_logits, op.logits, p->T * c->experts, err) != ERR_OK ||
        gpu_seam_back_f32(p->g, p->weights, op.weights, chosen, err) != ERR_OK)
        return err->code;
    return gpu_send(p->g, p->ids, op.ids, (size_t)chosen * sizeof *op.ids, "expert ids", err);
}

/* The same on the device, with all of it. */
static struct gpu_router own_router(const struct gpu_pass *p)
{
    const struct gpu_layer *w = own_layer(p);
    const struct router shape = router_of(p);
    struct gpu_router op = gpu_router_of(&shape);
    op.x = p->h;
    op.w = &w->router;
    op.bias = w->bias;
    op.forced = p->force;
    op.logits = p->router_logits;
    op.summed = p->summed;
    op.ids = p->ids;
    op.weights = p->weights;
    return op;
}

enum err_code gpu_op_router(struct gpu_pass *p, struct err *err)
{
    struct gpu_router op = own_router(p);
    op.plan = p->plan.pairs ? &p->plan : NULL;
    CHECK(!p->run->profile.scale_after_sum); /* no profile that this path takes does */
    if (!by_adapter(p, "router")) return gpu_router(p->g, &op, err);
    struct arena_block *mark = arena_mark(p->run->arena);
    (void)!router_by_adapter(p, err);
    return release(p, mark, err);
}

struct expert_source {
    const struct model *model;
    int64_t layer;
};

static enum err_code give_expert(const void *ctx, int64_t e, struct expert *out, struct err *err)
{
    const struct expert_source *from = (const struct expert_source *)ctx;
    return model_expert(from->model, from->layer, e, out, err);
}

static enum err_code moe_by_adapter(struct gpu_pass *p, struct err *err)
{
    const struct config *c = p->c;
    const struct expert_source from = {p->m->host, p->layer};
    struct moe op = {};
    int32_t *ids;
    op.T = p->T;
    op.H = c->hidden;
    op.I = c->moe_intermediate;
    op.E = c->experts;
    op.top_k = c->top_k;
    op.x = in(p, p->h, c->hidden, err);
    op.weights = gpu_seam_f32(p->g, p->run, p->weights, p->T * c->top_k, "expert weights", err);
    op.expert = give_expert;
    op.ctx = &from;
    op.sum_scale = 1;
    op.y = out(p, c->hidden, err);
    if (!op.x || !op.weights || !op.y || fetch_ids(p, p->ids, &ids, err) != ERR_OK)
        return err->code;
    op.ids = ids;
    if (gpu_has_ranks(p)) {
        const struct shard *s = &p->m->ranks->shard;
        shard_route(s, p->layer, p->step->rows, c->top_k, ids);
        op.partial = true;
        op.cut = s->plan.tp > 1;
    }
    bool none = op.partial && own_layer(p)->experts.E == 0;
    if (none) memset(op.y, 0, (size_t)(op.T * op.H) * sizeof *op.y);
    if ((!none && call(p, "moe", TAP_ROUTED, &op, err) != ERR_OK) ||
        (op.partial && reduce_host(p, "moe", op.y, err) != ERR_OK))
        return err->code;
    return put(p, p->block, op.y, c->hidden, err);
}

/* This rank's experts on what is theirs. A rank may hold none: a part of zeros. */
static enum err_code own_experts(struct gpu_pass *p, struct gpu_moe *op, struct err *err)
{
    size_t bytes = (size_t)(p->T * p->c->hidden * dtype_size(partial_type(p)));
    if (op->experts->E == 0)
        return gpu_call(p->g, cudaMemsetAsync(p->partial, 0, bytes, p->g->stream),
                        "a part of zeros", err);
    if (gpu_route(p->m->ranks, p->layer, p->step->rows, op->top_k, op->ids, p->own_ids, err) !=
        ERR_OK)
        return err->code;
    op->ids = p->own_ids;
    if (partial_type(p) == DT_F32)
        op->partial = (float *)p->partial;
    else
        op->y = (bf16 *)p->partial;
    return gpu_moe(p->g, op, err);
}

enum err_code gpu_op_moe(struct gpu_pass *p, const bf16 *shared, struct err *err)
{
    struct gpu_moe op = {};
    op.T = p->T;
    op.top_k = p->c->top_k;
    op.x = p->h;
    op.ids = p->ids;
    op.weights = p->weights;
    op.experts = &own_layer(p)->experts;
    op.plan = &p->plan;
    op.sum_scale = 1;
    op.shared = shared;
    op.routed = shared ? p->routed : NULL;
    op.y = p->block;
    if (!by_adapter(p, "moe")) {
        if (!gpu_has_ranks(p)) return gpu_moe(p->g, &op, err);
        return own_experts(p, &op, err) == ERR_OK ? reduce(p, "moe", p->block, err) : err->code;
    }
    struct arena_block *mark = arena_mark(p->run->arena);
    (void)!moe_by_adapter(p, err);
    return release(p, mark, err);
}

enum err_code gpu_op_gated(struct gpu_pass *p, struct err *err)
{
    const struct gpu_layer *w = own_layer(p);
    const struct gpu_product logits = {&w->router, NULL, p->router_logits, DT_F32};
    (void)by_adapter(p, "moe.shared");
    p->gated = gpu_new<bf16>(p->g, p->T * w->gate.out, "shared experts' activations", err);
    if (!p->gated) return err->code;
    const struct gpu_router router = own_router(p);
    p->summed = gpu_router_by_linear(&router) && linear_joins(p->g, p->T, p->h, &w->router);
    return gpu_gated(p->g, p->T, p->h, &w->gate, &w->up, p->summed ? &logits : NULL, p->gated, err);
}

enum err_code gpu_op_down(struct gpu_pass *p, bf16 *y, struct err *err)
{
    (void)by_adapter(p, "moe.shared");
    return gpu_linear(p->g, p->T, p->gated, &own_layer(p)->down, y, DT_BF16, err);
}

enum err_code gpu_op_mlp(struct gpu_pass *p, const char *name, enum tap_kind tap, bf16 *y,
                         struct err *err)
{
    const struct gpu_layer *w = own_layer(p);
    const struct layer *l = host_layer(p);
    int64_t H = p->c->hidden;
    bool cut = gpu_is_cut(p);
    if (!by_adapter(p, name)) {
        void *to = cut ? p->partial : y;
        enum dtype type = cut ? partial_type(p) : DT_BF16;
        if (gpu_mlp(p->g, p->T, p->h, &w->gate, &w->up, &w->down, to, type, err) != ERR_OK)
            return err->code;
        return cut ? reduce(p, name, y, err) : ERR_OK;
    }
    struct arena_block *mark = arena_mark(p->run->arena);
    struct mlp op = {};
    op.T = p->T;
    op.x = in(p, p->h, H, err);
    op.gate = &l->gate;
    op.up = &l->up;
    op.down = &l->down;
    op.partial = cut;
    op.y = out(p, H, err);
    if (op.x && op.y && call(p, name, tap, &op, err) == ERR_OK &&
        (!cut || reduce_host(p, name, op.y, err) == ERR_OK))
        (void)!put(p, y, op.y, H, err);
    return release(p, mark, err);
}
