/* eagle.c: ops eagle.fc and eagle.layer. Contract: core/eagle.h; attention of Llama heads:
 * ref/eagle_attention.c, of MLA heads: ref/mla.c and ref/mla_core.c; tests tests/test_eagle.c,
 * tests/test_golden_eagle.c. */
#include "core/eagle.h"

#include "core/linear.h"
#include "core/mlp.h"
#include "core/norm.h"
#include "ref/attend.h"
#include "ref/eagle_attention.h"
#include "ref/mla_layer.h"

#include <string.h>

/* Norms of the aux states, as the head has them: g is what the projection reads. */
static enum err_code norm_aux(const struct eagle_fc *op, double *g, struct run *run,
                              struct err *err)
{
    const struct head_config *c = &op->head->config;
    int64_t wide = c->aux_count * c->target_hidden;
    const struct norm whole = {.T = op->T,
                               .H = wide,
                               .eps = c->base.norm_eps,
                               .x = g,
                               .w = &op->head->fc_input_norm,
                               .y = g};
    if (c->norm_before_fc) return norm_ref(&whole, run, err);
    for (int i = 0; c->fc_norm && i < c->aux_count; i++) {
        for (int64_t t = 0; t < op->T; t++) {
            double *slice = g + t * wide + i * c->target_hidden;
            const struct norm one = {.T = 1,
                                     .H = c->target_hidden,
                                     .eps = c->base.norm_eps,
                                     .x = slice,
                                     .w = &op->head->fc_norm[i],
                                     .y = slice};
            if (norm_ref(&one, run, err) != ERR_OK) return err->code;
        }
    }
    return ERR_OK;
}

enum err_code eagle_fc_ref(const struct eagle_fc *op, struct run *run, struct err *err)
{
    if (eagle_fc_check(op, err) != ERR_OK) return err->code;
    struct arena_block *mark = arena_mark(run->arena);
    int64_t n = op->T * op->head->fc.in;
    double *g = arena_alloc(run->arena, n, sizeof *g, "aux states", err);
    if (g) {
        const struct linear fc = {
            .T = op->T, .x = g, .w = &op->head->fc, .y = op->y, .point = RP_LINEAR};
        memcpy(g, op->aux, (size_t)n * sizeof *g);
        if (norm_aux(op, g, run, err) == ERR_OK) (void)!linear_ref(&fc, run, err);
    }
    arena_release(run->arena, mark);
    return err->code;
}

/* Buffers of one layer, [T, width] each. */
struct state {
    const struct eagle_layer *op;
    struct run *run;
    const struct head_config *c;
    const struct head_layer *l;
    int64_t T, H;
    int64_t in;    /* columns of the attention's input: 2H in the first layer */
    double *input; /* [a | b] */
    double *normed;
    double *x, *sum; /* residual stream, rounded and not */
    double *block;
    double *q, *k, *v, *core; /* MLA: k is the latent, v the roped key */
};

/* Widths of q, k, v and of what the output projection reads. */
static void attention_widths(const struct head_config *c, int64_t width[4])
{
    const struct config *b = &c->base;
    bool mla = c->kind == HEAD_MLA;
    width[0] = b->heads * config_qk(b);
    width[1] = mla ? b->kv_lora : c->kv_heads * c->head_dim;
    width[2] = mla ? b->rope : c->kv_heads * c->head_dim;
    width[3] = mla ? b->heads * b->v_head : b->heads * c->head_dim;
}

static enum err_code make_state(struct state *s, struct err *err)
{
    int64_t width[4];
    attention_widths(s->c, width);
    const struct {
        double **at;
        int64_t width;
        const char *what;
    } buffers[] = {
        {&s->input, s->in, "attention input"},
        {&s->normed, s->H, "normed rows"},
        {&s->x, s->H, "residual stream"},
        {&s->sum, s->H, "unrounded residual"},
        {&s->block, s->H, "block output"},
        {&s->q, width[0], "queries"},
        {&s->k, width[1], "keys"},
        {&s->v, width[2], "values"},
        {&s->core, width[3], "attention values"},
    };
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++) {
        *buffers[i].at = arena_alloc(s->run->arena, s->T * buffers[i].width, sizeof(double),
                                     buffers[i].what, err);
        if (!*buffers[i].at) return err->code;
    }
    return ERR_OK;
}

