/* bound_mla.c: bounds of mla.q, mla.kv and mla.core; see bound.h. The expansion W_kvb c' is a
 * linear, and summed as one; all other sums of mla.core run in `unit_step`: float64 by contract,
 * float32 on a device. */
#include "core/mla.h"
#include "harness/bound.h"
#include "harness/case_make.h"

#include <math.h>

void bound_mla_q(struct bound_work *w, const void *arg, struct bound *out)
{
    const struct mla_q *op = arg;
    int64_t width = op->b->out;
    struct pairs x = pairs_of(w, op->x, op->T * (op->a ? op->a->in : op->b->in)),
                 y = pairs_new(w, op->T * width);
    if (op->a) {
        struct pairs latent = pairs_new(w, op->T * op->a->out);
        pairs_product(w, op->a, op->T, x, latent);
        pairs_round(w, RP_LINEAR, latent, op->T * op->a->out);
        pairs_norm(w, op->norm, op->eps, op->T, op->a->out, latent);
        x = latent;
    }
    pairs_product(w, op->b, op->T, x, y);
    pairs_round(w, RP_LINEAR, y, op->T * width);
    out->abs = y.e;
}

void bound_mla_kv(struct bound_work *w, const void *arg, struct bound *out)
{
    const struct mla_kv *op = arg;
    int64_t T = op->T, L = op->L, R = op->R;
    struct pairs x = pairs_of(w, op->x, T * op->a->in), both = pairs_new(w, T * (L + R));
    struct pairs latent = pairs_new(w, T * L), key = pairs_new(w, T * R);
    pairs_product(w, op->a, T, x, both);
    pairs_round(w, RP_LINEAR, both, T * (L + R));
    for (int64_t i = 0; !w->failed && i < T * (L + R); i++) {
        int64_t t = i / (L + R), c = i % (L + R);
        struct pairs *to = c < L ? &latent : &key;
        int64_t at = c < L ? t * L + c : t * R + c - L;
        to->v[at] = both.v[i];
        to->e[at] = both.e[i];
    }
    pairs_norm(w, op->norm, op->eps, T, L, latent);
    pairs_rope(w, op->table, op->interleaved, op->position, T, 1, R, 0, key);
    out[0].abs = latent.e;
    out[1].abs = key.e;
}

void pairs_softmax(const struct bound_work *w, struct pairs p, int64_t n)
{
    double largest = -INFINITY, worst = 0, sum = 0, unit = w->m->unit_step;
    for (int64_t s = 0; s < n; s++) {
        largest = fmax(largest, p.v[s]);
        worst = fmax(worst, p.e[s]);
    }
    for (int64_t s = 0; s < n; s++) sum += exp(p.v[s] - largest);
    for (int64_t s = 0; s < n; s++) {
        double down = largest - p.v[s];
        p.v[s] = exp(-down) / sum;
        /* exp(x + d) = exp(x) exp(d): errors of the score and of the sum's scores, then those of
         * the steps. */
        p.e[s] =
            p.v[s] * expm1(p.e[s] + worst + (8 + 2 * down) * unit + bound_chain((double)n, unit)) +
            0x1p-1074;
    }
    pairs_round(w, RP_PROB, p, n);
}

void pairs_dot(struct pairs x, struct pairs y, int64_t step, int64_t n, double unit, double *v,
               double *e)
{
    double sum = 0, size = 0, error = 0;
    for (int64_t i = 0; i < n; i++) {
        double a = x.v[i], b = y.v[i * step], ea = x.e[i], eb = y.e[i * step];
        sum += a * b;
        size += fabs(a * b);
        error += ea * fabs(b) + fabs(a) * eb + ea * eb;
    }
    *v = sum;
    *e = error + bound_chain((double)n + 2, unit) * (size + error);
}

/* What the rows of one sequence attend to, token by token. */
struct attended {
    struct pairs key, value; /* [tokens, key_step], [tokens, value_step] */
    int64_t key_step, value_step;
    struct pairs rope; /* [tokens, R] */
};

/* score = scale * (q . key + q_rope . rope), p, then sum p value into y [n]. */
static void attend(const struct bound_work *w, const struct mla_core *op, struct pairs q,
                   int64_t q_n, struct pairs q_rope, const struct attended *a, int64_t tokens,
                   struct pairs p, struct pairs y, int64_t y_n)
{
    double unit = w->m->unit_step;
    for (int64_t s = 0; s < tokens; s++) {
        double v[2], e[2];
        pairs_dot(q, pairs_at(a->key, s * a->key_step), 1, q_n, unit, &v[0], &e[0]);
        pairs_dot(q_rope, pairs_at(a->rope, s * op->R), 1, op->R, unit, &v[1], &e[1]);
        /* The two parts may be one sum: its chain is longer by the other part. */
        double more =
            bound_chain((double)(q_n + op->R), unit) * (fabs(v[0]) + fabs(v[1]) + e[0] + e[1]);
        p.v[s] = v[0] + v[1];
        p.e[s] = e[0] + e[1] + more;
        pairs_round(w, RP_SCORE, pairs_at(p, s), 1);
        p.v[s] *= op->scale;
        p.e[s] = p.e[s] * fabs(op->scale) + unit * fabs(p.v[s]);
        pairs_round(w, RP_SCORE_SCALED, pairs_at(p, s), 1);
    }
    pairs_softmax(w, p, tokens);
    for (int64_t d = 0; d < y_n; d++)
        pairs_dot(p, pairs_at(a->value, d), a->value_step, tokens, unit, &y.v[d], &y.e[d]);
}

