/* moe_stream.cu: both grouped products with INT4 weights for few rows an expert in one launch,
 * compute capability 9.0 and newer; older cards take moe_gemm.cu, whose results are the same bits.
 * See moe_parts.cuh and moe_pack.h.
 *
 * Reading the weights is the whole cost, and what stands in its way are instructions: making values
 * of the codes takes fifteen for eight weights. So the four warps that multiply do nothing else; a
 * fifth fills the ring. A stage is several tiles of k of one strip: their codes and scales come as
 * one bulk copy (they follow each other in memory), the tokens' rows as 16-byte cp.async, a piece's
 * number xor the token's, so that eight rows lie in different banks. Warp w owns m16 block w of the
 * strip for the whole of k.
 *
 * A task is some strips of one tile: first all of w13, then all of w2. Blocks take the next one
 * from a counter, so none waits for the slowest, and the ring runs on from task to task. A task of
 * w2 needs the rows that every strip of w13 has made for its tile: the loader asks for the weights
 * first and then waits until as many warps have said so. Tasks are taken in order and those of w13
 * wait for nothing, so this ends however few blocks run at a time. */
#include "gpu/moe_barrier.cuh"
#include "gpu/moe_mma.cuh"

enum { STREAM_WARPS = 4, STREAM_THREADS = 32 * (STREAM_WARPS + 1), STREAM_BARRIERS = 16 };

/* NB: blocks of 8 tokens in a tile. TILES: of k in a stage. STAGES: of the ring. BLOCKS: a
 * multiprocessor. */