static enum err_code norm_rows(struct state *s, const double *x, const struct tensor *w, double *y,
                               struct err *err)
{
    const struct norm op = {
        .T = s->T, .H = s->H, .eps = s->c->base.norm_eps, .x = x, .w = w, .y = y};
    return norm_ref(&op, s->run, err);
}

/* y [T, H] into columns [at, at + H) of the attention's input. */
static void place(struct state *s, int64_t at, const double *y)
{
    for (int64_t t = 0; t < s->T; t++)
        memcpy(s->input + t * s->in + at, y + t * s->H, (size_t)s->H * sizeof *y);
}

/* The attention's input and the skip path. */
static enum err_code begin(struct state *s, struct err *err)
{
    const struct eagle_layer *op = s->op;
    bool unrounded = s->run->profile.norm_sees_unrounded && op->sum;
    const double *hidden = unrounded ? op->sum : op->hidden;
    size_t bytes = (size_t)(s->T * s->H) * sizeof *s->x;
    if (op->layer == 0) {
        if (norm_rows(s, op->embed, &s->l->embed_norm, s->normed, err) != ERR_OK) return err->code;
        place(s, 0, s->normed);
    }
    const struct tensor *w = op->layer == 0 ? &s->l->hidden_norm : &s->l->embed_norm;
    if (norm_rows(s, hidden, w, s->normed, err) != ERR_OK) return err->code;
    place(s, s->in - s->H, s->normed);
    bool skip_normed = op->layer == 0 && s->c->norm_before_residual;
    memcpy(s->x, skip_normed ? s->normed : op->hidden, bytes);
    return ERR_OK;
}

/* y = W x for the attention's input. */
static enum err_code project(struct state *s, const struct matrix *w, double *y, struct err *err)
{
    const struct linear op = {.T = s->T, .x = s->input, .w = w, .y = y, .point = RP_LINEAR};
    return linear_ref(&op, s->run, err);
}

/* Head by head: norm where the head has one, then rope over all columns. */
static enum err_code turn_heads(struct state *s, int64_t heads, const struct tensor *norm,
                                double *x, struct err *err)
{
    int64_t hd = s->c->head_dim;
    const struct norm each = {
        .T = s->T * heads, .H = hd, .eps = s->c->base.norm_eps, .x = x, .w = norm, .y = x};
    const struct rope rope = {.T = s->T,
                              .heads = heads,
                              .stride = hd,
                              .position = s->op->rows->position,
                              .table = &s->op->head->rope,
                              .x = x};
    if (s->c->qk_norm && norm_ref(&each, s->run, err) != ERR_OK) return err->code;
    return rope_ref(&rope, s->run, err);
}

static enum err_code attend_llama(struct state *s, struct err *err)
{
    const struct head_config *c = s->c;
    const struct head_layer *l = s->l;
    if (project(s, &l->q, s->q, err) != ERR_OK || project(s, &l->k, s->k, err) != ERR_OK ||
        project(s, &l->v, s->v, err) != ERR_OK ||
        turn_heads(s, c->base.heads, &l->q_head_norm, s->q, err) != ERR_OK ||
        turn_heads(s, c->kv_heads, &l->k_head_norm, s->k, err) != ERR_OK)
        return err->code;
    const int64_t width = c->kv_heads * c->head_dim;
    attend_store(s->op->cache, s->op->layer, s->op->rows, s->k, width, s->v, width);
    const struct eagle_attention core = {.heads = c->base.heads,
                                         .kv_heads = c->kv_heads,
                                         .head_dim = c->head_dim,
                                         .scale = head_softmax_scale(c),
                                         .rows = s->op->rows,
                                         .q = s->q,
                                         .cache = s->op->cache,
                                         .layer = s->op->layer,
                                         .y = s->core};
    return eagle_attention_ref(&core, s->run, err);
}

