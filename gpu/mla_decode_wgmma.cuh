/* mla_decode_wgmma.cuh: what lies where in a block of gpu/mla_decode_wgmma.cu, how its roles find
 * their way, and the work of its copiers. Private to it. */
#ifndef ASSAY_GPU_MLA_DECODE_WGMMA_CUH
#define ASSAY_GPU_MLA_DECODE_WGMMA_CUH

#include "gpu/mla_decode_sm90.cuh"

enum {
    TILES = 3, /* places for boxes 0 to 5 and the roped keys */
    LATES = 2, /* and for boxes 6 and 7 */
    MIXERS = 256,
    SCORERS = 128,
    COPIERS = 128,
    THREADS = MIXERS + SCORERS + COPIERS,
    HELD = 6, /* boxes of queries in registers; in shared memory: */
    KEPT = BOXES - HELD,
    STEPS = HELD * 4,  /* of 16 columns, in registers */
    LATE = GROUPS - 1, /* the group that is boxes 6 and 7 */
    TILE = KEPT * BOX, /* where the places begin */
    EARLY_BYTES = (HELD + 1) * BOX,
    LATE_BYTES = 2 * BOX,
    WEIGHTS = HELD * BOX, /* in a tile's place: where the roped keys were */
    PLACES = TILES * EARLY_BYTES + LATES * LATE_BYTES,
};

/* Behind the places. */
struct decode_state {
    uint64_t full[TILES][GROUPS], empty[TILES], late_empty[LATES];
    uint64_t weighed[TILES]; /* mixers may begin */
    float keep[TILES][TALL]; /* factor of earlier results */
    struct decode_plan plan;
};

enum { SHARED = TILE + PLACES + (int)sizeof(struct decode_state) };
static_assert(SHARED <= 232448, "more than a block may have");
static_assert(WEIGHT_BYTES <= BOX, "weights lie where a box was");

#if WGMMA_HERE

/* What all roles know. Tiles are counted through all parts of the block: the n-th lies in place n %
 * TILES, its boxes 6 and 7 in place n % LATES. */
struct block {
    const struct mla_attend &a;
    const struct decode_maps &maps;
    uint32_t base;
    struct decode_state *state;
};

/* Where a role stands: a tile's place, and that of its boxes 6 and 7. */
struct place {
    struct ring_place tile, late;
};

__device__ static inline void next_tile(struct place &p)
{
    place_next<TILES>(p.tile);
    place_next<LATES>(p.late);
}

/* Boxes 0 to 5 lie side by side, then the roped keys. */
__device__ static inline uint32_t tile_at(const struct block &b, const struct place &p)
{
    return b.base + TILE + p.tile.slot * EARLY_BYTES;
}

__device__ static inline uint32_t late_at(const struct block &b, const struct place &p)
{
    return b.base + TILE + TILES * EARLY_BYTES + p.late.slot * LATE_BYTES;
}

/* Box k of a tile. */
__device__ static inline uint32_t box_at(uint32_t tile, uint32_t late, int k)
{
    if (k == BOXES - 1) return tile + HELD * BOX;
    return k < HELD ? tile + k * BOX : late + (k - HELD) * BOX;
}

/* The same in all lanes, and known to be: what depends on it is done once for a warp. */
__device__ static inline int uniform(int x)
{
    return __shfl_sync(0xffffffffu, x, 0);
}

/* Items of the work list; this block's: take_item(). */
__device__ static inline int items_of(const struct block &b)
{
    int blocks = ((int)b.a.heads + TALL - 1) / TALL;
    return uniform(blocks * first_part(&b.state->plan, MLA_ROWS));
}

__device__ static inline struct decode_part part_of(const struct block &b, int item)
{
    return find_part(b.a, &b.state->plan, item, TALL);
}

/* Tokens of a part. */
__device__ static inline int length_of(const struct block &b, int item)
{
    struct decode_part part = part_of(b, item);
    return uniform(part.end - part.begin);
}

/* The number under which a part's results lie. */
__device__ static inline int64_t place_of(const struct block &b, const struct decode_part &part)
{
    if (!b.a.places) return part.number;
    return part.row * b.a.places + part.index;
}

/* A warp arrives as a whole: all its lanes have done what they tell. */
__device__ static inline void warp_arrive(const struct block &b, uint64_t *at)
{
    __syncwarp();
    if (threadIdx.x % 32 == 0 || b.maps.every_lane) barrier_arrive(smem_of(at));
}