template <int NB, int TILES, int STAGES, int BLOCKS> struct stream_shape {
    static constexpr int nb = NB, tiles = TILES, stages = STAGES, blocks = BLOCKS;
    static constexpr int codes = TILES * MOE_TILE_BYTES;
    static constexpr int row = TILES * MOE_TILE_K * 2; /* bytes of a token in a stage */
    static constexpr int stage = codes + 8 * NB * row;
    static constexpr int notes = stage * STAGES; /* of each stage: 16 bytes, what it belongs to */
    static constexpr int barriers = notes + STAGES * 16;
    static constexpr int shared = barriers + STAGES * STREAM_BARRIERS;
    static constexpr int pieces = TILES * MOE_TILE_K / 8;   /* of 16 bytes in a row */
    static constexpr int lanes = pieces < 32 ? pieces : 32; /* that copy one token */
    static_assert(32 % lanes == 0 && pieces % lanes == 0 && shared * BLOCKS <= 226 * 1024, "shape");
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

/* Says what a stage belongs to and issues the copy of its weights, from tile kt of a strip on. */
template <class S>
__device__ static inline void stream_load_codes(const struct moe_stream_job &job,
                                                const struct stream_task &t, int strip, int kt,
                                                uint32_t ring, int slot)
{
    const struct moe_product &p = job.p[t.product];
    uint32_t full = ring + S::barriers + slot * STREAM_BARRIERS;
    uint32_t bytes = (uint32_t)(min(S::tiles, (int)p.tiles_k - kt) * MOE_TILE_BYTES);
    const char *from =
        p.weights + t.tile.expert * p.step + ((int64_t)strip * p.tiles_k + kt) * MOE_TILE_BYTES;
    if (threadIdx.x % 32) return;
    store_16(ring + S::notes + slot * 16,
             make_uint4((uint32_t)t.tile.first, (uint32_t)t.tile.rows,
                        (uint32_t)(2 * strip + t.product), (uint32_t)t.tile_number));
    barrier_expect(full, bytes);
    bulk_copy(ring + slot * S::stage, from, bytes, full);
}

/* And of its tokens. */
template <class S>
__device__ static inline void stream_load_rows(const struct moe_product &p,
                                               const struct moe_tile &tile, uint32_t row, int kt,
                                               uint32_t ring, int slot)
{
    int lane = threadIdx.x % 32;
    int pieces = min(S::tiles, (int)p.tiles_k - kt) * (MOE_TILE_K / 8);
    uint32_t to = ring + slot * S::stage + S::codes;
    const uint4 *x = (const uint4 *)p.x + kt * (MOE_TILE_K / 8);
    for (int first = 0; first < tile.rows; first += 32 / S::lanes) {
        int token = first + lane / S::lanes;
        uint32_t from = __shfl_sync(~0u, row, token);
#pragma unroll
        for (int i = 0; i < S::pieces / S::lanes; i++) {
            int piece = lane % S::lanes + i * S::lanes;
            if (token < tile.rows && piece < pieces)
                copy_16(to + token * S::row + (piece ^ (token & 7)) * 16, x + piece + from);
        }
    }
    barrier_arrive_copied(ring + S::barriers + slot * STREAM_BARRIERS);
}

/* Issues the weights of a task's first stages, as many as the ring holds; returns how many. */
template <class S>
__device__ static inline int stream_send_ahead(const struct moe_stream_job &job,
                                               const struct stream_task &t, uint32_t ring,
                                               struct ring_place put)
{
    int sent = 0;
    for (int strip = t.strip; strip < t.end; strip++) {
        for (int kt = 0; kt < (int)job.p[t.product].tiles_k; kt += S::tiles) {
            if (sent == S::stages) return sent;
            barrier_wait(ring + S::barriers + put.slot * STREAM_BARRIERS + 8, put.phase);
            stream_load_codes<S>(job, t, strip, kt, ring, put.slot);
            place_next<S::stages>(put);
            sent++;
        }
    }
    return sent;
}

/* Whether the rows that a task of w2 reads are there. */
__device__ static inline bool stream_is_ready(const struct moe_stream_job &job,
                                              const struct stream_task &t)
{
    return t.product == 0 || job.phase == STREAM_DOWN ||
           load_acquire(job.ready + 1 + t.tile_number) >= (uint32_t)job.p[0].strips * STREAM_WARPS;
}

/* All stages of a task, of which the weights of the first `sent` are under way. */
template <class S>
__device__ static inline void stream_load_task(const struct moe_stream_job &job,
                                               const struct stream_task &t, uint32_t row, int sent,
                                               uint32_t ring, struct ring_place &put)
{
    const struct moe_product &p = job.p[t.product];
    for (int strip = t.strip; strip < t.end; strip++) {
        for (int kt = 0; kt < (int)p.tiles_k; kt += S::tiles) {
            barrier_wait(ring + S::barriers + put.slot * STREAM_BARRIERS + 8, put.phase);
            if (sent > 0)
                sent--;
            else
                stream_load_codes<S>(job, t, strip, kt, ring, put.slot);
            stream_load_rows<S>(p, t.tile, row, kt, ring, put.slot);
            place_next<S::stages>(put);
        }
    }
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
    struct ring_place put = {0, 1};
    int32_t tiles = *job.p[0].tiles, number = stream_first(job);
    struct stream_task task = stream_task_of(job, tiles, number);
    int sent = task.tile.rows ? stream_send_ahead<S>(job, task, ring, put) : 0;
    if (job.phase == STREAM_DOWN) wait_for_launch_before();
    while (task.tile.rows) {
        int32_t taken = stream_take(job, number); /* is here when this one has been issued */
        uint32_t row = stream_row(job.p[task.product], task.tile);
        if (!stream_is_ready(job, task)) {
            if (sent == 0) sent = stream_send_ahead<S>(job, task, ring, put);
            while (!stream_is_ready(job, task)) __nanosleep(32);
        }
        stream_load_task<S>(job, task, row, sent, ring, put);
        number = __shfl_sync(~0u, taken, 0);
        task = stream_task_of(job, tiles, number);
        sent = 0;
    }
    stream_load_end<S>(ring, put);
}

/* ---- multiplying ---- */

/* One tile of k: 64 columns, four k16 steps. The addresses are this lane's. */
template <class S>
__device__ static inline void stream_multiply_tile(float (&acc)[S::nb][4], int rows, uint32_t codes,
                                                   uint32_t scales, uint32_t x)
{
    int lane = threadIdx.x % 32;
    uint4 words = load_16(codes);
    uint2 pairs = load_8(scales);
#pragma unroll
    for (int group = 0; group < 2; group++) {
        uint32_t b[S::nb][4];
#pragma unroll
        for (int nb = 0; nb < S::nb; nb++) {
            if (nb > 0 && 8 * nb >= rows) continue;
            uint32_t piece = (uint32_t)(4 * group + lane / 8) ^ (uint32_t)(lane % 8);
            load_matrices(x + nb * 8 * S::row + piece * 16, b[nb]);
        }
        __nv_bfloat162 low, high;
        spread_scales(group ? pairs.y : pairs.x, &low, &high);
#pragma unroll
        for (int j = 0; j < 2; j++) {
            uint32_t a[4];
            weigh_word(group ? (j ? words.w : words.z) : (j ? words.y : words.x), low, high, a);
#pragma unroll
            for (int nb = 0; nb < S::nb; nb++) {
                if (nb > 0 && 8 * nb >= rows) continue;
                mma_k16(acc[nb], a, b[nb][2 * j], b[nb][2 * j + 1]);
            }
        }
    }
}

/* TILES tiles of a stage from tile `i` on, without a question between them. */
template <class S, int TILES>
__device__ static inline void stream_multiply_tiles(float (&acc)[S::nb][4], int rows, int first,
                                                    uint32_t codes, uint32_t scales, uint32_t x)
{
#pragma unroll
    for (int i = 0; i < TILES; i++)
        stream_multiply_tile<S>(acc, rows, codes + (first + i) * MOE_TILE_BYTES,
                                scales + (first + i) * MOE_TILE_BYTES,
                                x + (first + i) * MOE_TILE_K * 2);
}

/* A stage of `tiles` tiles. */
template <class S>
__device__ static inline void stream_multiply(float (&acc)[S::nb][4], int rows, int tiles,
                                              uint32_t stage)
{
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, i = 0;
    uint32_t codes = stage + 512 * warp + 16 * lane;
    uint32_t scales = stage + MOE_CODE_BYTES + 64 * warp + 8 * (lane / 4);
    uint32_t x = stage + S::codes + lane % 8 * S::row;
    if (tiles == S::tiles) {
        stream_multiply_tiles<S, S::tiles>(acc, rows, 0, codes, scales, x);
        return;
    }
    for (; i + 4 <= tiles; i += 4) stream_multiply_tiles<S, 4>(acc, rows, i, codes, scales, x);
    for (; i < tiles; i++) stream_multiply_tiles<S, 1>(acc, rows, i, codes, scales, x);
}

/* What a task's warp has summed goes out; of w13, who waits for it hears of it. */
template <class S>
__device__ static inline void stream_store(const struct moe_stream_job &job, const uint4 &note,
                                           const float (&acc)[S::nb][4])
{
    int lane = threadIdx.x % 32;
    int64_t block = 4 * (int64_t)(note.z / 2) + threadIdx.x / 32;
    struct moe_tile tile = {0, (int32_t)note.x, (int32_t)note.y, 0};
#pragma unroll
    for (int nb = 0; nb < S::nb; nb++) {
        if (8 * nb >= tile.rows) continue;
        if (note.z % 2)
            store_block<false>(job.p[1], tile, acc[nb], block, 8 * nb, lane);
        else
            store_block<true>(job.p[0], tile, acc[nb], block, 8 * nb, lane);
    }
    if (note.z % 2 || job.phase != STREAM_BOTH) return;
    __syncwarp();
    if (lane == 0) add_release(job.ready + 1 + note.w, 1);
}

template <class S>
__device__ static inline void stream_multiply_all(const struct moe_stream_job &job, uint32_t ring)
{
    struct ring_place at = {0, 0};
    int lane = threadIdx.x % 32;
    while (true) {
        float acc[S::nb][4] = {};
        barrier_wait(ring + S::barriers + at.slot * STREAM_BARRIERS, at.phase);
        const uint4 note = load_16(ring + S::notes + at.slot * 16);
        const int32_t rows = (int32_t)note.y;
        if (rows == 0) return;
        for (int left = (int32_t)job.p[note.z % 2].tiles_k;; left -= S::tiles) {
            uint32_t full = ring + S::barriers + at.slot * STREAM_BARRIERS;
            barrier_wait(full, at.phase);
            stream_multiply<S>(acc, rows, min(S::tiles, left), ring + at.slot * S::stage);
            __syncwarp();
            if (lane == 0 || job.every_lane) barrier_arrive(full + 8);
            place_next<S::stages>(at);
            if (left <= S::tiles) break;
        }
        stream_store<S>(job, note, acc);
    }
}

#endif

template <class S>
__global__ static void __launch_bounds__(STREAM_THREADS, S::blocks)
    moe_stream(const __grid_constant__ struct moe_stream_job job)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    extern __shared__ __align__(128) char memory[];
    uint32_t ring = shared_at(memory);
    if (threadIdx.x == 0) {
        for (int s = 0; s < S::stages; s++) {
            uint32_t full = ring + S::barriers + s * STREAM_BARRIERS;
            barrier_init(full, 32 + 1); /* lanes, bulk copy */
            barrier_init(full + 8, job.every_lane ? 32 * STREAM_WARPS : STREAM_WARPS);
        }
        barrier_publish();
    }
    __syncthreads();
    let_next_launch();
    if (job.phase != STREAM_DOWN) wait_for_launch_before();
    if (threadIdx.x / 32 == STREAM_WARPS)
        stream_load_all<S>(job, ring);
    else
        stream_multiply_all<S>(job, ring);
#endif
}

