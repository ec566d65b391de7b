/* fault_shard.h: what ranks do wrong together, on real ranks: the registered faults tp.* and ep.*,
 * whose ids and keys are those of fault_tp.c and fault_moe.c. There a single process imitates the
 * ranks inside an op; here each rank of a run edits what it holds, sends or adds up. Every rank is
 * given the same fault; key `rank` says which one errs, by its rank in the run. Test:
 * tests/test_fault_shard.c
 *
 *   tp.partial_sum_lost   shard_reduce: the rank adds zeros
 *   tp.double_reduce      shard_reduce: sums are summed again
 *   tp.reduce_bf16        shard_reduce: DT_BF16 in place of plan.reduce
 *   tp.shard_swapped      the rank and the next one of its e hold each other's columns of W_o, and
 *                         rows of gate and up
 *   ep.expert_map_shift   model_expert: the rank takes the next expert's weights
 *   ep.token_lost         shard_route: the rank leaves a row out
 *   ep.combine_order      shard_route: weights in the order of ids meet experts in that of ranks */
#ifndef ASSAY_CORE_FAULT_SHARD_H
#define ASSAY_CORE_FAULT_SHARD_H

#include "core/fault.h"
#include "core/shard.h"

#ifdef __cplusplus
extern "C" {
#endif

struct shard_fault {
    struct fault_use use;
    int64_t edits; /* of this rank, so far: 0 after a run means that the fault never came up here */
};

/* Whether `text` names a fault that is one of ranks; the others are edits of ops, files, processes.
 */
bool fault_is_of_ranks(const char *text);

/* Parses "tp.partial_sum_lost@rank=1,layer=2" for ranks of this plan. ERR_USAGE: as
 * fault_use_parse(), another family, a rank that there is not, a plan under which the fault can
 * change nothing. */
enum err_code shard_fault_parse(struct shard_fault *f, const char *text, const struct shard_plan *p,
                                struct err *err) ERR_USED;

/* The ranks that err under it, ascending: none where the fault has no key `rank`; two where a rank
 * and another hold each other's part, which no sum tells apart; else the one that the key says. */
int shard_fault_ranks(const struct fault_use *u, const struct shard_plan *p, int rank[2]);

/* ---- for core/shard.c and model.c; s->fault is set ---- */

/* Before the sum at `at`: edits this rank's x and the dtype. Returns how often to sum. */
int fault_shard_sum(const struct shard *s, const struct shard_site *at, double *x,
                    enum dtype *dtype);
/* The t whose part this rank holds of what op `op` multiplies by. */
int fault_shard_part(const struct shard *s, const char *op, int64_t layer);
/* The expert whose weights this rank takes for expert e. */
int64_t fault_shard_expert(const struct shard *s, int64_t layer, int64_t e);
/* Edits ids [rows, top_k] of all experts before each rank takes its own. */
void fault_shard_route(const struct shard *s, int64_t layer, const struct rows *rows, int64_t top_k,
                       int32_t *ids);

#ifdef __cplusplus
}
#endif
#endif
