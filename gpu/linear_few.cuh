/* linear_few.cuh: what the kernels for few rows share, whose bits are the same: linear_few.cu and
 * linear_ring.cu. Private to these. */
#ifndef ASSAY_GPU_LINEAR_FEW_CUH
#define ASSAY_GPU_LINEAR_FEW_CUH

#include "gpu/launch.cuh"
#include "gpu/linear.cuh"
#include "gpu/mlp.cuh"

enum {
    ROWS = 8, /* of W that one product takes */
    STEP = 32,
    PAD = LINEAR_PAD
};

static_assert((int)LINEAR_FEW == (int)ROWS, "the columns of one m16n8k16 product");

/* y [T, out]; up: y = silu(x w^T) * x up^T, of ROWS / 2 outputs a block. */
struct few_part {
    const bf16 *w, *up;
    void *y;
    int64_t out;
    unsigned end; /* first block that is not its */
    bool wide;    /* y is float32 */
};

struct few {
    const bf16 *x;
    int in, T, room; /* room: steps of x in shared memory, a multiple of AHEAD */
    struct few_part part[LINEAR_SAME];
};

/* linear_ring.cu's launch, of `units` times eight rows of W. */
enum err_code linear_ring(struct gpu *g, const struct few *f, int units,
                          const struct linear_variant *v, struct err *err) ERR_USED;

#ifdef __CUDACC__

/* Row g of the block's eight, in a part: of W itself, or four of gate and then four of up. */
__device__ static inline const bf16 *row_of(const struct few_part &part, int64_t in, int64_t block,
                                            int g)
{
    int64_t row = part.up ? block * (ROWS / 2) + g % (ROWS / 2) : block * ROWS + g;
    const bf16 *w = part.up && g >= ROWS / 2 ? part.up : part.w;
    return row < part.out ? w + row * in : NULL;
}

template <int WARPS>
__device__ static inline float add_warps(const float (*part)[LINEAR_FEW][ROWS], int token, int r)
{
    float y = 0;
#pragma unroll
    for (int i = 0; i < WARPS; i++) y += part[i][token][r];
    return y;
}

__device__ static inline void put(const struct few_part &part, int64_t at, float y)
{
    if (part.wide)
        ((float *)part.y)[at] = y;
    else
        ((bf16 *)part.y)[at] = __float2bfloat16_rn(y);
}

/* The warps' sums of a block's outputs together, by a thread an output. */
template <int WARPS>
__device__ static inline void give(const struct few &p, const struct few_part &part, int64_t block,
                                   int thread, const float (*sums)[LINEAR_FEW][ROWS])
{
    int r = thread % ROWS, token = thread / ROWS;
    int each = part.up ? ROWS / 2 : ROWS;
    int64_t out = block * each + r;
    if (token >= p.T || r >= each || out >= part.out) return;
    float y = add_warps<WARPS>(sums, token, r);
    if (part.up) {
        float up = add_warps<WARPS>(sums, token, r + ROWS / 2);
        y = swiglu_of(round_bf16(y), round_bf16(up));
    }
    put(part, token * part.out + out, y);
}

#endif

#endif
