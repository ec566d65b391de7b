/* model_draft.cu: one step of a draft head on the device. Contract: core/eagle.h (struct
 * draft_step); see model_draft.cuh.
 *
 *   h = fc(aux), or the state fed back;  h = layers(embed(token), h);  logits = head(norm(h)) */
#include "gpu/model_draft.cuh"

#include "core/check.h"
#include "core/embed.h"
#include "core/fault.h"
#include "core/logits.h"
#include "core/norm.h"
#include "gpu/embed.cuh"
#include "gpu/linear.cuh"
#include "gpu/norm.cuh"

#include <string.h>

/* Buffers of one step on the device, [T, H] each. */
struct pass {
    struct gpu_draft *d;
    struct gpu *g;
    const struct draft_step *step;
    const struct head *head;
    struct run run; /* the caller's, rounding to the head's type */
    int64_t T, H;
    struct gpu_rows rows;
    const int64_t *token;
    bf16 *embed, *x, *normed;
    float *logits;
};

/* ---- weights ---- */

void gpu_draft_close(struct gpu_draft *d)
{
    if (!d->host) return;
    gpu_head_drop(d->g, &d->head);
    gpu_tensor_drop(d->g, &d->embed);
    gpu_tensor_drop(d->g, &d->norm);
    gpu_matrix_drop(d->g, &d->lm_head);
    d->host = NULL;
}

static enum err_code load(struct gpu_draft *d, const struct head *h, struct err *err)
{
    if (d->host == h) return ERR_OK;
    gpu_draft_close(d);
    gpu_at(d->g, "load", -1);
    d->host = h;
    if (gpu_head_send(d->g, h, true, &d->head, err) == ERR_OK &&
        gpu_tensor_send(d->g, &h->embed, true, &d->embed, err) == ERR_OK &&
        gpu_tensor_send(d->g, &h->norm, true, &d->norm, err) == ERR_OK)
        (void)!gpu_matrix_send(d->g, &h->lm_head, true, &d->lm_head, err);
    if (err->code != ERR_OK) gpu_draft_close(d);
    return err->code;
}

/* ---- the seam ---- */

static bool by_adapter(struct pass *p, const char *op)
{
    gpu_at(p->g, op, -1);
    return p->run.faults != NULL;
}

static enum err_code call(struct pass *p, const char *op, enum tap_kind tap, const void *arg,
                          struct err *err)
{
    struct fault_place place = {};
    place.op = op;
    place.tap = tap;
    place.layer = -1;
    place.draft = p->step;
    return gpu_seam_call(p->g, &place, arg, &p->run, err);
}

static double *in(struct pass *p, const bf16 *x, struct err *err)
{
    return gpu_seam_act(p->g, &p->run, x, p->T * p->H, "an op's input", err);
}

static double *out(struct pass *p, int64_t cols, struct err *err)
{
    return gpu_seam_room(&p->run, p->T * cols, "an op's output", err);
}

static enum err_code put(struct pass *p, bf16 *to, double *x, struct err *err)
{
    return gpu_seam_back(p->g, to, x, p->T * p->H, err);
}

/* ---- ops ---- */

static enum err_code op_embed(struct pass *p, struct err *err)
{
    struct embed op = {};
    op.T = p->T;
    op.H = p->H;
    op.V = p->head->config.base.vocab;
    op.id = p->step->rows->token;
    op.table = &p->head->embed;
    if (!by_adapter(p, "embed"))
        return gpu_embed(p->g, p->T, p->H, p->token, 0, &p->d->embed, p->embed, err);
    op.y = out(p, p->H, err);
    if (!op.y || call(p, "embed", TAP_DRAFT_HIDDEN, &op, err) != ERR_OK) return err->code;
    return put(p, p->embed, op.y, err);
}

