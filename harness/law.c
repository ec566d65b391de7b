/* law.c: what a verification emits, in closed form: the target's law, and what each known fault
 * makes of it; see law.h. */
#include "harness/law.h"

#include "core/check.h"

#include <math.h>
#include <string.h>

/* The temperature, over the one that drew the drafts, of the q that a wrong verification holds
 * them against. */
#define OTHER_TEMPERATURE 2

static double sum_of(const double *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i];
    return sum;
}

/* max(p - q, 0), made a law; p itself where nothing is left. */
static void residual(int64_t V, const double *p, const double *q, double *out)
{
    for (int64_t x = 0; x < V; x++) out[x] = fmax(p[x] - q[x], 0);
    double sum = sum_of(out, V);
    for (int64_t x = 0; x < V; x++) out[x] = sum > 0 ? out[x] / sum : p[x];
}

/* ---- one node of a chain: a draft drawn from q ---- */

static void chain_right(const struct law *l, const double *p, const double *q, const int64_t *child,
                        int children, double *accepted, double *drawn)
{
    (void)child;
    (void)children;
    for (int64_t x = 0; x < l->V; x++) accepted[x] = fmin(p[x], q[x]);
    residual(l->V, p, q, drawn);
}

/* The coin is the number u that drew the draft: x is drawn for u in its stretch of the cumulative
 * sum of q, and accepted where also u < p / q. */
static void chain_noise(const struct law *l, const double *p, const double *q, const int64_t *child,
                        int children, double *accepted, double *drawn)
{
    double low = 0;
    chain_right(l, p, q, child, children, accepted, drawn);
    for (int64_t x = 0; x < l->V; low += q[x++])
        accepted[x] = q[x] > 0 ? fmin(fmax(p[x] / q[x] - low, 0), q[x]) : 0;
}

static void chain_from_p(const struct law *l, const double *p, const double *q,
                         const int64_t *child, int children, double *accepted, double *drawn)
{
    chain_right(l, p, q, child, children, accepted, drawn);
    memcpy(drawn, p, (size_t)l->V * sizeof *p);
}

/* A draw in [0, 1) over weights that sum to less: what is past them falls on the last id. */
static void chain_unscaled(const struct law *l, const double *p, const double *q,
                           const int64_t *child, int children, double *accepted, double *drawn)
{
    chain_right(l, p, q, child, children, accepted, drawn);
    double refused = 1 - sum_of(accepted, l->V);
    for (int64_t x = 0; x < l->V; x++) drawn[x] *= refused;
    drawn[l->V - 1] += 1 - refused;
}

static void chain_temperature(const struct law *l, const double *p, const double *q,
                              const int64_t *child, int children, double *accepted, double *drawn)
{
    double other[LAW_IDS], sum = 0;
    (void)child;
    (void)children;
    for (int64_t x = 0; x < l->V; x++)
        sum += other[x] = q[x] > 0 ? pow(q[x], 1.0 / OTHER_TEMPERATURE) : 0;
    for (int64_t x = 0; x < l->V; x++) other[x] /= sum;
    for (int64_t x = 0; x < l->V; x++)
        accepted[x] = other[x] > 0 ? q[x] * fmin(1, p[x] / other[x]) : 0;
    residual(l->V, p, other, drawn);
}

static void chain_unverified(const struct law *l, const double *p, const double *q,
                             const int64_t *child, int children, double *accepted, double *drawn)
{
    chain_right(l, p, q, child, children, accepted, drawn);
    memcpy(accepted, q, (size_t)l->V * sizeof *q);
}

/* ---- one node of a tree: deterministic children ---- */

static void without(const struct law *l, const double *p, const int64_t *child, int children,
                    double *out)
{
    memcpy(out, p, (size_t)l->V * sizeof *p);
    for (int c = 0; c < children; c++) out[child[c]] = 0;
    double sum = sum_of(out, l->V);
    for (int64_t x = 0; x < l->V; x++) out[x] = sum > 0 ? out[x] / sum : p[x];
}

static void tree_right(const struct law *l, const double *p, const double *q, const int64_t *child,
                       int children, double *accepted, double *drawn)
{
    (void)q;
    memset(accepted, 0, (size_t)l->V * sizeof *accepted);
    for (int c = 0; c < children; c++) accepted[child[c]] = p[child[c]];
    without(l, p, child, children, drawn);
}

/* A child is accepted where the coin lies below p over what is left, and above what the siblings
 * before it were refused at. */
static void tree_one_coin(const struct law *l, const double *p, const double *q,
                          const int64_t *child, int children, double *accepted, double *drawn)
{
    double left = 1, refused_at = 0;
    tree_right(l, p, q, child, children, accepted, drawn);
    for (int c = 0; c < children; c++) {
        double below = left > 0 ? fmin(p[child[c]] / left, 1) : 0;
        accepted[child[c]] = fmax(below - refused_at, 0);
        refused_at = fmax(refused_at, below);
        left -= p[child[c]];
    }
}

static void tree_kept(const struct law *l, const double *p, const double *q, const int64_t *child,
                      int children, double *accepted, double *drawn)
{
    tree_right(l, p, q, child, children, accepted, drawn);
    memcpy(drawn, p, (size_t)l->V * sizeof *p);
}

static void tree_unscaled(const struct law *l, const double *p, const double *q,
                          const int64_t *child, int children, double *accepted, double *drawn)
{
    double reached = 1;
    tree_right(l, p, q, child, children, accepted, drawn);
    for (int c = 0; c < children; c++) {
        accepted[child[c]] = reached * p[child[c]];
        reached *= 1 - p[child[c]];
    }
}

