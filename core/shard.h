/* shard.h: which part of a model each rank of a run holds, and what the ranks do together. A plan
 * is data: it can be printed and checked before anything is loaded.
 *
 * Ranks form a grid: rank = e * tp + t, t in [0, tp), e in [0, ep); world = tp * ep. Attention,
 * dense and shared MLPs, vocabulary: cut over t, the same on every e. Routed experts: whole experts
 * over e, each cut over t. What is not cut is replicated on purpose (norms, q_a, kv_a and so the
 * latent, router).
 *
 *   q_b, kv_b, gate, up, head, embed   rows (heads, inner width, vocabulary):  out of rank t only
 *   o, down                            columns: partial sums, added over t
 *   routed experts                     partial sums, added over all ranks
 *
 * Every rank's part has the same size. Only routed experts may be cut unevenly: where equal parts
 * would cut through the words, groups or blocks that they are stored in, they are cut in whole ones
 * of these, and some ranks have one less than others, or none.
 *
 * The sums are collective_all_reduce_sum() in plan->reduce, in rank order. Sources: kernels.md 7,
 * model-math.md mistakes 42, 43.
 *
 * A rank's part is a struct model like any other: its config has the rank's heads and widths (not
 * its vocabulary and its experts: those are counted whole), its matrices are views into the whole
 * ones (matrix_part.h); `model.shard` says what to do between the ops. Test: tests/test_shard.c */
#ifndef ASSAY_CORE_SHARD_H
#define ASSAY_CORE_SHARD_H

#include "core/collective.h"
#include "core/config.h"
#include "core/matrix_part.h"
#include "core/model.h"

#include <jansson.h>

