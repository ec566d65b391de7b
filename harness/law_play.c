/* law_play.c: the samples of a law's case and their statistic; see law.h. */
#include "harness/chance.h"
#include "harness/chi.h"
#include "harness/law.h"

#include "core/check.h"
#include "core/fault.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Below this many expected the chi-square law is not yet the statistic's. */
#define EXPECTED_MIN 25
#define SAMPLES_MIN 4096
/* Differences of float64 sums are no effect. */
#define EFFECT_MIN 1e-20

/* Pairs, counted in groups: -1 where the law never says them. */
struct groups {
    int64_t cells; /* buckets or ids, squared */
    int32_t *group;
    double *share; /* [groups] of the law */
    int count;
};

static int64_t side(const struct law *l)
{
    return l->bucket[0] ? l->buckets : l->V;
}

static int64_t cell_of(const struct law *l, int64_t x, int64_t y)
{
    if (!l->bucket[0]) return x * l->V + y;
    return l->bucket[0][x] * l->buckets + l->bucket[1][y];
}

/* The law of the cells: [side * side]. */
static enum err_code cells_of(const struct law *l, const struct law_fault *fault, double *cells,
                              struct err *err)
{
    double *pairs = malloc((size_t)(l->V * l->V) * sizeof *pairs);
    if (!pairs) return err_set(err, ERR_MEMORY, "law|%s|no memory", l->name);
    memset(cells, 0, (size_t)(side(l) * side(l)) * sizeof *cells);
    if (law_pairs(l, fault, pairs, err) == ERR_OK) {
        for (int64_t i = 0; i < l->V * l->V; i++) cells[cell_of(l, i / l->V, i % l->V)] += pairs[i];
    }
    free(pairs);
    return err->code;
}

/* Cells that expect too few go together; they join the first group where they are still too few. */
static enum err_code groups_make(struct groups *g, const struct law *l,
                                 const struct law_fault *fault, int64_t samples, struct err *err)
{
    g->cells = side(l) * side(l);
    double *cells = malloc((size_t)g->cells * sizeof *cells), rest = 0;
    g->group = malloc((size_t)g->cells * sizeof *g->group);
    g->share = calloc((size_t)g->cells, sizeof *g->share);
    g->count = 0;
    if (!cells || !g->group || !g->share) {
        free(cells);
        return err_set(err, ERR_MEMORY, "law|%s|no memory", l->name);
    }
    if (cells_of(l, fault, cells, err) == ERR_OK) {
        for (int64_t i = 0; i < g->cells; i++) {
            bool enough = cells[i] * (double)samples >= EXPECTED_MIN;
            g->group[i] = enough ? g->count : -1;
            if (enough) g->share[g->count++] = cells[i];
            rest += enough ? 0 : cells[i];
        }
        bool apart = g->count == 0 || rest * (double)samples >= EXPECTED_MIN;
        int to = apart ? g->count : 0;
        if (rest > 0 && apart) g->count++;
        for (int64_t i = 0; i < g->cells; i++) {
            if (g->group[i] < 0 && cells[i] > 0) g->group[i] = to;
        }
        if (rest > 0) g->share[to] += rest;
    }
    free(cells);
    return err->code;
}

static void groups_free(struct groups *g)
{
    free(g->group);
    free(g->share);
}

/* The chance that n samples show the fault: in what the target never says, or by chi-square. */
static enum err_code power_of(const struct law *l, const struct groups *g,
                              const struct law_fault *fault, int64_t samples, double *power,
                              struct err *err)
{
    double *cells = malloc((size_t)g->cells * sizeof *cells), never = 0, effect = 0;
    double *share = calloc((size_t)g->cells, sizeof *share);
    if (!cells || !share) (void)!err_set(err, ERR_MEMORY, "law|%s|no memory", l->name);
    if (err->code == ERR_OK && cells_of(l, fault, cells, err) == ERR_OK) {
        for (int64_t i = 0; i < g->cells; i++)
            *(g->group[i] < 0 ? &never : share + g->group[i]) += cells[i];
        for (int k = 0; k < g->count; k++)
            effect += (share[k] - g->share[k]) * (share[k] - g->share[k]) / g->share[k];
        *power = 1 - pow(1 - fmin(never, 1), (double)samples);
        if (g->count > 1 && effect > EFFECT_MIN)
            *power = fmax(*power, chi_power(effect * (double)samples, LAW_ALPHA, g->count - 1));
    }
    free(cells);
    free(share);
    return err->code;
}

