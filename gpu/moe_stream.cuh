/* moe_stream.cuh: what the blocks of moe_stream.cu have in shared memory, which tasks they take,
 * and their loader. Private to it. */
#ifndef ASSAY_GPU_MOE_STREAM_CUH
#define ASSAY_GPU_MOE_STREAM_CUH

#include "gpu/moe_barrier.cuh"
#include "gpu/moe_mma.cuh"

enum { STREAM_WARPS = 4, STREAM_THREADS = 32 * (STREAM_WARPS + 1), STREAM_BARRIERS = 16 };

/* What a stage holds. NB: blocks of 8 tokens in a tile. STRIPS: that a warp works on at once, with
 * the same tokens. TILES: of k. */
template <int NB, int STRIPS, int TILES> struct stream_form {
    static constexpr int nb = NB, strips = STRIPS, tiles = TILES;
    static constexpr int codes_strip = TILES * MOE_TILE_BYTES;
    static constexpr int codes = STRIPS * codes_strip;
    static constexpr int row = TILES * MOE_TILE_K * 2; /* bytes of a token in a stage */
    static constexpr int bytes = codes + 8 * NB * row;
    static constexpr int pieces = TILES * MOE_TILE_K / 8;   /* of 16 bytes in a row */
    static constexpr int lanes = pieces < 32 ? pieces : 32; /* that copy one token */
    static_assert(32 % lanes == 0 && pieces % lanes == 0, "form");
};

/* Of w13 and of w2. STAGES: of the ring. BLOCKS: a multiprocessor. */
template <class W13, class W2, int STAGES, int BLOCKS> struct stream_shape {
    using w13 = W13;
    using w2 = W2;
    static constexpr int stages = STAGES, blocks = BLOCKS;
    static constexpr int stage = W13::bytes > W2::bytes ? W13::bytes : W2::bytes;
    static constexpr int notes = stage * STAGES; /* of each stage: 16 bytes, what it belongs to */
    static constexpr int barriers = notes + STAGES * 16;
    static constexpr int shared = barriers + STAGES * STREAM_BARRIERS;
    static_assert(shared * BLOCKS <= 226 * 1024 && W13::nb == W2::nb, "shape");
};

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

/* Task `number`: strips [strip, end) of a tile, of product 0 (w13) or 1 (w2). */
struct stream_task {
    int product, tile_number, strip, end;
    struct moe_tile tile; /* rows 0: there are no more tasks */
};

__device__ static inline struct stream_task stream_task_of(const struct moe_stream_job &job,
                                                           int32_t tiles, int32_t number)
{
    struct stream_task t = {};
    int32_t per_tile = ((int32_t)job.p[0].strips + job.run[0] - 1) / job.run[0];
    t.product = job.phase == STREAM_DOWN || number >= tiles * per_tile;
    if (t.product) {
        if (job.phase == STREAM_GATED) return t;
        if (job.phase == STREAM_BOTH) number -= tiles * per_tile;
        per_tile = ((int32_t)job.p[1].strips + job.run[1] - 1) / job.run[1];
    }
    t.tile_number = number / per_tile;
    t.strip = number % per_tile * job.run[t.product];
    t.end = min(t.strip + job.run[t.product], (int32_t)job.p[t.product].strips);
    if (t.tile_number < tiles) t.tile = job.p[0].tile[t.tile_number];
    return t;
}

/* ---- loading ---- */

/* The task after task `number`, which the first lane has when it is used. Where tasks wait for
 * others the first one comes from the counter too: no block that does not run yet has one. */
__device__ static inline int32_t stream_take(const struct moe_stream_job &job, int32_t number)
{
    if (job.phase != STREAM_BOTH) return number + (int32_t)gridDim.x;
    return threadIdx.x % 32 == 0 ? (int32_t)atomicAdd(job.ready, 1u) : 0;
}

__device__ static inline int32_t stream_first(const struct moe_stream_job &job)
{
    if (job.phase != STREAM_BOTH) return (int32_t)blockIdx.x;
    return __shfl_sync(~0u, stream_take(job, 0), 0);
}

/* Lane i keeps where row i of the tile begins, in 16-byte pieces of x. */
__device__ static inline uint32_t stream_row(const struct moe_product &p,
                                             const struct moe_tile &tile)
{
    int lane = threadIdx.x % 32;
    int64_t row = tile.first + (int64_t)(lane < tile.rows ? lane : 0);
    if (p.gather) row = p.gather[row];
    return (uint32_t)(row * (p.ldx / 8));
}

/* Says what a stage belongs to and issues the copies of its weights, from tile kt of a strip on. Of
 * two strips there is always the second: matrices are padded to MOE_ROW_PAD rows. */
template <class S, class F>
__device__ static inline void stream_load_codes(const struct moe_stream_job &job,
                                                const struct stream_task &t, int strip, int kt,
                                                uint32_t ring, int slot)
{
    const struct moe_product &p = job.p[t.product];
    uint32_t full = ring + S::barriers + slot * STREAM_BARRIERS;
    uint32_t bytes = (uint32_t)(min(F::tiles, (int)p.tiles_k - kt) * MOE_TILE_BYTES);
    const char *from =
        p.weights + t.tile.expert * p.step + ((int64_t)strip * p.tiles_k + kt) * MOE_TILE_BYTES;
    if (threadIdx.x % 32) return;
    uint32_t to = ring + slot * S::stage;
    store_16(ring + S::notes + slot * 16,
             make_uint4((uint32_t)t.tile.first, (uint32_t)t.tile.rows,
                        (uint32_t)(2 * strip + t.product), (uint32_t)t.tile_number));
    barrier_expect(full, F::strips * bytes);
#pragma unroll
    for (int i = 0; i < F::strips; i++)
        bulk_copy(to + i * F::codes_strip, from + i * p.tiles_k * MOE_TILE_BYTES, bytes, full);
}

