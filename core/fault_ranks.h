/* fault_ranks.h: a fault of ranks (fault_shard.h) in one process that knows how the ranks of its
 * subject share the model: an op whose sum runs over ranks is computed rank by rank, each with its
 * own part of the weights and with the edit that the fault makes on that rank, and the parts are
 * added up as the ranks add them. So a diagnosis can ask which of them errs. Without a plan the
 * faults of fault_tp.c and fault_moe.c imitate ranks by their own keys. Test:
 * tests/test_fault_ranks.c
 *
 * Ops that a tensor group sums (mla.output, mlp, moe.shared) are those of the group of rank 0,
 * whose taps a dump holds: a fault in another group changes nothing here. */
#ifndef ASSAY_CORE_FAULT_RANKS_H
#define ASSAY_CORE_FAULT_RANKS_H

#include "core/fault.h"
#include "core/shard.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether this call is one of a fault of ranks, of a whole model, with a plan at hand. */
bool fault_ranks_apply(const struct fault_call *c);
/* In place of the fault's `wrap`: y of `arg`, as the ranks of c->faults->plan make it. Errors: as
 * the op's, and what shard_cut_matrix() refuses. */
enum err_code fault_ranks_wrap(struct fault_call *c, const void *arg, struct run *run,
                               struct err *err) ERR_USED;

#ifdef __cplusplus
}
#endif
#endif
