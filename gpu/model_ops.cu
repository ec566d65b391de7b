/* model_ops.cu: the ops of a step, each at one place: the device function, or while run->faults is
 * set its adapter through the seam; see model.cuh. */
#include "core/check.h"
#include "core/fault.h"
#include "gpu/embed.cuh"
#include "gpu/linear.cuh"
#include "gpu/mlp.cuh"
#include "gpu/model.cuh"
#include "gpu/norm.cuh"
#include "gpu/ops.h"
#include "gpu/router.cuh"

static enum err_code call(struct gpu_pass *p, const char *op, enum tap_kind tap, const void *arg,
                          struct err *err)
{
    struct fault_place place = {};
    place.op = op;
    place.tap = tap;
    place.layer = p->layer;
    place.model = p->m->host;
    place.step = p->step;
    return gpu_seam_call(p->g, &place, arg, p->run, err);
}

static double *in(struct gpu_pass *p, const bf16 *x, int64_t cols, struct err *err)
{
    return gpu_seam_act(p->g, p->run, x, p->T * cols, "an op's input", err);
}

static double *out(struct gpu_pass *p, int64_t cols, struct err *err)
{
    return gpu_seam_room(p->run, p->T * cols, "an op's output", err);
}

static enum err_code put(struct gpu_pass *p, bf16 *to, double *x, int64_t cols, struct err *err)
{
    return gpu_seam_back(p->g, to, x, p->T * cols, err);
}

/* Whether to go through the seam, with where we are. */
static bool by_adapter(struct gpu_pass *p, const char *op)
{
    gpu_at(p->g, op, p->layer);
    return p->run->faults != NULL;
}

static enum err_code release(struct gpu_pass *p, struct arena_block *mark, struct err *err)
{
    arena_release(p->run->arena, mark);
    return err->code;
}

static const struct layer *host_layer(const struct gpu_pass *p)
{
    return &p->m->host->layers[p->layer];
}

static const struct gpu_layer *own_layer(const struct gpu_pass *p)
{
    return &p->m->layers[p->layer];
}

static double latent_eps(const struct gpu_pass *p)
{
    return p->run->profile.latent_eps_config ? p->c->norm_eps : MLA_LATENT_EPS;
}

/* ---- embed and norm ---- */

enum err_code gpu_op_embed(struct gpu_pass *p, struct err *err)
{
    struct embed op = {};
    op.T = p->T;
    op.H = p->c->hidden;
    op.V = p->c->vocab;
    op.id = p->step->rows->token;
    op.table = &p->m->host->embed;
    if (!by_adapter(p, "embed"))
        return gpu_embed(p->g, p->T, p->c->hidden, p->token, &p->m->embed, p->x, err);
    struct arena_block *mark = arena_mark(p->run->arena);
    op.y = out(p, op.H, err);
    if (op.y && call(p, "embed", TAP_EMBED, &op, err) == ERR_OK)
        (void)!put(p, p->x, op.y, op.H, err);
    return release(p, mark, err);
}

enum err_code gpu_op_norm(struct gpu_pass *p, const struct gpu_normed *n, struct err *err)
{
    int64_t H = p->c->hidden;
    if (!by_adapter(p, "norm"))
        return gpu_norm(p->g, p->T, H, p->c->norm_eps, p->x, H, n->w, p->h, H, err);
    struct arena_block *mark = arena_mark(p->run->arena);
    struct norm op = {};
    op.T = p->T;
    op.H = H;
    op.eps = p->c->norm_eps;
    op.w = n->host;
    op.x = in(p, p->x, H, err);
    op.y = out(p, H, err);
    if (op.x && op.y && call(p, "norm", n->tap, &op, err) == ERR_OK)
        (void)!put(p, p->h, op.y, H, err);
    return release(p, mark, err);
}

/* ---- attention ---- */

enum err_code gpu_op_q(struct gpu_pass *p, struct err *err)
{
    const struct config *c = p->c;
    const struct gpu_layer *w = own_layer(p);
    const struct layer *l = host_layer(p);
    int64_t wide = c->heads * config_qk(c);
    if (!by_adapter(p, "mla.q"))
        return gpu_mla_q(p->g, p->T, p->h, c->q_lora ? &w->q_a : NULL, &w->q_norm, &w->q_b,
                         latent_eps(p), p->q, err);
    struct arena_block *mark = arena_mark(p->run->arena);
    struct mla_q op = {};
    op.T = p->T;
    op.x = in(p, p->h, c->hidden, err);
    op.a = c->q_lora ? &l->q_a : NULL;
    op.norm = &l->q_norm;
    op.b = &l->q_b;
    op.eps = latent_eps(p);
    op.q = out(p, wide, err);
    if (op.x && op.q && call(p, "mla.q", TAP_Q, &op, err) == ERR_OK)
        (void)!put(p, p->q, op.q, wide, err);
    return release(p, mark, err);
}

