/* norm.cuh: RMSNorm, op norm on the device. Contract: core/norm.h. Statistics in float32, one
 * rounding at the output (profile gpu: no RP_NORM_INNER). */
#ifndef ASSAY_GPU_NORM_CUH
#define ASSAY_GPU_NORM_CUH

#include "gpu/weights.cuh"

/* y [T, H] = norm(x [T, ldx] columns [0, H)) * w; w.data NULL: ones. y may be x (ldx == H). ldy of
 * y likewise. */
enum err_code gpu_norm(struct gpu *g, int64_t T, int64_t H, double eps, const bf16 *x, int64_t ldx,
                       const struct gpu_tensor *w, bf16 *y, int64_t ldy, struct err *err) ERR_USED;
/* x = bf16(x + block), y = norm(x): the residual addition and the next norm in one pass, with the
 * bits of the two apart. */
enum err_code gpu_norm_add(struct gpu *g, int64_t T, int64_t H, double eps, bf16 *x,
                           const bf16 *block, const struct gpu_tensor *w, bf16 *y,
                           struct err *err) ERR_USED;
/* x = bf16(x + block) alone. */
enum err_code gpu_add(struct gpu *g, int64_t n, bf16 *x, const bf16 *block,
                      struct err *err) ERR_USED;

#endif
