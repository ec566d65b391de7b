/* moe_align.cu: which row of the permuted order is which pair, and the list of tiles; see
 * moe_parts.cuh and moe_tiles.h. A stable counting sort by expert: the same order each run, without
 * a cursor that threads race for. An id outside [0, E) is skipped before anything is looked up.
 *
 * Few pairs: one block does it all, 32 pairs a warp at a time. More: chunks are counted
 * (moe_count), one block sums up (moe_scan), then every chunk places its pairs (moe_place), one
 * warp walking through it in order. Of few tokens router_few.cu makes the plan as it chooses.
 */
#include "gpu/moe_align.cuh"

#include "core/check.h"

enum { SCAN_STEP = 16, ALIGN_SHARED = 47 << 10 };

__device__ static inline int32_t id_of(const int32_t *ids, int64_t pair, int64_t end, int64_t E)
{
    int32_t id = pair < end ? ids[pair] : -1;
    return id >= 0 && id < E ? id : -1;
}

/* The next 32 pairs of a warp that walks in order: how many of `next[id]` come before this lane's,
 * which are then counted. -1 where the lane has no expert. */
__device__ static inline int32_t take_place(int32_t *next, int32_t id)
{
    int lane = threadIdx.x % 32;
    unsigned same = __match_any_sync(~0u, id);
    int32_t place = id < 0 ? -1 : next[id] + __popc(same & ((1u << lane) - 1));
    __syncwarp();
    if (id >= 0 && (same >> lane) == 1u) next[id] = place + 1;
    __syncwarp();
    return place;
}

/* Each pair's place among its expert's, and how many each expert has: 32 pairs a warp at a time,
 * counted apart in count [chunks][E] and added up in order. */
__device__ static void place_by_warps(const struct moe_plan &p, const int32_t *ids, int32_t *rows,
                                      int32_t *place, uint16_t *count)
{
    int32_t E = (int32_t)p.E, pairs = (int32_t)p.pairs, chunks = (pairs + 31) / 32;
    int lane = threadIdx.x % 32;
    for (int32_t i = threadIdx.x; i < chunks * E; i += ALIGN_THREADS) count[i] = 0;
    __syncthreads();
    for (int32_t chunk = threadIdx.x / 32; chunk < chunks; chunk += ALIGN_WARPS) {
        int32_t pair = 32 * chunk + lane, id = id_of(ids, pair, pairs, E);
        unsigned same = __match_any_sync(~0u, id), before = same & ((1u << lane) - 1);
        if (id >= 0 && before == 0) count[chunk * E + id] = (uint16_t)__popc(same);
        if (pair < pairs) place[pair] = __popc(before);
    }
    __syncthreads();
    for (int32_t e = threadIdx.x; e < E; e += ALIGN_THREADS) {
        int32_t sum = 0;
#pragma unroll 4
        for (int32_t chunk = 0; chunk < chunks; chunk++) {
            int32_t n = count[chunk * E + e];
            count[chunk * E + e] = (uint16_t)sum;
            sum += n;
        }
        rows[e] = sum;
    }
    __syncthreads();
    for (int32_t pair = threadIdx.x; pair < pairs; pair += ALIGN_THREADS) {
        int32_t id = id_of(ids, pair, pairs, E);
        if (id >= 0) place[pair] += count[pair / 32 * E + id];
    }
}

/* The same by one warp that walks through all pairs: needs no counts apart. */
__device__ static void place_in_order(const struct moe_plan &p, const int32_t *ids, int32_t *rows,
                                      int32_t *place)
{
    for (int64_t e = threadIdx.x; e < p.E; e += ALIGN_THREADS) rows[e] = 0;
    __syncthreads();
    if (threadIdx.x >= 32) return;
    for (int64_t first = 0; first < p.pairs; first += 32) {
        int64_t pair = first + threadIdx.x;
        int32_t at = take_place(rows, id_of(ids, pair, p.pairs, p.E));
        if (pair < p.pairs) place[pair] = at;
    }
}

