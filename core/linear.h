/* linear.h: y = x W^T, op "linear".
 *     y[t][o] = sum_k x[t][k] * W[o][k]
 * x [T, in], W [out, in] (any stored format), y [T, out]. Rounds at `point` (RP_LINEAR for most;
 * RP_NONE: not at all).
 *
 * Order of summation (linear own): 16 partial sums, sum j over k = j, j+16, j+32, ... ascending,
 * each step one fused multiply-add from +0; then lanes j and j+8 are added, then j and j+4, j+2,
 * j+1. In float32 under PRECISION_F32 (x and W rounded to float32 first), in float64 under
 * PRECISION_F64. A row's bits therefore depend on its own inputs and on `in` alone, on every
 * machine. Under linear blas the order is OpenBLAS's. Errors: a matrix whose tensors do not fit its
 * format (see weights.h), a scale or weight that is NaN is the caller's to find (weights are values
 * here). */
#ifndef ASSAY_CORE_LINEAR_H
#define ASSAY_CORE_LINEAR_H

#include "core/run.h"
#include "core/weights.h"

#ifdef __cplusplus
extern "C" {
#endif

struct linear {
    int64_t T;
    const double *x;        /* [T, in] */
    const struct matrix *w; /* [out, in] */
    double *y;              /* [T, out] */
    enum round_point point;
};

enum err_code linear_check(const struct linear *op, struct err *err) ERR_USED;
enum err_code linear_ref(const struct linear *op, struct run *run, struct err *err) ERR_USED;

#ifdef __cplusplus
}
#endif
#endif
