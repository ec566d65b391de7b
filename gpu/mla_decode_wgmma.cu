/* mla_decode_wgmma.cu: absorbed attention over the paged cache with the warpgroup products of
 * sm_90a, for batches that fill the card. Contract: gpu/mla_decode_sm90.cuh; small batches:
 * gpu/mla_decode_spread.cu.
 *
 * A block is 64 heads of one part of one row, and takes part after part; tokens flow through two
 * tiles of 64 in shared memory. Three roles, each in warps of its own:
 *   copiers  a warpgroup: latents from the paged cache into tiles, by the copy engine where a tile
 *            is whole and lies in one block of the cache
 *   scorers  a warpgroup: queries; scores of a tile; weights of bf16 into shared memory
 *   mixers   two warpgroups: weights times values, 256 columns each; the values are the tile
 *            itself, read turned
 * A tile comes and goes in five groups of boxes, each behind barriers of its own: scores begin with
 * the first group that is there, and a group's place is filled again while the others are still
 * being multiplied.
 *
 * Results of parts are left in the order in which the products hold them (gpu/mla_decode_merge.cu).
 *
 * Measured on an H200, 64 heads, 128 rows of 8192 / one of 131072, in us: 347 / 90. Slower, with
 * all parts of a row in one block that adds them up in memory: two groups that each score every
 * other tile and add up half the columns, the products of the tile before behind the own scores
 * 425 / 108, or before them 368 / 93; two groups of scorers and two of mixers, without copiers
 * 355 / 96. The merge that such blocks save is 21 of the 350; adding up took 21000 cycles a part.
 * Slower, with this one's parts: one group that begins the next scores before these weights
 * 496 / 119; tiles fetched into the far cache two ahead 404 / 100 (none, same build: 372 / 94).
 */
#include "gpu/mla_decode_sm90.cuh"

enum {
    TILES = 2,
    MIXERS = 256,
    SCORERS = 128,
    COPIERS = 128,
    THREADS = MIXERS + SCORERS + COPIERS,
};

/* Behind queries, tiles and weights, whose places the products' operands fix. */
struct decode_state {
    uint64_t full[TILES][GROUPS], empty[TILES][GROUPS];
    uint64_t weighed, mixed;        /* weights: written; read */
    float keep[TALL];               /* factor of earlier results */
    float largest[TALL], sum[TALL]; /* at the end of a part */
    struct decode_plan plan;
};

enum {
    WEIGHTS = QUERY_BYTES + TILES * TILE_BYTES,
    SHARED = WEIGHTS + WEIGHT_BYTES + (int)sizeof(struct decode_state)
};
static_assert(SHARED <= 232448, "more than a block may have");

#if WGMMA_HERE

/* Registers of a thread, given back or taken: 128 at the launch for 512 threads. */
template <int N> __device__ static void registers_less(void)
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

template <int N> __device__ static void registers_more(void)
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

/* ---- roles ---- */

/* What all roles know. Tiles are counted through all parts of the block: the n-th lies in tile n %
 * TILES. */
struct block {
    const struct mla_attend &a;
    const struct decode_maps &maps;
    uint32_t query;
    struct decode_state *state;
    int items;
};

__device__ static uint32_t tile_of(const struct block &b, int n)
{
    return b.query + QUERY_BYTES + n % TILES * TILE_BYTES;
}

__device__ static uint32_t phase_of(int n)
{
    return n / TILES & 1;
}

__device__ static struct decode_part part_of(const struct block &b, int item)
{
    return find_part(b.a, &b.state->plan, item, TALL);
}

/* The number under which a part's results lie. */
__device__ static int64_t place_of(const struct block &b, const struct decode_part &part)
{
    if (!b.a.places) return part.number;
    return part.row * b.a.places + part.number - b.state->plan.first[part.row];
}

