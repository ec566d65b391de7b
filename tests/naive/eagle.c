/* eagle.c: the draft head's projection and layer, from eagle.h; see naive.h. A row at a time: what
 * it sees is listed first, then everything is a sum over that list. */
#include "tests/naive/naive.h"

#include <math.h>
#include <string.h>

/* w x / sqrt(mean(x^2) + eps) of n columns, in place. */
static void norm_row(const struct tensor *w, double eps, int64_t n, double *x)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * x[i];
    double root = sqrt(sum / (double)n + eps);
    for (int64_t i = 0; i < n; i++) x[i] = naive_element(w, i) * x[i] / root;
}

enum err_code eagle_fc_naive(const struct eagle_fc *op, struct run *run, struct err *err)
{
    if (naive_begin(run, "eagle.fc", err) != ERR_OK || eagle_fc_check(op, err) != ERR_OK)
        return err->code;
    const struct head_config *c = &op->head->config;
    int64_t wide = c->aux_count * c->target_hidden;
    struct arena_block *mark = arena_mark(run->arena);
    double *g = arena_alloc(run->arena, op->T * wide, sizeof *g, "naive aux states", err);
    enum err_code rc = g ? ERR_OK : err->code;
    for (int64_t i = 0; g && i < op->T * wide; i++) g[i] = op->aux[i];
    for (int64_t t = 0; g && t < op->T; t++) {
        double *row = g + t * wide;
        if (c->norm_before_fc) norm_row(&op->head->fc_input_norm, c->base.norm_eps, wide, row);
        for (int k = 0; c->fc_norm && k < c->aux_count; k++)
            norm_row(&op->head->fc_norm[k], c->base.norm_eps, c->target_hidden,
                     row + k * c->target_hidden);
    }
    if (rc == ERR_OK) rc = naive_product(&op->head->fc, op->T, g, op->y, run, err);
    arena_release(run->arena, mark);
    return rc;
}

/* Turns R columns of one head by its position. */
static void turn(const struct rope_table *table, int64_t position, bool interleaved, double *x)
{
    int64_t half = table->R / 2;
    for (int64_t i = 0; i < half; i++) {
        float angle = (float)position * table->frequency[i];
        double c = table->factor * cos((double)angle), s = table->factor * sin((double)angle);
        int64_t first = interleaved ? 2 * i : i, second = interleaved ? 2 * i + 1 : i + half;
        double a = x[first], b = x[second];
        x[first] = a * c - b * s;
        x[second] = b * c + a * s;
    }
}

/* Everything of one call, in double. */
struct whole {
    const struct eagle_layer *op;
    const struct head_config *c;
    const struct head_layer *l;
    struct run *run;
    struct err *err;
    int64_t T, H, in;
    double *input, *skip, *q, *k, *v, *core, *block, *normed; /* MLA: k the latent, v its key */
    double *kv_b;                                             /* MLA: [heads * (P + V), L] */
    double *p;                                                /* [slots] */
};

static double *room(struct whole *w, int64_t n)
{
    return arena_alloc(w->run->arena, n, sizeof(double), "naive draft layer", w->err);
}

static bool product(struct whole *w, const struct matrix *m, const double *x, double *y)
{
    return naive_product(m, w->T, x, y, w->run, w->err) == ERR_OK;
}

/* [norm(e) | norm(h)], or norm(h) in a further layer; and where the skip path starts. */
static void fill_input(struct whole *w)
{
    double eps = w->c->base.norm_eps;
    for (int64_t t = 0; t < w->T; t++) {
        double *left = w->input + t * w->in, *right = left + w->in - w->H;
        const double *hidden = w->op->hidden + t * w->H;
        for (int64_t i = 0; i < w->H; i++) {
            if (w->op->layer == 0) left[i] = w->op->embed[t * w->H + i];
            right[i] = hidden[i];
        }
        if (w->op->layer == 0) {
            norm_row(&w->l->embed_norm, eps, w->H, left);
            norm_row(&w->l->hidden_norm, eps, w->H, right);
        } else {
            norm_row(&w->l->embed_norm, eps, w->H, right);
        }
        bool normed = w->op->layer == 0 && w->c->norm_before_residual;
        for (int64_t i = 0; i < w->H; i++) w->skip[t * w->H + i] = normed ? right[i] : hidden[i];
    }
}

