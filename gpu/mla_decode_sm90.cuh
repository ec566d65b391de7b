/* mla_decode_sm90.cuh: what the decode kernels of sm_90a share: the copy engine, and how weights
 * are made; and what those of whole warpgroups do: the groups in which a tile arrives and is
 * multiplied, scores and weights of a tile. Private to gpu/mla_decode_*.cu. */
#ifndef ASSAY_GPU_MLA_DECODE_SM90_CUH
#define ASSAY_GPU_MLA_DECODE_SM90_CUH

#include "gpu/launch.cuh"
#include "gpu/mla_decode.cuh"
#include "gpu/mla_decode_variants.cuh"
#include "gpu/mla_wgmma.cuh"
#include "gpu/moe_barrier.cuh"

enum {
    TALL = 64,         /* heads of a block */
    TOKENS = MLA_PAGE, /* of a tile */
    BOX = TOKENS * BOX_ROW,
    WEIGHT_BYTES = TALL * BOX_ROW,
    GROUPS = 5, /* of boxes of a tile */
};

/* Group 0 is the roped key, the others are two boxes each, in the order in which scores are summed:
 * columns 0, 256, 128, 384. */
__host__ __device__ constexpr int group_box(int u)
{
    return u == 0 ? 8 : (u - 1) % 2 * 4 + (u - 1) / 2 * 2;
}

__host__ __device__ constexpr int group_boxes(int u)
{
    return u == 0 ? 1 : 2;
}

#if WGMMA_HERE

/* ---- one tile ---- */

/* Masks tokens from `left` on; most[r]: the largest score of this thread's two rows. */
__device__ static inline void mask_tile(float (&s)[32], int left, float (&most)[2])
{
    int column = threadIdx.x % 4 * 2;
    most[0] = most[1] = -INFINITY;
    if (left < TOKENS) {
#pragma unroll
        for (int i = 0; i < 32; i++)
            if (i / 4 * 8 + column + i % 2 >= left) s[i] = -INFINITY;
    }
#pragma unroll
    for (int i = 0; i < 32; i++) most[i / 2 % 2] = fmaxf(most[i / 2 % 2], s[i]);
    most[0] = quad_max(most[0]);
    most[1] = quad_max(most[1]);
}

/* Weights of bf16 (RP_PROB), two columns a word, and their sums over the tile. */
__device__ static inline void weigh_tile(const float (&s)[32], float scale,
                                         const float (&largest)[2], uint32_t (&p)[16],
                                         float (&sum)[2])
{
    sum[0] = sum[1] = 0;
#pragma unroll
    for (int i = 0; i < 32; i += 2) {
        int r = i / 2 % 2;
        float p0 = mla_exp2(fmaf(s[i], scale, -largest[r]));
        float p1 = mla_exp2(fmaf(s[i + 1], scale, -largest[r]));
        sum[r] += p0 + p1;
        p[i / 2] = pack_pair(p0, p1);
    }
    sum[0] = quad_sum(sum[0]);
    sum[1] = quad_sum(sum[1]);
}

/* The first of the two heads, eight apart, that a thread of a warpgroup holds of a product. */
__device__ static inline int first_head(void)
{
    return threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
}

__device__ static inline void put_weights(uint32_t weights, const uint32_t (&p)[16])
{
    int t = threadIdx.x % 4, first = first_head();
#pragma unroll
    for (int i = 0; i < 16; i++) {
        uint32_t at = weights + box_chunk(first + i % 2 * 8, i / 2) + t * 4;
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(p[i]) : "memory");
    }
}

/* What weights are relative to, and the sum of weights, of one row after more and more tiles. */
struct row_state {
    float largest, sum;
};

/* After a tile whose largest score is `most`; what earlier results are multiplied by. */
__device__ static inline float raise_row(struct row_state *row, float most, float scale)
{
    float next = mla_raise(row->largest, most * scale), keep = mla_exp2(row->largest - next);
    row->largest = next;
    return keep;
}

/* ---- the copy engine ---- */

/* The engine will need this map. */
__device__ static inline void fetch_map(const CUtensorMap *map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/* Begins to copy the box at columns from c and rows from `row` on. */
__device__ static inline void copy_box(const CUtensorMap *map, uint32_t to, int c, int row,
                                       uint32_t barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
                 "l"(map), "r"(c), "r"(row), "r"(barrier)
                 : "memory");
}

/* The same of the cache, which is read once: it leaves the far cache to others. */
__device__ static inline void copy_box_once(const CUtensorMap *map, uint32_t to, int c, int row,
                                            uint32_t barrier)
{
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
                 "l"(map), "r"(c), "r"(row), "r"(barrier), "l"(policy)
                 : "memory");
}

/* Box k of a tile of entries from `entry` on. */
__device__ static inline void copy_tile_box(const struct decode_maps &maps, uint32_t to, int k,
                                            int entry, uint32_t barrier)
{
    if (maps.once)
        copy_box_once(&maps.tile, to, k * BOX_COLUMNS, entry, barrier);
    else
        copy_box(&maps.tile, to, k * BOX_COLUMNS, entry, barrier);
}

/* A barrier of 128 threads: 1 to 15. */
__device__ static inline void group_meet(int id)
{
    asm volatile("bar.sync %0, 128;" ::"r"(id) : "memory");
}

#endif
#endif