/* Group u of the n-th tile, whose place is free: the copy engine's, entries from `entry` on. */
__device__ static void copy_whole(const struct block &b, int n, int u, int entry)
{
    uint32_t full = smem_of(&b.state->full[n % TILES][u]);
    if (threadIdx.x != MIXERS + SCORERS) {
        barrier_arrive(full);
    } else {
        barrier_expect(full, group_boxes(u) * BOX);
        copy_group(b.maps, tile_of(b, n), u, entry, full);
    }
}

/* The same, each row from where its entry lies. */
__device__ static void copy_rows(const struct block &b, int n, int u,
                                 const struct decode_source<TOKENS, COPIERS> &s)
{
    int chunk = threadIdx.x % 8, r = threadIdx.x % COPIERS / 8;
#pragma unroll
    for (int i = 0; i < s.ROWS; i++) {
        bool valid = s.entry[i] >= 0;
        const bf16 *from = b.a.keys.key + (valid ? s.entry[i] * b.a.keys.step : 0) + chunk * 8;
        for (int k = group_box(u); k < group_box(u) + group_boxes(u); k++)
            copy16(tile_of(b, n) + k * BOX + box_chunk(r + i * s.STEP, chunk),
                   from + k * BOX_COLUMNS, valid);
    }
    barrier_arrive_copied(smem_of(&b.state->full[n % TILES][u]));
}

__device__ static void wait_empty(const struct block &b, int n, int u)
{
    if (n >= TILES) barrier_wait(smem_of(&b.state->empty[n % TILES][u]), phase_of(n - TILES));
}

/* Tiles of one part. The next tile's block is looked up one tile ahead. */
__device__ static void copy_part(const struct block &b, const struct decode_part &part, int *n)
{
    struct decode_row row = find_row(b.a, part.row);
    uint32_t size = (uint32_t)b.a.keys.block;
    int whole_end = b.maps.paged ? min(part.end, row.span) : 0;
    int next = part.begin + TOKENS <= whole_end ? row.table[part.begin / size] : 0;
    for (int token = part.begin; token < part.end; token += TOKENS, ++*n) {
        int base = next;
        if (token + 2 * TOKENS <= whole_end) next = row.table[(token + TOKENS) / size];
        if (token + TOKENS <= whole_end) {
            for (int u = 0; u < GROUPS; u++) {
                wait_empty(b, *n, u);
                copy_whole(b, *n, u, base * (int)size + (int)(token % size));
            }
        } else {
            struct decode_source<TOKENS, COPIERS> source;
            find_entries(b.a, row, token, part.end, &source);
            for (int u = 0; u < GROUPS; u++) {
                wait_empty(b, *n, u);
                copy_rows(b, *n, u, source);
            }
        }
    }
}

__device__ static void run_copiers(const struct block &b)
{
    int n = 0;
    for (int item = blockIdx.x; item < b.items; item += gridDim.x)
        copy_part(b, part_of(b, item), &n);
    copy_wait<0>();
}

/* Begins to copy the queries of the block's part at `item`, if there is one. */
__device__ static void begin_query(const struct block &b, int item)
{
    if (item < b.items) copy_query<TALL, SCORERS>(b.a, b.query, part_of(b, item));
    copy_commit();
}

/* Scores become weights in shared memory; `left` tokens are the part's from this tile on. */
__device__ static void weigh(const struct block &b, float (&s)[32], int left, int n,
                             struct row_state (&row)[2])
{
    uint32_t p[16];
    float most[2], keep[2], sum[2];
    mask_tile(s, left, most);
    for (int r = 0; r < 2; r++) keep[r] = raise_row(&row[r], most[r], b.a.scale);
    const float largest[2] = {row[0].largest, row[1].largest};
    weigh_tile(s, b.a.scale, largest, p, sum);
    for (int r = 0; r < 2; r++) row[r].sum = fmaf(row[r].sum, keep[r], sum[r]);
    if (n > 0) barrier_wait(smem_of(&b.state->mixed), (n - 1) & 1);
    put_weights(b.query + WEIGHTS, p);
    for (int r = 0; r < 2 && threadIdx.x % 4 == 0; r++) {
        b.state->keep[first_head() + 8 * r] = keep[r];
        if (left > TOKENS) continue;
        b.state->largest[first_head() + 8 * r] = row[r].largest;
        b.state->sum[first_head() + 8 * r] = row[r].sum;
    }
    wgmma_publish();
    barrier_arrive(smem_of(&b.state->weighed));
}

