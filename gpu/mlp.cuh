/* mlp.cuh: SwiGLU feed-forward, ops mlp and moe.shared on the device. Contract: core/mlp.h. gate
 * and up round to bf16 (RP_LINEAR), silu(gate) * up once (RP_ACT), the output once, or as float32
 * not at all: part of a sum over ranks. */
#ifndef ASSAY_GPU_MLP_CUH
#define ASSAY_GPU_MLP_CUH

#include "gpu/weights.cuh"

/* y [T, H] of DT_BF16 or DT_F32. */
enum err_code gpu_mlp(struct gpu *g, int64_t T, const bf16 *x, const struct gpu_matrix *gate,
                      const struct gpu_matrix *up, const struct gpu_matrix *down, void *y,
                      enum dtype ytype, struct err *err) ERR_USED;
/* Its first half: y [T, I] = bf16(silu(x gate^T) * (x up^T)), and `beside`, another product of the
 * same x, or NULL; in one launch where there are few rows. */
struct gpu_product;
enum err_code gpu_gated(struct gpu *g, int64_t T, const bf16 *x, const struct gpu_matrix *gate,
                        const struct gpu_matrix *up, const struct gpu_product *beside, bf16 *y,
                        struct err *err) ERR_USED;
/* y [T, I] = bf16(silu(gate) * up); gate and up [T, ld] bf16. */
enum err_code gpu_swiglu(struct gpu *g, int64_t T, int64_t I, const bf16 *gate, const bf16 *up,
                         int64_t ld, bf16 *y, struct err *err) ERR_USED;

#ifdef __CUDACC__
/* silu(gate) * up, unrounded. expf and the division are the accurate ones: silu enters one rounding
 * alone. */
__device__ static inline float swiglu_of(float gate, float up)
{
    return gate / (1.0f + expf(-gate)) * up;
}
#endif

#endif
