/* router.c: op router. Contract: core/router.h; test tests/test_router.c. */
#include "core/router.h"

#include "core/linear.h"
#include "core/matrix.h"

#include <string.h>

struct scratch {
    double *scores, *keys, *group_score; /* [E], [E], [groups] */
    bool *kept;                          /* [groups] */
};

static void route_row(const struct router *op, const struct run *run, int64_t t, struct scratch *s)
{
    int32_t *ids = op->ids + t * op->top_k;
    router_keys(op, op->logits + t * op->E, s->scores, s->keys);
    if (op->forced && op->forced[t * op->top_k] >= 0)
        memcpy(ids, op->forced + t * op->top_k, (size_t)op->top_k * sizeof *ids);
    else
        router_choose(op, s->keys, s->kept, s->group_score, ids);
    router_weigh(op, run, s->scores, ids, op->weights + t * op->top_k);
}

enum err_code router_ref(const struct router *op, struct run *run, struct err *err)
{
    if (router_check(op, err) != ERR_OK) return err->code;
    struct arena_block *mark = arena_mark(run->arena);
    const struct linear gate = {
        .T = op->T, .x = op->x, .w = op->w, .y = op->logits, .point = RP_ROUTER_LOGITS};
    struct scratch s = {
        .scores = arena_alloc(run->arena, op->E, sizeof(double), "router scores", err),
        .keys = arena_alloc(run->arena, op->E, sizeof(double), "router keys", err),
        .group_score = arena_alloc(run->arena, op->groups, sizeof(double), "group scores", err),
        .kept = arena_alloc(run->arena, op->groups, sizeof(bool), "groups kept", err),
    };
    if (err->code != ERR_OK || (op->bias && tensor_find_bad(op->bias, 0, op->E, err) != ERR_OK) ||
        linear_ref(&gate, run, err) != ERR_OK)
        goto done;
    for (int64_t t = 0; t < op->T; t++) route_row(op, run, t, &s);
done:
    arena_release(run->arena, mark);
    return err->code;
}
