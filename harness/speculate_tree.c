/* speculate_tree.c: EAGLE-2's dynamic tree. Every node that is fed proposes its top_k likeliest
 * tokens; the best top_k of a level by the probability of their whole path are fed next; of all
 * proposals the best are kept. A path's probability never rises, and of equal scores the lower
 * place wins, so the ancestors of what is kept are kept. See speculate.h. */
#include "harness/speculate_parts.h"

#include "core/check.h"

#include <math.h>
#include <string.h>

/* law = log-softmax(logits); the temperature does not enter. False: NaN. */
static bool log_law(const double *logits, int64_t n, double *law)
{
    double max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) max = logits[i] > max ? logits[i] : max;
    for (int64_t i = 0; i < n; i++) sum += exp(logits[i] - max);
    for (int64_t i = 0; i < n; i++) law[i] = logits[i] - max - log(sum);
    return !isnan(sum);
}

/* The place of the largest of n scores, the lowest where they tie. */
static int64_t best_of(const double *score, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++) best = score[i] > score[best] ? i : best;
    return best;
}

/* The top_k likeliest tokens after a node, as its children; false: NaN. What was taken is struck
 * out of the law. */
static bool propose(struct speculate *s, int64_t parent, const double *logits)
{
    struct pool *pool = s->pool;
    int64_t n = s->head->config.draft_vocab;
    double base = parent < 0 ? 0 : pool->score[parent];
    int64_t level = parent < 0 ? 0 : pool->level[parent] + 1;
    if (!log_law(logits, n, pool->law)) return false;
    for (int64_t k = 0; k < s->options.top_k; k++) {
        int64_t id = best_of(pool->law, n);
        (void)draft_add(pool, parent, draft_target_id(s, level, id), base + pool->law[id]);
        pool->law[id] = -INFINITY;
    }
    return true;
}

/* The best `most` of pool nodes [first, count), best first, into `out`; returns how many. */
static int64_t select_best(const struct pool *pool, int64_t first, int64_t most, int64_t *out)
{
    int64_t n = 0;
    for (int64_t i = first; i < pool->count; i++) pool->chosen[i] = -1;
    for (; n < most && n < pool->count - first; n++) {
        int64_t best = -1;
        for (int64_t i = first; i < pool->count; i++) {
            if (pool->chosen[i] < 0 && (best < 0 || pool->score[i] > pool->score[best])) best = i;
        }
        pool->chosen[best] = n;
        out[n] = best;
    }
    return n;
}

/* The nodes that are kept, in the order of the pool: parents come first. */
static void keep(struct speculate *s)
{
    struct pool *pool = s->pool;
    struct draft_tree *t = &s->tree;
    (void)select_best(pool, 0, s->options.drafts, pool->frontier);
    /* From here on chosen[i] is the node of the tree that pool node i becomes. */
    for (int64_t i = 0; i < pool->count; i++) {
        if (pool->chosen[i] < 0) continue;
        int64_t node = pool->chosen[i] = t->nodes++, parent = pool->parent[i];
        CHECK(parent < 0 || pool->chosen[parent] > 0);
        t->parent[node] = (int32_t)(parent < 0 ? 0 : pool->chosen[parent]);
        t->token[node] = pool->token[i];
        t->depth[node] = pool->level[i] + 1;
    }
}

enum err_code draft_tree(struct speculate *s, struct err *err)
{
    struct pool *pool = s->pool;
    int64_t n = s->head->config.draft_vocab;
    if (!propose(s, -1, s->logits)) return draft_nan(s, 0, err);
    for (int64_t level = 0, first = 0; level < s->options.depth; level++) {
        int64_t count = select_best(pool, first, s->options.top_k, pool->frontier);
        if (draft_feed(s, pool->frontier, count, err) != ERR_OK) return err->code;
        first = pool->count;
        for (int64_t i = 0; i < count; i++) {
            if (!propose(s, pool->frontier[i], pool->logits + i * n))
                return draft_nan(s, level + 1, err);
        }
    }
    keep(s);
    return ERR_OK;
}
