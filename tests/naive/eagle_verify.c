/* eagle_verify.c: which drafts the target confirms, from eagle.h; see naive.h. */
#include "tests/naive/naive.h"

/* Copies a node's law and returns its sum. */
static double load(const struct eagle_verify *op, int64_t node, double *law)
{
    double sum = 0;
    for (int64_t x = 0; x < op->V; x++) sum += law[x] = op->target[node * op->V + x];
    return sum;
}

/* The id under the point u of [0, 1) when the law is laid out in ascending id. */
static int64_t pick(const double *law, int64_t V, double u)
{
    double whole = 0, below = 0;
    int64_t last = 0;
    for (int64_t x = 0; x < V; x++) whole += law[x];
    for (int64_t x = 0; x < V; x++) {
        if (!(law[x] > 0)) continue;
        last = x;
        below += law[x];
        if (below > u * whole) return x;
    }
    return last;
}

static int64_t best_of(const double *row, int64_t V)
{
    int64_t best = 0;
    for (int64_t x = 1; x < V; x++) best = row[x] > row[best] ? x : best;
    return best;
}

/* Judges the children of `node`; the accepted one, or -1. `law` becomes what may still be drawn. */
static int64_t confirm(const struct eagle_verify *op, int64_t node, double *law)
{
    double left = op->greedy ? 1 : load(op, node, law);
    for (int64_t i = node + 1; i < op->nodes; i++) {
        if (op->parent[i] != node) continue;
        int64_t d = op->token[i];
        if (op->greedy) {
            if (d == best_of(op->target + node * op->V, op->V)) return i;
        } else if (op->draft) {
            const double *q = op->draft + i * op->V;
            if (op->coin[i] * q[d] < law[d]) return i;
            double rest = 0;
            for (int64_t x = 0; x < op->V; x++) rest += law[x] > q[x] ? law[x] - q[x] : 0;
            for (int64_t x = 0; x < op->V && rest > 0; x++)
                law[x] = law[x] > q[x] ? law[x] - q[x] : 0;
        } else {
            if (op->coin[i] * left < law[d]) return i;
            law[d] = 0;
            left = 0;
            for (int64_t x = 0; x < op->V; x++) left += law[x];
        }
    }
    return -1;
}

enum err_code eagle_verify_naive(const struct eagle_verify *op, struct run *run, struct err *err)
{
    if (naive_begin(run, "eagle.verify", err) != ERR_OK || eagle_verify_check(op, err) != ERR_OK)
        return err->code;
    struct arena_block *mark = arena_mark(run->arena);
    double *law = arena_alloc(run->arena, op->V, sizeof *law, "naive law", err);
    int64_t node = 0, child = 0, count = 0;
    while (law && child >= 0) {
        node = child;
        op->path[count++] = (int32_t)node;
        child = confirm(op, node, law);
    }
    *op->accepted = count - 1;
    if (law)
        *op->next = op->greedy ? best_of(op->target + node * op->V, op->V)
                               : pick(law, op->V, op->draw[node]);
    arena_release(run->arena, mark);
    return err->code;
}
