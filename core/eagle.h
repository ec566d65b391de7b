/* eagle.h: the draft head of EAGLE-3, ops eagle.fc, eagle.layer, eagle.verify, and one draft step
 * composed of them. Source of the formulas: the EAGLE-3 fact sheet, sections 2 and 5; they agree
 * with SafeAILab's cnets.py, vLLM's llama_eagle3.py and deepseek_eagle3.py, speculators' core.py.
 *
 * eagle.fc      g [T, A*Ht]: the aux states low | mid | high
 *               y = W_fc g                                              y [T, H]
 *               norm_before_fc: g is normed over all A*Ht columns; fc_norm: each Ht slice alone
 *
 * eagle.layer   a = norm(e), b = norm(h), c = [a | b]; a further layer: c = norm(h), no e
 *               h1 = r + W_o attention(W_q c, W_k c, W_v c); r = h, or b (norm_before_residual)
 *               y = h1 + mlp(norm(h1))                                  e, h, y [T, H]
 *               Llama: rope half-split on whole heads, scores / sqrt(hd), grouped keys;
 *               MLA: mla.h on the 2H wide input, expanded. Its latent norms take eps 1e-6 or
 *               rms_norm_eps by profile, as the target's do; all others rms_norm_eps of the head
 *
 * eagle.verify  which drafts of a chain or tree the target confirms, and the token after them
 *
 * Rows see the slots of cache.h, and a row's bits depend on what it sees alone: a row of a tree or
 * of a self-fed chain has those of a plain decode of its path. The draft rounds as the run's
 * profile says, at the target's points of the same name; run->act is the head's type (draft_step
 * sees to it). Test: tests/test_eagle.c, tests/test_golden_eagle.c */
#ifndef ASSAY_CORE_EAGLE_H
#define ASSAY_CORE_EAGLE_H

#include "core/head.h"

#ifdef __cplusplus
extern "C" {
#endif

struct eagle_fc {
    int64_t T;
    const struct head *head;
    const double *aux; /* [T, aux_count * target_hidden] */
    double *y;         /* [T, H] */
};

struct eagle_layer {
    const struct head *head;
    int64_t layer;
    const struct rows *rows;
    const double *embed;  /* [T, H]; layer 0 only, else NULL */
    const double *hidden; /* [T, H] */
    const double *sum;    /* NULL, or [T, H]: `hidden` before its last rounding, for the norms of
                             engines that read it (profile.h: norm_sees_unrounded) */
    struct cache *cache;  /* gets the rows' entries: Llama roped k | v, MLA latent | roped key; the
                             rows lie inside its lengths */
    double *y;            /* [T, H]; may be `hidden` */
    double *y_sum;        /* NULL, or out [T, H]: y before its last rounding; may be `sum` */
};

/* One round's drafts as a tree: node 0 is the root (known, always kept), parents precede children,
 * siblings differ in their tokens. A chain is a tree without branches. */
struct eagle_verify {
    int64_t nodes, V;
    const int32_t *parent; /* [nodes]; parent[0] = -1 */
    const int64_t *token;  /* [nodes], target ids */
    const double *target;  /* [nodes, V]: logits (greedy) or probabilities p after a node */
    /* NULL: the drafts are a deterministic choice; or [nodes, V]: row i is the q that node i's
     * token was drawn from (row 0 unused). Chains only. */
    const double *draft;
    bool greedy;
    const double *coin; /* [nodes], uniform in [0, 1), independent of what drew the drafts: coin[i]
                           decides about node i. NULL when greedy. */
    const double *draw; /* [nodes]: draw[i] picks the token that follows when the path ends at i */
    int32_t *path;      /* out [nodes]: the accepted nodes, root first */
    int64_t *accepted;  /* out: nodes of the path without the root */
    int64_t *next;      /* out: the correction or bonus token */
};

enum err_code eagle_fc_check(const struct eagle_fc *op, struct err *err) ERR_USED;
enum err_code eagle_layer_check(const struct eagle_layer *op, struct err *err) ERR_USED;
enum err_code eagle_verify_check(const struct eagle_verify *op, struct err *err) ERR_USED;
enum err_code eagle_fc_ref(const struct eagle_fc *op, struct run *run, struct err *err) ERR_USED;
enum err_code eagle_layer_ref(const struct eagle_layer *op, struct run *run,
                              struct err *err) ERR_USED;
/* Greedy: from the root, descend to the child whose token is the argmax of the node's target row;
 * next = argmax where it ends. Sampling, chain with q: accept node i if coin[i] * q(d) < p(d)
 * (which is u <= p/q with probability 1 and refuses p = 0); at the first refusal draw from max(p -
 * q, 0) / sum. Sampling, deterministic drafts: children in order, each accepted if coin < p(c),
 * else p(c) = 0 and p is renormalised. A leaf: draw from its own p. Draws are by inverse cumulative
 * sum in ascending id. Lossless: the law of what is emitted is p's. */
enum err_code eagle_verify_ref(const struct eagle_verify *op, struct run *run,
                               struct err *err) ERR_USED;

/* One draft step: fc (or a fed-back state), all layers, head. The rows extend their sequences'
 * cached lengths. */
struct draft_step {
    const struct head *head;
    struct cache *cache; /* layers = config.base.layers, width = head_cache_width() */
    /* token: the one that the row is paired with; position: of the state */
    const struct rows *rows;
    const double *aux;    /* [T, aux_count * target_hidden], or NULL: */
    const double *hidden; /* [T, H], what an earlier step gave in `feed` */
    int64_t number;       /* of the step: how often the draft has fed itself before it */
    /* What faults read besides; each may be NULL. The token of the row's own position [T]; aux
     * states of one entry id earlier and later, as `aux`. */
    const int64_t *own_token;
    const double *aux_near[2];
    /* NULL, or told of the fc output and of the last layer's, [T, H] each: it may overwrite what
     * the step goes on with. For runs held at what a subject recorded. */
    void (*replace)(void *ctx, enum tap_kind kind, const struct draft_step *s, double *x);
    void *replace_ctx;
    double *fused;  /* NULL, or out [T, H]: fc output (only with aux) */
    double *out;    /* NULL, or out [T, H]: the last layer's output, before the norm */
    double *feed;   /* NULL, or out [T, H]: what the next step takes as `hidden` */
    double *logits; /* NULL, or out [T, draft_vocab] */
};
enum err_code draft_step_ref(const struct draft_step *s, struct run *run, struct err *err) ERR_USED;

#ifdef __cplusplus
}
#endif
#endif