static enum err_code kv_by_adapter(struct gpu_pass *p, struct err *err)
{
    const struct config *c = p->c;
    const struct layer *l = host_layer(p);
    struct mla_kv op = {};
    op.T = p->T;
    op.L = c->kv_lora;
    op.R = c->rope;
    op.x = in(p, p->h, c->hidden, err);
    op.a = &l->kv_a;
    op.norm = &l->kv_norm;
    op.eps = latent_eps(p);
    op.position = p->step->rows->position;
    op.table = &p->m->host->rope;
    op.interleaved = c->rope_interleaved;
    op.latent = out(p, op.L, err);
    op.k_rope = out(p, op.R, err);
    if (!op.x || !op.latent || !op.k_rope || call(p, "mla.kv", TAP_KV_LATENT, &op, err) != ERR_OK ||
        put(p, p->latent, op.latent, op.L, err) != ERR_OK)
        return err->code;
    return put(p, p->k_rope, op.k_rope, op.R, err);
}

enum err_code gpu_op_kv(struct gpu_pass *p, struct err *err)
{
    const struct config *c = p->c;
    const struct gpu_layer *w = own_layer(p);
    if (!by_adapter(p, "mla.kv"))
        return gpu_mla_kv(p->g, p->T, c->kv_lora, c->rope, p->h, &w->kv_a, &w->kv_norm,
                          latent_eps(p), p->rows.position, &p->m->rope, c->rope_interleaved,
                          p->latent, p->k_rope, err);
    struct arena_block *mark = arena_mark(p->run->arena);
    (void)!kv_by_adapter(p, err);
    return release(p, mark, err);
}

enum err_code gpu_op_rope(struct gpu_pass *p, struct err *err)
{
    const struct config *c = p->c;
    int64_t wide = c->heads * config_qk(c);
    if (!by_adapter(p, "rope"))
        return gpu_rope(p->g, p->T, c->heads, config_qk(c), c->nope, p->rows.position, &p->m->rope,
                        c->rope_interleaved, p->q, err);
    struct arena_block *mark = arena_mark(p->run->arena);
    struct rope op = {};
    op.T = p->T;
    op.heads = c->heads;
    op.stride = config_qk(c);
    op.offset = c->nope;
    op.position = p->step->rows->position;
    op.table = &p->m->host->rope;
    op.interleaved = c->rope_interleaved;
    op.x = in(p, p->q, wide, err);
    if (op.x && call(p, "rope", TAP_Q, &op, err) == ERR_OK) (void)!put(p, p->q, op.x, wide, err);
    return release(p, mark, err);
}

static enum err_code core_by_adapter(struct gpu_pass *p, bool absorbed, struct err *err)
{
    const struct config *c = p->c;
    struct cache cache = *p->step->cache;
    int64_t cells = cache.layers * cache.blocks * cache.block * cache.width;
    struct mla_core op = {};
    op.heads = c->heads;
    op.P = c->nope;
    op.R = c->rope;
    op.V = c->v_head;
    op.L = c->kv_lora;
    op.scale = config_softmax_scale(c);
    op.form = absorbed ? MLA_ABSORBED : MLA_EXPANDED;
    op.rows = p->step->rows;
    op.q = in(p, p->q, c->heads * config_qk(c), err);
    op.kv_b = &host_layer(p)->kv_b;
    op.cache = &cache;
    op.layer = p->layer;
    op.y = out(p, c->heads * c->v_head, err);
    cache.pool = gpu_seam_room(p->run, cells, "latent cache", err);
    if (!op.q || !op.y || !cache.pool ||
        gpu_cache_fetch(p->g, p->cache, p->layer, cache.pool, err) != ERR_OK ||
        call(p, "mla.core", TAP_ATTN_CORE, &op, err) != ERR_OK)
        return err->code;
    return put(p, p->core, op.y, c->heads * c->v_head, err);
}

enum err_code gpu_op_core(struct gpu_pass *p, struct err *err)
{
    const struct config *c = p->c;
    bool absorbed = p->step->decode && p->run->profile.decode_absorbed;
    struct gpu_mla_core op = {};
    op.heads = c->heads;
    op.P = c->nope;
    op.R = c->rope;
    op.V = c->v_head;
    op.L = c->kv_lora;
    op.scale = config_softmax_scale(c);
    op.absorbed = absorbed;
    op.rows = &p->rows;
    op.q = p->q;
    op.kv_b = &own_layer(p)->kv_b;
    op.cache = p->cache;
    op.layer = p->layer;
    op.y = p->core;
    if (!by_adapter(p, "mla.core")) return gpu_mla_core(p->g, &op, err);
    struct arena_block *mark = arena_mark(p->run->arena);
    (void)!core_by_adapter(p, absorbed, err);
    return release(p, mark, err);
}

