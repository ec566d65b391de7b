/* mla_decode_spread.cuh: what lies where in a block of gpu/mla_decode_spread.cu, and the work of
 * its copiers. Private to it. */
#ifndef ASSAY_GPU_MLA_DECODE_SPREAD_CUH
#define ASSAY_GPU_MLA_DECODE_SPREAD_CUH

#include "gpu/mla_decode_sm90.cuh"

enum {
    SPREAD = 16, /* blocks, tiles at once */
    COLUMNS = LATENT / SPREAD,
    NARROW_ROW = COLUMNS * 2,           /* bytes of values of a token */
    NARROW_BYTES = TOKENS * NARROW_ROW, /* and of a tile */
    SUM_BYTES = TALL * 4,
    SENT_BYTES = MLA_SENT_BYTES, /* of a tile: weights, sums */
    ALL = (1 << SPREAD) - 1,     /* blocks of the cluster */
    WORKERS = 128,
    COPIERS = 128,
    THREADS = WORKERS + COPIERS,
};

/* Behind queries and the tile, in whose place the weights of all tiles come, and the values. */
struct spread_state {
    uint64_t full[GROUPS];               /* queries and tile, by groups */
    uint64_t values;                     /* of all tiles */
    uint64_t weighed[SPREAD];            /* weights of the other tiles */
    float most[SPREAD][TALL];            /* largest scores of a tile */
    alignas(16) float sum[SPREAD][TALL]; /* sums of its weights */
    bool last;
};

enum {
    VALUES = QUERY_BYTES + TILE_BYTES,
    SHARED = VALUES + SPREAD * NARROW_BYTES + (int)sizeof(struct spread_state)
};
static_assert(SHARED <= 232448, "more than a block may have");
static_assert(WEIGHT_BYTES + SUM_BYTES <= SENT_BYTES, "what is sent of a tile");
static_assert(SPREAD * WEIGHT_BYTES <= VALUES, "the weights lie where queries and tile were");

#if WGMMA_HERE

/* What all threads know of the block's part. */
struct spread {
    const struct mla_attend &a;
    const struct decode_maps &maps;
    struct decode_part part;
    int parts; /* of the row */
    uint32_t base, rank;
    struct spread_state *state;
    char *weights; /* of the part's tiles, for the other blocks */
};

/* Tiles of the round that begins at `token`. */
__device__ static inline int tiles_of(const struct spread &b, int token)
{
    return min((b.part.end - token + TOKENS - 1) / TOKENS, (int)SPREAD);
}

/* The entry of a token whose tile the copy engine can bring; -1: it cannot. */
__device__ static inline int whole_tile(const struct spread &b, const struct decode_row &row,
                                        int token)
{
    int size = (int)b.a.keys.block;
    if (!b.maps.paged || token + TOKENS > min(b.part.end, row.span)) return -1;
    return row.table[token / size] * size + token % size;
}

/* Begins to copy this block's tile; the leader says what else each group brings. */
__device__ static inline void copy_own_tile(const struct spread &b, const struct decode_row &row,
                                            int token, bool leads)
{
    uint32_t tile = b.base + QUERY_BYTES;
    int entry = token < b.part.end ? whole_tile(b, row, token) : -1;
    for (int u = 0; u < GROUPS && leads; u++) {
        uint32_t full = smem_of(&b.state->full[u]);
        barrier_expect(full, group_boxes(u) * BOX * (entry < 0 ? 1 : 2));
        if (entry >= 0) copy_group(b.maps, tile, u, entry, full);
    }
    if (entry < 0) {
        struct decode_source<TOKENS, COPIERS> source;
        find_entries(b.a, row, token, b.part.end, &source);
        copy_tile(b.a, tile, BOX, source);
    }
    for (int u = 0; u < GROUPS; u++) barrier_arrive_copied(smem_of(&b.state->full[u]));
}

