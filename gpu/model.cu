/* model.cu: one step of the decoder on the device. Contract: core/model.h, composition: as there
 *
 *   x = embed;  for each layer:  x += attention(norm(x));  x += feed-forward(norm(x));  logits =
 *   head(norm(x))
 *
 * with the addition to the stream and the norm after it in one kernel. See model.cuh. */
#include "gpu/model.cuh"

#include "core/check.h"
#include "core/embed.h"
#include "gpu/collective.cuh"
#include "gpu/graph.cuh"
#include "gpu/norm.cuh"

#include <stdlib.h>
#include <string.h>

enum { GRAPH_LAYERS = 8 };

/* Somebody looks at this tap of the head, or may change what it gives. */
static bool head_needed(const struct step *s, const struct run *run, const char *tap)
{
    if (s->layer_end < s->model->config->layers) return false;
    return s->logits || run->faults ||
           (s->sink && (s->sink->replace || s->sink->wants(s->sink->ctx, tap)));
}

static bool logits_needed(const struct step *s, const struct run *run)
{
    return head_needed(s, run, "logits");
}

/* The last norm, for itself or for the logits. */
static bool norm_needed(const struct step *s, const struct run *run)
{
    return logits_needed(s, run) || head_needed(s, run, "final_norm");
}

/* ---- buffers ---- */

enum err_code gpu_pass_make(struct gpu_pass *p, bool logits, struct err *err)
{
    const struct config *c = p->c;
    const struct {
        bf16 **at;
        int64_t width;
    } acts[] = {
        {&p->x, c->hidden},       {&p->h, c->hidden},      {&p->block, c->hidden},
        {&p->other, c->hidden},   {&p->routed, c->hidden}, {&p->q, c->heads * config_qk(c)},
        {&p->latent, c->kv_lora}, {&p->k_rope, c->rope},   {&p->core, c->heads * c->v_head}};
    for (const auto &a : acts) {
        *a.at = gpu_new<bf16>(p->g, p->T * a.width, "activations of a step", err);
        if (!*a.at) return err->code;
    }
    p->router_logits = gpu_new<float>(p->g, p->T * c->experts, "router logits", err);
    p->weights = gpu_new<float>(p->g, p->T * c->top_k, "expert weights", err);
    p->ids = gpu_new<int32_t>(p->g, p->T * c->top_k, "expert ids", err);
    p->forced = gpu_new<int32_t>(p->g, p->T * c->top_k, "forced experts", err);
    if (gpu_has_ranks(p)) {
        size_t size = (size_t)dtype_size(gpu_partial_type(p->m->ranks));
        p->partial = gpu_alloc(p->g, p->T * c->hidden, size, "partial rows", err);
        p->own_ids = gpu_new<int32_t>(p->g, p->T * c->top_k, "a rank's expert ids", err);
    }
    if (logits && !p->logits) p->logits = gpu_new<float>(p->g, p->T * c->vocab, "logits", err);
    return err->code;
}

/* ---- a layer ---- */

/* h = norm(x), unless the addition before it made that too. */
static enum err_code norm(struct gpu_pass *p, const struct gpu_normed *n, struct err *err)
{
    bool there = p->normed;
    p->normed = false;
    if (!there && gpu_op_norm(p, n, err) != ERR_OK) return err->code;
    return gpu_emit(p, n->tap, p->c->hidden, p->h, err);
}

/* x += block, and h = norm(x) where that norm is known and nobody looks at what lies between. */
static enum err_code add(struct gpu_pass *p, const struct gpu_normed *next, struct err *err)
{
    int64_t H = p->c->hidden;
    gpu_at(p->g, "norm", p->layer);
    if (!next || p->apart) return gpu_add(p->g, p->T * H, p->x, p->block, err);
    p->normed = true;
    return gpu_norm_add(p->g, p->T, H, p->c->norm_eps, p->x, p->block, next->w, p->h, err);
}

/* Queries, and what is kept of the rows. */
static enum err_code attention_front(struct gpu_pass *p, struct err *err)
{
    const struct config *c = p->c;
    bool whole = !p->apart && c->q_lora;
    if ((whole ? gpu_op_front(p, err) : gpu_op_q(p, err)) != ERR_OK ||
        gpu_emit_columns(p, "mla.q", TAP_Q, c->heads * config_qk(c), p->q, err) != ERR_OK ||
        (!whole && gpu_op_kv(p, err) != ERR_OK) ||
        gpu_emit(p, TAP_KV_LATENT, c->kv_lora, p->latent, err) != ERR_OK ||
        gpu_emit(p, TAP_K_ROPE, c->rope, p->k_rope, err) != ERR_OK)
        return err->code;
    return whole ? ERR_OK
                 : gpu_cache_write(p->g, p->cache, p->layer, &p->rows, c->kv_lora, p->latent,
                                   c->rope, p->k_rope, err);
}

