/* law.h: does a verification emit the target's own law? Shown by sampling, with a stated chance of
 * a false alarm and a stated power against each known fault of speculative sampling.
 *
 * A case is a target and a draft on few ids, each a first law and a law after every token. Rounds
 * of drafting and eagle.verify are played until two tokens are there; the counts of such pairs are
 * held against p(x) p(y | x) by chi-square. What a fault would emit is known in closed form, so the
 * power of the test is that of a non-central chi-square, and the number of samples follows from it.
 * Source of the laws: the EAGLE-3 fact sheet, 5.2 and 5.5. Test: tests/test_law.c */
#ifndef ASSAY_HARNESS_LAW_H
#define ASSAY_HARNESS_LAW_H

#include "core/eagle.h"

enum { LAW_IDS = 256, LAW_NODES = 8, LAW_BUCKETS = 8, LAW_FAULTS = 7 };

/* The chance of a false alarm of one case, the power that its samples are chosen for, and the most
 * samples that are taken for it. */
#define LAW_ALPHA 1e-6
#define LAW_POWER 0.999
#define LAW_SAMPLES_MAX ((int64_t)1 << 17)

struct law {
    char name[64];
    int64_t V; /* up to LAW_IDS */
    /* Laws of the first token, [V], and after each token: [V][V] with `context`, else one [V]. */
    const double *p, *q, *p_after, *q_after;
    bool context;
    /* A chain of nodes - 1 drafts drawn from q; or a tree of deterministic drafts, as
     * eagle_verify's. */
    bool tree;
    int64_t nodes;
    int32_t parent[LAW_NODES];
    int64_t token[LAW_NODES];
    /* What is counted: the bucket of the first and of the second token, [V] each; NULL: the ids. */
    const int32_t *bucket[2];
    int64_t buckets;
};

/* Where the token after a leaf comes from. */
enum law_bonus { BONUS_RIGHT, BONUS_OF_DRAFT, BONUS_OF_PARENT };

/* A known way to be wrong. */
struct law_fault {
    const char *name;
    const char *fault; /* of the registry; NULL: it is no edit of the op's own arguments */
    bool tree;         /* a fault of trees, else of chains */
    enum law_bonus bonus;
    /* Of one node: the probability that each id is accepted as a draft, and the law of what is
     * drawn where none is; both [V]. `child`: ids of the node's children (trees). */
    void (*split)(const struct law *l, const double *p, const double *q, const int64_t *child,
                  int children, double *accepted, double *drawn);
};

/* The faults of chains or of trees: *count of them, LAW_FAULTS at most. */
const struct law_fault *law_faults(bool tree, int *count);
/* P(x, y) of the first two tokens, [V][V]: under a fault, or (NULL) of a verification that is
 * right, which is the target's own. */
enum err_code law_pairs(const struct law *l, const struct law_fault *fault, double *pairs,
                        struct err *err) ERR_USED;

/* One round as it is given to a verification. */
struct law_round {
    struct eagle_verify op;
    const double *noise; /* [nodes]: what drew each draft */
    const double *next;  /* [nodes, V]: the draft's law after each node */
};
typedef enum err_code law_verify(void *ctx, const struct law_round *r, struct run *run,
                                 struct err *err);
/* The reference; ctx: NULL, or the struct faults that edit it. */
enum err_code law_verify_ref(void *ctx, const struct law_round *r, struct run *run,
                             struct err *err) ERR_USED;

struct law_test {
    const struct law *law;
    int64_t samples;
    int cells;                       /* after pooling those that expect fewer than 25 */
    double bound, power[LAW_FAULTS]; /* power 0: the fault does not show in this case */
    double statistic;                /* infinite: something came that the target never says */
    bool holds;
    int like; /* where it does not hold: the one fault whose law the samples fit, or -1 */
};

/* Chooses the samples. A fault that hardly shows in this case (the draft being nearly the target)
 * keeps a power below LAW_POWER. */
enum err_code law_plan(struct law_test *t, const struct law *l, struct err *err) ERR_USED;
/* Plays them. */
enum err_code law_play(struct law_test *t, law_verify *verify, void *ctx, uint64_t seed,
                       struct err *err) ERR_USED;

/* The small vocabularies: case i, or NULL past the end. */
const struct law *law_toy(int i);
/* The case of a model's own laws at one place: p and q of a first and a second token, [V] each, V
 * as it may be. Ids beyond the LAW_IDS - 1 likeliest are one id; the pairs are counted in buckets
 * of like p / q, which are the ids of a tree. The arrays come from `arena`. */
enum err_code law_of_model(struct law *l, bool tree, int64_t V, const double *const p[2],
                           const double *const q[2], struct arena *arena, struct err *err) ERR_USED;

#endif
