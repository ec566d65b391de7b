/* swiglu.h: the gated feed-forward on packed rows, shared by op mlp and op moe; private to ref/. */
#ifndef ASSAY_REF_SWIGLU_H
#define ASSAY_REF_SWIGLU_H

#include "core/run.h"
#include "core/weights.h"

/* y [T, H] = W_down(act), act = silu(W_gate x) * (W_up x); x packed (ref/matrix.h). Rounds as mlp.h
 * says, y at `point`. */
enum err_code swiglu(struct run *run, const struct matrix *gate, const struct matrix *up,
                     const struct matrix *down, int64_t T, const void *x, double *y,
                     enum round_point point, struct err *err) ERR_USED;

#endif
