/* model.c: one step of the decoder, composed of the ops. Contract: core/model.h; test
 * tests/test_golden.c.
 *
 * On one rank of several (shard.h) the ops compute this rank's part of a sum or of the columns, and
 * what follows them here makes it whole.
 *
 *   x = embed
 *   for each layer:  x += attention(norm(x));  x += feed-forward(norm(x))
 *   logits = head(norm(x)) */
#include "core/model.h"

#include "core/check.h"
#include "core/embed.h"
#include "core/logits.h"
#include "core/mlp.h"
#include "core/norm.h"
#include "core/ops.h"
#include "ref/mla_layer.h"
#include "ref/model_pass.h"

#include <string.h>

static enum err_code make_state(struct pass *s, struct err *err)
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
    s->own = s->ids;
    if (s->shard)
        s->own = arena_alloc(s->run->arena, s->T * c->top_k, sizeof *s->own, "own experts", err);
    return err->code;
}

void pass_say(const struct pass *s, const char *op)
{
    if (s->run->doing) s->run->doing(s->run->doing_ctx, op, s->layer);
}

enum err_code pass_call_faulted(const struct pass *s, const char *op, enum tap_kind kind,
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

enum err_code pass_emit(const struct pass *s, enum tap_kind kind, int64_t cols, double *data,
                        struct err *err)
{
    return model_taps_give(&s->taps, kind, s->layer, cols, data, err);
}

static enum err_code emit_heads(const struct pass *s, enum tap_kind kind, int64_t width,
                                double *data, struct err *err)
{
    return model_taps_give_cut(&s->taps, kind, s->layer, s->c->heads * width, data, err);
}

/* ---- several ranks ---- */

bool pass_is_cut(const struct pass *s)
{
    return s->shard && s->shard->plan.tp > 1;
}

enum err_code pass_add_up(const struct pass *s, const char *op, double *y, struct err *err)
{
    const struct shard_site at = {.op = op, .layer = s->layer, .T = s->T, .width = s->c->hidden};
    return shard_reduce(s->shard, &at, y, err);
}

/* A part of a sum anew: its op on what it read, with this rank's weights cut from the whole. */
struct part_again {
    const struct pass *pass;
    const struct mla_output *output; /* one of the two */
    const struct mlp *mlp;
};

static enum err_code make_again(void *ctx, double *x, struct err *err)
{
    const struct part_again *a = ctx;
    struct layer own;
    if (shard_layer_again(a->pass->shard, a->pass->layer, &own, err) != ERR_OK) return err->code;
    if (a->output) {
        struct mla_output op = *a->output;
        op.o = &own.o;
        op.y = x;
        return mla_output_ref(&op, a->pass->run, err);
    }
    struct mlp op = *a->mlp;
    op.gate = &own.gate;
    op.up = &own.up;
    op.down = &own.down;
    op.y = x;
    return mlp_ref(&op, a->pass->run, err);
}

static enum err_code add_up_linear(const struct pass *s, const char *op, struct part_again *again,
                                   double *y, struct err *err)
{
    const struct shard_site at = {.op = op,
                                  .layer = s->layer,
                                  .T = s->T,
                                  .width = s->c->hidden,
                                  .again = make_again,
                                  .again_ctx = again};
    if (!pass_is_cut(s)) return ERR_OK;
    if (shard_reduce(s->shard, &at, y, err) == ERR_OK)
        run_round(s->run, RP_LINEAR, y, s->T * s->c->hidden);
    return err->code;
}

enum err_code pass_add_up_mlp(const struct pass *s, const char *op, const struct mlp *mlp,
                              struct err *err)
{
    struct part_again again = {.pass = s, .mlp = mlp};
    return add_up_linear(s, op, &again, mlp->y, err);
}

static enum err_code add_up_output(const struct pass *s, const struct mla_output *output,
                                   struct err *err)
{
    struct part_again again = {.pass = s, .output = output};
    return add_up_linear(s, "mla.output", &again, output->y, err);
}

/* ---- blocks ---- */

static enum err_code block_norm(struct pass *s, const struct tensor *w, enum tap_kind tap,
                                struct err *err)
{
    const double *in = s->run->profile.norm_sees_unrounded ? s->sum : s->x;
    const struct norm op = {
        .T = s->T, .H = s->c->hidden, .eps = s->c->norm_eps, .x = in, .w = w, .y = s->h};
    return CALL(s, "norm", tap, norm, &op, err) == ERR_OK
               ? pass_emit(s, tap, s->c->hidden, s->h, err)
               : err->code;
}

/* x += block */
static void add_residual(struct pass *s)
{
    int64_t n = s->T * s->c->hidden;
    for (int64_t i = 0; i < n; i++) s->sum[i] = s->x[i] + s->block[i];
    memcpy(s->x, s->sum, (size_t)n * sizeof *s->x);
    run_round(s->run, RP_RESIDUAL, s->x, n);
}

/* After the stream was replaced: the unrounded sum stays where it rounds to the new value, which
 * says no more. */
static void follow_replaced(struct pass *s)
{
    for (int64_t i = 0; i < s->T * s->c->hidden; i++) {
        if (run_round_one(s->run, RP_RESIDUAL, s->sum[i]) != s->x[i]) s->sum[i] = s->x[i];
    }
}

static struct mla_layer mla_of(const struct pass *s, const struct layer *l)
{
    const bool absorbed = s->step->decode && s->run->profile.decode_absorbed;
    return (struct mla_layer){.c = s->c,
                              .rows = s->step->rows,
                              .cache = s->step->cache,
                              .layer = s->layer,
                              .table = &s->step->model->rope,
                              .q_a = &l->q_a,
                              .q_b = &l->q_b,
                              .kv_a = &l->kv_a,
                              .kv_b = &l->kv_b,
                              .q_norm = &l->q_norm,
                              .kv_norm = &l->kv_norm,
                              .scale = config_softmax_scale(s->c),
                              .form = absorbed ? MLA_ABSORBED : MLA_EXPANDED,
                              .x = s->h,
                              .q = s->q,
                              .latent = s->latent,
                              .k_rope = s->k_rope,
                              .y = s->core};
}

static enum err_code queries_and_keys(struct pass *s, const struct mla_layer *m, struct err *err)
{
    const struct config *c = s->c;
    const struct mla_q q = mla_layer_q(m, s->run);
    const struct mla_kv kv = mla_layer_kv(m, s->run);
    const struct rope rope = mla_layer_rope(m);
    if (CALL(s, "mla.q", TAP_Q, mla_q, &q, err) != ERR_OK ||
        emit_heads(s, TAP_Q, config_qk(c), s->q, err) != ERR_OK ||
        CALL(s, "mla.kv", TAP_KV_LATENT, mla_kv, &kv, err) != ERR_OK ||
        pass_emit(s, TAP_KV_LATENT, c->kv_lora, s->latent, err) != ERR_OK ||
        pass_emit(s, TAP_K_ROPE, c->rope, s->k_rope, err) != ERR_OK)
        return err->code;
    mla_layer_store(m);
    return CALL(s, "rope", TAP_Q, rope, &rope, err);
}

static enum err_code attention(struct pass *s, const struct layer *l, struct err *err)
{
    const struct config *c = s->c;
    const struct mla_layer m = mla_of(s, l);
    const struct mla_core core = mla_layer_core(&m);
    const struct mla_output output = {
        .T = s->T, .x = s->core, .o = &l->o, .y = s->block, .partial = pass_is_cut(s)};
    if (queries_and_keys(s, &m, err) != ERR_OK ||
        CALL(s, "mla.core", TAP_ATTN_CORE, mla_core, &core, err) != ERR_OK ||
        emit_heads(s, TAP_ATTN_CORE, c->v_head, s->core, err) != ERR_OK ||
        CALL(s, "mla.output", TAP_ATTN, mla_output, &output, err) != ERR_OK ||
        add_up_output(s, &output, err) != ERR_OK)
        return err->code;
    return pass_emit(s, TAP_ATTN, c->hidden, s->block, err);
}

static enum err_code feed_forward(struct pass *s, const struct layer *l, struct err *err)
{
    const struct mlp dense = {.T = s->T,
                              .x = s->h,
                              .gate = &l->gate,
                              .up = &l->up,
                              .down = &l->down,
                              .y = s->block,
                              .partial = pass_is_cut(s)};
    if (l->moe) {
        if (pass_experts(s, l, err) != ERR_OK) return err->code;
    } else if (CALL(s, "mlp", TAP_MLP, mlp, &dense, err) != ERR_OK ||
               pass_add_up_mlp(s, "mlp", &dense, err) != ERR_OK) {
        return err->code;
    }
    return pass_emit(s, TAP_MLP, s->c->hidden, s->block, err);
}

static enum err_code run_layer(struct pass *s, struct err *err)
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
    if (pass_emit(s, TAP_OUTPUT, s->c->hidden, s->x, err) != ERR_OK) return err->code;
    if (s->taps.replaces) follow_replaced(s);
    return ERR_OK;
}

