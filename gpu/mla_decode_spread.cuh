/* mla_decode_spread.cuh: what lies where in a block of gpu/mla_decode_spread.cu, the work it has,
 * and how queries and latents come. Private to it. */
#ifndef ASSAY_GPU_MLA_DECODE_SPREAD_CUH
#define ASSAY_GPU_MLA_DECODE_SPREAD_CUH

#include "gpu/mla_decode_sm90.cuh"

enum {
    HEADS = 16, /* of a block */
    WARPS = 8,
    THREADS = WARPS * 32,
    ASKERS = 128, /* threads that copy the queries: the last ones */
    THIRDS = 3,   /* of a tile, three boxes each */
    QUERY_BOX = HEADS * BOX_ROW,
};
static_assert(BOXES == THIRDS * 3 && LATENT == WARPS * BOX_COLUMNS, "a warp's values are a box");

/* A tile is PAGES times 64 tokens. */
template <int PAGES> struct spread_shape {
    enum {
        TILE = PAGES * TOKENS,
        STAGES = PAGES == 1 ? 2 : 1,
        BLOCKS = TILE / (8 * WARPS), /* of eight tokens, that a warp scores */
        WIDE = PAGES * BOX,          /* bytes of a box */
        STAGE = BOXES * WIDE,
        QUERY = STAGES * STAGE, /* where queries begin */
        STATE = QUERY + BOXES * QUERY_BOX,
        WEIGHT_ROW = TILE + 8, /* padded: eight rows touch all banks */
    };
};

/* Behind tiles and queries. */
template <int PAGES> struct spread_state {
    bf16 weight[HEADS][spread_shape<PAGES>::WEIGHT_ROW];
    alignas(16) float each[HEADS][WARPS]; /* largest scores, then sums of weights, of a warp */
    uint64_t full[spread_shape<PAGES>::STAGES][THIRDS];
};

#define SPREAD_SHARED(PAGES) (spread_shape<PAGES>::STATE + (int)sizeof(spread_state<PAGES>))
static_assert(SPREAD_SHARED(1) <= 232448 && SPREAD_SHARED(2) <= 232448,
              "more than a block may have");

#if WGMMA_HERE

struct spread {
    const struct mla_attend &a;
    const struct decode_maps &maps;
    uint32_t base;
};

/* What a block works on: tokens [begin, end) of what `row` sees. */
struct chunk {
    int row, number, of; /* in the row; of how many, once count_chunks() has said */
    int seen, begin, end;
    struct decode_row found;
};

/* The first of the block's heads. */
__device__ static inline int first_of(const struct spread &b)
{
    return (int)blockIdx.x * HEADS;
}

/* Items are chunks of rows in order, a.places a row. */
__device__ static inline int row_of(const struct spread &b, int item)
{
    return b.a.rows == 1 ? 0 : item / (int)b.a.places;
}

__device__ static inline struct chunk find_chunk(const struct spread &b, int item)
{
    int row = row_of(b, item), number = item - row * (int)b.a.places;
    struct decode_row found = find_row(b.a, row);
    int seen = (int)mla_seen(b.a, row);
    int tokens = (int)mla_chunk_tokens(seen, b.a.unit), begin = number * tokens;
    return {row, number, 0, seen, min(begin, seen), min(begin + tokens, seen), found};
}

__device__ static inline void count_chunks(const struct spread &b, struct chunk *c)
{
    c->of = (int)mla_chunks(c->seen, b.a.unit);
}

/* Can the copy engine bring these 64 tokens? */
__device__ static inline bool whole_page(const struct spread &b, const struct chunk &c, int token)
{
    return b.maps.paged && token + TOKENS <= min(c.end, c.found.span);
}

/* The entry where they lie. */
__device__ static inline int page_entry(const struct spread &b, const struct chunk &c, int token)
{
    int size = (int)b.a.keys.block;
    if (size == TOKENS) return c.found.table[token / TOKENS] * TOKENS;
    return c.found.table[token / size] * size + token % size;
}

/* Begins to copy the whole pages of the tile at `token`: warp w box w, the first warp also the last
 * box; a lane a page. */
template <int PAGES>
__device__ static inline void copy_pages(const struct spread &b, spread_state<PAGES> *state,
                                         const struct chunk &c, int token, int stage)
{
    typedef spread_shape<PAGES> S;
    int page = threadIdx.x % 32, pages = 0;
    for (int i = 0; i < PAGES; i++) pages += whole_page(b, c, token + i * TOKENS);
    if (threadIdx.x < THIRDS)
        barrier_expect(smem_of(&state->full[stage][threadIdx.x]), pages * 3 * BOX);
    if (page >= PAGES || !whole_page(b, c, token + page * TOKENS)) return;
    int entry = page_entry(b, c, token + page * TOKENS);
    for (int box = threadIdx.x / 32; box < BOXES; box += WARPS)
        copy_box(&b.maps.tile, b.base + stage * S::STAGE + box * S::WIDE + page * BOX,
                 box * BOX_COLUMNS, entry, smem_of(&state->full[stage][box / 3]));
}

/* And the others, by all threads. Are there any? */
template <int PAGES>
__device__ static inline bool copy_rest(const struct spread &b, const struct chunk &c, int token,
                                        int stage)
{
    typedef spread_shape<PAGES> S;
    bool any = false;
#pragma unroll 1
    for (int i = 0; i < PAGES; i++) {
        struct decode_source<TOKENS, THREADS> source;
        if (whole_page(b, c, token + i * TOKENS)) continue;
        find_entries(b.a, c.found, token + i * TOKENS, c.end, &source);
        copy_tile(b.a, b.base + stage * S::STAGE + i * BOX, S::WIDE, source);
        any = true;
    }
    copy_commit();
    return any;
}

/* Begins to copy the queries of a row; zeros where there is none. */
template <int PAGES> __device__ static inline void copy_queries(const struct spread &b, int row)
{
    int chunk = threadIdx.x % 8, r = threadIdx.x / 8 % HEADS, head = first_of(b) + r;
    bool valid = head < b.a.heads;
    const bf16 *latent = b.a.q + row * b.a.q_row + (valid ? head : 0) * b.a.q_head;
    const bf16 *rope = b.a.q_rope + row * b.a.rope_row + (valid ? head : 0) * b.a.rope_head;
    uint32_t to = b.base + spread_shape<PAGES>::QUERY + box_chunk(r, chunk);
    if (threadIdx.x < THREADS - ASKERS) return;
#pragma unroll
    for (int x = 0; x < BOXES; x++)
        copy16(to + x * QUERY_BOX, (x < BOXES - 1 ? latent + x * BOX_COLUMNS : rope) + chunk * 8,
               valid);
}

#endif
#endif