__device__ static void score_part(const struct block &b, int item, int *n)
{
    struct decode_part part = part_of(b, item);
    struct row_state row[2] = {{-INFINITY, 0}, {-INFINITY, 0}};
    copy_wait<0>();
    wgmma_publish();
    group_meet(1);
    for (int left = part.end - part.begin; left > 0; left -= TOKENS, ++*n) {
        float s[32];
        begin_scores(s, b.query, tile_of(b, *n), [&](int u) {
            barrier_wait(smem_of(&b.state->full[*n % TILES][u]), phase_of(*n));
        });
        wgmma_wait<0>();
        barrier_arrive(smem_of(&b.state->empty[*n % TILES][0]));
        if (left <= TOKENS) { /* nobody needs these queries any more */
            group_meet(1);
            begin_query(b, item + gridDim.x);
        }
        weigh(b, s, left, *n, row);
    }
}

__device__ static void run_scorers(const struct block &b)
{
    int n = 0;
    begin_query(b, blockIdx.x);
    for (int item = blockIdx.x; item < b.items; item += gridDim.x) score_part(b, item, &n);
}

/* o [64, 2 * 128] = o * keep + weights values, of the n-th tile. */
__device__ static void mix_tile(const struct block &b, float (&o)[2][64], int n)
{
    int half = threadIdx.x / 128;
    float keep[2] = {b.state->keep[first_head()], b.state->keep[first_head() + 8]};
    if (__any_sync(0xffffffffu, keep[0] != 1 || keep[1] != 1)) {
#pragma unroll
        for (int i = 0; i < 128; i++) o[i / 64][i % 64] *= keep[i / 2 % 2];
    }
    wgmma_publish();
    wgmma_begin();
#pragma unroll
    for (int j = 0; j < 2; j++) {
        uint32_t values = tile_of(b, n) + (half * 4 + j * 2) * BOX;
#pragma unroll
        for (int kk = 0; kk < TOKENS / 16; kk++)
            wgmma_n128_turned(o[j], wgmma_operand(b.query + WEIGHTS + kk * 32, 0),
                              wgmma_operand(values + kk * 16 * BOX_ROW, BOX));
        wgmma_end();
    }
    wgmma_wait<1>();
    barrier_arrive(smem_of(&b.state->empty[n % TILES][1 + half]));
    wgmma_wait<0>();
    barrier_arrive(smem_of(&b.state->empty[n % TILES][3 + half]));
}

/* The row's only part: the result itself. */
__device__ static void put_row(const struct block &b, const struct decode_part &part,
                               const float (&o)[2][64], const float (&sum)[2])
{
#pragma unroll
    for (int i = 0; i < 128; i += 8) {
        const float *v = &o[i / 64][i % 64];
        int column = threadIdx.x / 128 * 256 + i / 4 * 8, head = part.head + first_head();
        put_columns(b.a, part, head, column, sum[0], v[0], v[1], v[4], v[5]);
        put_columns(b.a, part, head + 8, column, sum[1], v[2], v[3], v[6], v[7]);
    }
}

/* A part's sums as they are held (part_slot()); warps without heads leave theirs out. */
__device__ static void put_part(const struct block &b, const struct decode_part &part,
                                const float (&o)[2][64])
{
    float *to = part_slot(b.a, place_of(b, part), part.head) +
                slot_at(threadIdx.x / 128 * 2, 0, threadIdx.x % 128);
    if (part.head + first_head() / 16 * 16 >= b.a.heads) return;
#pragma unroll
    for (int i = 0; i < 128; i += 4) {
        const float *v = &o[i / 64][i % 64];
        *(float4 *)(to + slot_at(i / 64, i % 64 / 4, 0)) = make_float4(v[0], v[1], v[2], v[3]);
    }
}

