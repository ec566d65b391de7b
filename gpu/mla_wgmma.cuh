/* mla_wgmma.cuh: the warpgroup products of sm_90a that mla.core uses: 64 rows, bf16 in, float32
 * sums. Private to gpu/. Only code for sm_90a may call these (WGMMA_HERE).
 *
 * Operands in shared memory are boxes of gpu/mla_tile.cuh: 128-byte rows with the 128-byte swizzle,
 * aligned to 1024 bytes. A descriptor holds, in units of 16 bytes: bits 0-13 the address, 16-29
 * the step from 64 columns to the next 64 (only where the operand is read turned), 32-45 the step
 * from eight rows to the next eight; bits 62-63 = 1: that swizzle. Sixteen columns further on in a
 * row: 32 bytes; sixteen rows further on: 2048 bytes.
 *
 * Order of one product: wgmma_begin, products, wgmma_end, wgmma_wait<0>; in between nothing may
 * touch the sums. */
#ifndef ASSAY_GPU_MLA_WGMMA_CUH
#define ASSAY_GPU_MLA_WGMMA_CUH

#include <stdint.h>

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define WGMMA_HERE 1
#else
#define WGMMA_HERE 0
#endif

#if WGMMA_HERE

/* at: a shared address; turned_step: bytes between boxes, 0 where the operand is not turned. */
__device__ static inline uint64_t wgmma_operand(uint32_t at, uint32_t turned_step)
{
    uint64_t step = turned_step ? turned_step >> 4 : 1;
    return (uint64_t)((at & 0x3ffff) >> 4) | step << 16 | (uint64_t)(1024 >> 4) << 32 |
           (uint64_t)1 << 62;
}

__device__ static inline void wgmma_begin(void)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ static inline void wgmma_end(void)
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int N> __device__ static inline void wgmma_wait(void)
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

/* What this thread wrote to shared memory by ordinary stores and cp.async is visible to products
 * after the next barrier. */
__device__ static inline void wgmma_publish(void)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* clang-format off: lists of operands */
#define WGMMA_D8(c, i)                                                                             \
    "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3]), "+f"(c[i + 4]), "+f"(c[i + 5]),    \
        "+f"(c[i + 6]), "+f"(c[i + 7])
#define WGMMA_D32(c, i) WGMMA_D8(c, i), WGMMA_D8(c, i + 8), WGMMA_D8(c, i + 16), WGMMA_D8(c, i + 24)
#define WGMMA_N16 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define WGMMA_N32 WGMMA_N16 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define WGMMA_N64                                                                                  \
    WGMMA_N32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"                  \
              "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
/* clang-format on */

/* c [64, 16] += a b^T; a [64, 16], b [16, 16]. */
__device__ static inline void wgmma_add(float (&c)[8], uint64_t a, uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7}, "
                 "%8, %9, 1, 1, 1, 0, 0;"
                 : WGMMA_D8(c, 0)
                 : "l"(a), "l"(b));
}

/* The same of b [32, 16]. */
__device__ static inline void wgmma_add(float (&c)[16], uint64_t a, uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {" WGMMA_N16
                 "}, %16, %17, 1, 1, 1, 0, 0;"
                 : WGMMA_D8(c, 0), WGMMA_D8(c, 8)
                 : "l"(a), "l"(b));
}

/* Of b [64, 16]. */
__device__ static inline void wgmma_add(float (&c)[32], uint64_t a, uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" WGMMA_N32
                 "}, %32, %33, 1, 1, 1, 0, 0;"
                 : WGMMA_D32(c, 0)
                 : "l"(a), "l"(b));
}

/* Of b [128, 16]. */
__device__ static inline void wgmma_add(float (&c)[64], uint64_t a, uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" WGMMA_N64
                 "}, %64, %65, 1, 1, 1, 0, 0;"
                 : WGMMA_D32(c, 0), WGMMA_D32(c, 32)
                 : "l"(a), "l"(b));
}

/* c [64, 64] = a b^T + (add ? c : 0); a [64, 16], b [64, 16]. */
__device__ static inline void wgmma_n64(float (&c)[32], uint64_t a, uint64_t b, int add)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" WGMMA_N32
                 "}, %32, %33, p, 1, 1, 0, 0;\n}"
                 : WGMMA_D32(c, 0)
                 : "l"(a), "l"(b), "r"(add));
}

/* The same, a [64, 16] in registers: its fragment's four words. */
__device__ static inline void wgmma_n64(float (&c)[32], const uint32_t *a, uint64_t b, int add)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" WGMMA_N32
                 "}, {%32,%33,%34,%35}, %36, p, 1, 1, 0;\n}"
                 : WGMMA_D32(c, 0)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));
}

/* c [64, 128] = a b^T + (add ? c : 0); a [64, 16], b [128, 16]. */
__device__ static inline void wgmma_n128(float (&c)[64], uint64_t a, uint64_t b, int add)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" WGMMA_N64
                 "}, %64, %65, p, 1, 1, 0, 0;\n}"
                 : WGMMA_D32(c, 0), WGMMA_D32(c, 32)
                 : "l"(a), "l"(b), "r"(add));
}

/* The same, a [64, 16] in registers: its fragment's four words. */
__device__ static inline void wgmma_n128(float (&c)[64], const uint32_t *a, uint64_t b, int add)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" WGMMA_N64
                 "}, {%64,%65,%66,%67}, %68, p, 1, 1, 0;\n}"
                 : WGMMA_D32(c, 0), WGMMA_D32(c, 32)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));
}

/* c [64, 128] = a b + (add ? c : 0); a [64, 16] in registers, b [16, 128] turned. */
__device__ static inline void wgmma_n128_turned(float (&c)[64], const uint32_t *a, uint64_t b,
                                                int add)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" WGMMA_N64
                 "}, {%64,%65,%66,%67}, %68, p, 1, 1, 1;\n}"
                 : WGMMA_D32(c, 0), WGMMA_D32(c, 32)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));
}

/* c [64, 128] += a b; a [64, 16] in shared memory, b [16, 128] turned. */
__device__ static inline void wgmma_n128_turned(float (&c)[64], uint64_t a, uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" WGMMA_N64
                 "}, %64, %65, 1, 1, 1, 0, 1;"
                 : WGMMA_D32(c, 0), WGMMA_D32(c, 32)
                 : "l"(a), "l"(b));
}

#endif
#endif
