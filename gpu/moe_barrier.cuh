/* moe_barrier.cuh: barriers in shared memory that copies complete, for compute capability 9.0 and
 * newer: a ring of stages between a loader and those that multiply. Addresses are those of shared
 * memory. Private to gpu/moe*.cu. */
#ifndef ASSAY_GPU_MOE_BARRIER_CUH
#define ASSAY_GPU_MOE_BARRIER_CUH

#include <stdint.h>

/* Where a loop stands in a ring of STAGES: a slot and the parity of its round. */
struct ring_place {
    int slot;
    uint32_t phase;
};

template <int STAGES> __device__ static inline void place_next(struct ring_place &p)
{
    if (++p.slot < STAGES) return;
    p.slot = 0;
    p.phase ^= 1;
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

__device__ static inline void barrier_init(uint32_t at, uint32_t count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(count) : "memory");
}

/* Initialised barriers are visible to everybody, the copy engine included, after this and
 * __syncthreads(). */
__device__ static inline void barrier_publish(void)
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ static inline void barrier_arrive(uint32_t at)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory");
}

/* Arrives, and lets the round wait for `bytes` of bulk copies too. */
__device__ static inline void barrier_expect(uint32_t at, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes)
                 : "memory");
}

/* Arrives once all cp.async of this thread so far have landed. */
__device__ static inline void barrier_arrive_copied(uint32_t at)
{
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(at) : "memory");
}

__device__ static inline void barrier_wait(uint32_t at, uint32_t phase)
{
    uint32_t done = 0;
    while (!done) {
        asm volatile("{\n\t.reg .pred p;\n\t"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
                     "selp.u32 %0, 1, 0, p;\n\t}"
                     : "=r"(done)
                     : "r"(at), "r"(phase)
                     : "memory");
    }
}

/* `bytes`, a multiple of 16 at aligned addresses. */
__device__ static inline void bulk_copy(uint32_t to, const void *from, uint32_t bytes,
                                        uint32_t barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}

#endif

#endif