static void tree_unverified(const struct law *l, const double *p, const double *q,
                            const int64_t *child, int children, double *accepted, double *drawn)
{
    tree_right(l, p, q, child, children, accepted, drawn);
    for (int c = 0; c < children; c++) accepted[child[c]] = c == 0;
}

static const struct law_fault chain_faults[] = {
    {"the noise that drew a draft is its coin", NULL, false, BONUS_RIGHT, chain_noise},
    {"after a refusal the draw is from p", "eagle.draw_from_p", false, BONUS_RIGHT, chain_from_p},
    {"what a refusal leaves is not renormalised", NULL, false, BONUS_RIGHT, chain_unscaled},
    {"drafts are held against q of another temperature", "eagle.q_temperature", false, BONUS_RIGHT,
     chain_temperature},
    {"the bonus is drawn from the draft", NULL, false, BONUS_OF_DRAFT, chain_right},
    {"drafts are accepted unverified", "eagle.accept_unverified", false, BONUS_RIGHT,
     chain_unverified},
    {"the bonus comes from the row before", "eagle.wrong_bonus", false, BONUS_OF_PARENT,
     chain_right},
};

static const struct law_fault tree_faults[] = {
    {"siblings share a coin", "eagle.siblings_share_coin", true, BONUS_RIGHT, tree_one_coin},
    {"refused siblings stay in the draw", "eagle.draw_from_p", true, BONUS_RIGHT, tree_kept},
    {"p is not renormalised between siblings", NULL, true, BONUS_RIGHT, tree_unscaled},
    {"the bonus is drawn from the draft", NULL, true, BONUS_OF_DRAFT, tree_right},
    {"drafts are accepted unverified", "eagle.accept_unverified", true, BONUS_RIGHT,
     tree_unverified},
    {"the bonus comes from the row before", "eagle.wrong_bonus", true, BONUS_OF_PARENT, tree_right},
};

_Static_assert(sizeof chain_faults / sizeof chain_faults[0] == LAW_FAULTS, "room for all");

const struct law_fault *law_faults(bool tree, int *count)
{
    *count = tree ? sizeof tree_faults / sizeof tree_faults[0]
                  : sizeof chain_faults / sizeof chain_faults[0];
    return tree ? tree_faults : chain_faults;
}

/* ---- two tokens ---- */

/* The law after token x: of an array like p_after. */
static const double *after(const struct law *l, const double *laws, int64_t x)
{
    return laws + (l->context ? x * l->V : 0);
}

struct emitted {
    const struct law *l;
    const struct law_fault *fault;
    double accepted[LAW_IDS], drawn[LAW_IDS];
};

static int children_of(const struct law *l, int64_t node, int64_t child[LAW_NODES])
{
    int n = 0;
    for (int64_t i = node + 1; l->tree && i < l->nodes; i++) {
        if (l->parent[i] == node) child[n++] = l->token[i];
    }
    return n;
}

/* Both ways in which an id comes after `node`: as a draft, or drawn. */
static void split_at(struct emitted *e, int64_t node, const double *p, const double *q)
{
    int64_t child[LAW_NODES];
    int children = children_of(e->l, node, child);
    e->fault->split(e->l, p, q, child, children, e->accepted, e->drawn);
    double refused = fmax(1 - sum_of(e->accepted, e->l->V), 0);
    for (int64_t x = 0; x < e->l->V; x++) e->drawn[x] *= refused;
}

/* Adds weight times the law of what follows x: at the node of x where it was accepted (a leaf, or
 * one with drafts of its own), at a new round's root (node 0) where it was drawn. */
static void add_second(const struct law *l, const struct law_fault *fault, int64_t node, int64_t x,
                       double weight, double *row)
{
    struct emitted second = {.l = l, .fault = fault};
    const double *p = after(l, l->p_after, x), *q = after(l, l->q_after, x);
    int64_t child[LAW_NODES];
    bool leaf = l->tree ? children_of(l, node, child) == 0 : node == l->nodes - 1;
    if (leaf) {
        const double *law = fault->bonus == BONUS_OF_DRAFT    ? q
                            : fault->bonus == BONUS_OF_PARENT ? l->p
                                                              : p;
        for (int64_t y = 0; y < l->V; y++) row[y] += weight * law[y];
        return;
    }
    split_at(&second, node, p, q);
    for (int64_t y = 0; y < l->V; y++) row[y] += weight * (second.accepted[y] + second.drawn[y]);
}

static int64_t node_of(const struct law *l, int64_t x)
{
    for (int64_t i = 1; l->tree && i < l->nodes; i++) {
        if (l->parent[i] == 0 && l->token[i] == x) return i;
    }
    return 1;
}

enum err_code law_pairs(const struct law *l, const struct law_fault *fault, double *pairs,
                        struct err *err)
{
    struct emitted first = {.l = l, .fault = fault};
    if (l->V < 1 || l->V > LAW_IDS || l->nodes < 2 || l->nodes > LAW_NODES)
        return err_set(err, ERR_INPUT, "law|%s|%lld ids, %lld nodes|1 to %d, and 2 to %d", l->name,
                       (long long)l->V, (long long)l->nodes, LAW_IDS, LAW_NODES);
    memset(pairs, 0, (size_t)(l->V * l->V) * sizeof *pairs);
    if (fault) split_at(&first, 0, l->p, l->q);
    for (int64_t x = 0; x < l->V; x++) {
        double *row = pairs + x * l->V;
        for (int64_t y = 0; !fault && y < l->V; y++) row[y] = l->p[x] * after(l, l->p_after, x)[y];
        if (fault && first.accepted[x] > 0)
            add_second(l, fault, node_of(l, x), x, first.accepted[x], row);
        if (fault && first.drawn[x] > 0) add_second(l, fault, 0, x, first.drawn[x], row);
    }
    return ERR_OK;
}