static enum err_code attend_mla(struct state *s, struct err *err)
{
    const struct head_layer *l = s->l;
    const struct mla_layer m = {.c = &s->c->base,
                                .rows = s->op->rows,
                                .cache = s->op->cache,
                                .layer = s->op->layer,
                                .table = &s->op->head->rope,
                                .q_a = &l->q_a,
                                .q_b = &l->q_b,
                                .kv_a = &l->kv_a,
                                .kv_b = &l->kv_b,
                                .q_norm = &l->q_norm,
                                .kv_norm = &l->kv_norm,
                                .scale = head_softmax_scale(s->c),
                                .form = MLA_EXPANDED,
                                .x = s->input,
                                .q = s->q,
                                .latent = s->k,
                                .k_rope = s->v,
                                .y = s->core};
    const struct mla_q q = mla_layer_q(&m, s->run);
    const struct mla_kv kv = mla_layer_kv(&m, s->run);
    const struct rope rope = mla_layer_rope(&m);
    const struct mla_core core = mla_layer_core(&m);
    if (mla_q_ref(&q, s->run, err) != ERR_OK || mla_kv_ref(&kv, s->run, err) != ERR_OK ||
        rope_ref(&rope, s->run, err) != ERR_OK)
        return err->code;
    mla_layer_store(&m);
    return mla_core_ref(&core, s->run, err);
}

/* x += block */
static void add_residual(struct state *s)
{
    int64_t n = s->T * s->H;
    for (int64_t i = 0; i < n; i++) s->sum[i] = s->x[i] + s->block[i];
    memcpy(s->x, s->sum, (size_t)n * sizeof *s->x);
    run_round(s->run, RP_RESIDUAL, s->x, n);
}

static enum err_code feed_forward(struct state *s, struct err *err)
{
    const struct mlp mlp = {.T = s->T,
                            .x = s->normed,
                            .gate = &s->l->gate,
                            .up = &s->l->up,
                            .down = &s->l->down,
                            .y = s->block};
    const double *x = s->run->profile.norm_sees_unrounded ? s->sum : s->x;
    return norm_rows(s, x, &s->l->mlp_norm, s->normed, err) == ERR_OK ? mlp_ref(&mlp, s->run, err)
                                                                      : err->code;
}

static enum err_code run_layer(struct state *s, struct err *err)
{
    const struct linear output = {
        .T = s->T, .x = s->core, .w = &s->l->o, .y = s->block, .point = RP_LINEAR};
    if (begin(s, err) != ERR_OK ||
        (s->c->kind == HEAD_MLA ? attend_mla(s, err) : attend_llama(s, err)) != ERR_OK ||
        linear_ref(&output, s->run, err) != ERR_OK)
        return err->code;
    add_residual(s);
    if (feed_forward(s, err) != ERR_OK) return err->code;
    add_residual(s);
    return ERR_OK;
}

enum err_code eagle_layer_ref(const struct eagle_layer *op, struct run *run, struct err *err)
{
    if (eagle_layer_check(op, err) != ERR_OK || op->rows->count == 0) return err->code;
    struct arena_block *mark = arena_mark(run->arena);
    const struct head_config *c = &op->head->config;
    struct state s = {.op = op,
                      .run = run,
                      .c = c,
                      .l = &op->head->layers[op->layer],
                      .T = op->rows->count,
                      .H = c->base.hidden,
                      .in = op->layer == 0 ? 2 * c->base.hidden : c->base.hidden};
    size_t bytes = (size_t)(s.T * s.H) * sizeof *s.x;
    if (make_state(&s, err) == ERR_OK && run_layer(&s, err) == ERR_OK) {
        memcpy(op->y, s.x, bytes);
        if (op->y_sum) memcpy(op->y_sum, s.sum, bytes);
    }
    arena_release(run->arena, mark);
    return err->code;
}
