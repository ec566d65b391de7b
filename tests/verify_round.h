/* verify_round.h: one round of eagle.verify with room of its own, and the trees of its tests. */
#ifndef ASSAY_TESTS_VERIFY_ROUND_H
#define ASSAY_TESTS_VERIFY_ROUND_H

#include "core/eagle.h"

enum { ROUND_NODES = 8, ROUND_IDS = 4 };

/* One round: a tree, and the laws at its nodes. */
struct round {
    struct eagle_verify op;
    int32_t parent[ROUND_NODES];
    int64_t token[ROUND_NODES];
    double target[ROUND_NODES * ROUND_IDS], draft[ROUND_NODES * ROUND_IDS], coin[ROUND_NODES],
        draw[ROUND_NODES];
    int32_t path[ROUND_NODES];
    int64_t accepted, next;
};

/* Zeros but for the tree. */
void round_make(struct round *r, int64_t nodes, int64_t V, const int32_t *parent,
                const int64_t *token);
enum err_code round_try(struct round *r, struct err *err) ERR_USED;
/* Must succeed. */
void round_play(struct round *r);
bool round_same(const struct round *r, const struct round *other);

struct tree {
    const char *name;
    int64_t nodes;
    int32_t parent[ROUND_NODES];
    int64_t token[ROUND_NODES];
};

enum { ROUND_TREES = 9 };
extern const struct tree round_trees[ROUND_TREES];

#endif
