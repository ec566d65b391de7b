/* verify_round.c: see verify_round.h. */
#include "tests/verify_round.h"

#include "tests/support.h"

#include <string.h>

void round_make(struct round *r, int64_t nodes, int64_t V, const int32_t *parent,
                const int64_t *token)
{
    memset(r, 0, sizeof *r);
    memcpy(r->parent, parent, (size_t)nodes * sizeof *parent);
    memcpy(r->token, token, (size_t)nodes * sizeof *token);
    r->op = (struct eagle_verify){.nodes = nodes,
                                  .V = V,
                                  .parent = r->parent,
                                  .token = r->token,
                                  .target = r->target,
                                  .coin = r->coin,
                                  .draw = r->draw,
                                  .path = r->path,
                                  .accepted = &r->accepted,
                                  .next = &r->next};
}

enum err_code round_try(struct round *r, struct err *err)
{
    struct arena arena = ARENA_INIT;
    struct run run = {.arena = &arena, .threads = 1, .precision = PRECISION_F64};
    (void)!eagle_verify_ref(&r->op, &run, err);
    arena_release(&arena, NULL);
    return err->code;
}

void round_play(struct round *r)
{
    struct err err = ERR_INIT;
    if (round_try(r, &err) != ERR_OK) assert_ok(&err);
}

bool round_same(const struct round *r, const struct round *other)
{
    return r->accepted == other->accepted && r->next == other->next &&
           memcmp(r->path, other->path, (size_t)(r->accepted + 1) * sizeof *r->path) == 0;
}

const struct tree round_trees[ROUND_TREES] = {
    {"root alone", 1, {-1}, {0}},
    {"one draft", 2, {-1, 0}, {0, 0}},
    {"chain of three", 4, {-1, 0, 1, 2}, {0, 1, 0, 2}},
    {"children 1, 2", 3, {-1, 0, 0}, {0, 1, 2}},
    {"children 2, 0", 3, {-1, 0, 0}, {0, 2, 0}},
    {"every child", 4, {-1, 0, 0, 0}, {0, 1, 0, 2}},
    {"two levels, by level", 6, {-1, 0, 0, 1, 1, 2}, {0, 1, 2, 0, 2, 1}},
    {"two levels, by depth", 6, {-1, 0, 1, 1, 0, 4}, {0, 1, 0, 2, 2, 1}},
    {"three levels", 8, {-1, 0, 0, 1, 1, 2, 3, 5}, {0, 2, 0, 1, 0, 2, 2, 0}},
};
