/* bound_eagle.c: bounds of eagle.fc and eagle.layer; see bound.h. The layer is followed step by
 * step on pairs; its attention gathers, for each row, what the row sees. Eight sums one after the
 * other: in float32 the worst case is some 1e-2, with a latent 1e-1, and sharp only for gross
 * mistakes; the float64 runs of the same cases are held to some 1e-10. */
#include "core/eagle.h"
#include "core/mla.h"
#include "harness/bound.h"
#include "harness/case_make.h"

#include <math.h>

void bound_eagle_fc(struct bound_work *w, const void *arg, struct bound *out)
{
    const struct eagle_fc *op = arg;
    const struct head_config *c = &op->head->config;
    int64_t Ht = c->target_hidden, n = c->aux_count, T = op->T;
    struct pairs g = pairs_of(w, op->aux, T * n * Ht), y = pairs_new(w, T * c->base.hidden);
    if (c->norm_before_fc) pairs_norm(w, &op->head->fc_input_norm, c->base.norm_eps, T, n * Ht, g);
    for (int64_t i = 0; c->fc_norm && !w->failed && i < T * n; i++)
        pairs_norm(w, &op->head->fc_norm[i % n], c->base.norm_eps, 1, Ht, pairs_at(g, i * Ht));
    pairs_product(w, &op->head->fc, T, g, y);
    pairs_round(w, RP_LINEAR, y, T * c->base.hidden);
    out->abs = y.e;
}

/* A layer on its way. */
struct draft_layer {
    struct bound_work *w;
    const struct eagle_layer *op;
    const struct head_config *c;
    const struct head_layer *l;
    int64_t T, H, in;
    int64_t K, V, key_heads, width; /* of a head; of an entry */
    struct pairs input, x, sum;     /* [T, in], [T, H], [T, H] */
    struct pairs q, entry;          /* [T, heads, K], [T, width] */
    struct pairs core;              /* [T, heads, V] */
};

static void copy(struct draft_layer *s, struct pairs to, int64_t at, struct pairs from, int64_t n)
{
    for (int64_t i = 0; !s->w->failed && i < n; i++) {
        to.v[at + i] = from.v[i];
        to.e[at + i] = from.e[i];
    }
}

static struct pairs normed(struct draft_layer *s, const double *x, const struct tensor *w)
{
    struct pairs y = pairs_of(s->w, x, s->T * s->H);
    pairs_norm(s->w, w, s->c->base.norm_eps, s->T, s->H, y);
    return y;
}

static void begin(struct draft_layer *s)
{
    const struct eagle_layer *op = s->op;
    bool first = op->layer == 0;
    const struct tensor *w = first ? &s->l->hidden_norm : &s->l->embed_norm;
    bool unrounded = s->w->m->profile.norm_sees_unrounded && op->sum;
    struct pairs b = normed(s, unrounded ? op->sum : op->hidden, w);
    s->input = pairs_new(s->w, s->T * s->in);
    if (first) {
        struct pairs a = normed(s, op->embed, &s->l->embed_norm);
        for (int64_t t = 0; !s->w->failed && t < s->T; t++)
            copy(s, s->input, t * s->in, pairs_at(a, t * s->H), s->H);
    }
    for (int64_t t = 0; !s->w->failed && t < s->T; t++)
        copy(s, s->input, (t + 1) * s->in - s->H, pairs_at(b, t * s->H), s->H);
    s->x = first && s->c->norm_before_residual ? b : pairs_of(s->w, op->hidden, s->T * s->H);
}

static struct pairs projected(struct draft_layer *s, const struct matrix *m, struct pairs x)
{
    struct pairs y = pairs_new(s->w, s->T * m->out);
    pairs_product(s->w, m, s->T, x, y);
    pairs_round(s->w, RP_LINEAR, y, s->T * m->out);
    return y;
}

static struct pairs turned(struct draft_layer *s, const struct matrix *m, const struct tensor *norm,
                           int64_t heads)
{
    struct pairs y = projected(s, m, s->input);
    if (s->c->qk_norm) pairs_norm(s->w, norm, s->c->base.norm_eps, s->T * heads, s->K, y);
    pairs_rope(s->w, &s->op->head->rope, false, s->op->rows->position, s->T, heads, s->K, 0, y);
    return y;
}