enum err_code law_plan(struct law_test *t, const struct law *l, struct err *err)
{
    int faults;
    const struct law_fault *fault = law_faults(l->tree, &faults);
    *t = (struct law_test){.law = l, .samples = SAMPLES_MIN};
    for (;; t->samples *= 2) {
        struct groups g = {0};
        double least = 1;
        if (groups_make(&g, l, NULL, t->samples, err) == ERR_OK) {
            t->cells = g.count;
            t->bound = g.count > 1 ? chi_bound(LAW_ALPHA, g.count - 1) : 0;
            for (int f = 0; f < faults && err->code == ERR_OK; f++) {
                (void)!power_of(l, &g, &fault[f], t->samples, &t->power[f], err);
                if (t->power[f] > 0) least = fmin(least, t->power[f]);
            }
        }
        groups_free(&g);
        if (err->code != ERR_OK || least >= LAW_POWER || t->samples >= LAW_SAMPLES_MAX)
            return err->code;
    }
}

/* ---- playing ---- */

struct table {
    const struct law *l;
    uint64_t seed;
    struct arena arena;
    struct run run;
    law_verify *verify;
    void *ctx;
    struct law_round round;
    int64_t token[LAW_NODES], depth[LAW_NODES], next, accepted;
    int32_t path[LAW_NODES];
    double coin[LAW_NODES], draw[LAW_NODES], noise[LAW_NODES];
    double *target, *draft, *following; /* [nodes, V] */
};

static const double *law_after(const struct law *l, const double *first, const double *later,
                               int64_t x)
{
    return x < 0 ? first : later + (l->context ? x * l->V : 0);
}

static void copy_row(double *rows, int64_t i, const double *law, int64_t V)
{
    memcpy(rows + i * V, law, (size_t)V * sizeof *law);
}

/* A round after token `before` (-1: none), whose first token has the given position. */
static enum err_code round_play(struct table *t, int64_t before, int64_t position, struct err *err)
{
    const struct law *l = t->l;
    for (int64_t i = 0; i < l->nodes; i++) {
        int64_t up = l->tree ? l->parent[i] : i - 1, from = up > 0 ? t->token[up] : before;
        t->depth[i] = i == 0 ? 0 : t->depth[up] + 1;
        if (i > 0 && l->tree) t->token[i] = l->token[i];
        if (i > 0 && !l->tree) {
            const double *q = law_after(l, l->q, l->q_after, from);
            t->noise[i] = chance_draft(t->seed, position + t->depth[i] - 1);
            t->token[i] = chance_pick(q, l->V, t->noise[i]);
            copy_row(t->draft, i, q, l->V);
        }
        int64_t at = i == 0 ? before : t->token[i];
        copy_row(t->target, i, law_after(l, l->p, l->p_after, at), l->V);
        copy_row(t->following, i, law_after(l, l->q, l->q_after, at), l->V);
        t->coin[i] = chance_coin(t->seed, position + t->depth[i] - 1, t->token[i], l->V);
        t->draw[i] = chance_draw(t->seed, position + t->depth[i]);
    }
    return t->verify(t->ctx, &t->round, &t->run, err);
}

/* The first two tokens of sequence n. Their positions are no other sequence's. */
static enum err_code pair_play(struct table *t, int64_t n, int64_t pair[2], struct err *err)
{
    int64_t count = 0, begin = 1 + n * (t->l->nodes + 2);
    while (count < 2) {
        if (round_play(t, count ? pair[0] : -1, begin + count, err) != ERR_OK) return err->code;
        for (int64_t i = 1; i <= t->accepted && count < 2; i++)
            pair[count++] = t->token[t->path[i]];
        if (count < 2) pair[count++] = t->next;
    }
    return ERR_OK;
}

