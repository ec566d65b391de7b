/* mlp.h: SwiGLU feed-forward, op "mlp" (dense layers) and op "moe.shared".
 *     y = W_down( silu(W_gate x) * (W_up x) ),  silu(a) = a / (1 + exp(-a))        model math 7.1
 * x [T, H], gate and up [I, H], down [H, I], y [T, H]. Rounds at RP_LINEAR (three linears),
 * RP_SILU, RP_ACT; `partial`: not after W_down. Errors: shapes that do not chain. */
#ifndef ASSAY_CORE_MLP_H
#define ASSAY_CORE_MLP_H

#include "core/run.h"
#include "core/weights.h"

#ifdef __cplusplus
extern "C" {
#endif

struct mlp {
    int64_t T;
    const double *x;                /* [T, H] */
    const struct matrix *gate, *up; /* [I, H] */
    const struct matrix *down;      /* [H, I] */
    double *y;                      /* [T, H] */
    bool partial; /* y is one rank's part of the sum over I: not rounded, the caller does */
};

enum err_code mlp_check(const struct mlp *op, struct err *err) ERR_USED;
enum err_code mlp_ref(const struct mlp *op, struct run *run, struct err *err) ERR_USED;

#ifdef __cplusplus
}
#endif
#endif
