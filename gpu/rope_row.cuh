/* rope_row.cuh: rotary embedding of one token's heads by one block: what gpu/rope.cu and
 * gpu/mla_latents.cu share, so that both give the same bits. */
#ifndef ASSAY_GPU_ROPE_ROW_CUH
#define ASSAY_GPU_ROPE_ROW_CUH

#include "gpu/launch.cuh"
#include "gpu/rope.cuh"

#include "core/rope.h"

enum { ROPE_PAIRS_MAX = sizeof(((struct rope_table *)0)->frequency) / sizeof(float) };

/* Of a block, in shared memory: made once for all its heads. */
struct rope_angles {
    float cosine[ROPE_PAIRS_MAX], sine[ROPE_PAIRS_MAX];
};

/* The angle is a product rounded to float32 in every engine, and may be large: cosf and sinf reduce
 * it exactly. */
__device__ static inline void rope_make(struct rope_angles *a, int64_t at, const float *frequency,
                                        float factor, int half)
{
    float position = __ll2float_rn(at);
    for (int i = (int)threadIdx.x; i < half; i += (int)blockDim.x) {
        float angle = __fmul_rn(position, frequency[i]);
        a->cosine[i] = cosf(angle) * factor;
        a->sine[i] = sinf(angle) * factor;
    }
}

/* Pair i of a head: of x, to y. */
__device__ static inline void rope_turn(const struct rope_angles &a, int i, int half,
                                        bool interleaved, const bf16 *x, bf16 *y)
{
    int low = interleaved ? 2 * i : i, high = interleaved ? 2 * i + 1 : i + half;
    float a0 = __bfloat162float(x[low]), b0 = __bfloat162float(x[high]);
    y[low] = __float2bfloat16_rn(a0 * a.cosine[i] - b0 * a.sine[i]);
    y[high] = __float2bfloat16_rn(b0 * a.cosine[i] + a0 * a.sine[i]);
}

#endif