__device__ static void put_stat(const struct block &b, const struct decode_part &part,
                                const float (&largest)[2], const float (&sum)[2])
{
    for (int r = 0; r < 2 && threadIdx.x < 128 && threadIdx.x % 4 == 0; r++) {
        int head = part.head + first_head() + 8 * r;
        if (head < b.a.heads)
            b.a.stat[place_of(b, part) * b.a.heads + head] = make_float2(largest[r], sum[r]);
    }
}

__device__ static void run_mixers(const struct block &b)
{
    int n = 0, half = threadIdx.x / 128;
    for (int item = blockIdx.x; item < b.items; item += gridDim.x) {
        struct decode_part part = part_of(b, item);
        float o[2][64], largest[2], sum[2];
#pragma unroll
        for (int i = 0; i < 128; i++) o[i / 64][i % 64] = 0;
        for (int token = part.begin; token < part.end; token += TOKENS, n++) {
            barrier_wait(smem_of(&b.state->full[n % TILES][1 + half]), phase_of(n));
            barrier_wait(smem_of(&b.state->full[n % TILES][3 + half]), phase_of(n));
            barrier_wait(smem_of(&b.state->weighed), n & 1);
            mix_tile(b, o, n);
            for (int r = 0; r < 2; r++) {
                largest[r] = b.state->largest[first_head() + 8 * r];
                sum[r] = b.state->sum[first_head() + 8 * r];
            }
            barrier_arrive(smem_of(&b.state->mixed));
        }
        if (part.single) {
            put_row(b, part, o, sum);
        } else {
            put_part(b, part, o);
            put_stat(b, part, largest, sum);
        }
    }
}

__device__ static void make_barriers(struct decode_state *state)
{
    for (int i = 0; i < TILES * GROUPS; i++) {
        barrier_init(smem_of(&state->full[0][i]), COPIERS);
        barrier_init(smem_of(&state->empty[0][i]), 128); /* of scorers or of half the mixers */
    }
    barrier_init(smem_of(&state->weighed), SCORERS);
    barrier_init(smem_of(&state->mixed), MIXERS);
    barrier_publish();
}

#endif

__global__ static void __launch_bounds__(THREADS, 1)
    decode_wgmma(const struct mla_attend a, const __grid_constant__ struct decode_maps maps)
{
#if WGMMA_HERE
    extern __shared__ char shared[];
    struct decode_state *state = (struct decode_state *)(shared + WEIGHTS + WEIGHT_BYTES);
    int blocks = ((int)a.heads + TALL - 1) / TALL;
    if (smem_of(shared) % 1024) __trap(); /* the swizzle counts from there */
    let_next_launch();
    if (threadIdx.x == 0) make_barriers(state);
    plan_parts(a, &state->plan);
    const struct block b = {a, maps, smem_of(shared), state, blocks * state->plan.first[MLA_ROWS]};
    if (threadIdx.x < MIXERS) {
        registers_more<160>();
        wait_for_launch_before();
        tell_merge(a, &state->plan);
        run_mixers(b);
    } else if (threadIdx.x < MIXERS + SCORERS) {
        registers_more<144>();
        wait_for_launch_before();
        run_scorers(b);
    } else { /* the cache was written before the launch before this one began */
        registers_less<48>();
        run_copiers(b);
    }
#else
    __trap(); /* mla_decode_has_wgmma() said no */
#endif
}

struct decode_variant mla_variant_parts(void)
{
    return {"64 heads, 2 tiles of 64 tokens", decode_wgmma, THREADS, SHARED, 1};
}