/* ---- Llama ---- */

static bool llama_heads(struct whole *w)
{
    const struct head_config *c = w->c;
    int64_t hd = c->head_dim, heads = c->base.heads, kv = c->kv_heads;
    if (!product(w, &w->l->q, w->input, w->q) || !product(w, &w->l->k, w->input, w->k) ||
        !product(w, &w->l->v, w->input, w->v))
        return false;
    for (int64_t t = 0; t < w->T; t++) {
        int64_t position = w->op->rows->position[t];
        for (int64_t h = 0; h < heads + kv; h++) {
            bool query = h < heads;
            double *x = query ? w->q + (t * heads + h) * hd : w->k + (t * kv + h - heads) * hd;
            if (c->qk_norm)
                norm_row(query ? &w->l->q_head_norm : &w->l->k_head_norm, c->base.norm_eps, hd, x);
            turn(&w->op->head->rope, position, false, x);
        }
        double *entry = cache_write(w->op->cache, w->op->layer, w->op->rows->sequence[t],
                                    w->op->rows->slot ? w->op->rows->slot[t] : position);
        for (int64_t i = 0; i < kv * hd; i++) {
            entry[i] = w->k[t * kv * hd + i];
            entry[kv * hd + i] = w->v[t * kv * hd + i];
        }
    }
    return true;
}

/* ---- MLA ---- */

static bool mla_heads(struct whole *w)
{
    const struct config *c = &w->c->base;
    int64_t qk = c->nope + c->rope, width = c->kv_lora + c->rope;
    double eps = w->run->profile.latent_eps_config ? c->norm_eps : 1e-6;
    const double *x = w->input;
    double *latent = room(w, w->T * (c->q_lora + width)), *both = latent + w->T * c->q_lora;
    if (!latent) return false;
    if (c->q_lora) {
        if (!product(w, &w->l->q_a, x, latent)) return false;
        for (int64_t t = 0; t < w->T; t++)
            norm_row(&w->l->q_norm, eps, c->q_lora, latent + t * c->q_lora);
        x = latent;
    }
    if (!product(w, &w->l->q_b, x, w->q) || !product(w, &w->l->kv_a, w->input, both)) return false;
    for (int64_t t = 0; t < w->T; t++) {
        int64_t position = w->op->rows->position[t];
        double *entry = cache_write(w->op->cache, w->op->layer, w->op->rows->sequence[t],
                                    w->op->rows->slot ? w->op->rows->slot[t] : position);
        for (int64_t h = 0; h < c->heads; h++)
            turn(&w->op->head->rope, position, c->rope_interleaved,
                 w->q + (t * c->heads + h) * qk + c->nope);
        memcpy(entry, both + t * width, (size_t)width * sizeof *entry);
        norm_row(&w->l->kv_norm, eps, c->kv_lora, entry);
        turn(&w->op->head->rope, position, c->rope_interleaved, entry + c->kv_lora);
    }
    w->kv_b = naive_matrix(&w->l->kv_b, w->run, w->err);
    return w->kv_b != NULL;
}

/* Element i of head h's key, or of its value, in one cached entry. */
static double element(const struct whole *w, const double *entry, int64_t h, bool value, int64_t i)
{
    const struct config *c = &w->c->base;
    if (w->c->kind == HEAD_LLAMA) {
        int64_t hd = w->c->head_dim, of = h * w->c->kv_heads / c->heads;
        return entry[(value ? w->c->kv_heads * hd : 0) + of * hd + i];
    }
    if (!value && i >= c->nope) return entry[c->kv_lora + i - c->nope];
    const double *row =
        w->kv_b + (h * (c->nope + c->v_head) + (value ? c->nope : 0) + i) * c->kv_lora;
    double sum = 0;
    for (int64_t l = 0; l < c->kv_lora; l++) sum += row[l] * entry[l];
    return sum;
}