static enum err_code attention(struct gpu_pass *p, struct err *err)
{
    const struct config *c = p->c;
    if (attention_front(p, err) != ERR_OK || gpu_op_rope(p, err) != ERR_OK ||
        gpu_op_core(p, err) != ERR_OK ||
        gpu_emit_columns(p, "mla.core", TAP_ATTN_CORE, c->heads * c->v_head, p->core, err) !=
            ERR_OK ||
        gpu_op_output(p, err) != ERR_OK)
        return err->code;
    return gpu_emit(p, TAP_ATTN, c->hidden, p->block, err);
}

static enum err_code route(struct gpu_pass *p, struct err *err)
{
    const struct config *c = p->c;
    const struct step *s = p->step;
    int64_t n = p->T * c->top_k;
    p->force = NULL;
    if (s->forced) {
        int32_t *ids = (int32_t *)malloc((size_t)n * sizeof *ids + 1);
        if (!ids) return err_set(err, ERR_MEMORY, "force experts|host|no memory");
        if (s->forced(s->forced_ctx, p->layer, s->rows, ids)) {
            p->force = p->forced;
            (void)!gpu_send(p->g, p->forced, ids, (size_t)n * sizeof *ids, "forced experts", err);
        }
        free(ids);
    }
    if (err->code != ERR_OK || gpu_op_router(p, err) != ERR_OK ||
        (p->m->ranks && gpu_agree(p->m->ranks, "router", p->layer, p->ids,
                                  (size_t)n * sizeof *p->ids, err) != ERR_OK) ||
        gpu_emit_f32(p, TAP_ROUTER_LOGITS, c->experts, p->router_logits, err) != ERR_OK ||
        gpu_emit_ids(p, err) != ERR_OK)
        return err->code;
    return gpu_emit_f32(p, TAP_EXPERT_WEIGHTS, c->top_k, p->weights, err);
}

/* Routed and shared experts, one after the other: somebody may change either, or each is a sum over
 * ranks. */
static enum err_code experts_apart(struct gpu_pass *p, struct err *err)
{
    int64_t H = p->c->hidden;
    if (gpu_op_moe(p, NULL, err) != ERR_OK || gpu_emit(p, TAP_ROUTED, H, p->block, err) != ERR_OK)
        return err->code;
    if (p->c->shared_experts == 0) return ERR_OK;
    if (gpu_op_mlp(p, "moe.shared", TAP_SHARED, p->other, err) != ERR_OK ||
        gpu_emit(p, TAP_SHARED, H, p->other, err) != ERR_OK)
        return err->code;
    return gpu_add(p->g, p->T * H, p->block, p->other, err);
}

/* The routed ones with the shared ones added in their last step. */
static enum err_code experts_together(struct gpu_pass *p, struct err *err)
{
    int64_t H = p->c->hidden;
    bf16 *routed = p->routed;
    if (gpu_op_gated(p, err) != ERR_OK ||
        gpu_moe_plan(p->g, &p->m->layers[p->layer].experts, p->T, p->c->top_k, &p->plan, err) !=
            ERR_OK ||
        route(p, err) != ERR_OK || gpu_op_down(p, p->other, err) != ERR_OK)
        return err->code;
    if (!gpu_wants(p, TAP_ROUTED)) p->routed = NULL;
    (void)!gpu_op_moe(p, p->other, err);
    p->routed = routed;
    if (err->code != ERR_OK || gpu_emit(p, TAP_ROUTED, H, p->routed, err) != ERR_OK)
        return err->code;
    return gpu_emit(p, TAP_SHARED, H, p->other, err);
}

static enum err_code experts(struct gpu_pass *p, struct err *err)
{
    if (!p->apart && p->c->shared_experts > 0 && !gpu_has_ranks(p)) {
        struct gpu_mark mark = gpu_mark(p->g);
        (void)!experts_together(p, err);
        p->summed = false;
        p->plan = (struct moe_plan){};
        gpu_release(p->g, mark);
        return err->code;
    }
    return route(p, err) == ERR_OK ? experts_apart(p, err) : err->code;
}

