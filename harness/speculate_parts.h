/* speculate_parts.h: what the files of speculate share. */
#ifndef ASSAY_HARNESS_SPECULATE_PARTS_H
#define ASSAY_HARNESS_SPECULATE_PARTS_H

#include "harness/speculate.h"

/* What runs target and draft. */
static inline const struct engine *engine_of(const struct speculate *s)
{
    return &s->session->loaded->engine;
}

/* All nodes that the draft considered in a round, in the order in which it did; -1 is the root. */
struct pool {
    int64_t count, count_max;
    int64_t *token, *parent, *level; /* level 0: children of the root */
    double *score;                   /* tree: sum of the log-probabilities down to the node */
    int64_t *place;                  /* among those that were fed; -1: not */
    int64_t fed, fed_max;
    double *feed;      /* [fed, H] */
    double *logits;    /* [a step's nodes, draft_vocab] */
    double *law;       /* [draft_vocab] */
    int64_t *frontier; /* nodes that were selected, best first */
    int64_t *chosen;   /* of each node: its place among them; -1: not */
};

/* Rows in one step at most, and what the pool must hold. */
int64_t draft_width(const struct speculate_options *o);
int64_t draft_pool_size(const struct speculate_options *o);
enum err_code draft_open(struct speculate *s, struct err *err) ERR_USED;

/* `count` true rows from the draft's cached length on: row p pairs aux [count, A] with text[p + 1].
 * Feed and logits of the last row are kept. At most `chunk` rows a step (0: all). */
enum err_code draft_extend(struct speculate *s, int64_t count, const double *aux, int64_t chunk,
                           struct err *err) ERR_USED;
/* Feeds pool nodes, whose parents were fed before (or are the root), as provisional rows behind the
 * true ones; logits of node which[i] come to pool->logits row i. */
enum err_code draft_feed(struct speculate *s, const int64_t *which, int64_t count,
                         struct err *err) ERR_USED;
/* What the draft means by its id, as the token of a node of this level. */
int64_t draft_target_id(const struct speculate *s, int64_t level, int64_t id);
enum err_code draft_nan(const struct speculate *s, int64_t level, struct err *err) ERR_USED;
int64_t draft_add(struct pool *pool, int64_t parent, int64_t token, double score);

/* Fill s->tree from s->feed and s->logits. */
enum err_code draft_chain(struct speculate *s, struct err *err) ERR_USED;
enum err_code draft_tree(struct speculate *s, struct err *err) ERR_USED;

/* The target on all nodes of s->tree at once: s->target, s->states. */
enum err_code target_step(struct speculate *s, struct err *err) ERR_USED;
/* Of the round's nodes only s->path stays, behind the prefix: in the target's cache and in
 * s->states. */
enum err_code target_keep_path(struct speculate *s, struct err *err) ERR_USED;

#endif
