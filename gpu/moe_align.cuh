/* moe_align.cuh: what moe_align.cu and router_few.cu share of the permutation: from how many rows
 * each expert has to the list of tiles; and all of it for a few tokens that were just chosen for.
 * Private to these. */
#ifndef ASSAY_GPU_MOE_ALIGN_CUH
#define ASSAY_GPU_MOE_ALIGN_CUH

#include "gpu/moe_parts.cuh"

enum {
    ALIGN_THREADS = 512,
    ALIGN_WARPS = ALIGN_THREADS / 32,
    ALIGN_WORD = 32, /* tokens that a word has a bit for */
    ALIGN_WORDS = 4,
    ALIGN_TOKENS = ALIGN_WORD * ALIGN_WORDS, /* of align_sets() */
    ALIGN_PAIRS = MOE_PAIRS_SMALL
};

#ifdef __CUDACC__

/* Sum of v of the threads before this one; *all: of all. */
template <typename N> __device__ static inline N block_scan(N v, N *all)
{
    __shared__ N warp_sum[ALIGN_WARPS];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    N sum = v, before = 0;
    for (int step = 1; step < 32; step *= 2) {
        N other = __shfl_up_sync(~0u, sum, step);
        if (lane >= step) sum += other;
    }
    __syncthreads();
    if (lane == 31) warp_sum[warp] = sum;
    __syncthreads();
    *all = 0;
#pragma unroll
    for (int w = 0; w < ALIGN_WARPS; w++) {
        if (w < warp) before += warp_sum[w];
        *all += warp_sum[w];
    }
    return before + sum - v;
}

/* From the rows of each expert: offsets and tiles. Called by a whole block; `rows` and the result
 * may be the same array of shared or global memory, [E]: it then holds the first rows. Rows lie in
 * the low half of an N, tiles in the high one: one scan for both. */
template <typename N>
__device__ static inline void list_experts(const struct moe_plan &p, int32_t *rows)
{
    const int half = 4 * sizeof(N);
    const N low = ((N)1 << half) - 1;
    N base = 0;
    for (int64_t first = 0; first < p.E; first += ALIGN_THREADS) {
        int64_t e = first + threadIdx.x;
        int32_t n = e < p.E ? rows[e] : 0;
        N all, at = base + block_scan((N)moe_parts(n, p.cap) << half | (N)n, &all);
        int32_t row = (int32_t)(at & low), tile = (int32_t)(at >> half);
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
        p.offset[p.E] = (int32_t)(base & low);
        *p.tiles = (int32_t)(base >> half);
        p.ready[0] = 0;
    }
}

static_assert(MOE_PAIRS_SMALL <= UINT16_MAX, "rows and tiles of few pairs in half a word each");

__device__ static inline void put_pair(const struct moe_plan &p, int64_t pair, int64_t top_k,
                                       int32_t row)
{
    p.row_of[pair] = row;
    if (row >= 0) p.token_of[row] = (int32_t)(pair / top_k);
}

/* What align_sets() has in shared memory. An expert's rows are a set of tokens, ALIGN_WORD a word.
 */
struct align_room {
    uint32_t tokens[ALIGN_WORDS][ALIGN_THREADS]; /* of up to so many experts */
    int32_t rows[ALIGN_THREADS];
};

/* All of it by one block, of up to ALIGN_TOKENS tokens and ALIGN_PAIRS pairs, where each token
 * chose an expert once at most, and none that is not there; ids were written by other blocks of
 * this launch. */
__device__ static inline void align_sets(const struct moe_plan &p, int32_t top_k,
                                         const int32_t *ids, struct align_room &room)
{
    enum { EACH = ALIGN_PAIRS / ALIGN_THREADS };
    int32_t e = threadIdx.x, pairs = (int32_t)p.pairs, id[EACH], word[EACH], n = 0;
    uint32_t bit[EACH];
#pragma unroll
    for (int u = 0; u < EACH; u++) {
        int32_t i = e + u * ALIGN_THREADS, t = i / top_k;
        id[u] = i < pairs ? __ldcg(ids + i) : -1;
        word[u] = t / ALIGN_WORD;
        bit[u] = 1u << t % ALIGN_WORD;
    }
#pragma unroll
    for (int w = 0; w < ALIGN_WORDS; w++) room.tokens[w][e] = 0;
    __syncthreads();
#pragma unroll
    for (int u = 0; u < EACH; u++) {
        if (id[u] >= 0) atomicOr(&room.tokens[word[u]][id[u]], bit[u]);
    }
    __syncthreads();
#pragma unroll
    for (int w = 0; w < ALIGN_WORDS; w++) n += __popc(room.tokens[w][e]);
    room.rows[e] = n;
    list_experts<uint32_t>(p, room.rows);
    __syncthreads();
#pragma unroll
    for (int u = 0; u < EACH; u++) {
        if (id[u] < 0) continue;
        int32_t row = room.rows[id[u]];
#pragma unroll
        for (int w = 0; w < ALIGN_WORDS; w++) {
            uint32_t before = w < word[u] ? ~0u : w == word[u] ? bit[u] - 1 : 0;
            row += __popc(room.tokens[w][id[u]] & before);
        }
        put_pair(p, e + u * ALIGN_THREADS, top_k, row);
    }
}

#endif

#endif
