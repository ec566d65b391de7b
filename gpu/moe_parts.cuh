/* moe_parts.cuh: the steps of op moe, between gpu/moe*.cu: permutation, grouped products, combine.
 * Private to them; what others use is moe.cuh. */
#ifndef ASSAY_GPU_MOE_PARTS_CUH
#define ASSAY_GPU_MOE_PARTS_CUH

#include "gpu/launch.cuh"
#include "gpu/moe.cuh"
#include "gpu/moe_choose.h"
#include "gpu/moe_pack.h"
#include "gpu/moe_plan.cuh"

/* Scratch for a plan, then the plan from ids [T, top_k]. */
enum err_code moe_plan_new(struct gpu *g, int64_t T, int64_t top_k, int64_t E, int32_t cap,
                           struct moe_plan *out, struct err *err) ERR_USED;
enum err_code moe_align(struct gpu *g, const struct moe_plan *p, int64_t top_k, const int32_t *ids,
                        struct err *err) ERR_USED;

/* The tiles by size, the largest first: of tasks that are taken in turns the last ones are then
 * short. Scratch; NULL: an error. */
const struct moe_tile *moe_by_size(struct gpu *g, const struct moe_plan *p, struct err *err);

/* One grouped product over tiles of a plan with packed weights: row i of an expert's tile is
 * x[gather[i]], or x[i]. The columns of x [.., ldx] are padded with zeros to whole tiles. `gated`:
 * the matrix is w13 and y [rows, ldy] = silu(gate) * up, zero from column `cols` to ldy. Else y
 * [rows, cols]. */
struct moe_product {
    const char *weights; /* [E] x step bytes */
    int64_t step, tiles_k, strips;
    const bf16 *x;
    int64_t ldx;
    const int32_t *gather; /* device, or NULL */
    const struct moe_tile *tile;
    const int32_t *tiles;
    uint32_t *taken; /* how many tasks were, where a counter gives them: 0 */
    bf16 *y;
    int64_t rows, ldy, cols; /* rows: of y */
    bool every_lane;         /* each lane says that it has read a stage, not one for its warp:
                                ASSAY_GPU_EVERY_LANE */
};

/* w13 with SwiGLU, whose y is x of w2: in one launch, or one after the other. */
enum stream_phase { STREAM_BOTH, STREAM_GATED, STREAM_DOWN };
struct moe_stream_job {
    struct moe_product p[2];
    int32_t run[2];  /* strips of a task */
    uint32_t *ready; /* of the plan */
    enum stream_phase phase;
    /* The plan was there before the launch before began, and that is all that w13 reads. That
     * launch lets this one begin only when it has waited itself, as the project's kernels do;
     * cuBLASLt's are launched without programmatic dependence, so that they begin when the plan is
     * done. */
    bool planned;
    bool every_lane;
};

enum err_code moe_product_mma(struct gpu *g, const struct moe_product *p, bool gated, int32_t cap,
                              struct err *err) ERR_USED;
enum err_code moe_products_stream(struct gpu *g, const struct moe_stream_job *job,
                                  const struct moe_variant *how, struct err *err) ERR_USED;
/* x where there is no `gather`, and y where gated, in the order of moe_swizzle_at(). Else y has
 * room for MOE_CAP_LARGE rows before it, which is not touched. */
enum err_code moe_product_large(struct gpu *g, const struct moe_product *p, bool gated,
                                struct err *err) ERR_USED;
/* out: the rows of the permuted order in that order; x [T, ld], ld a multiple of 64. */
enum err_code moe_swizzle(struct gpu *g, const struct moe_plan *p, const bf16 *x, int64_t ld,
                          bf16 *out, struct err *err) ERR_USED;
/* All of op moe of packed experts, in one launch and without a plan. */
enum err_code moe_fused_run(struct gpu *g, const struct gpu_moe *op, struct err *err) ERR_USED;
/* Whether this build and this card have them. */
bool moe_has_stream(const struct gpu *g);
bool moe_has_large(const struct gpu *g);

/* Both products as stored, in any format: act [pairs, I], out [pairs, H]. */
enum err_code moe_any(struct gpu *g, const struct gpu_moe *op, const struct moe_plan *p, bf16 *act,
                      bf16 *out, struct err *err) ERR_USED;

/* y = bf16(sum_scale * sum of weight * row), in ascending id, and with the shared experts. */
enum err_code moe_combine(struct gpu *g, const struct gpu_moe *op, const struct moe_plan *p,
                          const bf16 *rows, struct err *err) ERR_USED;

#ifdef __CUDACC__
/* gate and up round first, silu(gate) * up once: profile gpu. __expf is within 2^-21 of exp where
 * it neither over- nor underflows (|x| < 87), the division within 2^-22 (the exact one is 45
 * instructions with a branch a value): far below the rounding to bf16. */
__device__ static inline float swiglu_rounded(float gate, float up)
{
    return __fdividef(gate, 1.0f + __expf(-gate)) * up;
}

__device__ static inline float swiglu_value(float gate, float up)
{
    return swiglu_rounded(round_bf16(gate), round_bf16(up));
}
#endif

#endif