static enum err_code table_make(struct table *t, struct err *err)
{
    const struct law *l = t->l;
    static const int32_t chain[LAW_NODES] = {-1, 0, 1, 2, 3, 4, 5, 6};
    double **rows[] = {&t->target, &t->draft, &t->following};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        *rows[i] = arena_alloc(&t->arena, l->nodes * l->V, sizeof(double), "laws of a round", err);
        if (!*rows[i]) return err->code;
        memset(*rows[i], 0, (size_t)(l->nodes * l->V) * sizeof(double));
    }
    t->run = (struct run){.arena = &t->arena, .threads = 1, .precision = PRECISION_F64};
    t->round = (struct law_round){.op = {.nodes = l->nodes,
                                         .V = l->V,
                                         .parent = l->tree ? l->parent : chain,
                                         .token = t->token,
                                         .target = t->target,
                                         .draft = l->tree ? NULL : t->draft,
                                         .coin = t->coin,
                                         .draw = t->draw,
                                         .path = t->path,
                                         .accepted = &t->accepted,
                                         .next = &t->next},
                                  .noise = t->noise,
                                  .next = t->following};
    return ERR_OK;
}

/* The counts held against the law under a fault, or (NULL) the target's own. */
static enum err_code judge(const struct law_test *t, const struct law_fault *fault,
                           const int64_t *count, double *statistic, double *bound, struct err *err)
{
    struct groups g = {0};
    if (groups_make(&g, t->law, fault, t->samples, err) == ERR_OK) {
        double *expected = g.share;
        *statistic = 0;
        *bound = g.count > 1 ? chi_bound(LAW_ALPHA, g.count - 1) : 0;
        for (int k = 0; k < g.count; k++) expected[k] *= (double)t->samples;
        for (int k = 0; k < g.count && g.count > 1; k++) {
            double off = -expected[k];
            for (int64_t i = 0; i < g.cells; i++) off += g.group[i] == k ? (double)count[i] : 0;
            *statistic += off * off / expected[k];
        }
        for (int64_t i = 0; i < g.cells; i++) {
            if (g.group[i] < 0 && count[i] > 0) *statistic = INFINITY;
        }
    }
    groups_free(&g);
    return err->code;
}

/* The one fault whose law the counts do fit; -1: none, or several. */
static enum err_code find_fault(struct law_test *t, const int64_t *count, struct err *err)
{
    int faults, found = 0;
    const struct law_fault *fault = law_faults(t->law->tree, &faults);
    for (int f = 0; f < faults && !t->holds; f++) {
        double statistic, bound;
        if (judge(t, &fault[f], count, &statistic, &bound, err) != ERR_OK) return err->code;
        if (!(statistic <= bound)) continue;
        t->like = f;
        found++;
    }
    if (found != 1) t->like = -1;
    return ERR_OK;
}

enum err_code law_play(struct law_test *t, law_verify *verify, void *ctx, uint64_t seed,
                       struct err *err)
{
    struct table table = {
        .l = t->law, .seed = seed, .arena = ARENA_INIT, .verify = verify, .ctx = ctx};
    int64_t pair[2];
    int64_t *count = calloc((size_t)(side(t->law) * side(t->law)), sizeof *count);
    if (!count) (void)!err_set(err, ERR_MEMORY, "law|%s|no memory", t->law->name);
    if (err->code == ERR_OK) (void)!table_make(&table, err);
    for (int64_t n = 0; n < t->samples && err->code == ERR_OK; n++) {
        if (pair_play(&table, n, pair, err) == ERR_OK) count[cell_of(t->law, pair[0], pair[1])]++;
    }
    t->holds = false;
    if (err->code == ERR_OK && judge(t, NULL, count, &t->statistic, &t->bound, err) == ERR_OK) {
        t->holds = t->statistic <= t->bound;
        (void)!find_fault(t, count, err);
    }
    free(count);
    arena_release(&table.arena, NULL);
    return err->code;
}

enum err_code law_verify_ref(void *ctx, const struct law_round *r, struct run *run, struct err *err)
{
    const struct fault_place place = {.op = "eagle.verify", .layer = -1, .side = ref_side()};
    struct run faulted = *run;
    faulted.faults = ctx;
    return ctx ? fault_call(&place, &r->op, &faulted, err) : eagle_verify_ref(&r->op, run, err);
}