/* Values of a tile that is not whole: 32 columns of each token, swizzled as the narrow operand. */
__device__ static inline void copy_narrow(const struct spread &b, const struct decode_row &row,
                                          int token, uint32_t to)
{
    int chunk = threadIdx.x % 4;
    for (int r = threadIdx.x % COPIERS / 4; r < TOKENS; r += COPIERS / 4) {
        int j = token + r;
        int64_t entry = 0;
        if (j < b.part.end) {
            uint32_t slot = (uint32_t)(j < row.span ? j : row.extra[j - row.span]);
            uint32_t size = (uint32_t)b.a.keys.block;
            entry = row.table[slot / size] * b.a.keys.block + slot % size;
        }
        const bf16 *from = b.a.keys.key + entry * b.a.keys.step + b.rank * COLUMNS + chunk * 8;
        copy16(to + r * NARROW_ROW + ((chunk ^ (r / 2 % 4)) << 4), from, j < b.part.end);
    }
}

/* Begins to copy this block's columns of all tiles of the round. Each of the first threads asks
 * for one tile; what none can ask for, all copy. */
__device__ static inline void copy_values(const struct spread &b, const struct decode_row &row,
                                          int token)
{
    uint32_t values = smem_of(&b.state->values);
    int mine = threadIdx.x % COPIERS, tiles = tiles_of(b, token);
    if (mine < tiles) {
        int entry = whole_tile(b, row, token + mine * TOKENS);
        if (entry >= 0) {
            barrier_expect_more(values, NARROW_BYTES);
            copy_box(&b.maps.narrow, b.base + VALUES + mine * NARROW_BYTES, (int)b.rank * COLUMNS,
                     entry, values);
        }
    }
    for (int j = 0; j < tiles; j++) {
        int at = token + j * TOKENS;
        if (b.maps.paged && at + TOKENS <= min(b.part.end, row.span)) continue;
        copy_narrow(b, row, at, b.base + VALUES + j * NARROW_BYTES);
    }
    barrier_arrive_copied(values);
}

/* One box of the queries, to all blocks; of heads that there are none come those of the next row.
 */
__device__ static inline void copy_queries(const struct spread &b)
{
    int row = b.part.row * (int)b.a.heads + b.part.head, box = (int)b.rank;
    for (int u = 0; u < GROUPS; u++) {
        uint32_t full = smem_of(&b.state->full[u]);
        if (box < group_box(u) || box >= group_box(u) + group_boxes(u)) continue;
        if (u == 0)
            copy_box_to(&b.maps.rope, b.base + box * BOX, 0, row, full, ALL);
        else
            copy_box_to(&b.maps.query, b.base + box * BOX, box * BOX_COLUMNS, row, full, ALL);
    }
}

/* Bytes of weights of a tile, of the heads that there are. */
__device__ static inline int weight_bytes(const struct spread &b)
{
    return min((int)b.a.heads - b.part.head, (int)TALL) * BOX_ROW;
}

/* The barriers of the round's tiles wait for what the other blocks will send. */
__device__ static inline void expect_weights(const struct spread &b, int tiles)
{
    int j = threadIdx.x % COPIERS;
    if (j < tiles && j != (int)b.rank)
        barrier_expect(smem_of(&b.state->weighed[j]), weight_bytes(b) + SUM_BYTES);
}

/* The other blocks' barriers are there, and the queries. */
__device__ static inline void ready_for_queries(void)
{
    cluster_wait();
    wait_for_launch_before();
    proxies_meet();
}

/* The first round's latents do not wait for the launch before: the cache was written before that
 * one began. */
__device__ static inline void run_copiers(const struct spread &b)
{
    int warp = threadIdx.x % COPIERS / 32;
    bool leads = threadIdx.x % 32 == 0, first = true;
    for (int token = b.part.begin; token < b.part.end; token += SPREAD * TOKENS) {
        if (!first) cluster_meet();
        expect_weights(b, tiles_of(b, token));
        if (warp == 1) { /* queries and tile come side by side */
            if (first) ready_for_queries();
            if (leads) copy_queries(b);
        }
        struct decode_row row = find_row(b.a, b.part.row);
        copy_own_tile(b, row, token + (int)b.rank * TOKENS, warp == 0 && leads);
        if (first && warp != 1) ready_for_queries();
        copy_values(b, row, token); /* last, as they are needed last */
        cluster_meet();             /* largest scores */
        first = false;
    }
}

#endif
#endif