/* And of its tokens. */
template <class S, class F>
__device__ static inline void stream_load_rows(const struct moe_product &p,
                                               const struct moe_tile &tile, uint32_t row, int kt,
                                               uint32_t ring, int slot)
{
    int lane = threadIdx.x % 32;
    int pieces = min(F::tiles, (int)p.tiles_k - kt) * (MOE_TILE_K / 8);
    uint32_t to = ring + slot * S::stage + F::codes;
    const uint4 *x = (const uint4 *)p.x + kt * (MOE_TILE_K / 8);
    for (int first = 0; first < tile.rows; first += 32 / F::lanes) {
        int token = first + lane / F::lanes;
        uint32_t from = __shfl_sync(~0u, row, token);
#pragma unroll
        for (int i = 0; i < F::pieces / F::lanes; i++) {
            int piece = lane % F::lanes + i * F::lanes;
            if (token < tile.rows && piece < pieces)
                copy16(to + token * F::row + (piece ^ (token & 7)) * 16, x + piece + from, true);
        }
    }
    barrier_arrive_copied(ring + S::barriers + slot * STREAM_BARRIERS);
}

/* Issues the weights of a task's first stages, as many as the ring holds; returns how many. */
template <class S, class F>
__device__ static inline int stream_send_ahead(const struct moe_stream_job &job,
                                               const struct stream_task &t, uint32_t ring,
                                               struct ring_place put)
{
    int sent = 0;
    for (int strip = t.strip; strip < t.end; strip += F::strips) {
        for (int kt = 0; kt < (int)job.p[t.product].tiles_k; kt += F::tiles) {
            if (sent == S::stages) return sent;
            barrier_wait(ring + S::barriers + put.slot * STREAM_BARRIERS + 8, put.phase);
            stream_load_codes<S, F>(job, t, strip, kt, ring, put.slot);
            place_next<S::stages>(put);
            sent++;
        }
    }
    return sent;
}

/* Whether the rows that a task of w2 reads are there. */
template <class S>
__device__ static inline bool stream_is_ready(const struct moe_stream_job &job,
                                              const struct stream_task &t)
{
    uint32_t all = (uint32_t)(job.p[0].strips / S::w13::strips) * STREAM_WARPS;
    return t.product == 0 || job.phase == STREAM_DOWN ||
           load_acquire(job.ready + 1 + t.tile_number) >= all;
}

/* All stages of a task, of which the weights of the first `sent` are under way. */
template <class S, class F>
__device__ static inline void stream_load_task(const struct moe_stream_job &job,
                                               const struct stream_task &t, uint32_t row, int sent,
                                               uint32_t ring, struct ring_place &put)
{
    const struct moe_product &p = job.p[t.product];
    for (int strip = t.strip; strip < t.end; strip += F::strips) {
        for (int kt = 0; kt < (int)p.tiles_k; kt += F::tiles) {
            barrier_wait(ring + S::barriers + put.slot * STREAM_BARRIERS + 8, put.phase);
            if (sent > 0)
                sent--;
            else
                stream_load_codes<S, F>(job, t, strip, kt, ring, put.slot);
            stream_load_rows<S, F>(p, t.tile, row, kt, ring, put.slot);
            place_next<S::stages>(put);
        }
    }
}

/* The same, and before it what stream_send_ahead() does where its rows are not there yet. */
template <class S, class F>
__device__ static inline void stream_load_when_ready(const struct moe_stream_job &job,
                                                     const struct stream_task &t, uint32_t row,
                                                     int sent, uint32_t ring,
                                                     struct ring_place &put)
{
    if (!stream_is_ready<S>(job, t)) {
        if (sent == 0) sent = stream_send_ahead<S, F>(job, t, ring, put);
        while (!stream_is_ready<S>(job, t)) __nanosleep(32);
    }
    stream_load_task<S, F>(job, t, row, sent, ring, put);
}

/* The stage that ends the work of those who multiply. */
template <class S>
__device__ static inline void stream_load_end(uint32_t ring, const struct ring_place &put)
{
    uint32_t full = ring + S::barriers + put.slot * STREAM_BARRIERS;
    barrier_wait(full + 8, put.phase);
    if (threadIdx.x % 32 == 0) {
        store_16(ring + S::notes + put.slot * 16, make_uint4(0, 0, 0, 0));
        barrier_arrive(full);
    }
    barrier_arrive(full);
}

template <class S>
__device__ static inline void stream_load_all(const struct moe_stream_job &job, uint32_t ring)
{
    using w13 = typename S::w13;
    using w2 = typename S::w2;
    struct ring_place put = {0, 1};
    int32_t tiles = *job.p[0].tiles, number = stream_first(job);
    struct stream_task task = stream_task_of(job, tiles, number);
    int sent = 0;
    if (task.tile.rows)
        sent = task.product ? stream_send_ahead<S, w2>(job, task, ring, put)
                            : stream_send_ahead<S, w13>(job, task, ring, put);
    if (job.phase == STREAM_DOWN) wait_for_launch_before();
    while (task.tile.rows) {
        int32_t taken = stream_take(job, number); /* is here when this one has been issued */
        uint32_t row = stream_row(job.p[task.product], task.tile);
        if (task.product)
            stream_load_when_ready<S, w2>(job, task, row, sent, ring, put);
        else
            stream_load_task<S, w13>(job, task, row, sent, ring, put);
        number = __shfl_sync(~0u, taken, 0);
        task = stream_task_of(job, tiles, number);
        sent = 0;
    }
    stream_load_end<S>(ring, put);
}

#endif

#endif
