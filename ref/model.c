/* model.c: one step of the decoder, composed of the ops. Contract: core/model.h; test
 * tests/test_golden.c.
 *
 *   x = embed;  for each layer:  x += attention(norm(x));  x += feed-forward(norm(x));  logits =
 * head(norm(x))
 */
#include "core/model.h"

#include "core/check.h"
#include "core/embed.h"
#include "core/fault.h"
#include "core/logits.h"
#include "core/mla.h"
#include "core/mlp.h"
#include "core/moe.h"
#include "core/norm.h"
#include "core/ops.h"
#include "core/router.h"

#include <string.h>

/* Buffers of one step, [T, width] each. */
struct state {
    const struct step *step;
    struct run *run;
    const struct config *c;
    int64_t T, layer;
    double *x;     /* residual stream, rounded */
    double *sum;   /* the same before its last rounding: what some engines' norms read */
    double *h;     /* input of a block */
    double *block; /* its output */
    double *other; /* shared experts */
    double *q, *latent, *k_rope, *core, *router_logits, *weights;
    int32_t *ids, *forced;
};

static enum err_code make_state(struct state *s, struct err *err)
{
    const struct config *c = s->c;
    const struct {
        double **at;
        int64_t width;
        const char *what;
    } rows[] = {
        {&s->x, c->hidden, "residual stream"},
        {&s->sum, c->hidden, "unrounded residual"},
        {&s->h, c->hidden, "block input"},
        {&s->block, c->hidden, "block output"},
        {&s->other, c->hidden, "shared experts"},
        {&s->q, c->heads * config_qk(c), "queries"},
        {&s->latent, c->kv_lora, "latents"},
        {&s->k_rope, c->rope, "rope keys"},
        {&s->core, c->heads * c->v_head, "attention values"},
        {&s->router_logits, c->experts, "router logits"},
        {&s->weights, c->top_k, "expert weights"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        *rows[i].at =
            arena_alloc(s->run->arena, s->T * rows[i].width, sizeof(double), rows[i].what, err);
        if (!*rows[i].at) return err->code;
    }
    s->ids = arena_alloc(s->run->arena, s->T * c->top_k, sizeof *s->ids, "expert ids", err);
    s->forced =
        arena_alloc(s->run->arena, s->T * c->top_k, sizeof *s->forced, "forced experts", err);
    return err->code;
}

/* Every op is called here: the one place where a fault can edit it. */
#define CALL(s, name, kind, stem, arg, err)                                                        \
    ((s)->run->faults ? call_faulted(s, name, kind, arg, err) : stem##_ref(arg, (s)->run, err))

static enum err_code call_faulted(const struct state *s, const char *op, enum tap_kind kind,
                                  const void *arg, struct err *err)
{
    const struct fault_place place = {.op = op,
                                      .tap = kind,
                                      .layer = s->layer,
                                      .model = s->step->model,
                                      .step = s->step,
                                      .side = ref_side()};
    return fault_call(&place, arg, s->run, err);
}

static enum err_code emit(const struct state *s, enum tap_kind kind, int64_t cols, double *data,
                          struct err *err)
{
    char name[TAP_NAME];
    const struct tap_sink *sink = s->step->sink;
    if (!sink) return ERR_OK;
    tap_format(kind, s->layer, name);
    if (sink->wants(sink->ctx, name) &&
        sink->reals(sink->ctx, name, s->step->rows, cols, data, err) != ERR_OK)
        return err->code;
    return sink->replace ? sink->replace(sink->ctx, name, s->step->rows, cols, data, err) : ERR_OK;
}

static enum err_code emit_ids(const struct state *s, struct err *err)
{
    char name[TAP_NAME];
    const struct tap_sink *sink = s->step->sink;
    tap_format(TAP_EXPERTS, s->layer, name);
    if (!sink || !sink->wants(sink->ctx, name)) return ERR_OK;
    return sink->ints(sink->ctx, name, s->step->rows, s->c->top_k, s->ids, err);
}

static enum err_code block_norm(struct state *s, const struct tensor *w, enum tap_kind tap,
                                struct err *err)
{
    const double *in = s->run->profile.norm_sees_unrounded ? s->sum : s->x;
    const struct norm op = {
        .T = s->T, .H = s->c->hidden, .eps = s->c->norm_eps, .x = in, .w = w, .y = s->h};
    return CALL(s, "norm", tap, norm, &op, err) == ERR_OK ? emit(s, tap, s->c->hidden, s->h, err)
                                                          : err->code;
}

/* x += block */
static void add_residual(struct state *s)
{
    int64_t n = s->T * s->c->hidden;
    for (int64_t i = 0; i < n; i++) s->sum[i] = s->x[i] + s->block[i];
    memcpy(s->x, s->sum, (size_t)n * sizeof *s->x);
    run_round(s->run, RP_RESIDUAL, s->x, n);
}

/* After the stream was replaced: the unrounded sum stays where it rounds to the new value, which
 * says no more. */
static void follow_replaced(struct state *s)
{
    for (int64_t i = 0; i < s->T * s->c->hidden; i++) {
        if (run_round_one(s->run, RP_RESIDUAL, s->sum[i]) != s->x[i]) s->sum[i] = s->x[i];
    }
}

static void write_cache(struct state *s)
{
    const struct rows *rows = s->step->rows;
    for (int64_t i = 0; i < s->T; i++) {
        double *entry =
            cache_write(s->step->cache, s->layer, rows->sequence[i], rows_slot(rows, i));
        memcpy(entry, s->latent + i * s->c->kv_lora, (size_t)s->c->kv_lora * sizeof *entry);
        memcpy(entry + s->c->kv_lora, s->k_rope + i * s->c->rope,
               (size_t)s->c->rope * sizeof *entry);
    }
}

static enum err_code queries_and_keys(struct state *s, const struct layer *l, struct err *err)
{
    const struct config *c = s->c;
    const struct rows *rows = s->step->rows;
    double eps = s->run->profile.latent_eps_config ? c->norm_eps : MLA_LATENT_EPS;
    const struct mla_q q = {.T = s->T,
                            .x = s->h,
                            .a = c->q_lora ? &l->q_a : NULL,
                            .norm = &l->q_norm,
                            .b = &l->q_b,
                            .eps = eps,
                            .q = s->q};
    const struct mla_kv kv = {.T = s->T,
                              .L = c->kv_lora,
                              .R = c->rope,
                              .x = s->h,
                              .a = &l->kv_a,
                              .norm = &l->kv_norm,
                              .eps = eps,
                              .position = rows->position,
                              .table = &s->step->model->rope,
                              .interleaved = c->rope_interleaved,
                              .latent = s->latent,
                              .k_rope = s->k_rope};
    const struct rope rope = {.T = s->T,
                              .heads = c->heads,
                              .stride = config_qk(c),
                              .offset = c->nope,
                              .position = rows->position,
                              .table = &s->step->model->rope,
                              .interleaved = c->rope_interleaved,
                              .x = s->q};
    if (CALL(s, "mla.q", TAP_Q, mla_q, &q, err) != ERR_OK ||
        emit(s, TAP_Q, c->heads * config_qk(c), s->q, err) != ERR_OK ||
        CALL(s, "mla.kv", TAP_KV_LATENT, mla_kv, &kv, err) != ERR_OK ||
        emit(s, TAP_KV_LATENT, c->kv_lora, s->latent, err) != ERR_OK ||
        emit(s, TAP_K_ROPE, c->rope, s->k_rope, err) != ERR_OK)
        return err->code;
    write_cache(s);
    return CALL(s, "rope", TAP_Q, rope, &rope, err);
}

static enum err_code attention(struct state *s, const struct layer *l, struct err *err)
{
    const struct config *c = s->c;
    bool absorbed = s->step->decode && s->run->profile.decode_absorbed;
    if (queries_and_keys(s, l, err) != ERR_OK) return err->code;
    const struct mla_core core = {.heads = c->heads,
                                  .P = c->nope,
                                  .R = c->rope,
                                  .V = c->v_head,
                                  .L = c->kv_lora,
                                  .scale = config_softmax_scale(c),
                                  .form = absorbed ? MLA_ABSORBED : MLA_EXPANDED,
                                  .rows = s->step->rows,
                                  .q = s->q,
                                  .kv_b = &l->kv_b,
                                  .cache = s->step->cache,
                                  .layer = s->layer,
                                  .y = s->core};
    const struct mla_output output = {.T = s->T, .x = s->core, .o = &l->o, .y = s->block};
    if (CALL(s, "mla.core", TAP_ATTN_CORE, mla_core, &core, err) != ERR_OK ||
        emit(s, TAP_ATTN_CORE, c->heads * c->v_head, s->core, err) != ERR_OK ||
        CALL(s, "mla.output", TAP_ATTN, mla_output, &output, err) != ERR_OK)
        return err->code;
    return emit(s, TAP_ATTN, c->hidden, s->block, err);
}

struct expert_source {
    const struct model *model;
    int64_t layer;
};

static enum err_code give_expert(const void *ctx, int64_t e, struct expert *out, struct err *err)
{
    const struct expert_source *from = ctx;
    return model_expert(from->model, from->layer, e, out, err);
}

static enum err_code route(struct state *s, const struct layer *l, struct err *err)
{
    const struct config *c = s->c;
    const struct step *step = s->step;
    bool forced = step->forced && step->forced(step->forced_ctx, s->layer, step->rows, s->forced);
    const struct router op = {.T = s->T,
                              .H = c->hidden,
                              .E = c->experts,
                              .top_k = c->top_k,
                              .groups = c->groups,
                              .top_groups = c->top_groups,
                              .scoring = c->scoring,
                              .method = c->topk_method,
                              .norm_topk = c->norm_topk,
                              .routed_scale = s->run->profile.scale_after_sum ? 1 : c->routed_scale,
                              .x = s->h,
                              .w = &l->router,
                              .bias = tensor_exists(&l->bias) ? &l->bias : NULL,
                              .forced = forced ? s->forced : NULL,
                              .logits = s->router_logits,
                              .ids = s->ids,
                              .weights = s->weights};
    if (CALL(s, "router", TAP_ROUTER_LOGITS, router, &op, err) != ERR_OK ||
        emit(s, TAP_ROUTER_LOGITS, c->experts, s->router_logits, err) != ERR_OK ||
        emit_ids(s, err) != ERR_OK)
        return err->code;
    if (!s->run->profile.scale_after_sum)
        return emit(s, TAP_EXPERT_WEIGHTS, c->top_k, s->weights, err);
    /* The tap includes the factor wherever the engine applies it; the logits' buffer is free by
     * now. */
    for (int64_t i = 0; i < s->T * c->top_k; i++)
        s->router_logits[i] = s->weights[i] * c->routed_scale;
    if (emit(s, TAP_EXPERT_WEIGHTS, c->top_k, s->router_logits, err) != ERR_OK) return err->code;
    for (int64_t i = 0; step->sink && step->sink->replace && i < s->T * c->top_k; i++)
        s->weights[i] = s->router_logits[i] / c->routed_scale;
    return ERR_OK;
}

static enum err_code experts(struct state *s, const struct layer *l, struct err *err)
{
    const struct config *c = s->c;
    const struct expert_source from = {.model = s->step->model, .layer = s->layer};
    const struct moe moe = {.T = s->T,
                            .H = c->hidden,
                            .I = c->moe_intermediate,
                            .E = c->experts,
                            .top_k = c->top_k,
                            .x = s->h,
                            .ids = s->ids,
                            .weights = s->weights,
                            .expert = give_expert,
                            .ctx = &from,
                            .sum_scale = s->run->profile.scale_after_sum ? c->routed_scale : 1,
                            .y = s->block};
    const struct mlp shared = {
        .T = s->T, .x = s->h, .gate = &l->gate, .up = &l->up, .down = &l->down, .y = s->other};
    if (route(s, l, err) != ERR_OK || CALL(s, "moe", TAP_ROUTED, moe, &moe, err) != ERR_OK ||
        emit(s, TAP_ROUTED, c->hidden, s->block, err) != ERR_OK)
        return err->code;
    if (c->shared_experts == 0) return ERR_OK;
    if (CALL(s, "moe.shared", TAP_SHARED, mlp, &shared, err) != ERR_OK ||
        emit(s, TAP_SHARED, c->hidden, s->other, err) != ERR_OK)
        return err->code;
    for (int64_t i = 0; i < s->T * c->hidden; i++) s->block[i] += s->other[i];
    run_round(s->run, RP_MOE, s->block, s->T * c->hidden);
    return ERR_OK;
}

static enum err_code feed_forward(struct state *s, const struct layer *l, struct err *err)
{
    const struct mlp dense = {
        .T = s->T, .x = s->h, .gate = &l->gate, .up = &l->up, .down = &l->down, .y = s->block};
    if ((l->moe ? experts(s, l, err) : CALL(s, "mlp", TAP_MLP, mlp, &dense, err)) != ERR_OK)
        return err->code;
    return emit(s, TAP_MLP, s->c->hidden, s->block, err);
}

static enum err_code run_layer(struct state *s, struct err *err)
{
    const struct layer *l = &s->step->model->layers[s->layer];
    if (block_norm(s, &l->attn_norm, TAP_ATTN_NORM, err) != ERR_OK ||
        attention(s, l, err) != ERR_OK)
        return err->code;
    add_residual(s);
    if (block_norm(s, &l->mlp_norm, TAP_MLP_NORM, err) != ERR_OK ||
        feed_forward(s, l, err) != ERR_OK)
        return err->code;
    add_residual(s);
    if (emit(s, TAP_OUTPUT, s->c->hidden, s->x, err) != ERR_OK) return err->code;
    if (s->step->sink && s->step->sink->replace) follow_replaced(s);
    return ERR_OK;
}

/* Somebody looks at this tap of the head, or may change what it gives. */
static bool head_needed(const struct state *s, const char *tap)
{
    const struct tap_sink *sink = s->step->sink;
    return s->step->logits || s->run->faults ||
           (sink && (sink->replace || sink->wants(sink->ctx, tap)));
}

/* A row of the vocabulary's width is dear: what nobody looks at is not computed. */
static enum err_code run_head(struct state *s, struct err *err)
{
    const struct step *step = s->step;
    bool logits = head_needed(s, "logits");
    s->layer = -1;
    if (!logits && !head_needed(s, "final_norm")) return ERR_OK;
    if (block_norm(s, &step->model->norm, TAP_FINAL_NORM, err) != ERR_OK || !logits)
        return err->code;
    double *y = step->logits
                    ? step->logits
                    : arena_alloc(s->run->arena, s->T * s->c->vocab, sizeof(double), "logits", err);
    const struct logits op = {.T = s->T, .x = s->h, .head = &step->model->head, .y = y};
    if (!y || CALL(s, "logits", TAP_LOGITS, logits, &op, err) != ERR_OK) return err->code;
    return emit(s, TAP_LOGITS, s->c->vocab, y, err);
}

/* The residual stream as it enters the first layer: embeddings, or what a killed run left. */
static enum err_code begin(struct state *s, struct err *err)
{
    const struct step *step = s->step;
    size_t bytes = (size_t)(s->T * s->c->hidden) * sizeof *s->x;
    if (step->layer_first > 0) {
        CHECK(step->x && step->sum && step->layer_first <= step->layer_end);
        memcpy(s->x, step->x, bytes);
        memcpy(s->sum, step->sum, bytes);
        return ERR_OK;
    }
    const struct embed embed = {.T = s->T,
                                .H = s->c->hidden,
                                .V = s->c->vocab,
                                .id = step->rows->token,
                                .table = &step->model->embed,
                                .y = s->x};
    if (CALL(s, "embed", TAP_EMBED, embed, &embed, err) != ERR_OK) return err->code;
    if (emit(s, TAP_EMBED, s->c->hidden, s->x, err) != ERR_OK) return err->code;
    memcpy(s->sum, s->x, bytes);
    return ERR_OK;
}

enum err_code model_step_ref(const struct step *step, struct run *run, struct err *err)
{
    struct arena_block *mark = arena_mark(run->arena);
    struct state s = {
        .step = step, .run = run, .c = step->model->config, .T = step->rows->count, .layer = -1};
    if (make_state(&s, err) != ERR_OK) goto done;
    rows_extend(step->rows, step->cache);
    if (begin(&s, err) != ERR_OK) goto done;
    for (s.layer = step->layer_first; s.layer < step->layer_end; s.layer++) {
        if (run->progress) run->progress(run->progress_ctx, "layer", s.layer, step->layer_end);
        if (run_layer(&s, err) != ERR_OK ||
            (step->after_layer &&
             step->after_layer(step->after_layer_ctx, s.layer, s.x, s.sum, err) != ERR_OK)) {
            err_note(err, "layer %lld", (long long)s.layer);
            goto done;
        }
    }
    if (step->layer_end == s.c->layers) (void)!run_head(&s, err);
done:
    arena_release(run->arena, mark);
    return err->code;
}
