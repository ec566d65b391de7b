/* moe_gemm_large.cuh: what the blocks of moe_gemm_large.cu have in shared memory, which tasks they
 * take, and their loaders. Private to it. */
#ifndef ASSAY_GPU_MOE_GEMM_LARGE_CUH
#define ASSAY_GPU_MOE_GEMM_LARGE_CUH

#include "gpu/moe_barrier.cuh"
#include "gpu/moe_mma.cuh"

enum {
    LARGE_STRIPS = 4, /* of a block */
    LARGE_TOKENS = MOE_CAP_LARGE,
    LARGE_STAGES = 6,
    LARGE_B = LARGE_TOKENS * MOE_TILE_K * 2,
    LARGE_A = LARGE_STRIPS * MOE_TILE_BYTES,
    LARGE_STRIP = LARGE_TOKENS * 128, /* bytes of a strip's results: 64 columns of each token */
    LARGE_OUT = 2 * LARGE_STRIP,      /* of a warpgroup's */
    LARGE_BARRIERS = LARGE_STAGES * (LARGE_A + LARGE_B) + 2 * LARGE_OUT, /* their offset */
    LARGE_NOTES = LARGE_BARRIERS + LARGE_STAGES * 16, /* of each stage: 16 bytes, its task */
    LARGE_TAKEN = LARGE_NOTES + LARGE_STAGES * 16,    /* two task numbers */
    LARGE_SHARED = LARGE_TAKEN + 16 + 1024,           /* and room to align */
    LARGE_LOAD_WARPS = 4,
    LARGE_LOADERS = 32 * LARGE_LOAD_WARPS, /* a warpgroup: registers go by warpgroups */
    LARGE_WARPS = 8,                       /* that multiply */
    LARGE_LATE = 2,                        /* stages that the second warpgroup begins late */
    LARGE_LAG = 3, /* stages whose rows may be under way; the one that LARGE_LATE waits for lands
                      before the ring is full */
};

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900 && defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define LARGE_HERE 1
#endif

/* Addresses in shared memory; full and empty barriers follow each other. */
struct large_ring {
    uint32_t b, a, out, full, empty, notes, taken;
};

#ifdef LARGE_HERE

__device__ static inline struct large_ring ring_of(const char *memory)
{
    struct large_ring ring;
    ring.b = (smem_of(memory) + 1023) / 1024 * 1024;
    ring.a = ring.b + LARGE_STAGES * LARGE_B;
    ring.out = ring.a + LARGE_STAGES * LARGE_A;
    ring.full = ring.b + LARGE_BARRIERS;
    ring.empty = ring.full + LARGE_STAGES * 8;
    ring.notes = ring.b + LARGE_NOTES;
    ring.taken = ring.b + LARGE_TAKEN;
    return ring;
}

/* ---- which task ---- */

struct large_task {
    struct moe_tile tile; /* rows 0: there are no more tasks */
    int32_t strip;        /* first of the block's */
    int32_t strips;       /* that exist */
};

__device__ static inline struct large_task task_of(const struct moe_product &p, uint32_t task)
{
    uint32_t per_tile = (uint32_t)(p.strips + LARGE_STRIPS - 1) / LARGE_STRIPS;
    struct large_task t = {};
    if (task / per_tile >= (uint32_t)*p.tiles) return t;
    t.tile = p.tile[task / per_tile];
    t.strip = (int32_t)(task % per_tile) * LARGE_STRIPS;
    t.strips = min((int32_t)p.strips - t.strip, (int32_t)LARGE_STRIPS);
    return t;
}

/* The first task of a block is its own number, the others come from the counter. */
__device__ static inline uint32_t task_take(const struct moe_product &p)
{
    return gridDim.x + atomicAdd(p.taken, 1u);
}

/* What the stages from `slot` on belong to, for those who multiply. */
__device__ static inline void put_note(const struct large_ring &ring, int slot,
                                       const struct large_task &t)
{
    store_16(ring.notes + slot * 16, make_uint4((uint32_t)t.tile.first, (uint32_t)t.tile.rows,
                                                (uint32_t)t.strip, (uint32_t)t.strips));
}

/* ---- loading rows that lie as the instruction wants them ---- */

/* One warp: lane i < 4 brings strip i of the block, lane 4 the tokens. */
__device__ static inline void load_task(const struct moe_product &p, const struct large_task &t,
                                        const struct large_ring &ring, struct ring_place &put)
{
    int lane = threadIdx.x % 32;
    uint32_t tokens = (uint32_t)t.tile.rows * MOE_TILE_K * 2;
    uint32_t bytes = lane < LARGE_STRIPS ? MOE_TILE_BYTES : tokens;
    const char *from = lane < LARGE_STRIPS ? p.weights + t.tile.expert * p.step +
                                                 (t.strip + lane) * p.tiles_k * MOE_TILE_BYTES
                                           : (const char *)(p.x + t.tile.first * p.ldx);
    uint32_t to = lane < LARGE_STRIPS ? ring.a + lane * MOE_TILE_BYTES : ring.b;
    uint32_t step = lane < LARGE_STRIPS ? LARGE_A : LARGE_B;
    bool mine = lane < t.strips || lane == LARGE_STRIPS;
    for (int kt = 0; kt < (int)p.tiles_k; kt++) {
        uint32_t full = ring.full + put.slot * 8;
        barrier_wait(ring.empty + put.slot * 8, put.phase);
        if (lane == 0) {
            if (kt == 0) put_note(ring, put.slot, t);
            barrier_expect(full, (uint32_t)t.strips * MOE_TILE_BYTES + tokens);
        }
        __syncwarp();
        if (mine) bulk_copy(to + put.slot * step, from, bytes, full);
        from += bytes;
        place_next<LARGE_STAGES>(put);
    }
}