__global__ static void __launch_bounds__(ALIGN_THREADS)
    moe_align_small(const struct moe_plan p, int64_t top_k, const int32_t *ids, bool by_warps)
{
    extern __shared__ int32_t rows[]; /* [E], then of each pair its place among the expert's */
    int32_t *place = rows + p.E;
    let_next_launch();
    wait_for_launch_before();
    if (by_warps)
        place_by_warps(p, ids, rows, place, (uint16_t *)(place + p.pairs));
    else
        place_in_order(p, ids, rows, place);
    __syncthreads();
    list_experts<uint32_t>(p, rows);
    __syncthreads();
    for (int64_t pair = threadIdx.x; pair < p.pairs; pair += ALIGN_THREADS) {
        int32_t id = id_of(ids, pair, p.pairs, p.E);
        put_pair(p, pair, top_k, id < 0 ? -1 : rows[id] + place[pair]);
    }
}

/* Pairs of each expert in a chunk; sums of integers have no order. */
__global__ static void moe_count(const struct moe_plan p, const int32_t *ids)
{
    extern __shared__ int32_t count[];
    int64_t first = blockIdx.x * p.chunk,
            end = first + p.chunk < p.pairs ? first + p.chunk : p.pairs;
    for (int64_t e = threadIdx.x; e < p.E; e += blockDim.x) count[e] = 0;
    __syncthreads();
    for (int64_t pair = first + threadIdx.x; pair < end; pair += blockDim.x) {
        int32_t id = id_of(ids, pair, end, p.E);
        if (id >= 0) atomicAdd(&count[id], 1);
    }
    __syncthreads();
    for (int64_t e = threadIdx.x; e < p.E; e += blockDim.x)
        p.chunk_count[blockIdx.x * p.E + e] = count[e];
}

/* Counts of chunks become the places before each chunk, then experts and tiles are listed. Counts
 * are read SCAN_STEP at a time: a load must not wait for the store before it. */
__global__ static void __launch_bounds__(ALIGN_THREADS) moe_scan(const struct moe_plan p)
{
    extern __shared__ int32_t rows[];
    for (int64_t e = threadIdx.x; e < p.E; e += ALIGN_THREADS) {
        int32_t sum = 0;
        for (int64_t first = 0; first < p.chunks; first += SCAN_STEP) {
            int32_t n[SCAN_STEP];
#pragma unroll
            for (int c = 0; c < SCAN_STEP; c++)
                n[c] = first + c < p.chunks ? p.chunk_count[(first + c) * p.E + e] : 0;
#pragma unroll
            for (int c = 0; c < SCAN_STEP; c++) {
                if (first + c < p.chunks) p.chunk_count[(first + c) * p.E + e] = sum;
                sum += n[c];
            }
        }
        rows[e] = sum;
    }
    __syncthreads();
    list_experts<unsigned long long>(p, rows);
}

/* One warp a chunk. */
__global__ static void moe_place(const struct moe_plan p, int64_t top_k, const int32_t *ids)
{
    extern __shared__ int32_t next[];
    int64_t first = blockIdx.x * p.chunk,
            end = first + p.chunk < p.pairs ? first + p.chunk : p.pairs;
    for (int64_t e = threadIdx.x; e < p.E; e += 32)
        next[e] = p.offset[e] + p.chunk_count[blockIdx.x * p.E + e];
    __syncwarp();
    for (int64_t at = first; at < end; at += 32) {
        int64_t pair = at + threadIdx.x;
        int32_t row = take_place(next, id_of(ids, pair, end, p.E));
        if (pair < end) put_pair(p, pair, top_k, row);
    }
}

/* A warp a class of sizes: how many tiles it has, then, after those of the larger ones, its tiles
 * in their order. */
__global__ static void __launch_bounds__(32 * MOE_SIZES)
    moe_sort(const struct moe_plan p, struct moe_tile *out)
{
    __shared__ int32_t count[MOE_SIZES];
    int lane = threadIdx.x % 32, size = threadIdx.x / 32;
    int32_t n = *p.tiles, mine = 0, at = 0;
    for (int32_t first = 0; first < n; first += 32) {
        bool is = first + lane < n && moe_size_class(p.tile[first + lane].rows, p.cap) == size;
        mine += __popc(__ballot_sync(~0u, is));
    }
    if (lane == 0) count[size] = mine;
    __syncthreads();
    for (int s = 0; s < size; s++) at += count[s];
    for (int32_t first = 0; first < n; first += 32) {
        struct moe_tile tile = p.tile[min(first + lane, n - 1)];
        bool is = first + lane < n && moe_size_class(tile.rows, p.cap) == size;
        unsigned same = __ballot_sync(~0u, is);
        if (is) out[at + __popc(same & ((1u << lane) - 1))] = tile;
        at += __popc(same);
    }
}

