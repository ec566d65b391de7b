/* fault_eagle_verify.c: verification that confirms too much, or draws from another law: what comes
 * out is no longer the target's own. Test: tests/test_fault_eagle_verify.c */
#include "core/eagle.h"
#include "core/fault_edits.h"

#include <math.h>
#include <string.h>

static int64_t first_child(const struct eagle_verify *op, int64_t node)
{
    for (int64_t i = node + 1; i < op->nodes; i++) {
        if (op->parent[i] == node) return i;
    }
    return -1;
}

static int64_t last_of(const struct eagle_verify *op)
{
    return op->path[*op->accepted];
}

/* *op->next: what follows a path that ends at `node`, by the law (or logits) after node `from`. */
static enum err_code draw_after(struct fault_call *c, const struct eagle_verify *op, int64_t node,
                                int64_t from, struct run *run, struct err *err)
{
    static const int32_t root = -1;
    int32_t path;
    int64_t accepted;
    const struct eagle_verify alone = {.nodes = 1,
                                       .V = op->V,
                                       .parent = &root,
                                       .token = op->token + node,
                                       .target = op->target + from * op->V,
                                       .greedy = op->greedy,
                                       .coin = op->coin ? op->coin + node : NULL,
                                       .draw = op->draw ? op->draw + node : NULL,
                                       .path = &path,
                                       .accepted = &accepted,
                                       .next = op->next};
    return fault_other(c, "eagle.verify", &alone, run, err);
}

static enum err_code accept_unverified(struct fault_call *c, const void *arg, struct run *run,
                                       struct err *err)
{
    const struct eagle_verify *op = arg;
    int64_t node = 0;
    if (fault_next(c, op, run, err) != ERR_OK) return err->code;
    *op->accepted = 0;
    for (int64_t child; (child = first_child(op, node)) >= 0; node = child)
        op->path[++*op->accepted] = (int32_t)child;
    return draw_after(c, op, node, node, run, err);
}

static enum err_code wrong_bonus(struct fault_call *c, const void *arg, struct run *run,
                                 struct err *err)
{
    const struct eagle_verify *op = arg;
    if (fault_next(c, op, run, err) != ERR_OK) return err->code;
    int64_t last = last_of(op), before = op->parent[last];
    if (before < 0 || first_child(op, last) >= 0) return ERR_OK;
    return draw_after(c, op, last, before, run, err);
}

static enum err_code draw_from_p(struct fault_call *c, const void *arg, struct run *run,
                                 struct err *err)
{
    const struct eagle_verify *op = arg;
    if (fault_next(c, op, run, err) != ERR_OK || op->greedy) return err->code;
    int64_t last = last_of(op);
    return first_child(op, last) < 0 ? ERR_OK : draw_after(c, op, last, last, run, err);
}

static enum err_code q_temperature(struct fault_call *c, const void *arg, struct run *run,
                                   struct err *err)
{
    struct eagle_verify op = *(const struct eagle_verify *)arg;
    double over = fault_value(c->use, "factor");
    if (!op.draft || !(over > 0)) return fault_next(c, arg, run, err);
    struct arena_block *mark = arena_mark(run->arena);
    double *q = fault_copy(run, op.draft, op.nodes * op.V, err);
    for (int64_t i = 1; q && i < op.nodes; i++) {
        double *row = q + i * op.V, sum = 0;
        for (int64_t x = 0; x < op.V; x++) sum += row[x] = row[x] > 0 ? pow(row[x], 1 / over) : 0;
        for (int64_t x = 0; x < op.V; x++) row[x] /= sum;
    }
    op.draft = q;
    if (q) (void)!fault_next(c, &op, run, err);
    arena_release(run->arena, mark);
    return err->code;
}

static enum err_code siblings_share_coin(struct fault_call *c, const void *arg, struct run *run,
                                         struct err *err)
{
    struct eagle_verify op = *(const struct eagle_verify *)arg;
    if (!op.coin) return fault_next(c, arg, run, err);
    struct arena_block *mark = arena_mark(run->arena);
    double *coin = fault_copy(run, op.coin, op.nodes, err);
    for (int64_t i = 1; coin && i < op.nodes; i++)
        coin[i] = op.coin[first_child(&op, op.parent[i])];
    op.coin = coin;
    if (coin) (void)!fault_next(c, &op, run, err);
    arena_release(run->arena, mark);
    return err->code;
}

#define VERIFY .hosts = {"eagle.verify"}, .detector = "generate --check-lossless"

const struct fault_row fault_rows_eagle_verify[] = {
    {.id = "eagle.accept_unverified",
     VERIFY,
     .wrap = accept_unverified,
     .edit = "drafts are accepted whatever the target says",
     .source = "tokenspeed#1305"},
    {.id = "eagle.wrong_bonus",
     VERIFY,
     .wrap = wrong_bonus,
     .edit = "the token after a path that was accepted whole comes from the row before its last",
     .source = "sglang PR#26866"},
    {.id = "eagle.draw_from_p",
     VERIFY,
     .wrap = draw_from_p,
     .edit = "after a refusal the draw is from p, not from what the refused drafts leave of it",
     .source = "EAGLE-3 fact sheet 5.2"},
    {.id = "eagle.q_temperature",
     VERIFY,
     .wrap = q_temperature,
     .keys = {{.name = "factor",
               .dflt = 2,
               .fit = FIT_LINEAR,
               .about = "temperature over the one that drew the drafts"}},
     .edit = "drafts are held against q of another temperature",
     .source = "transformers#47932, DeepSpec#31"},
    {.id = "eagle.siblings_share_coin",
     VERIFY,
     .wrap = siblings_share_coin,
     .edit = "one coin decides about all children of a node",
     .source = "EAGLE-3 fact sheet 5.5"},
    {0},
};
