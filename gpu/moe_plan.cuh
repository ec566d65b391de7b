/* moe_plan.cuh: the permutation of a step of op moe: between gpu/moe*.cu, and of few tokens made by
 * the router as it chooses (router_few.cu). */
#ifndef ASSAY_GPU_MOE_PLAN_CUH
#define ASSAY_GPU_MOE_PLAN_CUH

#include "gpu/moe_tiles.h"

/* The permutation of a step, all of it on the device; no host ever reads it. */
struct moe_plan {
    int64_t pairs, E;
    int32_t cap;           /* rows of a tile at most */
    int64_t tiles_max;     /* room in tile[] */
    int32_t *token_of;     /* [pairs]: token of a row */
    int32_t *row_of;       /* [pairs]: row of a pair, -1: no expert */
    struct moe_tile *tile; /* [tiles_max], by expert */
    int32_t *tiles;        /* how many there are */
    int32_t *offset;       /* [E + 1]: first row of an expert */
    uint32_t *ready;      /* [1 + tiles_max], zeros: tasks taken, then of each tile of moe_stream.cu
                             how many warps have made their rows of act */
    int32_t *chunk_count; /* [chunks][E], or NULL where one block does it all */
    int64_t chunks, chunk;
    bool made; /* by gpu_router(), with its choice */
};

#endif