static enum err_code op_fc(struct pass *p, struct err *err)
{
    int64_t wide = p->head->fc.in;
    struct eagle_fc op = {};
    op.T = p->T;
    op.head = p->head;
    op.aux = p->step->aux;
    if (!by_adapter(p, "eagle.fc")) {
        const bf16 *aux = gpu_send_act(p->g, op.aux, p->T, wide, "aux states", err);
        return aux ? gpu_eagle_fc(p->g, &p->d->head, p->T, aux, p->x, err) : err->code;
    }
    op.y = out(p, p->H, err);
    if (!op.y || call(p, "eagle.fc", TAP_DRAFT_FUSED, &op, err) != ERR_OK) return err->code;
    return put(p, p->x, op.y, err);
}

static enum err_code layer_by_adapter(struct pass *p, struct eagle_layer *op, struct err *err)
{
    struct cache cache = *p->step->cache;
    const struct gpu_cache *own = gpu_cache_of(p->step->cache);
    int64_t cells = cache.layers * cache.blocks * cache.block * cache.width;
    op->embed = op->layer == 0 ? in(p, p->embed, err) : NULL;
    op->hidden = in(p, p->x, err);
    op->y = out(p, p->H, err);
    op->cache = &cache;
    cache.pool = gpu_seam_room(&p->run, cells, "the draft's cache", err);
    if (err->code != ERR_OK || gpu_cache_fetch(p->g, own, op->layer, cache.pool, err) != ERR_OK ||
        call(p, "eagle.layer", TAP_DRAFT_HIDDEN, op, err) != ERR_OK ||
        gpu_cache_put(p->g, own, op->layer, cache.pool, err) != ERR_OK)
        return err->code;
    return put(p, p->x, op->y, err);
}

static enum err_code op_layer(struct pass *p, int64_t layer, struct err *err)
{
    struct eagle_layer op = {};
    op.head = p->head;
    op.layer = layer;
    op.rows = p->step->rows;
    if (by_adapter(p, "eagle.layer")) return layer_by_adapter(p, &op, err);
    struct gpu_eagle_layer own = {};
    own.head = &p->d->head;
    own.layer = layer;
    own.rows = &p->rows;
    own.embed = layer == 0 ? p->embed : NULL;
    own.hidden = p->x;
    own.cache = gpu_cache_of(p->step->cache);
    own.y = p->x;
    return gpu_eagle_layer(p->g, &own, err);
}

static enum err_code op_norm(struct pass *p, struct err *err)
{
    double eps = p->head->config.base.norm_eps;
    if (!by_adapter(p, "norm"))
        return gpu_norm(p->g, p->T, p->H, eps, p->x, p->H, &p->d->norm, p->normed, p->H, err);
    struct norm op = {};
    op.T = p->T;
    op.H = p->H;
    op.eps = eps;
    op.x = in(p, p->x, err);
    op.w = &p->head->norm;
    op.y = out(p, p->H, err);
    if (!op.x || !op.y || call(p, "norm", TAP_DRAFT_LOGITS, &op, err) != ERR_OK) return err->code;
    return put(p, p->normed, op.y, err);
}

/* To the caller's buffer. */
static enum err_code op_logits(struct pass *p, struct err *err)
{
    int64_t n = p->head->config.draft_vocab;
    struct logits op = {};
    op.T = p->T;
    op.head = &p->head->lm_head;
    op.y = p->step->logits;
    if (by_adapter(p, "logits")) {
        op.x = in(p, p->normed, err);
        return op.x ? call(p, "logits", TAP_DRAFT_LOGITS, &op, err) : err->code;
    }
    float *y = gpu_new<float>(p->g, p->T * n, "draft logits", err);
    if (!y || gpu_linear(p->g, p->T, p->normed, &p->d->lm_head, y, DT_F32, err) != ERR_OK)
        return err->code;
    return gpu_fetch_f32(p->g, op.y, y, p->T * n, "draft logits", err);
}

/* ---- the step ---- */

static enum err_code give(struct pass *p, const bf16 *x, double *to, struct err *err)
{
    return to ? gpu_fetch_act(p->g, to, x, p->T * p->H, "states of a draft", err) : ERR_OK;
}

