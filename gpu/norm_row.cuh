/* norm_row.cuh: RMSNorm of one row by one block, with the residual addition before it or without:
 * what gpu/norm.cu and gpu/mla_latents.cu share, so that both give the same bits. */
#ifndef ASSAY_GPU_NORM_ROW_CUH
#define ASSAY_GPU_NORM_ROW_CUH

#include "gpu/launch.cuh"
#include "gpu/vector.cuh"
#include "gpu/weights.cuh"

enum { NORM_THREADS = 1024, WARP = 32 };

struct norm_rows {
    int64_t H, ldx, ldy;
    float eps;
    bf16 *x; /* written where there is a block */
    const bf16 *block;
    const void *w; /* NULL: ones */
    int w_type;
    bf16 *y;
    bf16 *also; /* NULL, or where this row goes too */
    bool wide, also_wide;
};

/* The sum over the block in a fixed order: lanes by halves, then warps ascending. */
__device__ static inline float block_sum(float v)
{
    __shared__ float part[NORM_THREADS / WARP];
    for (int k = WARP / 2; k > 0; k /= 2) v += __shfl_xor_sync(~0u, v, k);
    if (threadIdx.x % WARP == 0) part[threadIdx.x / WARP] = v;
    __syncthreads();
    float sum = 0;
    for (unsigned i = 0; i < blockDim.x / WARP; i++) sum += part[i];
    return sum;
}

__device__ static inline void load_weight(const struct norm_rows &p, int64_t i, float w[VECTOR])
{
    if (p.w && p.w_type == DT_BF16) {
        vector_load((const bf16 *)p.w + i, p.H - i, p.wide, w);
        return;
    }
#pragma unroll
    for (int k = 0; k < VECTOR; k++)
        w[k] = p.w && i + k < p.H ? stored_float(p.w, p.w_type, i + k) : 1.0f;
}

/* Eight elements of a row, with the block added where there is one; the sum of their squares so
 * far, too. */
__device__ static inline void add_block(const struct norm_rows &p, int64_t row, int64_t i,
                                        float v[VECTOR], float *squares)
{
    bf16 *x = p.x + row * p.ldx + i;
    float w[VECTOR];
    vector_load(x, p.H - i, p.wide, v);
    if (p.block) {
        vector_load(p.block + row * p.H + i, p.H - i, p.wide, w);
#pragma unroll
        for (int k = 0; k < VECTOR; k++) v[k] = __bfloat162float(__float2bfloat16_rn(v[k] + w[k]));
        vector_store(x, p.H - i, p.wide, v);
    }
#pragma unroll
    for (int k = 0; k < VECTOR; k++) *squares = fmaf(v[k], v[k], *squares);
}

/* Row `row` by all threads: thread j handles the eights j, j + threads, ... of it. More threads
 * than eights change no bit. ONCE: it has one of them at most, which stays in its registers. Waits
 * for the launch before. */
template <bool ONCE> __device__ static inline void norm_row(const struct norm_rows &p, int64_t row)
{
    int64_t step = (int64_t)blockDim.x * VECTOR, i = (int64_t)threadIdx.x * VECTOR;
    float squares = 0, v[VECTOR], w[VECTOR];
    if (ONCE && i < p.H) load_weight(p, i, w);
    wait_for_launch_before();
    for (int64_t j = i; j < p.H; j += step) add_block(p, row, j, v, &squares);
    float scale = 1.0f / sqrtf(block_sum(squares) / (float)p.H + p.eps);
    for (; i < p.H; i += step) {
        if (!ONCE) {
            vector_load(p.x + row * p.ldx + i, p.H - i, p.wide, v);
            load_weight(p, i, w);
        }
#pragma unroll
        for (int k = 0; k < VECTOR; k++) v[k] = v[k] * scale * w[k];
        vector_store(p.y + row * p.ldy + i, p.H - i, p.wide, v);
        if (p.also) vector_store(p.also + i, p.H - i, p.also_wide, v);
    }
}

/* Threads of a block for rows of H. */
static inline unsigned norm_threads(int64_t H)
{
    int64_t lanes = ceil_div(ceil_div(H, VECTOR), WARP) * WARP;
    return (unsigned)(lanes < NORM_THREADS ? lanes : NORM_THREADS);
}

#endif