static enum err_code feed_forward(struct gpu_pass *p, struct err *err)
{
    bool moe = p->m->layers[p->layer].moe;
    if ((moe ? experts(p, err) : gpu_op_mlp(p, "mlp", TAP_MLP, p->block, err)) != ERR_OK)
        return err->code;
    return gpu_emit(p, TAP_MLP, p->c->hidden, p->block, err);
}

static struct gpu_normed attn_norm(const struct gpu_pass *p, int64_t layer)
{
    return {TAP_ATTN_NORM, &p->m->layers[layer].attn_norm, &p->m->host->layers[layer].attn_norm};
}

static struct gpu_normed mlp_norm(const struct gpu_pass *p, int64_t layer)
{
    return {TAP_MLP_NORM, &p->m->layers[layer].mlp_norm, &p->m->host->layers[layer].mlp_norm};
}

static struct gpu_normed final_norm(const struct gpu_pass *p)
{
    return {TAP_FINAL_NORM, &p->m->norm, &p->m->host->norm};
}

/* Told of the stream, whose unrounded form this path does not have: it is never read here. */
static enum err_code after_layer(struct gpu_pass *p, struct err *err)
{
    const struct step *s = p->step;
    if (!s->after_layer) return ERR_OK;
    struct arena_block *mark = arena_mark(p->run->arena);
    double *x = gpu_seam_act(p->g, p->run, p->x, p->T * p->c->hidden, "residual stream", err);
    if (x) (void)!s->after_layer(s->after_layer_ctx, p->layer, x, x, err);
    arena_release(p->run->arena, mark);
    return err->code;
}

static enum err_code run_layer(struct gpu_pass *p, bool head, struct err *err)
{
    const struct step *s = p->step;
    bool last = p->layer + 1 == s->layer_end;
    const struct gpu_normed before = attn_norm(p, p->layer), between = mlp_norm(p, p->layer);
    const struct gpu_normed after = last ? final_norm(p) : attn_norm(p, p->layer + 1);
    if (norm(p, &before, err) != ERR_OK || attention(p, err) != ERR_OK ||
        add(p, &between, err) != ERR_OK || norm(p, &between, err) != ERR_OK ||
        feed_forward(p, err) != ERR_OK || add(p, last && !head ? NULL : &after, err) != ERR_OK ||
        gpu_emit(p, TAP_OUTPUT, p->c->hidden, p->x, err) != ERR_OK)
        return err->code;
    return after_layer(p, err);
}

/* Graphs of some layers each: whole ones are long in the launching (gpu/graph.cuh). Ranks launch
 * theirs whole: what they do together is counted by launch. */
static enum err_code cut_graph(struct gpu_pass *p, struct err *err)
{
    bool now = (p->layer + 1) % GRAPH_LAYERS == 0 && p->layer + 1 < p->step->layer_end;
    return now && !p->m->ranks ? gpu_graph_cut(p->g, err) : ERR_OK;
}

/* ---- both ends ---- */

static enum err_code begin(struct gpu_pass *p, struct err *err)
{
    const struct step *s = p->step;
    if (s->layer_first > 0) {
        CHECK(s->x && s->layer_first <= s->layer_end);
        return gpu_seam_put(p->g, p->x, s->x, p->T * p->c->hidden, "residual stream", err);
    }
    return gpu_op_embed(p, err) == ERR_OK ? gpu_emit(p, TAP_EMBED, p->c->hidden, p->x, err)
                                          : err->code;
}

static enum err_code run_head(struct gpu_pass *p, struct err *err)
{
    const struct gpu_normed last = final_norm(p);
    p->layer = -1;
    if (norm(p, &last, err) != ERR_OK || !p->logits) return err->code;
    return gpu_op_logits(p, err) == ERR_OK
               ? gpu_emit_f32(p, TAP_LOGITS, p->c->vocab, p->logits, err)
               : err->code;
}

enum err_code gpu_pass_run(struct gpu_pass *p, struct err *err)
{
    const struct step *s = p->step;
    bool head = norm_needed(s, p->run);
    p->layer = -1;
    p->apart = p->run->faults || (s->sink && s->sink->replace);
    p->normed = false;
    if (begin(p, err) != ERR_OK) return err->code;
    for (p->layer = s->layer_first; s->layer_end > p->layer; p->layer++) {
        if (p->run->progress && !p->g->capturing)
            p->run->progress(p->run->progress_ctx, "layer", p->layer, s->layer_end);
        if (run_layer(p, head, err) != ERR_OK || cut_graph(p, err) != ERR_OK)
            return err_note(err, "layer %lld", (long long)p->layer);
    }
    if (p->m->ranks && gpu_agree(p->m->ranks, "model", -1, p->x,
                                 (size_t)(p->T * p->c->hidden) * sizeof *p->x, err) != ERR_OK)
        return err->code;
    return head ? run_head(p, err) : ERR_OK;
}

