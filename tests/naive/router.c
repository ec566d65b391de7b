/* router.c: logits, scores, groups, choice and weights of one token after the other, from router.h;
 * see naive.h. */
#include "tests/naive/naive.h"

#include <math.h>

struct choice {
    double *score, *key, *group;
    bool *open, *group_open, *taken;
};

static void scores_of(const struct router *op, const double *z, double *score)
{
    double largest = z[0], sum = 0;
    for (int64_t e = 0; e < op->E; e++) largest = z[e] > largest ? z[e] : largest;
    for (int64_t e = 0; e < op->E; e++) {
        score[e] = op->scoring == SCORING_SIGMOID ? 1 / (1 + exp(-z[e])) : exp(z[e] - largest);
        sum += score[e];
    }
    for (int64_t e = 0; op->scoring == SCORING_SOFTMAX && e < op->E; e++) score[e] /= sum;
}

/* Takes the open item of the largest value, the first one on a tie; returns it, or -1. */
static int64_t take_best(const double *value, bool *open, int64_t n)
{
    int64_t best = -1;
    for (int64_t i = 0; i < n; i++) {
        if (open[i] && (best < 0 || value[i] > value[best])) best = i;
    }
    if (best >= 0) open[best] = false;
    return best;
}

static double group_score(const struct router *op, const double *key, int64_t group)
{
    int64_t n = op->E / op->groups, first = group * n, best = first;
    for (int64_t e = first; e < first + n; e++) best = key[e] > key[best] ? e : best;
    if (op->method != TOPK_NOAUX_TC) return key[best];
    int64_t second = -1;
    for (int64_t e = first; e < first + n; e++) {
        if (e != best && (second < 0 || key[e] > key[second])) second = e;
    }
    return key[best] + key[second];
}

/* Opens the experts of the best groups. */
static void open_groups(const struct router *op, struct choice *c)
{
    int64_t per_group = op->E / op->groups;
    for (int64_t e = 0; e < op->E; e++) c->open[e] = op->groups == 1;
    if (op->groups == 1) return;
    for (int64_t g = 0; g < op->groups; g++) {
        c->group[g] = group_score(op, c->key, g);
        c->group_open[g] = true;
    }
    for (int64_t i = 0; i < op->top_groups; i++) {
        int64_t g = take_best(c->group, c->group_open, op->groups);
        for (int64_t e = g * per_group; e < (g + 1) * per_group; e++) c->open[e] = true;
    }
}

static void route_token(const struct router *op, int64_t t, struct choice *c)
{
    int32_t *ids = op->ids + t * op->top_k;
    double *weights = op->weights + t * op->top_k, sum = 0;
    scores_of(op, op->logits + t * op->E, c->score);
    for (int64_t e = 0; e < op->E; e++) {
        c->key[e] = c->score[e] + (op->bias ? naive_element(op->bias, e) : 0);
        c->taken[e] = false;
    }
    if (op->forced && op->forced[t * op->top_k] != -1) {
        for (int64_t j = 0; j < op->top_k; j++) c->taken[op->forced[t * op->top_k + j]] = true;
    } else {
        open_groups(op, c);
        for (int64_t j = 0; j < op->top_k; j++) c->taken[take_best(c->key, c->open, op->E)] = true;
    }
    int64_t n = 0;
    for (int64_t e = 0; e < op->E; e++) {
        if (!c->taken[e]) continue;
        ids[n] = (int32_t)e;
        weights[n++] = c->score[e];
        sum += c->score[e];
    }
    for (int64_t j = 0; j < op->top_k; j++) {
        if (op->norm_topk && op->top_k > 1) weights[j] /= sum + 1e-20;
        weights[j] *= op->routed_scale;
    }
}

enum err_code router_naive(const struct router *op, struct run *run, struct err *err)
{
    if (naive_begin(run, "router", err) != ERR_OK || router_check(op, err) != ERR_OK)
        return err->code;
    struct arena_block *mark = arena_mark(run->arena);
    double *reals = arena_alloc(run->arena, 3 * op->E, sizeof *reals, "naive scores", err);
    bool *flags = arena_alloc(run->arena, 3 * op->E, sizeof *flags, "naive flags", err);
    enum err_code rc =
        reals && flags ? naive_product(op->w, op->T, op->x, op->logits, run, err) : err->code;
    if (rc == ERR_OK) {
        struct choice c = {.score = reals,
                           .key = reals + op->E,
                           .group = reals + 2 * op->E,
                           .open = flags,
                           .group_open = flags + op->E,
                           .taken = flags + 2 * op->E};
        for (int64_t t = 0; t < op->T; t++) route_token(op, t, &c);
    }
    arena_release(run->arena, mark);
    return rc;
}
