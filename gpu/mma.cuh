/* mma.cuh: the instructions that every kernel with mma.sync is made of, of compute capability 8.0
 * and newer: 16-byte loads and copies, fragments, the product. Fragments as in the PTX manual: lane
 * = 4g + t. Addresses of 32 bits are those of shared memory. Private to gpu/. */
#ifndef ASSAY_GPU_MMA_CUH
#define ASSAY_GPU_MMA_CUH

#include <cuda_bf16.h>
#include <stdint.h>

__device__ static inline uint32_t smem_of(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* ---- loads ---- */

/* 16 bytes by the instruction `load` where `there`, else zeros, without a branch. Volatile: it
 * stays where it is written, ahead of its use; the compiler moves others there, one at a time.
 * Typed, for a void pointer costs the compiler an addition for each address. */
#define LOAD_16(load, kind, at, there)                                                             \
    uint4 v = make_uint4(0, 0, 0, 0);                                                              \
    asm volatile("{\n\t.reg .pred p;\n\t"                                                          \
                 "setp.ne.u32 p, %5, 0;\n\t"                                                       \
                 "@p " load ".v4.u32 {%0, %1, %2, %3}, [%4];\n\t}"                                 \
                 : "+r"(v.x), "+r"(v.y), "+r"(v.z), "+r"(v.w)                                      \
                 : kind(at), "r"((uint32_t)(there)))

/* Not of the read-only path: it also stays before a __syncwarp() that follows. */
__device__ static inline uint4 load_or_zero(const __nv_bfloat16 *at, bool there)
{
    LOAD_16("ld.global", "l", at, there);
    return v;
}

/* Of what nothing writes, read once: it need not stay near. */
__device__ static inline uint4 load_once_or_zero(const __nv_bfloat16 *at, bool there)
{
    LOAD_16("ld.global.nc.L1::no_allocate.L2::128B", "l", at, there);
    return v;
}

__device__ static inline uint4 load_shared_or_zero(uint32_t at, bool there)
{
    LOAD_16("ld.shared", "r", at, there);
    return v;
}

#undef LOAD_16

/* ---- copies to shared memory ---- */

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

/* ---- fragments ---- */

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

/* c [16, 8] += a [16, 16] b [16, 8], bf16, summed in float32. Lane 4g + t holds rows g and g + 8,
 * columns 2t and 2t + 1 of c; rows g, g + 8, g, g + 8 of a, the latter two 8 columns on. */
__device__ static inline void mma_k16(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2,
                                      uint32_t a3, uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

__device__ static inline void mma_k16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                      uint32_t b1)
{
    mma_k16(c, a[0], a[1], a[2], a[3], b0, b1);
}

#endif