/* logits [T, V] from the head's rows that this rank has. */
static enum err_code run_logits(struct pass *s, double *y, struct err *err)
{
    const struct matrix *head = &s->step->model->head;
    double *part = y;
    if (pass_is_cut(s))
        part = arena_alloc(s->run->arena, s->T * head->out, sizeof *part, "logits", err);
    const struct logits op = {.T = s->T, .x = s->h, .head = head, .y = part};
    const struct shard_site at = {.op = "logits", .layer = -1, .T = s->T, .width = head->out};
    if (!part || CALL(s, "logits", TAP_LOGITS, logits, &op, err) != ERR_OK) return err->code;
    return pass_is_cut(s) ? shard_gather_columns(s->shard, &at, part, y, err) : ERR_OK;
}

/* A row of the vocabulary's width is dear: what nobody looks at is not computed. */
static enum err_code run_head(struct pass *s, struct err *err)
{
    const struct step *step = s->step;
    bool logits = model_taps_need(&s->taps, TAP_LOGITS);
    s->layer = -1;
    if (!logits && !model_taps_need(&s->taps, TAP_FINAL_NORM)) return ERR_OK;
    if (block_norm(s, &step->model->norm, TAP_FINAL_NORM, err) != ERR_OK || !logits)
        return err->code;
    double *y = step->logits
                    ? step->logits
                    : arena_alloc(s->run->arena, s->T * s->c->vocab, sizeof(double), "logits", err);
    if (!y || run_logits(s, y, err) != ERR_OK) return err->code;
    return pass_emit(s, TAP_LOGITS, s->c->vocab, y, err);
}

/* The residual stream as it enters the first layer: embeddings, or what a killed run left. */
static enum err_code begin(struct pass *s, struct err *err)
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
                                .y = s->x,
                                .first = s->shard ? s->shard->vocab.first : 0,
                                .rows = s->shard ? s->shard->vocab.count : 0};
    if (CALL(s, "embed", TAP_EMBED, embed, &embed, err) != ERR_OK ||
        (s->shard && pass_add_up(s, "embed", s->x, err) != ERR_OK))
        return err->code;
    if (pass_emit(s, TAP_EMBED, s->c->hidden, s->x, err) != ERR_OK) return err->code;
    memcpy(s->sum, s->x, bytes);
    return ERR_OK;
}

enum err_code model_step_ref(const struct step *step, struct run *run, struct err *err)
{
    struct arena_block *mark = arena_mark(run->arena);
    struct pass s = {
        .step = step, .run = run, .c = step->model->config, .T = step->rows->count, .layer = -1};
    if (model_taps_open(&s.taps, step, run, err) != ERR_OK) goto done;
    s.shard = s.taps.shard;
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
