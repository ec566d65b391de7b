/* moe_align.cuh: what moe_align.cu and router_few.cu share of the permutation: from how many rows
 * each expert has to the list of tiles; and all of it for a few tokens that were just chosen for.
 * Private to these. */
#ifndef ASSAY_GPU_MOE_ALIGN_CUH
#define ASSAY_GPU_MOE_ALIGN_CUH

#include "gpu/moe_parts.cuh"

enum { ALIGN_THREADS = 512, ALIGN_WARPS = ALIGN_THREADS / 32 };

#ifdef __CUDACC__

/* Rows in the low half, tiles in the high one: one scan for both. */
__device__ static inline unsigned long long scan_item(int32_t rows, int32_t cap)
{
    return (unsigned long long)moe_parts(rows, cap) << 32 | (unsigned)rows;
}

/* Sum of v of the threads before this one; *all: of all. */
__device__ static inline unsigned long long block_scan(unsigned long long v,
                                                       unsigned long long *all)
{
    __shared__ unsigned long long warp_sum[ALIGN_WARPS];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned long long sum = v;
    for (int step = 1; step < 32; step *= 2) {
        unsigned long long other = __shfl_up_sync(~0u, sum, step);
        if (lane >= step) sum += other;
    }
    __syncthreads();
    if (lane == 31) warp_sum[warp] = sum;
    __syncthreads();
    unsigned long long before = 0;
    *all = 0;
    for (int w = 0; w < ALIGN_WARPS; w++) {
        if (w < warp) before += warp_sum[w];
        *all += warp_sum[w];
    }
    return before + sum - v;
}

/* From the rows of each expert: offsets and tiles. Called by a whole block; `rows` and the result
 * may be the same array of shared or global memory, [E]: it then holds the first rows. */
__device__ static inline void list_experts(const struct moe_plan &p, int32_t *rows)
{
    unsigned long long base = 0;
    for (int64_t first = 0; first < p.E; first += ALIGN_THREADS) {
        int64_t e = first + threadIdx.x;
        int32_t n = e < p.E ? rows[e] : 0;
        unsigned long long all, at = base + block_scan(scan_item(n, p.cap), &all);
        int32_t row = (int32_t)(at & 0xffffffffu), tile = (int32_t)(at >> 32);
        if (e < p.E) {
            rows[e] = row;
            p.offset[e] = row;
            for (int32_t i = 0; i < moe_parts(n, p.cap); i++) {
                p.tile[tile + i] = moe_part((int32_t)e, row, n, p.cap, i);
                p.ready[1 + tile + i] = 0;
            }
        }
        base += all;
    }
    if (threadIdx.x == 0) {
        p.offset[p.E] = (int32_t)(base & 0xffffffffu);
        *p.tiles = (int32_t)(base >> 32);
        p.ready[0] = 0;
    }
}

__device__ static inline void put_pair(const struct moe_plan &p, int64_t pair, int64_t top_k,
                                       int32_t row)
{
    p.row_of[pair] = row;
    if (row >= 0) p.token_of[row] = (int32_t)(pair / top_k);
}

/* All of it by one block, of up to 32 tokens that each chose an expert once at most, and none that
 * is not there: an expert's rows are a set of tokens. tokens, rows: [E] of shared memory; ids were
 * written by other blocks of this launch. */
__device__ static inline void align_sets(const struct moe_plan &p, int32_t top_k,
                                         const int32_t *ids, uint32_t *tokens, int32_t *rows)
{
    int32_t E = (int32_t)p.E, pairs = (int32_t)p.pairs;
    for (int32_t e = threadIdx.x; e < E; e += ALIGN_THREADS) tokens[e] = 0;
    __syncthreads();
    for (int32_t i = threadIdx.x; i < pairs; i += ALIGN_THREADS)
        atomicOr(&tokens[__ldcg(ids + i)], 1u << i / top_k);
    __syncthreads();
    for (int32_t e = threadIdx.x; e < E; e += ALIGN_THREADS) rows[e] = __popc(tokens[e]);
    __syncthreads();
    list_experts(p, rows);
    __syncthreads();
    for (int32_t i = threadIdx.x; i < pairs; i += ALIGN_THREADS) {
        int32_t id = __ldcg(ids + i);
        put_pair(p, i, top_k, rows[id] + __popc(tokens[id] & ((1u << i / top_k) - 1)));
    }
}

#endif

#endif
