/* mla_tile.cuh: tiles in shared memory and the fragments of them, as all kernels of mla.core that
 * use tensor cores need it. Private to gpu/mla*.cu.
 *
 * A tile is boxes of [rows][64] bf16, 128 bytes a row; the 16-byte chunk k of row r lies at chunk k
 * ^ (r % 8), so that eight rows of one chunk, and eight chunks of one row, touch all banks. It is
 * also the 128-byte swizzle of wgmma, where boxes are aligned to 1024 bytes. */
#ifndef ASSAY_GPU_MLA_TILE_CUH
#define ASSAY_GPU_MLA_TILE_CUH

#include "gpu/mma.cuh"

enum { BOX_COLUMNS = 64, BOX_ROW = 128 };

/* Bytes from a box's begin to chunk k of row r. */
__device__ static inline uint32_t box_chunk(int r, int k)
{
    return (uint32_t)(r * BOX_ROW + ((k ^ (r & 7)) << 4));
}

/* A fragment [16, 16] of the rows from r0 on and chunk pair kk of a box. */
__device__ static inline void load_a(uint32_t (&f)[4], uint32_t box, int r0, int kk)
{
    int lane = threadIdx.x % 32;
    load_matrix(f, box + box_chunk(r0 + lane % 16, 2 * kk + lane / 16));
}

/* B fragments of 16 columns n = rows n0 .. n0 + 15 of a box (stored [n][k]), chunk pair kk: b0, b1
 * of the first eight, then of the others. */
__device__ static inline void load_b(uint32_t (&f)[4], uint32_t box, int n0, int kk)
{
    int lane = threadIdx.x % 32;
    load_matrix(f, box + box_chunk(n0 + lane % 8 + lane / 16 * 8, 2 * kk + lane / 8 % 2));
}

/* B fragments of 16 columns n = chunks 2 * nn, 2 * nn + 1 of a box stored [k][n], rows k0 .. k0 +
 * 15. */
__device__ static inline void load_b_turned(uint32_t (&f)[4], uint32_t box, int k0, int nn)
{
    int lane = threadIdx.x % 32;
    load_matrix_turned(f, box + box_chunk(k0 + lane % 16, 2 * nn + lane / 16));
}

/* Two floats as bf16, the first in the lower half. */
__device__ static inline uint32_t pack_pair(float low, float high)
{
    __nv_bfloat162 v = __floats2bfloat162_rn(low, high);
    return *(uint32_t *)&v;
}

/* Over the four lanes that share a row of a fragment. */
__device__ static inline float quad_max(float x)
{
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

__device__ static inline float quad_sum(float x)
{
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

#endif