static void project_llama(struct draft_layer *s)
{
    int64_t half = s->width / 2;
    s->q = turned(s, &s->l->q, &s->l->q_head_norm, s->c->base.heads);
    struct pairs k = turned(s, &s->l->k, &s->l->k_head_norm, s->c->kv_heads);
    struct pairs v = projected(s, &s->l->v, s->input);
    for (int64_t t = 0; !s->w->failed && t < s->T; t++) {
        copy(s, s->entry, t * s->width, pairs_at(k, t * half), half);
        copy(s, s->entry, t * s->width + half, pairs_at(v, t * half), half);
    }
}

static void project_mla(struct draft_layer *s)
{
    const struct config *c = &s->c->base;
    const struct rope_table *table = &s->op->head->rope;
    const int64_t *position = s->op->rows->position;
    double eps = s->w->m->profile.latent_eps_config ? c->norm_eps : MLA_LATENT_EPS;
    struct pairs x = s->input, latent = pairs_new(s->w, s->T * c->kv_lora),
                 key = pairs_new(s->w, s->T * c->rope);
    if (c->q_lora) {
        x = projected(s, &s->l->q_a, x);
        pairs_norm(s->w, &s->l->q_norm, eps, s->T, c->q_lora, x);
    }
    s->q = projected(s, &s->l->q_b, x);
    pairs_rope(s->w, table, c->rope_interleaved, position, s->T, c->heads, s->K, c->nope, s->q);
    struct pairs both = projected(s, &s->l->kv_a, s->input);
    for (int64_t t = 0; !s->w->failed && t < s->T; t++) {
        copy(s, latent, t * c->kv_lora, pairs_at(both, t * s->width), c->kv_lora);
        copy(s, key, t * c->rope, pairs_at(both, t * s->width + c->kv_lora), c->rope);
    }
    pairs_norm(s->w, &s->l->kv_norm, eps, s->T, c->kv_lora, latent);
    pairs_rope(s->w, table, c->rope_interleaved, position, s->T, 1, c->rope, 0, key);
    for (int64_t t = 0; !s->w->failed && t < s->T; t++) {
        copy(s, s->entry, t * s->width, pairs_at(latent, t * c->kv_lora), c->kv_lora);
        copy(s, s->entry, t * s->width + c->kv_lora, pairs_at(key, t * c->rope), c->rope);
    }
}

/* What slot `slot` of a sequence holds: a row of this step, or what was cached before. */
static void read_slot(struct draft_layer *s, int32_t sequence, int64_t slot, struct pairs out)
{
    const struct rows *r = s->op->rows;
    for (int64_t i = 0; i < s->T; i++) {
        if (r->sequence[i] != sequence || rows_slot(r, i) != slot) continue;
        copy(s, out, 0, pairs_at(s->entry, i * s->width), s->width);
        return;
    }
    const double *cached = cache_read(s->op->cache, s->op->layer, sequence, slot);
    for (int64_t i = 0; i < s->width; i++) {
        out.v[i] = cached[i];
        out.e[i] = 0;
    }
}

/* Head `h`'s keys [n, K] and values [n, V] of n entries; `up`: MLA's expansion [n, heads * (P +
 * V)]. */
static void head_of(struct draft_layer *s, int64_t h, int64_t n, struct pairs seen, struct pairs up,
                    struct pairs keys, struct pairs values)
{
    const struct config *c = &s->c->base;
    int64_t rows = c->nope + s->V, of = h / (c->heads / s->key_heads);
    for (int64_t i = 0; i < n; i++) {
        if (s->c->kind == HEAD_MLA) {
            struct pairs own = pairs_at(up, (i * c->heads + h) * rows);
            copy(s, keys, i * s->K, own, c->nope);
            copy(s, keys, i * s->K + c->nope, pairs_at(seen, i * s->width + c->kv_lora), c->rope);
            copy(s, values, i * s->V, pairs_at(own, c->nope), s->V);
        } else {
            struct pairs k = pairs_at(seen, i * s->width + of * s->K);
            copy(s, keys, i * s->K, k, s->K);
            copy(s, values, i * s->V, pairs_at(k, s->width / 2), s->V);
        }
    }
}

static void attend_head(struct draft_layer *s, struct pairs q, int64_t n, struct pairs keys,
                        struct pairs values, struct pairs p, struct pairs y)
{
    double unit = s->w->m->unit_step, scale = head_softmax_scale(s->c);
    for (int64_t i = 0; i < n; i++) {
        struct pairs score = pairs_at(p, i);
        pairs_dot(q, pairs_at(keys, i * s->K), 1, s->K, unit, score.v, score.e);
        pairs_round(s->w, RP_SCORE, score, 1);
        *score.v *= scale;
        *score.e = *score.e * fabs(scale) + unit * fabs(*score.v);
        pairs_round(s->w, RP_SCORE_SCALED, score, 1);
    }
    pairs_softmax(s->w, p, n);
    for (int64_t d = 0; d < s->V; d++)
        pairs_dot(p, pairs_at(values, d), s->V, n, unit, &y.v[d], &y.e[d]);
}