/* Has the round ended? The same for all lanes. */
__device__ static inline bool warp_sees(uint32_t barrier, uint32_t phase)
{
    return __all_sync(0xffffffffu, barrier_is_done(barrier, phase));
}

/* ---- copiers ---- */

/* Group u of a tile, whose place is free: the copy engine's, entries from `entry` on. */
__device__ static inline void copy_boxes(const struct block &b, const struct place &p, int u,
                                         int entry)
{
    uint32_t full = smem_of(&b.state->full[p.tile.slot][u]);
    barrier_arrive_many(full, COPIERS - 1);
    barrier_expect(full, group_boxes(u) * BOX);
    for (int k = group_box(u); k < group_box(u) + group_boxes(u); k++)
        copy_tile_box(b.maps, box_at(tile_at(b, p), late_at(b, p), k), k, entry, full);
}

__device__ static inline void wait_early(const struct block &b, const struct place &p)
{
    barrier_wait(smem_of(&b.state->empty[p.tile.slot]), p.tile.phase ^ 1);
}

__device__ static inline void wait_late(const struct block &b, const struct place &p)
{
    barrier_wait(smem_of(&b.state->late_empty[p.late.slot]), p.late.phase ^ 1);
}

/* A whole tile, by one thread. All wait, to stay in step with the places. */
__device__ static inline void copy_whole(const struct block &b, const struct place &p, int entry)
{
    bool leads = threadIdx.x == MIXERS + SCORERS;
    wait_early(b, p);
#pragma unroll
    for (int u = 0; u < LATE; u++)
        if (leads) copy_boxes(b, p, u, entry);
    wait_late(b, p);
    if (leads) copy_boxes(b, p, LATE, entry);
}

/* A tile by threads, each row from where its entry lies; zeros past the part's end. */
__device__ static inline void copy_rows(const struct block &b, const struct place &p,
                                        const struct decode_row &row, int token, int end)
{
    struct decode_source<TOKENS, COPIERS> source;
    int chunk = threadIdx.x % 8, r = threadIdx.x % COPIERS / 8;
    find_entries(b.a, row, token, end, &source);
#pragma unroll
    for (int i = 0; i < source.ROWS; i++) {
        bool valid = source.entry[i] >= 0;
        const bf16 *from = b.a.keys.key + (valid ? source.entry[i] * b.a.keys.step : 0) + chunk * 8;
#pragma unroll
        for (int k = 0; k < BOXES; k++)
            copy16(box_at(tile_at(b, p), late_at(b, p), k) + box_chunk(r + i * source.STEP, chunk),
                   from + k * BOX_COLUMNS, valid);
    }
    for (int u = 0; u < GROUPS; u++) barrier_arrive_copied(smem_of(&b.state->full[p.tile.slot][u]));
}

/* Tiles of one part. The next tile's block is looked up one tile ahead. In a block's first part the
 * second tile is not asked for before the first arrives: all blocks begin at once, and what they
 * ask for would stand before the queries. */
__device__ static inline void copy_part(const struct block &b, const struct decode_part &part,
                                        struct place &p, bool first)
{
    struct decode_row row = find_row(b.a, part.row);
    uint32_t size = (uint32_t)b.a.keys.block;
    int whole_end = b.maps.paged ? min(part.end, row.span) : 0;
    int next = part.begin + TOKENS <= whole_end ? row.table[part.begin / size] : 0;
    for (int token = part.begin; token < part.end; token += TOKENS, next_tile(p)) {
        int base = next;
        if (first && token == part.begin + TOKENS) barrier_wait(smem_of(&b.state->full[0][0]), 0);
        if (token + 2 * TOKENS <= whole_end) next = row.table[(token + TOKENS) / size];
        if (token + TOKENS <= whole_end) {
            copy_whole(b, p, base * (int)size + (int)(token % size));
        } else {
            wait_early(b, p);
            wait_late(b, p);
            copy_rows(b, p, row, token, part.end);
        }
    }
}

__device__ static inline void run_copiers(const struct block &b)
{
    const int items = items_of(b);
    struct place p = {};
    for (int n = 0, item; (item = take_item(n)) < items; n++)
        copy_part(b, part_of(b, item), p, n == 0);
}

#endif
#endif