#ifdef __cplusplus
extern "C" {
#endif

enum expert_map { EXPERT_MAP_CONTIGUOUS, EXPERT_MAP_ROUND_ROBIN, EXPERT_MAPS };

/* "contiguous", "round-robin"; NULL past the end. */
const char *expert_map_name(int map);

struct shard_plan {
    int tp, ep; /* at least 1 */
    enum expert_map map;
    int64_t redundant; /* experts 0 .. redundant - 1 have a second copy, on the next e */
    enum dtype reduce; /* DT_F64 (none), DT_F32 or DT_BF16: what every sum rounds to, each step */
};

struct shard_fault;

/* One rank's part, and its groups. */
struct shard {
    struct shard_plan plan;
    int rank, world, t, e;
    struct extent heads;        /* attention heads */
    struct extent intermediate; /* inner width of a dense MLP */
    struct extent moe;          /* ... of a routed expert; 0 of it where this rank has no part */
    struct extent shared;       /* ... of the shared experts (moe_intermediate * number) */
    struct extent vocab;
    int64_t experts;           /* of the whole model */
    struct collective *all;    /* of every rank; NULL where nothing runs (a plan that is printed) */
    struct collective *tensor; /* of the ranks with this e, in the order of t */
    struct shard_fault *fault; /* NULL, or an edit of what the ranks do together (fault_shard.h) */
    const struct model *whole; /* what it is a part of; NULL where nothing runs */
    bool replicas_agree; /* ranks of one t add the same bits on every e, and that is checked */
};

/* tp 1, ep 1, contiguous, no copies, DT_F64. */
struct shard_plan shard_plan_alone(void);
int shard_world(const struct shard_plan *p);

/* Whether this model can be cut so: every width divides, experts divide over ep, the packed words,
 * groups and blocks of the stored formats are not cut through. ERR_INPUT names what, its size, the
 * number of ranks, and those that would do: "shard plan|heads of ...|4 over tp 3|1, 2 or 4". */
enum err_code shard_plan_check(const struct shard_plan *p, const struct config *c,
                               struct err *err) ERR_USED;

/* Rank `rank` of a plan that was checked. No groups yet. */
void shard_of(const struct shard_plan *p, const struct config *c, int rank, struct shard *out);

/* The groups of s->rank over `all`, the collective of all ranks in their order (its rank and world
 * are the shard's). *tensor becomes the group of its e, on channel 1. Both must outlive *s. Local:
 * no rank waits. */
enum err_code shard_join(struct shard *s, struct collective *all, struct collective *tensor,
                         struct err *err) ERR_USED;

/* Copies of an expert (1 or 2), and the e of copy i. */
int shard_copies(const struct shard *s, int64_t expert);
int shard_holder(const struct shard *s, int64_t expert, int copy);
bool shard_holds(const struct shard *s, int64_t expert);
/* The e that computes this expert for row `row` of a batch: with two copies they take turns by row.
 */
int shard_computer(const struct shard *s, int64_t expert, int64_t row);

/* A rank's part of a model that is bound. `whole` must outlive it, and *m must stay where it is. */
struct shard_model {
    struct config config;
    struct model model; /* model.shard points to `shard`, model.config to `config` */
    struct shard shard;
};

/* `shard` is copied; its collectives are kept by reference. Errors as shard_plan_check(), and what
 * matrix_part() refuses: formats that only the tensors tell (zero points, group indices). */
enum err_code shard_model_open(struct shard_model *out, const struct model *whole,
                               const struct shard *shard, struct err *err) ERR_USED;
void shard_model_close(struct shard_model *m);

/* This rank's part of layer `layer` anew, cut from the whole model as the plan says, whatever this
 * rank holds. */
enum err_code shard_layer_again(const struct shard *s, int64_t layer, struct layer *out,
                                struct err *err) ERR_USED;

/* This rank's part of an expert of layer `layer`. `whole`: the config of the whole model. */
enum err_code shard_expert(const struct shard *s, const struct config *whole, int64_t layer,
                           const struct expert *from, struct expert *out, struct err *err) ERR_USED;

/* Every weight element is held by exactly the ranks that should hold it: counted, not reasoned.
 * The printed plan of a checkpoint, for `doctor --plan` (JSON; the caller's):
 * {tp, ep, world, map, redundant, reduce, ranks: [{rank, t, e, heads: [first, end], intermediate,
 * moe, shared, vocab, experts: [ids], bytes, replicated_bytes}], matrices: [{name, cut:
 * rows|columns|experts|replicated, format, shape, part, ranks}], bytes, problems: [texts]}; part is
 * that of the first rank that holds one, ranks how many do. An element that no rank holds, or more
 * than planned, is a problem and ERR_DIFF. */
enum err_code shard_plan_report(const struct shard_plan *p, const struct model *whole, json_t **out,
                                struct err *err) ERR_USED;

/* ---- between the ops ---- */

/* A sum or a gathering: which op's, and where. The collective is named "layers.3.mla.output", or
 * "logits" where layer is -1. */
struct shard_site {
    const char *op;
    int64_t layer; /* -1: none */
    int64_t T;     /* rows */
    int64_t width; /* values a row: of a sum, all; of a gathering, this rank's */
    /* Of a sum: this rank's part x [T, width] anew, from the whole model: asked where replicas
     * disagree. NULL: cannot. */
    enum err_code (*again)(void *ctx, double *x, struct err *err);
    void *again_ctx;
};

/* Sums partial rows x [T, width] over the ranks that hold parts of them: over t, or for the routed
 * experts (op "moe") over every rank. Rounds as plan.reduce says; op "embed", of which one rank has
 * the row and the others zeros, not at all. Nothing is done where one rank holds all parts.
 *
 * With s->replicas_agree the groups of all e, which make the same sum of the same parts, compare
 * them: ERR_DIFF names the ranks that spoil it, err->rank is the first of them. */
enum err_code shard_reduce(const struct shard *s, const struct shard_site *at, double *x,
                           struct err *err) ERR_USED;
/* y [T, tp * width] = the columns that each t holds, in order. part [T, width]. */
enum err_code shard_gather_columns(const struct shard *s, const struct shard_site *at,
                                   const double *part, double *y, struct err *err) ERR_USED;

/* What this rank's op moe gets: of ids [rows, top_k] those are overwritten by -1 that another e
 * computes for that row. Every id is computed by exactly one e. */
void shard_route(const struct shard *s, int64_t layer, const struct rows *rows, int64_t top_k,
                 int32_t *ids);

#ifdef __cplusplus
}
#endif
#endif