__device__ static inline void load_all(const struct moe_product &p, const struct large_ring &ring)
{
    struct ring_place put = {0, 1};
    if (threadIdx.x >= 32) return;
    struct large_task t = task_of(p, blockIdx.x);
    while (t.tile.rows) {
        uint32_t taken = threadIdx.x == 0 ? task_take(p) : 0; /* is here when this one is issued */
        load_task(p, t, ring, put);
        t = task_of(p, __shfl_sync(~0u, taken, 0));
    }
    barrier_wait(ring.empty + put.slot * 8, put.phase);
    if (threadIdx.x) return;
    put_note(ring, put.slot, t);
    barrier_arrive(ring.full + put.slot * 8);
}

/* ---- loading rows from where they are ---- */

/* Where this thread's rows of a tile begin, one in 16: in 16-byte pieces of x. */
struct large_rows {
    uint32_t at[LARGE_TOKENS / 16];
};

__device__ static inline struct large_rows rows_of(const struct moe_product &p,
                                                   const struct moe_tile &tile)
{
    struct large_rows rows;
#pragma unroll
    for (int i = 0; i < LARGE_TOKENS / 16; i++) {
        int row = 16 * i + threadIdx.x / 8;
        rows.at[i] = row < tile.rows ? (uint32_t)(p.gather[tile.first + row] * (p.ldx / 8)) : 0;
    }
    return rows;
}

/* Where the loaders stand: the stage that comes next, and the oldest one whose rows are still under
 * way, LARGE_LAG stages behind. */
struct large_gather {
    struct ring_place put;
    int behind; /* slot */
    int under_way;
};

/* This warp's rows of the oldest stage have landed: they were written as ordinary stores are, so
 * they are published here, where nobody waits for it, not by those who multiply. */
__device__ static inline void say_landed(const struct large_ring &ring, struct large_gather &g)
{
    publish_to_copies();
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrier_arrive(ring.full + g.behind * 8);
    if (++g.behind == LARGE_STAGES) g.behind = 0;
}

/* The tokens of a stage, 16 rows at a time: eight lanes a row, piece xor row. */
__device__ static inline void gather_stage(const uint4 *x, const struct large_rows &rows, int n,
                                           uint32_t to)
{
    int row = threadIdx.x / 8, piece = threadIdx.x % 8;
    to += row * 128 + (piece ^ row % 8) * 16;
#pragma unroll
    for (int i = 0; i < LARGE_TOKENS / 16; i++) {
        if (16 * i + row < n) copy16(to + i * 16 * 128, x + rows.at[i], true);
    }
}

/* The codes of a stage, by one warp. */
__device__ static inline void gather_codes(const struct large_task &t,
                                           const struct large_ring &ring, const char *codes,
                                           int slot, bool first)
{
    int lane = threadIdx.x % 32;
    uint32_t full = ring.full + slot * 8;
    if (lane == 0) {
        if (first) put_note(ring, slot, t);
        barrier_expect(full, (uint32_t)t.strips * MOE_TILE_BYTES);
    }
    __syncwarp();
    if (lane < t.strips)
        bulk_copy(ring.a + slot * LARGE_A + lane * MOE_TILE_BYTES, codes, MOE_TILE_BYTES, full);
}

__device__ static inline void gather_task(const struct moe_product &p, const struct large_task &t,
                                          const struct large_ring &ring, struct large_gather &g)
{
    const char *codes = p.weights + t.tile.expert * p.step +
                        (t.strip + threadIdx.x % 32) * p.tiles_k * MOE_TILE_BYTES;
    const struct large_rows rows = rows_of(p, t.tile);
    const uint4 *x = (const uint4 *)p.x + threadIdx.x % 8;
    for (int kt = 0; kt < (int)p.tiles_k; kt++) {
        barrier_wait(ring.empty + g.put.slot * 8, g.put.phase);
        if (threadIdx.x < 32) gather_codes(t, ring, codes, g.put.slot, kt == 0);
        gather_stage(x, rows, t.tile.rows, ring.b + g.put.slot * LARGE_B);
        copy_commit();
        codes += MOE_TILE_BYTES;
        x += MOE_TILE_K / 8;
        place_next<LARGE_STAGES>(g.put);
        if (g.under_way < LARGE_LAG) {
            g.under_way++;
        } else {
            copy_wait<LARGE_LAG>();
            say_landed(ring, g);
        }
    }
}

__device__ static inline void loaders_sync(void)
{
    asm volatile("bar.sync 3, %0;" ::"r"((uint32_t)LARGE_LOADERS) : "memory");
}

__device__ static inline void gather_all(const struct moe_product &p, const struct large_ring &ring)
{
    struct large_gather g = {{0, 1}, 0, 0};
    uint32_t turn = 0;
    struct large_task t = task_of(p, blockIdx.x);
    while (t.tile.rows) {
        uint32_t taken = threadIdx.x == 0 ? task_take(p) : 0;
        gather_task(p, t, ring, g);
        turn ^= 4;
        if (threadIdx.x == 0) store_4(ring.taken + turn, taken);
        loaders_sync();
        t = task_of(p, load_4(ring.taken + turn));
    }
    copy_wait<0>();
    for (; g.under_way > 0; g.under_way--) say_landed(ring, g);
    barrier_wait(ring.empty + g.put.slot * 8, g.put.phase);
    if (threadIdx.x == 0) put_note(ring, g.put.slot, t);
    if (threadIdx.x == 0) barrier_arrive(ring.full + g.put.slot * 8);
    if (threadIdx.x % 32 == 0) barrier_arrive(ring.full + g.put.slot * 8);
}

#endif
#endif
