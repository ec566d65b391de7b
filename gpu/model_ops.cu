/* model_ops.cu: the ops of a step, each at one place: the device function, or while run->faults is
 * set its adapter through the seam; see model.cuh. Router, experts and MLPs: model_experts.cu. */
#include "gpu/model_ops.cuh"

#include "gpu/embed.cuh"
#include "gpu/linear.cuh"
#include "gpu/norm.cuh"
#include "gpu/ops.h"

/* ---- ranks ---- */

bool gpu_has_ranks(const struct gpu_pass *p)
{
    return p->m->ranks != NULL;
}

bool gpu_is_cut(const struct gpu_pass *p)
{
    return p->m->ranks && p->m->ranks->shard.plan.tp > 1;
}

struct shard_site gpu_site(const struct gpu_pass *p, const char *op, int64_t width)
{
    return {op, p->layer, p->T, width, nullptr, nullptr};
}

static double latent_eps(const struct gpu_pass *p)
{
    return p->run->profile.latent_eps_config ? p->c->norm_eps : MLA_LATENT_EPS;
}

/* ---- embed and norm ---- */

enum err_code gpu_op_embed(struct gpu_pass *p, struct err *err)
{
    bool cut = gpu_is_cut(p);
    struct embed op = {};
    op.T = p->T;
    op.H = p->c->hidden;
    op.V = p->c->vocab;
    op.id = p->step->rows->token;
    op.table = &p->m->host->embed;
    if (cut) {
        op.first = p->m->ranks->shard.vocab.first;
        op.rows = p->m->ranks->shard.vocab.count;
    }
    const struct shard_site at = gpu_site(p, "embed", op.H);
    if (!by_adapter(p, "embed")) {
        enum err_code code =
            gpu_embed(p->g, p->T, op.H, p->token, op.first, &p->m->embed, p->x, err);
        return code == ERR_OK && cut ? gpu_reduce_rows(p->m->ranks, &at, p->x, err) : code;
    }
    struct arena_block *mark = arena_mark(p->run->arena);
    op.y = out(p, op.H, err);
    if (op.y && call(p, "embed", TAP_EMBED, &op, err) == ERR_OK &&
        (!cut || reduce_host(p, "embed", op.y, err) == ERR_OK))
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

/* What lies between the projections of gpu_op_front(). */
static enum err_code latents(struct gpu_pass *p, bf16 *q, const bf16 *both, struct err *err)
{
    const struct config *c = p->c;
    const struct gpu_layer *w = own_layer(p);
    struct gpu_latents op = {};
    op.T = p->T;
    op.Q = c->q_lora;
    op.L = c->kv_lora;
    op.eps = latent_eps(p);
    op.q = q;
    op.q_norm = &w->q_norm;
    op.kv_norm = &w->kv_norm;
    op.both = both;
    op.position = p->rows.position;
    op.table = &p->m->rope;
    op.interleaved = c->rope_interleaved;
    op.latent = p->latent;
    op.k_rope = p->k_rope;
    op.cache = p->cache;
    op.layer = p->layer;
    op.rows = &p->rows;
    (void)by_adapter(p, "mla.kv");
    return gpu_mla_latents(p->g, &op, err);
}

enum err_code gpu_op_front(struct gpu_pass *p, struct err *err)
{
    const struct config *c = p->c;
    const struct gpu_layer *w = own_layer(p);
    struct gpu_mark mark = gpu_mark(p->g);
    bf16 *q = gpu_new<bf16>(p->g, p->T * c->q_lora, "query latent", err);
    bf16 *both = gpu_new<bf16>(p->g, p->T * (c->kv_lora + c->rope), "latent and key", err);
    const struct gpu_product first[2] = {{&w->q_a, NULL, q, DT_BF16},
                                         {&w->kv_a, NULL, both, DT_BF16}};
    (void)by_adapter(p, "mla.q");
    if (q && both && gpu_linear_same(p->g, p->T, p->h, first, 2, err) == ERR_OK &&
        latents(p, q, both, err) == ERR_OK) {
        gpu_at(p->g, "mla.q", p->layer);
        (void)!gpu_linear(p->g, p->T, q, &w->q_b, p->q, DT_BF16, err);
    }
    gpu_release(p->g, mark);
    return err->code;
}

enum err_code gpu_op_rope(struct gpu_pass *p, struct err *err)
{
    const struct config *c = p->c;
    bool soon = !p->apart && c->q_lora; /* behind the product that ends gpu_op_front() */
    int64_t wide = c->heads * config_qk(c);
    if (!by_adapter(p, "rope"))
        return gpu_rope(p->g, p->T, c->heads, config_qk(c), c->nope, p->rows.position, &p->m->rope,
                        c->rope_interleaved, soon, p->q, err);
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
    bool cut = gpu_is_cut(p);
    if (!by_adapter(p, "mla.output")) {
        const struct gpu_matrix *o = &own_layer(p)->o;
        if (!cut) return gpu_linear(p->g, p->T, p->core, o, p->block, DT_BF16, err);
        return gpu_linear(p->g, p->T, p->core, o, p->partial, partial_type(p), err) == ERR_OK
                   ? reduce(p, "mla.output", p->block, err)
                   : err->code;
    }
    struct arena_block *mark = arena_mark(p->run->arena);
    struct mla_output op = {};
    op.T = p->T;
    op.x = in(p, p->core, wide, err);
    op.o = &host_layer(p)->o;
    op.partial = cut;
    op.y = out(p, c->hidden, err);
    if (op.x && op.y && call(p, "mla.output", TAP_ATTN, &op, err) == ERR_OK &&
        (!cut || reduce_host(p, "mla.output", op.y, err) == ERR_OK))
        (void)!put(p, p->block, op.y, c->hidden, err);
    return release(p, mark, err);
}

/* ---- logits ---- */

/* By the rank's rows of the head, whose outputs are columns of the logits. */
static enum err_code logits_of_ranks(struct gpu_pass *p, struct err *err)
{
    int64_t width = p->m->ranks->shard.vocab.count;
    const struct shard_site at = gpu_site(p, "logits", width);
    struct gpu_mark mark = gpu_mark(p->g);
    float *part = gpu_new<float>(p->g, p->T * width, "a rank's logits", err);
    if (part && gpu_linear(p->g, p->T, p->h, &p->m->head, part, DT_F32, err) == ERR_OK)
        (void)!gpu_gather_columns(p->m->ranks, &at, DT_F32, part, p->logits, err);
    gpu_release(p->g, mark);
    return err->code;
}

/* All columns, of all ranks, of an adapter's output. */
static double *all_logits(struct gpu_pass *p, double *part, struct err *err)
{
    if (!gpu_is_cut(p)) return part;
    const struct shard_site at = gpu_site(p, "logits", p->m->ranks->shard.vocab.count);
    double *y = out(p, p->c->vocab, err);
    if (!y || shard_gather_columns(&p->m->ranks->shard, &at, part, y, err) != ERR_OK) return NULL;
    return y;
}

enum err_code gpu_op_logits(struct gpu_pass *p, struct err *err)
{
    int64_t V = p->c->vocab;
    if (!by_adapter(p, "logits"))
        return gpu_is_cut(p) ? logits_of_ranks(p, err)
                             : gpu_linear(p->g, p->T, p->h, &p->m->head, p->logits, DT_F32, err);
    struct arena_block *mark = arena_mark(p->run->arena);
    struct logits op = {};
    op.T = p->T;
    op.x = in(p, p->h, p->c->hidden, err);
    op.head = &p->m->host->head;
    op.y = out(p, p->m->host->head.out, err);
    if (op.x && op.y && call(p, "logits", TAP_LOGITS, &op, err) == ERR_OK) {
        double *all = all_logits(p, op.y, err);
        if (all) (void)!gpu_seam_back_f32(p->g, p->logits, all, p->T * V, err);
    }
    return release(p, mark, err);
}