/* Ids outside the table would be read outside it. */
static enum err_code check_tokens(const struct step *s, struct err *err)
{
    struct embed op = {};
    op.T = s->rows->count;
    op.H = s->model->config->hidden;
    op.V = s->model->config->vocab;
    op.id = s->rows->token;
    op.table = &s->model->embed;
    if (s->model->shard) {
        op.first = s->model->shard->vocab.first;
        op.rows = s->model->shard->vocab.count;
    }
    return s->layer_first == 0 ? embed_check(&op, err) : ERR_OK;
}

/* What decides which collectives a step has; then its tokens and positions. */
struct meeting {
    int64_t rows, first, end, wishes;
    bool decode, logits, faults;
};

/* A hash of the gatherings that this rank's sink looks at. */
static int64_t wishes_of(const struct step *s)
{
    const enum tap_kind kinds[] = {TAP_Q, TAP_ATTN_CORE};
    const struct tap_sink *sink = s->sink;
    uint64_t hash = sink && sink->replace;
    char name[TAP_NAME];
    for (int64_t l = s->layer_first; sink && l < s->layer_end; l++) {
        for (enum tap_kind kind : kinds) {
            tap_format(kind, l, name);
            hash = hash * 3 + 1 + sink->wants(sink->ctx, name);
        }
    }
    return (int64_t)hash;
}

/* Every rank is in the same step: an error that says so, where the collectives could only hang. */
static enum err_code meet(const struct gpu_model *m, const struct step *s, const struct run *run,
                          struct err *err)
{
    size_t each = (size_t)s->rows->count * sizeof *s->rows->token, bytes = sizeof(struct meeting);
    char *data = (char *)calloc(1, bytes + 2 * each);
    if (!data) return err_set(err, ERR_MEMORY, "begin a step|host|no memory");
    struct meeting *all = (struct meeting *)data;
    all->rows = s->rows->count;
    all->first = s->layer_first;
    all->end = s->layer_end;
    all->wishes = wishes_of(s);
    all->decode = s->decode;
    all->logits = logits_needed(s, run);
    all->faults = run->faults != NULL;
    memcpy(data + bytes, s->rows->token, each);
    memcpy(data + bytes + each, s->rows->position, each);
    (void)!collective_agree(m->ranks->shard.all, "rows and taps of a step", data,
                            (int64_t)(bytes + 2 * each), err);
    free(data);
    return err->code;
}

/* By launches, one after the other. */
static enum err_code run_eager(struct gpu_model *m, const struct step *s, struct run *run,
                               struct err *err)
{
    struct gpu_pass p = {};
    p.m = m;
    p.g = m->g;
    p.step = s;
    p.run = run;
    p.c = m->host->config;
    p.T = s->rows->count;
    p.cache = gpu_cache_of(s->cache);
    if (m->ranks) gpu_ranks_begin(m->ranks, false);
    int64_t *token = gpu_new<int64_t>(m->g, p.T, "tokens of a step", err);
    p.token = token;
    if (!token ||
        gpu_send(m->g, token, s->rows->token, (size_t)p.T * sizeof *token, "tokens", err) !=
            ERR_OK ||
        gpu_rows_send(m->g, s->rows, &p.rows, err) != ERR_OK ||
        gpu_pass_make(&p, logits_needed(s, run), err) != ERR_OK || gpu_pass_run(&p, err) != ERR_OK)
        return err->code;
    if (s->logits) return gpu_fetch_f32(m->g, s->logits, p.logits, p.T * p.c->vocab, "logits", err);
    return gpu_wait(m->g, err);
}

enum err_code gpu_model_step(struct gpu_model *m, const struct step *s, struct run *run,
                             struct err *err)
{
    bool done = false;
    CHECK(s->model == m->host && s->cache->own);
    rows_extend(s->rows, s->cache);
    if (s->rows->count == 0) return ERR_OK;
    struct gpu *g = gpu_enter("model", run, err);
    if (!g) return err->code;
    struct gpu_mark mark = gpu_mark(g);
    if (check_tokens(s, err) == ERR_OK && (!m->ranks || meet(m, s, run, err) == ERR_OK) &&
        gpu_model_load(m, s, norm_needed(s, run), run, err) == ERR_OK &&
        gpu_graph_step(m, s, run, &done, err) == ERR_OK && !done)
        (void)!run_eager(m, s, run, err);
    return gpu_leave(g, mark, err);
}
