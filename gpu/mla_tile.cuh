/* mla_tile.cuh: tiles in shared memory and the tensor core's fragments, as all kernels of mla.core
 * that use them need it. Private to gpu/mla*.cu.
 *
 * A tile is boxes of [rows][64] bf16, 128 bytes a row; the 16-byte chunk k of row r lies at chunk k
 * ^ (r % 8), so that eight rows of one chunk, and eight chunks of one row, touch all banks. It is
 * also the 128-byte swizzle of wgmma, where boxes are aligned to 1024 bytes. */
#ifndef ASSAY_GPU_MLA_TILE_CUH
#define ASSAY_GPU_MLA_TILE_CUH

#include <cuda_bf16.h>
#include <stdint.h>

enum { BOX_COLUMNS = 64, BOX_ROW = 128 };

__device__ static inline uint32_t smem_of(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* Bytes from a box's begin to chunk k of row r. */
__device__ static inline uint32_t box_chunk(int r, int k)
{
    return (uint32_t)(r * BOX_ROW + ((k ^ (r & 7)) << 4));
}

/* 16 bytes from global memory; zeros instead where !valid, and `from` is not read. */
__device__ static inline void copy16(uint32_t to, const void *from, bool valid)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(valid ? 16 : 0)
                 : "memory");
}

__device__ static inline void copy_commit(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* All but the newest N groups of this thread have landed. */
template <int N> __device__ static inline void copy_wait(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/* Four 8x8 matrices: lane l names row l % 8 of matrix l / 8. */
__device__ static inline void load_matrix(uint32_t (&f)[4], uint32_t at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(f[0]), "=r"(f[1]), "=r"(f[2]), "=r"(f[3])
                 : "r"(at)
                 : "memory");
}

__device__ static inline void load_matrix_turned(uint32_t (&f)[4], uint32_t at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(f[0]), "=r"(f[1]), "=r"(f[2]), "=r"(f[3])
                 : "r"(at)
                 : "memory");
}

/* c [16, 8] += a [16, 16] b [16, 8]. Lane 4g + t holds rows g and g + 8, columns 2t and 2t + 1. */
__device__ static inline void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                       uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
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
