/* speculate_chain.c: K drafts one after the other: the draft's argmax each, or drawn from its law
 * at the temperature; see speculate.h. */
#include "core/logits.h"
#include "harness/chance.h"
#include "harness/speculate_parts.h"

#include <string.h>

static void scatter(const struct speculate *s, int64_t level, double *q)
{
    memset(q, 0, (size_t)s->vocab * sizeof *q);
    for (int64_t i = 0; i < s->head->config.draft_vocab; i++)
        q[draft_target_id(s, level, i)] += s->pool->law[i];
}

/* The draft id that comes after `logits`, as node `node` of the tree; -1: NaN. What it was drawn
 * from is kept as the very numbers. */
static int64_t choose(struct speculate *s, const double *logits, int64_t node)
{
    double margin;
    int64_t n = s->head->config.draft_vocab, id = logits_argmax(logits, n, &margin);
    if (id < 0 || s->options.temperature == 0) return id;
    double u = chance_draft(s->options.seed, s->length - 1 + node);
    chance_law(logits, n, s->options.temperature, s->pool->law);
    scatter(s, node - 1, s->tree.q + node * s->vocab);
    return chance_pick(s->pool->law, n, u);
}

enum err_code draft_chain(struct speculate *s, struct err *err)
{
    struct draft_tree *t = &s->tree;
    struct pool *pool = s->pool;
    const double *logits = s->logits;
    int64_t last = -1;
    for (int64_t i = 1; i <= s->options.drafts; i++) {
        int64_t id = choose(s, logits, i);
        if (id < 0) return draft_nan(s, i - 1, err);
        last = draft_add(pool, last, draft_target_id(s, i - 1, id), 0);
        t->parent[i] = (int32_t)(i - 1);
        t->token[i] = pool->token[last];
        t->depth[i] = i;
        t->nodes = i + 1;
        if (i < s->options.drafts && draft_feed(s, &last, 1, err) != ERR_OK) return err->code;
        logits = pool->logits;
    }
    return ERR_OK;
}