enum err_code gpu_op_output(struct gpu_pass *p, struct err *err)
{
    const struct config *c = p->c;
    int64_t wide = c->heads * c->v_head;
    if (!by_adapter(p, "mla.output"))
        return gpu_linear(p->g, p->T, p->core, &own_layer(p)->o, p->block, DT_BF16, err);
    struct arena_block *mark = arena_mark(p->run->arena);
    struct mla_output op = {};
    op.T = p->T;
    op.x = in(p, p->core, wide, err);
    op.o = &host_layer(p)->o;
    op.y = out(p, c->hidden, err);
    if (op.x && op.y && call(p, "mla.output", TAP_ATTN, &op, err) == ERR_OK)
        (void)!put(p, p->block, op.y, c->hidden, err);
    return release(p, mark, err);
}

/* ---- feed-forward ---- */

static enum err_code fetch_ids(struct gpu_pass *p, const int32_t *device, int32_t **ids,
                               struct err *err)
{
    int64_t n = p->T * p->c->top_k;
    *ids = (int32_t *)arena_alloc(p->run->arena, n, sizeof **ids, "expert ids", err);
    if (!*ids || !device) return err->code;
    return gpu_fetch(p->g, *ids, device, (size_t)n * sizeof **ids, "expert ids", err);
}

static enum err_code router_by_adapter(struct gpu_pass *p, struct err *err)
{
    const struct config *c = p->c;
    const struct layer *l = host_layer(p);
    int64_t chosen = p->T * c->top_k;
    int32_t *forced = NULL;
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

enum err_code gpu_op_router(struct gpu_pass *p, struct err *err)
{
    const struct config *c = p->c;
    const struct gpu_layer *w = own_layer(p);
    struct gpu_router op = {};
    op.T = p->T;
    op.H = c->hidden;
    op.E = c->experts;
    op.top_k = c->top_k;
    op.groups = c->groups;
    op.top_groups = c->top_groups;
    op.scoring = c->scoring;
    op.method = c->topk_method;
    op.norm_topk = c->norm_topk;
    op.routed_scale = (float)c->routed_scale;
    op.x = p->h;
    op.w = &w->router;
    op.bias = w->bias;
    op.forced = p->force;
    op.logits = p->router_logits;
    op.ids = p->ids;
    op.weights = p->weights;
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
    if (call(p, "moe", TAP_ROUTED, &op, err) != ERR_OK) return err->code;
    return put(p, p->block, op.y, c->hidden, err);
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
    op.sum_scale = 1;
    op.shared = shared;
    op.routed = shared ? p->routed : NULL;
    op.y = p->block;
    if (!by_adapter(p, "moe")) return gpu_moe(p->g, &op, err);
    struct arena_block *mark = arena_mark(p->run->arena);
    (void)!moe_by_adapter(p, err);
    return release(p, mark, err);
}

enum err_code gpu_op_mlp(struct gpu_pass *p, const char *name, enum tap_kind tap, bf16 *y,
                         struct err *err)
{
    const struct gpu_layer *w = own_layer(p);
    const struct layer *l = host_layer(p);
    int64_t H = p->c->hidden;
    if (!by_adapter(p, name)) return gpu_mlp(p->g, p->T, p->h, &w->gate, &w->up, &w->down, y, err);
    struct arena_block *mark = arena_mark(p->run->arena);
    struct mlp op = {};
    op.T = p->T;
    op.x = in(p, p->h, H, err);
    op.gate = &l->gate;
    op.up = &l->up;
    op.down = &l->down;
    op.y = out(p, H, err);
    if (op.x && op.y && call(p, name, tap, &op, err) == ERR_OK) (void)!put(p, y, op.y, H, err);
    return release(p, mark, err);
}

enum err_code gpu_op_logits(struct gpu_pass *p, struct err *err)
{
    int64_t V = p->c->vocab;
    if (!by_adapter(p, "logits"))
        return gpu_linear(p->g, p->T, p->h, &p->m->head, p->logits, DT_F32, err);
    struct arena_block *mark = arena_mark(p->run->arena);
    struct logits op = {};
    op.T = p->T;
    op.x = in(p, p->h, p->c->hidden, err);
    op.head = &p->m->host->head;
    op.y = out(p, V, err);
    if (op.x && op.y && call(p, "logits", TAP_LOGITS, &op, err) == ERR_OK)
        (void)!gpu_seam_back_f32(p->g, p->logits, op.y, p->T * V, err);
    return release(p, mark, err);
}
