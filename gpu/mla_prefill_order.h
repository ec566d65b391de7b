/* mla_prefill_order.h: in which order the tiles of a prefill are taken up; shared by the kernel and
 * its test.
 *
 * A tile is PREFILL_ROWS queries of one head. Heads come in groups whose keys and values stay in
 * the second-level cache together; within a group the last rows, which see the most tokens, come
 * first, so that what is left at the end is short. Test: tests/test_mla_prefill_order.c */
#ifndef ASSAY_GPU_MLA_PREFILL_ORDER_H
#define ASSAY_GPU_MLA_PREFILL_ORDER_H

#include <stdint.h>

#ifdef __CUDACC__
#define ORDER_BOTH __host__ __device__
#else
#define ORDER_BOTH
#endif

struct prefill_order {
    int32_t blocks; /* tiles of one head */
    int32_t heads, group;
};

struct prefill_tile {
    int32_t head, block;
};

/* `bytes`: keys and values of one head; `room`: of the cache, what a group may fill. Groups are
 * alike where the number of heads is a power of two: a small last one would begin its long tiles
 * late. */
ORDER_BOTH static inline struct prefill_order prefill_order_of(int64_t blocks, int64_t heads,
                                                               int64_t bytes, int64_t room)
{
    int64_t group = 1;
    while (2 * group <= heads && 2 * group * bytes <= room) group *= 2;
    struct prefill_order o = {(int32_t)blocks, (int32_t)heads, (int32_t)group};
    return o;
}

ORDER_BOTH static inline int32_t prefill_tiles(struct prefill_order o)
{
    return o.blocks * o.heads;
}

/* The n-th tile, 0 <= n < prefill_tiles(). */
ORDER_BOTH static inline struct prefill_tile prefill_tile_at(struct prefill_order o, int32_t n)
{
    int32_t first = n / (o.group * o.blocks) * o.group, at = n - first * o.blocks;
    int32_t heads = o.heads - first < o.group ? o.heads - first : o.group;
    struct prefill_tile t = {first + at % heads, o.blocks - 1 - at / heads};
    return t;
}

#endif
