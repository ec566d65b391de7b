/* eagle_verify.c: op eagle.verify, which drafts the target confirms and the token after them.
 * Contract and law: core/eagle.h; test tests/test_eagle_verify.c. */
#include "core/eagle.h"

#include "core/logits.h"

#include <string.h>

/* One walk from the root. `law` holds what is left of the node's p: [V]. */
struct walk {
    const struct eagle_verify *op;
    int64_t at;
    double *law;
};

static double total(const struct walk *w)
{
    double sum = 0;
    for (int64_t x = 0; x < w->op->V; x++) sum += w->law[x];
    return sum;
}

/* The first id at which the cumulative sum passes u of the whole. An id without weight adds
 * nothing, so it is never the first. */
static int64_t draw(const struct walk *w, double u)
{
    double goal = u * total(w), sum = 0;
    int64_t x = 0;
    while (x < w->op->V - 1 && !(sum + w->law[x] > goal)) sum += w->law[x++];
    return x;
}

static void step_to(struct walk *w, int64_t node)
{
    const struct eagle_verify *op = w->op;
    w->at = node;
    op->path[++*op->accepted] = (int32_t)node;
    if (!op->greedy) memcpy(w->law, op->target + node * op->V, (size_t)op->V * sizeof *w->law);
}

static int64_t first_child(const struct eagle_verify *op, int64_t node, int64_t after)
{
    for (int64_t i = after + 1; i < op->nodes; i++) {
        if (op->parent[i] == node) return i;
    }
    return -1;
}

static void walk_greedy(struct walk *w)
{
    const struct eagle_verify *op = w->op;
    for (;;) {
        double margin;
        int64_t best = logits_argmax(op->target + w->at * op->V, op->V, &margin);
        int64_t child = first_child(op, w->at, w->at);
        while (child >= 0 && op->token[child] != best) child = first_child(op, w->at, child);
        *op->next = best;
        if (child < 0) return;
        step_to(w, child);
    }
}

/* What is left to draw from after the refusal of a drawn draft: max(p - q, 0). Where rounding
 * leaves nothing of it, p is q to the last bits, and p stands. */
static void take_residual(struct walk *w, const double *q)
{
    double sum = 0;
    for (int64_t x = 0; x < w->op->V; x++) sum += w->law[x] > q[x] ? w->law[x] - q[x] : 0;
    for (int64_t x = 0; x < w->op->V && sum > 0; x++)
        w->law[x] = w->law[x] > q[x] ? w->law[x] - q[x] : 0;
}

/* Drafts drawn from q: one child a node. */
static void walk_drawn(struct walk *w)
{
    const struct eagle_verify *op = w->op;
    while (w->at + 1 < op->nodes) {
        int64_t child = w->at + 1, x = op->token[child];
        const double *q = op->draft + child * op->V;
        if (!(op->coin[child] * q[x] < w->law[x])) {
            take_residual(w, q);
            break;
        }
        step_to(w, child);
    }
    *op->next = draw(w, op->draw[w->at]);
}

/* Deterministic drafts: q is 1 at the child. What a refused child leaves is p without it; the coin
 * is held against the share of what is left. */
static void walk_chosen(struct walk *w)
{
    const struct eagle_verify *op = w->op;
    int64_t child = first_child(op, w->at, w->at);
    while (child >= 0) {
        double p = w->law[op->token[child]];
        if (op->coin[child] * total(w) < p) {
            step_to(w, child);
            child = first_child(op, child, child);
            continue;
        }
        w->law[op->token[child]] = 0;
        child = first_child(op, w->at, child);
    }
    *op->next = draw(w, op->draw[w->at]);
}

enum err_code eagle_verify_ref(const struct eagle_verify *op, struct run *run, struct err *err)
{
    if (eagle_verify_check(op, err) != ERR_OK) return err->code;
    struct arena_block *mark = arena_mark(run->arena);
    struct walk w = {.op = op};
    w.law = arena_alloc(run->arena, op->V, sizeof *w.law, "a node's law", err);
    if (w.law) {
        *op->accepted = -1;
        step_to(&w, 0);
        if (op->greedy)
            walk_greedy(&w);
        else if (op->draft)
            walk_drawn(&w);
        else
            walk_chosen(&w);
    }
    arena_release(run->arena, mark);
    return err->code;
}
