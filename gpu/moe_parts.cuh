/* moe_parts.cuh: the steps of op moe, between gpu/moe*.cu: permutation, grouped products, combine.
 * Private to them; what others use is moe.cuh. */
#ifndef ASSAY_GPU_MOE_PARTS_CUH
#define ASSAY_GPU_MOE_PARTS_CUH

#include "gpu/launch.cuh"
#include "gpu/moe.cuh"
#include "gpu/moe_choose.h"
#include "gpu/moe_pack.h"
#include "gpu/moe_tiles.h"

/* The permutation of a step, all of it on the device; no host ever reads it. */
struct moe_plan {
    int64_t pairs, E;
    int32_t cap;           /* rows of a tile at most */
    int64_t tiles_max;     /* room in tile[] */
    int32_t *token_of;     /* [pairs]: token of a row */
    int32_t *row_of;       /* [pairs]: row of a pair, -1: no expert */
    struct moe_tile *tile; /* [tiles_max], by expert */
    int32_t *tiles;        /* how many there are */
    int32_t *offset;       /* [E + 1]: first row of an expert */
    uint32_t *ready;      /* [1 + tiles_max], zeros: tasks taken, then of each tile of moe_stream.cu
                             how many warps have made their rows of act */
    int32_t *chunk_count; /* [chunks][E], or NULL where one block does it all */
    int64_t chunks, chunk;
};

/* Scratch for a plan, then the plan from ids [T, top_k]. */
enum err_code moe_plan_new(struct gpu *g, int64_t T, int64_t top_k, int64_t E, int32_t cap,
                           struct moe_plan *out, struct err *err) ERR_USED;
enum err_code moe_align(struct gpu *g, const struct moe_plan *p, int64_t top_k, const int32_t *ids,
                        struct err *err) ERR_USED;

/* One grouped product over the tiles of a plan with packed weights: row i of an expert's tile is
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
    bf16 *y;
    int64_t ldy, cols;
    bool every_lane; /* each lane says that it has read a stage, not one for its warp:
                        ASSAY_GPU_EVERY_LANE */
};

/* w13 with SwiGLU, whose y is x of w2: in one launch, or one after the other. */
enum stream_phase { STREAM_BOTH, STREAM_GATED, STREAM_DOWN };
struct moe_stream_job {
    struct moe_product p[2];
    int32_t run[2];  /* strips of a task */
    uint32_t *ready; /* of the plan */
    enum stream_phase phase;
    bool every_lane;
};

enum err_code moe_product_mma(struct gpu *g, const struct moe_product *p, bool gated, int32_t cap,
                              struct err *err) ERR_USED;
enum err_code moe_products_stream(struct gpu *g, const struct moe_stream_job *job,
                                  const struct moe_variant *how, struct err *err) ERR_USED;
/* x, and y where gated, in the order of moe_swizzle_at(). */
enum err_code moe_product_large(struct gpu *g, const struct moe_product *p, bool gated,
                                struct err *err) ERR_USED;
/* out: the rows of the permuted order in that order; x [T, ld], ld a multiple of 64. */
enum err_code moe_swizzle(struct gpu *g, const struct moe_plan *p, const bf16 *x, int64_t ld,
                          bf16 *out, struct err *err) ERR_USED;
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
__device__ static inline float round_bf16(float x)
{
    return __bfloat162float(__float2bfloat16_rn(x));
}

/* gate and up round first, silu(gate) * up once: profile gpu. __expf is within 2^-21 of exp where
 * it neither over- nor underflows (|x| < 87), far below the rounding to bf16. */
__device__ static inline float swiglu_value(float gate, float up)
{
    float rounded = round_bf16(gate);
    return rounded / (1.0f + __expf(-rounded)) * round_bf16(up);
}
#endif

#endif
