/* speculate.h: generation in rounds of draft, verify, accept: a chain of K drafts, EAGLE-2's
 * dynamic tree, or (without a head) one token a round. Greedy, or sampling at a temperature; what
 * comes out is the target's own in either (lossless.h, law.h check it).
 *
 * Between rounds, with n tokens fixed (prompt and all that was generated):
 *   text    n tokens; the last has no cached row yet: it is the root of the next round
 *   target  n - 1 cached rows, those of a plain run over the text
 *   draft   n - 1 cached rows, those of a prefill of the text: row p pairs the target's states of
 *           position p with token p + 1
 * A round's nodes are cached behind that, node i at slot n - 1 + i with the position of its depth;
 * of them the accepted path closes up. The draft's own rows are provisional: they are overwritten
 * from the true states. Source: the EAGLE-3 fact sheet, 2.3, 2.4, 5. Test: tests/test_speculate.c
 */
#ifndef ASSAY_HARNESS_SPECULATE_H
#define ASSAY_HARNESS_SPECULATE_H

#include "core/eagle.h"
#include "harness/states.h"

struct speculate_options {
    int64_t drafts; /* of a round: a chain's length; the most that a tree keeps */
    bool tree;
    int64_t depth;      /* tree: how often the draft is fed its own nodes; levels = depth + 1 */
    int64_t top_k;      /* tree: children of a node, and nodes that are fed at once */
    double temperature; /* 0: greedy. A tree's drafts are a deterministic choice at any. */
    uint64_t seed;      /* of the random numbers of chance.h */
};

/* A round's nodes as eagle.verify takes them. */
struct draft_tree {
    int64_t nodes; /* with the root */
    int32_t *parent;
    int64_t *token, *depth;
    double *q; /* a chain that samples: [nodes, V], row i the law that token i was drawn from */
};

/* A token that was generated. */
struct generated {
    double margin; /* greedy: of the logits that gave it */
    bool near_tie;
};

struct pool;

struct speculate {
    struct session *session;
    const struct head *head; /* NULL: no drafts */
    struct speculate_options options;
    struct arena arena;
    int64_t vocab, capacity, nodes_max;
    int64_t *text, length, prompt;
    struct generated *generated; /* of each token past the prompt, by its place in text */
    struct states states;        /* of the round's nodes */
    double *target;              /* [nodes, V]: logits after each node; sampling: p */
    double *coin, *draw;
    struct run run; /* of the draft */
    struct cache draft;
    double *feed, *logits; /* after the last true row: [H], [draft_vocab] */
    struct pool *pool;     /* nodes that the draft considered */
    struct draft_tree tree;
    int32_t *path; /* of the last round: accepted nodes, root first */
    int64_t accepted;
};

/* The session has one sequence, an empty cache, and room for what is to come: of each round all
 * nodes. Refused: numbers that make no tree or chain, top_k above the draft vocabulary. */
enum err_code speculate_open(struct speculate *s, struct session *session, const struct head *head,
                             const struct speculate_options *o, struct err *err) ERR_USED;
/* Runs the prompt through target and draft, and fixes the first token after it. */
enum err_code speculate_begin(struct speculate *s, const struct tokens *prompt,
                              struct err *err) ERR_USED;
/* One round: s->accepted drafts and one more token are new at the end of text. Refused: a cache
 * that has no room for the round's nodes. */
enum err_code speculate_round(struct speculate *s, struct err *err) ERR_USED;
void speculate_close(struct speculate *s);

/* Two logits of a row that lie so close that float32 sums (or the profile's rounding) may order
 * them either way: model math 10. */
bool speculate_near_tie(const struct session *session, const double *row, double gap);

#endif