static void attend(struct whole *w, int64_t row, int64_t h)
{
    const struct rows *r = w->op->rows;
    const struct config *c = &w->c->base;
    bool mla = w->c->kind == HEAD_MLA;
    int64_t K = mla ? c->nope + c->rope : w->c->head_dim, V = mla ? c->v_head : w->c->head_dim;
    int64_t span = r->span ? r->span[row] : r->position[row] + 1, n = span;
    const double *q = w->q + (row * c->heads + h) * K;
    double *y = w->core + (row * c->heads + h) * V, largest = -INFINITY, sum = 0;
    while (r->extra && n - span < r->extra_max && r->extra[row * r->extra_max + n - span] >= 0) n++;
    for (int64_t d = 0; d < V; d++) y[d] = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t s = 0; s < n; s++) {
            int64_t slot = s < span ? s : r->extra[row * r->extra_max + s - span];
            const double *entry = cache_read(w->op->cache, w->op->layer, r->sequence[row], slot);
            if (pass == 0) {
                double dot = 0;
                for (int64_t i = 0; i < K; i++) dot += q[i] * element(w, entry, h, false, i);
                w->p[s] = dot * head_softmax_scale(w->c);
                largest = w->p[s] > largest ? w->p[s] : largest;
            } else {
                double weight = exp(w->p[s] - largest);
                sum += weight;
                for (int64_t d = 0; d < V; d++) y[d] += weight * element(w, entry, h, true, d);
            }
        }
    }
    for (int64_t d = 0; d < V; d++) y[d] /= sum;
}

static bool make_whole(struct whole *w)
{
    const struct head_config *c = w->c;
    const struct config *b = &c->base;
    bool mla = c->kind == HEAD_MLA;
    int64_t slots = 0, T = w->T, kv = c->kv_heads * c->head_dim;
    for (int64_t s = 0; s < w->op->cache->sequences; s++)
        slots = w->op->cache->length[s] > slots ? w->op->cache->length[s] : slots;
    w->input = room(w, T * w->in);
    w->skip = room(w, T * w->H);
    w->block = room(w, T * w->H);
    w->normed = room(w, T * w->H);
    w->q = room(w, T * b->heads * (mla ? b->nope + b->rope : c->head_dim));
    w->k = room(w, mla ? 0 : T * kv);
    w->v = room(w, mla ? 0 : T * kv);
    w->core = room(w, T * b->heads * (mla ? b->v_head : c->head_dim));
    w->p = room(w, slots);
    return w->err->code == ERR_OK;
}

static void run_whole(struct whole *w)
{
    const struct head_layer *l = w->l;
    int64_t n = w->T * w->H;
    fill_input(w);
    if (!(w->c->kind == HEAD_MLA ? mla_heads(w) : llama_heads(w))) return;
    for (int64_t i = 0; i < w->T * w->c->base.heads; i++)
        attend(w, i / w->c->base.heads, i % w->c->base.heads);
    if (!product(w, &l->o, w->core, w->block)) return;
    for (int64_t i = 0; i < n; i++) w->normed[i] = w->skip[i] += w->block[i];
    for (int64_t t = 0; t < w->T; t++)
        norm_row(&l->mlp_norm, w->c->base.norm_eps, w->H, w->normed + t * w->H);
    const struct mlp mlp = {
        .T = w->T, .x = w->normed, .gate = &l->gate, .up = &l->up, .down = &l->down, .y = w->block};
    if (mlp_naive(&mlp, w->run, w->err) != ERR_OK) return;
    for (int64_t i = 0; i < n; i++) {
        w->op->y[i] = w->skip[i] + w->block[i];
        if (w->op->y_sum) w->op->y_sum[i] = w->op->y[i];
    }
}

enum err_code eagle_layer_naive(const struct eagle_layer *op, struct run *run, struct err *err)
{
    if (naive_begin(run, "eagle.layer", err) != ERR_OK || eagle_layer_check(op, err) != ERR_OK)
        return err->code;
    struct arena_block *mark = arena_mark(run->arena);
    const struct head_config *c = &op->head->config;
    struct whole w = {.op = op,
                      .c = c,
                      .l = &op->head->layers[op->layer],
                      .run = run,
                      .err = err,
                      .T = op->rows->count,
                      .H = c->base.hidden,
                      .in = (op->layer == 0 ? 2 : 1) * c->base.hidden};
    if (make_whole(&w)) run_whole(&w);
    arena_release(run->arena, mark);
    return err->code;
}