/* ---- launch ---- */

/* The kernels by the most rows of a tile. */
struct stream_row {
    int32_t cap;
    const char *tactic;
    int shared, blocks;
    void (*kernel)(const struct moe_stream_job);
};

template <class S> static struct stream_row row_of(const char *tactic)
{
    return {8 * S::nb, tactic, S::shared, S::blocks, moe_stream<S>};
}

/* A build without code for this card may run its code for an older one, where the kernel is empty:
 * it then needs next to no registers. */
bool moe_has_stream(const struct gpu *g)
{
    static int has = -1;
    cudaFuncAttributes a = {};
    if (has < 0)
        has = g->major >= 9 &&
              cudaFuncGetAttributes(&a, (const void *)moe_stream<stream_shape<1, 8, 2, 4>>) ==
                  cudaSuccess &&
              a.numRegs > 32;
    return has != 0;
}

enum err_code moe_products_stream(struct gpu *g, const struct moe_stream_job *job, int32_t cap,
                                  bool apart, struct err *err)
{
    static const struct stream_row rows[] = {
        row_of<stream_shape<1, 8, 2, 4>>("64 rows x 8 tokens, 2 stages of 512"),
        row_of<stream_shape<2, 4, 3, 4>>("64 rows x 16 tokens, 3 stages of 256"),
        row_of<stream_shape<4, 2, 4, 4>>("64 rows x 32 tokens, 4 stages of 128")};
    const struct stream_row *row = &rows[0];
    while (row->cap < cap) row++;
    int blocks = 0;
    if (gpu_shared(g, (const void *)row->kernel, "moe_stream", (size_t)row->shared, err) !=
            ERR_OK ||
        gpu_call(g,
                 cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, row->kernel, STREAM_THREADS,
                                                               (size_t)row->shared),
                 "count the blocks of a multiprocessor", err) != ERR_OK)
        return err->code;
    dim3 grid((unsigned)(g->sms * blocks)), block(STREAM_THREADS);
    if (!apart)
        return gpu_launch_early(g, err, "moe_stream", row->tactic, grid, block, (size_t)row->shared,
                                row->kernel, *job);
    /* The first is not early: the second, which is, begins with what came before the first. */
    struct moe_stream_job part = *job;
    part.phase = STREAM_GATED;
    if (GPU_LAUNCH(g, err, "moe_stream_w13", row->tactic, grid, block, (size_t)row->shared,
                   row->kernel, part) != ERR_OK)
        return err->code;
    part.phase = STREAM_DOWN;
    return gpu_launch_early(g, err, "moe_stream_w2", row->tactic, grid, block, (size_t)row->shared,
                            row->kernel, part);
}
