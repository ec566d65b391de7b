/* bound_moe.c: bounds of mlp, moe and router; see bound.h. */
#include "core/mlp.h"
#include "core/moe.h"
#include "core/router.h"
#include "harness/bound.h"
#include "harness/case_make.h"

#include <math.h>

struct pairs pairs_mlp(struct bound_work *w, const struct matrix *gate, const struct matrix *up,
                       const struct matrix *down, int64_t T, struct pairs x)
{
    int64_t n = T * gate->out;
    struct pairs g = pairs_new(w, n), u = pairs_new(w, n), y = pairs_new(w, T * down->out);
    pairs_product(w, gate, T, x, g);
    pairs_product(w, up, T, x, u);
    pairs_round(w, RP_LINEAR, g, n);
    pairs_round(w, RP_LINEAR, u, n);
    for (int64_t i = 0; !w->failed && i < n; i++) {
        double a = g.v[i];
        g.v[i] = a / (1 + exp(-a));
        /* The slope of silu is at most 1.1; exp loses an ulp for each unit of its argument. */
        g.e[i] = 1.1 * g.e[i] + (8 + fabs(a)) * w->m->unit_step * fabs(g.v[i]);
    }
    pairs_round(w, RP_SILU, g, n);
    for (int64_t i = 0; !w->failed && i < n; i++) {
        double s = g.v[i], es = g.e[i], v = u.v[i], ev = u.e[i];
        g.v[i] = s * v;
        g.e[i] = es * fabs(v) + fabs(s) * ev + es * ev + w->m->unit_step * fabs(s * v);
    }
    pairs_round(w, RP_ACT, g, n);
    pairs_product(w, down, T, g, y);
    pairs_round(w, RP_LINEAR, y, T * down->out);
    return y;
}

void bound_mlp(struct bound_work *w, const void *arg, struct bound *out)
{
    const struct mlp *op = arg;
    struct pairs x = pairs_of(w, op->x, op->T * op->gate->in);
    out->abs = pairs_mlp(w, op->gate, op->up, op->down, op->T, x).e;
}

void bound_moe(struct bound_work *w, const void *arg, struct bound *out)
{
    const struct moe *op = arg;
    int64_t H = op->H;
    struct pairs y = pairs_new(w, op->T * H), size = pairs_new(w, H);
    for (int64_t t = 0; !w->failed && t < op->T; t++) {
        struct arena_block *mark = arena_mark(w->arena);
        struct pairs x = pairs_of(w, op->x + t * H, H), row = {y.v + t * H, y.e + t * H};
        for (int64_t i = 0; !w->failed && i < H; i++) size.v[i] = 0;
        for (int64_t j = 0; !w->failed && j < op->top_k; j++) {
            struct expert e;
            double weight = op->weights[t * op->top_k + j], weight_error = 0;
            if (op->expert(op->ctx, op->ids[t * op->top_k + j], &e, w->err) != ERR_OK)
                w->failed = true;
            if (w->failed) break;
            struct pairs term = pairs_mlp(w, &e.gate, &e.up, &e.down, 1, x);
            pairs_round(w, RP_EXPERT_WEIGHT, (struct pairs){&weight, &weight_error}, 1);
            for (int64_t i = 0; !w->failed && i < H; i++) {
                double v = term.v[i];
                term.v[i] = weight * v;
                term.e[i] = term.e[i] * (fabs(weight) + weight_error) + weight_error * fabs(v) +
                            w->m->unit_step * fabs(weight * v);
            }
            pairs_round(w, RP_EXPERT_TERM, term, H);
            for (int64_t i = 0; !w->failed && i < H; i++) {
                row.v[i] += term.v[i];
                row.e[i] += term.e[i];
                size.v[i] += fabs(term.v[i]) + term.e[i];
            }
            if (w->m->profile.rounds[RP_EXPERT_SUM]) pairs_round(w, RP_EXPERT_SUM, row, H);
        }
        arena_release(w->arena, mark);
        double chain = bound_chain((double)op->top_k + 2, w->m->unit_step);
        for (int64_t i = 0; !w->failed && i < H; i++) {
            row.v[i] *= op->sum_scale;
            row.e[i] = (row.e[i] + chain * size.v[i]) * fabs(op->sum_scale);
        }
    }
    pairs_round(w, RP_ROUTED_SCALED, y, op->T * H);
    pairs_round(w, RP_ROUTED, y, op->T * H);
    out->abs = y.e;
}

