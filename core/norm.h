/* norm.h: RMSNorm, op "norm".
 *     y[t] = w * (x[t] * rsqrt(mean(x[t]^2) + eps))         model math 8.1
 * x [T, H], w [H], y [T, H]; y may be x. Statistics in float64. Rounds at RP_NORM_INNER (before w)
 * and RP_NORM. Errors: H < 1, eps < 0, a weight that is no float. */
#ifndef ASSAY_CORE_NORM_H
#define ASSAY_CORE_NORM_H

#include "core/run.h"
#include "core/weights.h"

#ifdef __cplusplus
extern "C" {
#endif

struct norm {
    int64_t T, H;
    double eps;
    const double *x;        /* [T, H] */
    const struct tensor *w; /* [H]; NULL: ones */
    double *y;              /* [T, H] */
};

enum err_code norm_check(const struct norm *op, struct err *err) ERR_USED;
enum err_code norm_ref(const struct norm *op, struct run *run, struct err *err) ERR_USED;

#ifdef __cplusplus
}
#endif
#endif