static enum err_code replace(struct pass *p, enum tap_kind kind, struct err *err)
{
    if (!p->step->replace) return ERR_OK;
    double *x = in(p, p->x, err);
    if (!x) return err->code;
    p->step->replace(p->step->replace_ctx, kind, p->step, x);
    return gpu_seam_put(p->g, p->x, x, p->T * p->H, "a replaced state", err);
}

static enum err_code begin(struct pass *p, struct err *err)
{
    if (op_embed(p, err) != ERR_OK) return err_note(err, "the draft's token");
    if (!p->step->aux)
        return gpu_seam_put(p->g, p->x, p->step->hidden, p->T * p->H, "states of a draft", err);
    if (op_fc(p, err) != ERR_OK || give(p, p->x, p->step->fused, err) != ERR_OK) return err->code;
    return replace(p, TAP_DRAFT_FUSED, err);
}

static enum err_code run_all(struct pass *p, struct err *err)
{
    const struct head_config *c = &p->head->config;
    if (begin(p, err) != ERR_OK) return err->code;
    for (int64_t k = 0; k < c->base.layers; k++) {
        if (op_layer(p, k, err) != ERR_OK) return err_note(err, "draft layer %lld", (long long)k);
    }
    if (give(p, p->x, p->step->out, err) != ERR_OK || replace(p, TAP_DRAFT_HIDDEN, err) != ERR_OK ||
        op_norm(p, err) != ERR_OK ||
        give(p, c->norm_output ? p->normed : p->x, p->step->feed, err) != ERR_OK)
        return err->code;
    return p->step->logits ? op_logits(p, err) : gpu_wait(p->g, err);
}

static enum err_code make_pass(struct pass *p, struct err *err)
{
    const struct rows *r = p->step->rows;
    bf16 **const buffers[] = {&p->embed, &p->x, &p->normed};
    for (bf16 **at : buffers) {
        *at = gpu_new<bf16>(p->g, p->T * p->H, "states of a draft", err);
        if (!*at) return err->code;
    }
    int64_t *token = gpu_new<int64_t>(p->g, p->T, "tokens of a draft", err);
    p->token = token;
    if (!token ||
        gpu_send(p->g, token, r->token, (size_t)p->T * sizeof *token, "tokens", err) != ERR_OK)
        return err->code;
    return gpu_rows_send(p->g, r, &p->rows, err);
}

/* Ids outside the table would be read outside it. */
static enum err_code check_tokens(const struct draft_step *s, struct err *err)
{
    struct embed op = {};
    op.T = s->rows->count;
    op.H = s->head->config.base.hidden;
    op.V = s->head->config.base.vocab;
    op.id = s->rows->token;
    op.table = &s->head->embed;
    return embed_check(&op, err) == ERR_OK ? ERR_OK : err_note(err, "the draft's token");
}

enum err_code gpu_draft_step(struct gpu_draft *d, const struct draft_step *s, struct run *run,
                             struct err *err)
{
    struct pass p = {};
    p.d = d;
    p.g = d->g;
    p.step = s;
    p.head = s->head;
    p.run = *run;
    p.run.act = s->head->config.base.dtype;
    p.T = s->rows->count;
    p.H = s->head->config.base.hidden;
    CHECK((s->aux || s->hidden) && s->cache->own);
    if (!tensor_exists(&s->head->embed))
        return err_set(err, ERR_INPUT,
                       "draft step|the head|no embed_tokens|its own, or a target's");
    rows_extend(s->rows, s->cache);
    if (p.T == 0 || check_tokens(s, err) != ERR_OK) return err->code;
    struct gpu *g = gpu_enter("eagle", &p.run, err);
    if (!g) return err->code;
    struct arena_block *host = arena_mark(run->arena);
    struct gpu_mark mark = gpu_mark(g);
    if (load(d, s->head, err) == ERR_OK && make_pass(&p, err) == ERR_OK) (void)!run_all(&p, err);
    arena_release(run->arena, host);
    return gpu_leave(g, mark, err);
}
