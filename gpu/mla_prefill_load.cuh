/* mla_prefill_load.cuh: what gpu/mla_prefill_wgmma.cu has in shared memory, and the thread that has
 * it copied there. Private to that file. */
#ifndef ASSAY_GPU_MLA_PREFILL_LOAD_CUH
#define ASSAY_GPU_MLA_PREFILL_LOAD_CUH

#include "gpu/mla_prefill.cuh"
#include "gpu/mla_prefill_order.h"
#include "gpu/mla_wgmma.cuh"
#include "gpu/moe_barrier.cuh"
#include "gpu/tensor_map.cuh"

enum {
    TOKENS = 128,
    STAGES = 2,
    GROUPS = 2, /* warpgroups that compute */
    GROUP_ROWS = PREFILL_ROWS / GROUPS,
    WARPS = GROUPS * 4,
    THREADS = (GROUPS + 1) * 128,
    BOX = TOKENS * BOX_ROW, /* of queries too: as many rows */
    QUERY_BYTES = KEY_BOXES * BOX,
    KEY_BYTES = KEY_BOXES * BOX,
    VALUE_BYTES = VALUE_BOXES * BOX,
    KEYS = QUERY_BYTES,
    VALUES = KEYS + STAGES * KEY_BYTES,
    STATE = VALUES + STAGES * VALUE_BYTES,
};
static_assert((int)PREFILL_ROWS == TOKENS, "boxes of queries and tokens are alike");

/* In place of a tile's head: there is none; BEGIN: none was computed before. */
enum { NONE = -1, BEGIN = -2 };

struct prefill_state {
    uint64_t query_full, query_empty;
    uint64_t key_full[STAGES], key_empty[STAGES], value_full[STAGES], value_empty[STAGES];
    struct prefill_tile tile; /* that the queries are of; head NONE: there are no more */
};

enum { SHARED = STATE + (int)sizeof(struct prefill_state) };
static_assert(SHARED <= 232448, "more than a block may have");

struct prefill_job {
    struct mla_prefill p;
    struct prefill_order order;
    int *taken;      /* tiles that were taken up beyond the first of each block */
    bool every_lane; /* each lane says that it has read a place, not one for its warp:
                        gpu/context.cuh */
    CUtensorMap q, kv, rope;
};

#if WGMMA_HERE

struct block {
    const struct prefill_job &job;
    uint32_t base;
    struct prefill_state *state;
};

/* Tiles of tokens that a tile of queries sees. */
__device__ static int token_tiles(const struct prefill_job &job, int block)
{
    return (int)((prefill_end(job.p, (int64_t)block * PREFILL_ROWS) + TOKENS - 1) / TOKENS);
}

/* Head NONE: there are no more, and nothing comes. */
__device__ static void load_queries(const struct block &b, struct prefill_tile t, uint32_t round)
{
    uint32_t full = smem_of(&b.state->query_full);
    barrier_wait(smem_of(&b.state->query_empty), round ^ 1);
    b.state->tile = t;
    if (t.head == NONE) {
        barrier_arrive(full);
        return;
    }
    barrier_expect(full, QUERY_BYTES);
    for (int i = 0; i < KEY_BOXES; i++)
        tile_copy(b.base + i * BOX, b.job.q, i * BOX_COLUMNS, t.head, t.block * PREFILL_ROWS, full);
}

__device__ static void load_keys(const struct block &b, int head, int j, struct ring_place &at)
{
    uint32_t full = smem_of(&b.state->key_full[at.slot]), to = b.base + KEYS + at.slot * KEY_BYTES;
    barrier_wait(smem_of(&b.state->key_empty[at.slot]), at.phase ^ 1);
    barrier_expect(full, KEY_BYTES);
    tile_copy(to, b.job.kv, 0, head, j * TOKENS, full);
    tile_copy(to + BOX, b.job.kv, BOX_COLUMNS, head, j * TOKENS, full);
    tile_copy(to + 2 * BOX, b.job.rope, 0, 0, j * TOKENS, full);
    place_next<STAGES>(at);
}

__device__ static void load_values(const struct block &b, int head, int j, struct ring_place &at)
{
    uint32_t full = smem_of(&b.state->value_full[at.slot]);
    uint32_t to = b.base + VALUES + at.slot * VALUE_BYTES;
    barrier_wait(smem_of(&b.state->value_empty[at.slot]), at.phase ^ 1);
    barrier_expect(full, VALUE_BYTES);
    tile_copy(to, b.job.kv, 2 * BOX_COLUMNS, head, j * TOKENS, full);
    tile_copy(to + BOX, b.job.kv, 3 * BOX_COLUMNS, head, j * TOKENS, full);
    place_next<STAGES>(at);
}

/* Everything in the order in which it is needed: scores are a tile of tokens ahead of values,
 * queries and the choice of their tile some more: late enough that who is done first takes the next
 * one. */
__device__ static void run_loader(const struct block &b)
{
    struct ring_place key = {0, 0}, value = {0, 0};
    uint32_t round = 0;
    int all = prefill_tiles(b.job.order), n = blockIdx.x;
    struct prefill_tile t = prefill_tile_at(b.job.order, n), next = {NONE, 0};
    load_queries(b, t, round);
    load_keys(b, t.head, token_tiles(b.job, t.block) - 1, key);
    while (n < all) {
        int count = token_tiles(b.job, t.block);
        for (int j = count - 1; j >= 0; j--) {
            if (j == (count > 2 ? 2 : count - 1)) n = (int)gridDim.x + atomicAdd(b.job.taken, 1);
            if (j == (count > 2 ? 1 : 0)) {
                next = n < all ? prefill_tile_at(b.job.order, n) : prefill_tile{NONE, 0};
                load_queries(b, next, round ^= 1);
            }
            if (j > 0)
                load_keys(b, t.head, j - 1, key);
            else if (n < all)
                load_keys(b, next.head, token_tiles(b.job, next.block) - 1, key);
            load_values(b, t.head, j, value);
        }
        t = next;
    }
}

__device__ static void make_barriers(struct prefill_state *state, bool every_lane)
{
    const uint32_t readers = every_lane ? WARPS * 32 : WARPS;
    barrier_init(smem_of(&state->query_full), 1);
    barrier_init(smem_of(&state->query_empty), readers);
    for (int i = 0; i < STAGES; i++) {
        barrier_init(smem_of(&state->key_full[i]), 1);
        barrier_init(smem_of(&state->value_full[i]), 1);
        barrier_init(smem_of(&state->key_empty[i]), readers);
        barrier_init(smem_of(&state->value_empty[i]), readers);
    }
    barrier_publish();
}

#endif
#endif