static void attend_row(struct draft_layer *s, int64_t row)
{
    struct arena_block *mark = arena_mark(s->w->arena);
    const struct rows *r = s->op->rows;
    const int64_t *extra;
    int64_t span = rows_span(r, row), n = span + rows_extras(r, row, &extra);
    struct pairs seen = pairs_new(s->w, n * s->width), keys = pairs_new(s->w, n * s->K),
                 values = pairs_new(s->w, n * s->V), p = pairs_new(s->w, n), up = {0};
    for (int64_t i = 0; !s->w->failed && i < n; i++)
        read_slot(s, r->sequence[row], i < span ? i : extra[i - span],
                  pairs_at(seen, i * s->width));
    if (s->c->kind == HEAD_MLA) {
        struct pairs latent = pairs_new(s->w, n * s->c->base.kv_lora);
        up = pairs_new(s->w, n * s->l->kv_b.out);
        for (int64_t i = 0; !s->w->failed && i < n; i++)
            copy(s, latent, i * s->c->base.kv_lora, pairs_at(seen, i * s->width),
                 s->c->base.kv_lora);
        pairs_product(s->w, &s->l->kv_b, n, latent, up);
        pairs_round(s->w, RP_LINEAR, up, n * s->l->kv_b.out);
    }
    for (int64_t h = 0; !s->w->failed && h < s->c->base.heads; h++) {
        int64_t head = row * s->c->base.heads + h;
        head_of(s, h, n, seen, up, keys, values);
        attend_head(s, pairs_at(s->q, head * s->K), n, keys, values, p,
                    pairs_at(s->core, head * s->V));
    }
    arena_release(s->w->arena, mark);
}

/* x + block, into sum before and x after the rounding. */
static void add(struct draft_layer *s, struct pairs block)
{
    int64_t n = s->T * s->H;
    s->sum = pairs_new(s->w, n);
    for (int64_t i = 0; !s->w->failed && i < n; i++) {
        double v = s->x.v[i] + block.v[i];
        s->sum.v[i] = s->x.v[i] = v;
        s->sum.e[i] = s->x.e[i] + block.e[i] + s->w->m->unit_step * fabs(v);
        s->x.e[i] = s->sum.e[i];
    }
    pairs_round(s->w, RP_RESIDUAL, s->x, n);
}

void bound_eagle_layer(struct bound_work *w, const void *arg, struct bound *out)
{
    const struct eagle_layer *op = arg;
    const struct head_config *c = &op->head->config;
    const struct config *b = &c->base;
    bool mla = c->kind == HEAD_MLA;
    struct draft_layer s = {.w = w,
                            .op = op,
                            .c = c,
                            .l = &op->head->layers[op->layer],
                            .T = op->rows->count,
                            .H = b->hidden,
                            .in = op->layer == 0 ? 2 * b->hidden : b->hidden,
                            .K = mla ? config_qk(b) : c->head_dim,
                            .V = mla ? b->v_head : c->head_dim,
                            .key_heads = mla ? b->heads : c->kv_heads,
                            .width = head_cache_width(c)};
    s.entry = pairs_new(w, s.T * s.width);
    s.core = pairs_new(w, s.T * b->heads * s.V);
    begin(&s);
    if (mla)
        project_mla(&s);
    else
        project_llama(&s);
    for (int64_t i = 0; !w->failed && i < s.T; i++) attend_row(&s, i);
    pairs_round(w, RP_ATTN_CORE, s.core, s.T * b->heads * s.V);
    add(&s, projected(&s, &s.l->o, s.core));
    struct pairs h = pairs_new(w, s.T * s.H);
    copy(&s, h, 0, w->m->profile.norm_sees_unrounded ? s.sum : s.x, s.T * s.H);
    pairs_norm(w, &s.l->mlp_norm, b->norm_eps, s.T, s.H, h);
    add(&s, pairs_mlp(w, &s.l->gate, &s.l->up, &s.l->down, s.T, h));
    out[0].abs = s.x.e;
    out[1].abs = s.sum.e;
}