const struct moe_tile *moe_by_size(struct gpu *g, const struct moe_plan *p, struct err *err)
{
    struct moe_tile *out = gpu_new<struct moe_tile>(g, p->tiles_max, "tiles by size", err);
    CHECK(p->cap <= 8 * MOE_SIZES);
    if (!out || GPU_LAUNCH(g, err, "moe_sort", "", dim3(1), dim3(32 * MOE_SIZES), 0, moe_sort, *p,
                           out) != ERR_OK)
        return NULL;
    return out;
}

enum err_code moe_plan_new(struct gpu *g, int64_t T, int64_t top_k, int64_t E, int32_t cap,
                           struct moe_plan *out, struct err *err)
{
    struct moe_plan p = {};
    p.pairs = T * top_k;
    p.E = E;
    p.cap = cap;
    if (p.pairs > INT32_MAX || E > MOE_EXPERTS_MAX)
        return err_set(err, ERR_INPUT,
                       "route tokens to experts|op moe on gpu|%lld tokens, %lld slots, %lld "
                       "experts|at most 2^31 - 1 pairs and %d experts",
                       (long long)T, (long long)top_k, (long long)E, MOE_EXPERTS_MAX);
    p.tiles_max = moe_tiles_max(p.pairs, E, cap);
    if (p.pairs > MOE_PAIRS_SMALL) {
        p.chunk = moe_chunk(p.pairs);
        p.chunks = (p.pairs + p.chunk - 1) / p.chunk;
        p.chunk_count = gpu_new<int32_t>(g, p.chunks * E, "counts of experts", err);
    }
    p.token_of = gpu_new<int32_t>(g, p.pairs, "tokens of rows", err);
    p.row_of = gpu_new<int32_t>(g, p.pairs, "rows of tokens", err);
    p.tile = gpu_new<struct moe_tile>(g, p.tiles_max, "tiles of experts", err);
    p.offset = gpu_new<int32_t>(g, E + 1, "first rows of experts", err);
    p.ready = gpu_new<uint32_t>(g, p.tiles_max + 1, "progress of tiles", err);
    p.tiles = gpu_new<int32_t>(g, 1, "number of tiles", err);
    *out = p;
    return err->code;
}

enum err_code moe_align(struct gpu *g, const struct moe_plan *p, int64_t top_k, const int32_t *ids,
                        struct err *err)
{
    size_t shared = (size_t)p->E * sizeof(int32_t);
    if (!p->chunk_count) {
        size_t counts = (size_t)((p->pairs + 31) / 32 * p->E) * sizeof(uint16_t);
        bool by_warps =
            p->pairs > 32 && shared + counts + (size_t)p->pairs * sizeof(int32_t) <= ALIGN_SHARED;
        const struct gpu_launch l = {"moe_align_small",
                                     by_warps ? "one block" : "one warp",
                                     dim3(1),
                                     dim3(ALIGN_THREADS),
                                     shared + (size_t)p->pairs * sizeof(int32_t) +
                                         (by_warps ? counts : 0),
                                     true};
        return gpu_launch(g, &l, err, moe_align_small, *p, top_k, ids, by_warps);
    }
    dim3 grid((unsigned)p->chunks);
    if (GPU_LAUNCH(g, err, "moe_count", "", grid, dim3(256), shared, moe_count, *p, ids) !=
            ERR_OK ||
        GPU_LAUNCH(g, err, "moe_scan", "", dim3(1), dim3(ALIGN_THREADS), shared, moe_scan, *p) !=
            ERR_OK)
        return err->code;
    return GPU_LAUNCH(g, err, "moe_place", "", grid, dim3(32), shared, moe_place, *p, top_k, ids);
}
