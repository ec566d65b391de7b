/* moe_barrier.cuh: barriers in shared memory that copies complete, for compute capability 9.0 and
 * newer: a ring of stages between a loader and those that multiply. Addresses are those of shared
 * memory. Private to gpu/. */
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

/* For `count` who would arrive. */
__device__ static inline void barrier_arrive_many(uint32_t at, uint32_t count)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(count) : "memory");
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

/* Without waiting. */
__device__ static inline bool barrier_is_done(uint32_t at, uint32_t phase)
{
    uint32_t done;
    asm volatile("{\n\t.reg .pred p;\n\t"
                 "mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
                 "selp.u32 %0, 1, 0, p;\n\t}"
                 : "=r"(done)
                 : "r"(at), "r"(phase)
                 : "memory");
    return done;
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

/* Of global memory, between blocks: what was written before the one is seen after the other. */
__device__ static inline void add_release(uint32_t *to, uint32_t n)
{
    asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(to), "r"(n) : "memory");
}

__device__ static inline uint32_t load_acquire(const uint32_t *from)
{
    uint32_t v;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(from) : "memory");
    return v;
}

/* What this thread has stored in shared memory is there for copies that begin after a barrier. */
__device__ static inline void publish_to_copies(void)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* From shared memory to `to`; of this thread's group. */
__device__ static inline void bulk_store(void *to, uint32_t from, uint32_t bytes)
{
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from),
                 "r"(bytes)
                 : "memory");
}

__device__ static inline void bulk_store_commit(void)
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/* Until this thread's copies so far have read what they copy, or have done all. */
__device__ static inline void bulk_store_wait_read(void)
{
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

__device__ static inline void bulk_store_wait(void)
{
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
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