/* All kv_b rows of every token of a sequence, for the expanded form. */
static struct pairs expand(struct bound_work *w, const struct mla_core *op, struct pairs latent,
                           int64_t tokens)
{
    struct pairs kv = pairs_new(w, tokens * op->kv_b->out);
    pairs_product(w, op->kv_b, tokens, latent, kv);
    pairs_round(w, RP_LINEAR, kv, tokens * op->kv_b->out);
    return kv;
}

/* One row and head of the absorbed form. u: the head's rows of kv_b [P + V, L]. */
static void absorbed_head(struct bound_work *w, const struct mla_core *op, struct pairs u,
                          struct pairs q, const struct attended *a, int64_t tokens,
                          struct pairs scratch, struct pairs y)
{
    struct pairs ql = scratch, o = pairs_at(scratch, op->L), p = pairs_at(scratch, 2 * op->L);
    for (int64_t l = 0; l < op->L; l++)
        pairs_dot(q, pairs_at(u, l), op->L, op->P, w->m->unit_step, &ql.v[l], &ql.e[l]);
    pairs_round(w, RP_Q_LATENT, ql, op->L);
    attend(w, op, ql, op->L, pairs_at(q, op->P), a, tokens, p, o, op->L);
    pairs_round(w, RP_O_LATENT, o, op->L);
    for (int64_t d = 0; d < op->V; d++)
        pairs_dot(o, pairs_at(u, (op->P + d) * op->L), 1, op->L, w->m->unit_step, &y.v[d], &y.e[d]);
}

static void bound_sequence(struct bound_work *w, const struct mla_core *op, int64_t sequence,
                           int64_t tokens, struct pairs kv_b, struct pairs q, struct pairs y)
{
    bool expanded = op->form == MLA_EXPANDED || w->m->expanded;
    int64_t P = op->P, V = op->V, L = op->L, R = op->R, heads = op->heads, rows_of_head = P + V;
    struct pairs latent = pairs_new(w, tokens * L), rope = pairs_new(w, tokens * R);
    struct pairs scratch = pairs_new(w, 2 * L + tokens), kv = {0};
    for (int64_t t = 0; !w->failed && t < tokens; t++) {
        const double *entry = cache_read(op->cache, op->layer, sequence, t);
        for (int64_t i = 0; i < L + R; i++)
            *(i < L ? &latent.v[t * L + i] : &rope.v[t * R + i - L]) = entry[i];
    }
    if (expanded) kv = expand(w, op, latent, tokens);
    for (int64_t i = 0; !w->failed && i < op->rows->count * heads; i++) {
        int64_t row = i / heads, h = i % heads, seen = op->rows->position[row] + 1;
        if (op->rows->sequence[row] != sequence) continue;
        struct pairs qh = pairs_at(q, i * (P + R)), yh = pairs_at(y, i * V);
        if (expanded) {
            struct attended a = {pairs_at(kv, h * rows_of_head), pairs_at(kv, h * rows_of_head + P),
                                 op->kv_b->out, op->kv_b->out, rope};
            attend(w, op, qh, P, pairs_at(qh, P), &a, seen, scratch, yh, V);
        } else {
            struct attended a = {latent, latent, L, L, rope};
            absorbed_head(w, op, pairs_at(kv_b, h * rows_of_head * L), qh, &a, seen, scratch, yh);
        }
    }
}

void bound_mla_core(struct bound_work *w, const void *arg, struct bound *out)
{
    const struct mla_core *op = arg;
    int64_t n = op->rows->count * op->heads;
    struct pairs q = pairs_of(w, op->q, n * (op->P + op->R)), y = pairs_new(w, n * op->V);
    struct pairs kv_b = pairs_new(w, op->kv_b->out * op->L);
    for (int64_t r = 0; !w->failed && r < op->kv_b->out; r++)
        case_matrix_row(op->kv_b, r, kv_b.v + r * op->L);
    for (int64_t s = 0; s < op->cache->sequences; s++) {
        int64_t tokens = 0;
        for (int64_t i = 0; i < op->rows->count; i++) {
            if (op->rows->sequence[i] == s && op->rows->position[i] >= tokens)
                tokens = op->rows->position[i] + 1;
        }
        if (tokens) bound_sequence(w, op, s, tokens, kv_b, q, y);
    }
    pairs_round(w, RP_ATTN_CORE, y, n * op->V);
    out->abs = y.e;
}