/* Scores of one token from its logits, in place. */
static void scores(const struct bound_work *w, const struct router *op, struct pairs z)
{
    double largest = -INFINITY, worst = 0, sum = 0, unit = w->m->unit_step;
    for (int64_t e = 0; e < op->E; e++) {
        largest = fmax(largest, z.v[e]);
        worst = fmax(worst, z.e[e]);
    }
    for (int64_t e = 0; e < op->E; e++) sum += exp(z.v[e] - largest);
    for (int64_t e = 0; e < op->E; e++) {
        double a = z.v[e], error = z.e[e];
        if (op->scoring == SCORING_SIGMOID) {
            z.v[e] = 1 / (1 + exp(-a));
            z.e[e] = fmin(error / 4, z.v[e] * expm1(error)) + (8 + fabs(a)) * unit * z.v[e];
        } else {
            z.v[e] = exp(a - largest) / sum;
            z.e[e] = z.v[e] * expm1(error + worst + (8 + 2 * (largest - a)) * unit +
                                    bound_chain((double)op->E, unit));
        }
    }
}

void bound_router(struct bound_work *w, const void *arg, const struct case_data *truth,
                  struct bound *out)
{
    const struct router *op = arg;
    int64_t T = op->T, E = op->E, k = op->top_k;
    struct pairs x = pairs_of(w, op->x, T * op->H), z = pairs_new(w, T * E), s = pairs_new(w, E);
    struct pairs weight = pairs_new(w, T * k), key = pairs_new(w, T);
    pairs_product(w, op->w, T, x, z);
    pairs_round(w, RP_ROUTER_LOGITS, z, T * E);
    const int32_t *ids = truth->output[1].data;
    for (int64_t t = 0; !w->failed && t < T; t++) {
        double sum = 0, sum_error = 0;
        for (int64_t e = 0; e < E; e++) {
            s.v[e] = z.v[t * E + e];
            s.e[e] = z.e[t * E + e];
        }
        scores(w, op, s);
        for (int64_t e = 0; e < E; e++) {
            double bias = op->bias ? case_tensor_value(op->bias, e) : 0;
            key.e[t] = fmax(key.e[t], s.e[e] + 2 * w->m->unit_step * (s.v[e] + fabs(bias)));
        }
        for (int64_t j = 0; j < k; j++) {
            sum += s.v[ids[t * k + j]];
            sum_error += s.e[ids[t * k + j]];
        }
        for (int64_t j = 0; j < k; j++) {
            int64_t e = ids[t * k + j];
            double v = s.v[e],
                   rel = (v > 0 ? s.e[e] / v : 0) + bound_chain((double)k + 6, w->m->unit_step);
            if (op->norm_topk && k > 1) {
                v /= sum;
                double share = sum_error / sum;
                rel = share < 1 ? (1 + rel) / (1 - share) - 1 : INFINITY;
            }
            weight.v[t * k + j] = v * op->routed_scale;
            weight.e[t * k + j] = fabs(v * op->routed_scale) * (rel + 4 * w->m->unit_step);
        }
    }
    for (int64_t i = 0; !w->failed && i < T * k; i++)
        weight.e[i] += w->m->unit_out * (fabs(weight.v[i]) + weight.e[i]) + w->m->smallest;
    out[0].abs = z.e;
    out[1].key = key.e;
    out[2].abs = weight.e;
}
