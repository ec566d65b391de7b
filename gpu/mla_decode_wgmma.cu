/* mla_decode_wgmma.cu: absorbed attention over the paged cache with the warpgroup products of
 * sm_90a, for batches that fill the card. Contract: gpu/mla_decode_sm90.cuh; small batches:
 * gpu/mla_decode_spread.cu.
 *
 * A block is 64 heads of one part of one row, and takes part after part; tokens flow through places
 * for three tiles of 64 in shared memory (gpu/mla_decode_wgmma.cuh), two for a tile's last boxes.
 * Three roles, each in warps of its own:
 *   copiers  a warpgroup: latents from the paged cache into tiles, by the copy engine where a tile
 *            is whole and lies in one block of the cache
 *   scorers  a warpgroup: queries, two thirds of which stay in registers, so that the third tile
 *            has room; scores of a tile; weights of bf16 in the place of its roped keys
 *   mixers   two warpgroups: weights times values, 256 columns each; the values are the tile
 *            itself, read turned
 * A tile comes in five groups of boxes, each behind a barrier of its own: scores begin with the
 * first group that is there. The products of values run while the scores of the tile behind them
 * become weights.
 *
 * Results of parts are left in the order in which the products hold them (gpu/mla_decode_merge.cu).
 *
 * Measured on an H200, in us (in brackets: before rows could stay whole, 2048 tokens a part): 64
 * heads, 128 rows of 8192 280 to 287 (340), 16 rows 52 (65), 32 of 4096 53 (53), one of 131072 56
 * (73); 128 heads, 128 of 8192 447 to 455 (533), 32 of 4096 71 (84). 64 heads, 128 whole rows: all
 * blocks begin at once, so their queries and first tiles are there after 8 to 11; then the cache is
 * read at 98 % of what the card can; the last tiles are done at 268 to 280, results 2 later (6, by
 * the division of the compiler). With 128 heads a tile takes 2900 cycles of a clock that sinks to
 * 1.7 GHz, its products alone 2180; of 3200, before: scores 1400, their way to weights 1400 beside
 * the values (800 with nothing beside), 300 to the next scores.
 *
 * Tried, 128 heads, 128 rows of 8192 (in brackets: without): values begun at once, not behind the
 * next scores 571 (543); two blocks of a cluster that bring half of each tile to both 643 (536);
 * pieces of the merge by idle copiers beside the next part 562 (536). No gain: weights by stmatrix,
 * sums of weights under the next products, no fences where tiles are whole, rows of parts found
 * without a search, entries fetched by 256 bytes, the first tile's look-ups ahead of the plan.
 * Parts that their own blocks put together, where each has one, waiting for each other: 64 heads,
 * 32 rows of 4096 54.5 (54.6), 8 rows 27.3 (25.7). Values with weights from registers need 168
 * registers a mixer, all queries in registers more than 216 a scorer: there are 512 for four
 * warpgroups. Earlier, with two tiles, 64 heads: all parts of a row in one block that adds them up
 * in memory 425 (347); one group that begins the next scores before these weights 496; tiles
 * fetched into the far cache two ahead 404 (372). */
#include "gpu/mla_decode_wgmma.cuh"

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

/* ---- scorers ---- */

/* Queries as the products take them: of each 16 columns a thread's four words. */
typedef uint32_t decode_query[STEPS][4];

/* Begins to load the queries of a part: boxes 0 to 5 into q, 32 columns at once, eight of each of
 * the thread's two heads, the first head's in the first step's place; the others into shared
 * memory. */
__device__ static void load_query(const struct block &b, const struct decode_part &part,
                                  decode_query &q)
{
    int chunk = threadIdx.x % 8, row = threadIdx.x % SCORERS / 8;
#pragma unroll
    for (int i = 0; i < TALL; i += SCORERS / 8) {
        bool valid = part.head + row + i < b.a.heads;
        int head = valid ? part.head + row + i : 0;
        const bf16 *latent = b.a.q + part.row * b.a.q_row + head * b.a.q_head + HELD * BOX_COLUMNS;
        const bf16 *rope = b.a.q_rope + part.row * b.a.rope_row + head * b.a.rope_head;
#pragma unroll
        for (int k = 0; k < KEPT; k++)
            copy16(b.base + k * BOX + box_chunk(row + i, chunk),
                   (k < KEPT - 1 ? latent + k * BOX_COLUMNS : rope) + chunk * 8, valid);
    }
    copy_commit();
#pragma unroll
    for (int r = 0; r < 2; r++) {
        int head = part.head + first_head() + 8 * r;
        bool valid = head < b.a.heads;
        const bf16 *from =
            b.a.q + part.row * b.a.q_row + (valid ? head : 0) * b.a.q_head + threadIdx.x % 4 * 8;
#pragma unroll
        for (int j = 0; j < STEPS / 2; j++) {
            uint4 v = valid ? *(const uint4 *)(from + j * 32) : make_uint4(0, 0, 0, 0);
            q[2 * j + r][0] = v.x, q[2 * j + r][1] = v.y;
            q[2 * j + r][2] = v.z, q[2 * j + r][3] = v.w;
        }
    }
}

/* x[i] of lane t of four = x[t] of lane i. */
__device__ static void turn_four(uint32_t (&x)[4])
{
    bool odd = threadIdx.x & 1, high = threadIdx.x & 2;
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        uint32_t got = __shfl_xor_sync(0xffffffffu, odd ? x[i] : x[i + 1], 1);
        if (odd)
            x[i] = got;
        else
            x[i + 1] = got;
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        uint32_t got = __shfl_xor_sync(0xffffffffu, high ? x[i] : x[i + 2], 2);
        if (high)
            x[i] = got;
        else
            x[i + 2] = got;
    }
}

/* Queries that have been loaded, for the products. */
__device__ static void take_query(decode_query &q)
{
#pragma unroll
    for (int j = 0; j < STEPS; j += 2) {
        turn_four(q[j]);
        turn_four(q[j + 1]);
        const uint32_t a1 = q[j][1], a2 = q[j][2], a3 = q[j][3], c0 = q[j + 1][0];
        const uint32_t c1 = q[j + 1][1], c2 = q[j + 1][2];
        q[j][1] = c0, q[j][2] = a1, q[j][3] = c1;
        q[j + 1][0] = a2, q[j + 1][1] = c2, q[j + 1][2] = a3;
    }
    copy_wait<0>();
    wgmma_publish();
    group_meet(1);
}

/* Begins s [64, 64] += q tile^T over the columns of group u, which is there. */
__device__ static void begin_scores(const struct block &b, float (&s)[32], const decode_query &q,
                                    uint32_t tile, uint32_t late, int u)
{
    wgmma_begin();
#pragma unroll
    for (int i = 0; i < group_boxes(u) * 4; i++) {
        int k = group_box(u) + i / 4;
        uint64_t keys = wgmma_operand(box_at(tile, late, k) + i % 4 * 32, 0);
        if (k < HELD)
            wgmma_n64(s, q[k * 4 + i % 4], keys, u + i > 0);
        else
            wgmma_n64(s, wgmma_operand(b.base + (k - HELD) * BOX + i % 4 * 32, 0), keys, u + i > 0);
    }
    wgmma_end();
}

/* Scores become weights in shared memory; `left` tokens are the part's from this tile on. */
__device__ static void weigh(const struct block &b, float (&s)[32], int left, const struct place &p,
                             struct row_state (&row)[2])
{
    uint32_t w[16];
    float most[2], keep[2], sum[2];
    mask_tile(s, left, most);
    for (int r = 0; r < 2; r++) keep[r] = raise_row(&row[r], most[r], b.a.scale);
    const float largest[2] = {row[0].largest, row[1].largest};
    weigh_tile(s, b.a.scale, largest, w, sum);
    for (int r = 0; r < 2; r++) row[r].sum = fmaf(row[r].sum, keep[r], sum[r]);
    group_meet(1); /* nobody needs the roped keys any more */
    put_weights(tile_at(b, p) + WEIGHTS, w);
    for (int r = 0; r < 2 && threadIdx.x % 4 == 0; r++)
        b.state->keep[p.tile.slot][first_head() + 8 * r] = keep[r];
    wgmma_publish();
}

__device__ static void put_stat(const struct block &b, const struct decode_part &part,
                                const struct row_state (&row)[2])
{
    for (int r = 0; r < 2 && threadIdx.x % 4 == 0; r++) {
        int head = part.head + first_head() + 8 * r;
        if (head < b.a.heads)
            b.a.stat[place_of(b, part) * b.a.heads + head] =
                make_float2(row[r].largest, row[r].sum);
    }
}

/* s = scores of a tile, whose groups may still be coming; `before`: where the mixers wait for the
 * tile before, or NULL. */
__device__ static void score_tile(const struct block &b, float (&s)[32], const decode_query &q,
                                  const struct place &p, uint64_t *before)
{
    const uint32_t tile = tile_at(b, p), late = late_at(b, p);
#pragma unroll
    for (int u = 0; u < GROUPS; u++) {
        uint32_t full = smem_of(&b.state->full[p.tile.slot][u]);
        if (u == LATE && before && !warp_sees(full, p.tile.phase)) {
            warp_arrive(b, before);
            before = NULL;
        }
        barrier_wait(full, p.tile.phase);
        if (u == 0) wgmma_publish(); /* rows that threads copied come all at once */
        begin_scores(b, s, q, tile, late, u);
    }
    wgmma_wait<0>();
    if (before) warp_arrive(b, before);
}

/* One part; q: its queries, and then those of the next part, if there is one. Mixers begin with a
 * tile when the next one's scores are there, so that neither's products hold up the other's, and
 * theirs run while these become weights; at once, where the next tile has not come yet. */
__device__ static void score_part(const struct block &b, const struct decode_part &part, int next,
                                  int items, decode_query &q, struct place &p)
{
    struct row_state row[2] = {{-INFINITY, 0}, {-INFINITY, 0}};
    uint64_t *before = NULL;
    for (int left = part.end - part.begin; left > 0; left -= TOKENS) {
        float s[32];
        score_tile(b, s, q, p, before);
        if (left <= TOKENS && next < items) {
            group_meet(1); /* nobody needs these queries any more */
            load_query(b, part_of(b, next), q);
        }
        weigh(b, s, left, p, row);
        if (left <= TOKENS) put_stat(b, part, row); /* mixers divide by them */
        before = &b.state->weighed[p.tile.slot];
        next_tile(p);
        if (left <= TOKENS ||
            !warp_sees(smem_of(&b.state->full[p.tile.slot][LATE - 1]), p.tile.phase)) {
            warp_arrive(b, before);
            before = NULL;
        }
    }
    take_query(q);
}

__device__ static void run_scorers(const struct block &b)
{
    const int items = items_of(b);
    struct place p = {};
    decode_query q;
    if (blockIdx.x >= items) return;
    load_query(b, part_of(b, blockIdx.x), q);
    take_query(q);
    for (int n = 0, item; (item = take_item(n)) < items; n++)
        score_part(b, part_of(b, item), take_item(n + 1), items, q, p);
}

/* ---- mixers ---- */

/* Half a mixer's columns: 128 of them, first those whose place is free earlier. */
__device__ static int columns_of(int half, int j)
{
    return half * 2 + (half ? 1 - j : j);
}

/* o [64, 2 * 128] = o * keep + weights values. */
__device__ static void mix_tile(const struct block &b, float (&o)[2][64], int half,
                                const struct place &p)
{
    const float *factor = &b.state->keep[p.tile.slot][first_head()];
    float keep[2] = {factor[0], factor[8]};
    if (__any_sync(0xffffffffu, keep[0] != 1 || keep[1] != 1)) {
#pragma unroll
        for (int i = 0; i < 128; i++) o[i / 64][i % 64] *= keep[i / 2 % 2];
    }
    const uint32_t tile = tile_at(b, p), late = late_at(b, p);
    wgmma_publish();
    wgmma_begin();
#pragma unroll
    for (int j = 0; j < 2; j++) {
        uint32_t values = box_at(tile, late, columns_of(half, j) * 2);
#pragma unroll
        for (int kk = 0; kk < TOKENS / 16; kk++)
            wgmma_n128_turned(o[j], wgmma_operand(tile + WEIGHTS + kk * 32, 0),
                              wgmma_operand(values + kk * 16 * BOX_ROW, BOX));
        wgmma_end();
    }
    wgmma_wait<1>();
    if (half) warp_arrive(b, &b.state->late_empty[p.late.slot]);
    wgmma_wait<0>();
    warp_arrive(b, &b.state->empty[p.tile.slot]);
}

/* The row's only part: the result itself. */
__device__ static void put_row(const struct block &b, const struct decode_part &part,
                               const float (&o)[2][64], const float (&sum)[2], int half)
{
#pragma unroll
    for (int i = 0; i < 128; i += 8) {
        const float *v = &o[i / 64][i % 64];
        int column = columns_of(half, i / 64) * 128 + i % 64 / 4 * 8,
            head = part.head + first_head();
        put_columns(b.a, part, head, column, sum[0], v[0], v[1], v[4], v[5]);
        put_columns(b.a, part, head + 8, column, sum[1], v[2], v[3], v[6], v[7]);
    }
}

/* A part's sums as they are held (part_slot()); warps without heads leave theirs out. */
__device__ static void put_part(const struct block &b, const struct decode_part &part,
                                const float (&o)[2][64], int half)
{
    float *to = part_slot(b.a, place_of(b, part), part.head) + slot_at(0, 0, threadIdx.x % 128);
    if (part.head + first_head() / 16 * 16 >= b.a.heads) return;
#pragma unroll
    for (int i = 0; i < 128; i += 4) {
        const float *v = &o[i / 64][i % 64];
        *(float4 *)(to + slot_at(columns_of(half, i / 64), i % 64 / 4, 0)) =
            make_float4(v[0], v[1], v[2], v[3]);
    }
}

__device__ static void put(const struct block &b, const struct decode_part &part,
                           const float (&o)[2][64], int half)
{
    if (!part.single) {
        put_part(b, part, o, half);
        return;
    }
    float sum[2];
    for (int r = 0; r < 2; r++) { /* the scorers' */
        int head = min(part.head + first_head() + 8 * r, (int)b.a.heads - 1);
        sum[r] = b.a.stat[place_of(b, part) * b.a.heads + head].y;
    }
    put_row(b, part, o, sum, half);
}

/* Rows that see nothing are zeros. */
__device__ static void clear_rows(const struct block &b)
{
    int64_t chunks = b.a.heads * LATENT / 8;
    for (int row = blockIdx.x; row < (int)b.a.rows; row += gridDim.x) {
        int empty = b.state->plan.seen[row] == 0; /* the one there in the plan */
        uint4 *y = (uint4 *)(b.a.y + planned_row(&b.state->plan, row) * b.a.heads * LATENT);
        for (int64_t i = threadIdx.x; empty && i < chunks; i += MIXERS)
            y[i] = make_uint4(0, 0, 0, 0);
    }
}

__device__ static void run_mixers(const struct block &b, int half)
{
    const int items = items_of(b);
    struct place p = {};
    for (int n = 0, item; (item = take_item(n)) < items; n++) {
        float o[2][64];
#pragma unroll
        for (int i = 0; i < 128; i++) o[i / 64][i % 64] = 0;
        for (int left = length_of(b, item); left > 0; left -= TOKENS, next_tile(p)) {
            for (int u = 1; u < GROUPS; u++)
                barrier_wait(smem_of(&b.state->full[p.tile.slot][u]), p.tile.phase);
            barrier_wait(smem_of(&b.state->weighed[p.tile.slot]), p.tile.phase);
            mix_tile(b, o, half, p);
        }
        put(b, part_of(b, item), o, half);
    }
    clear_rows(b);
}

/* ---- all ---- */

__device__ static void make_barriers(struct decode_state *state, bool every_lane)
{
    const uint32_t lanes = every_lane ? 32 : 1; /* of each warp */
    for (int i = 0; i < TILES * GROUPS; i++) barrier_init(smem_of(&state->full[0][i]), COPIERS);
    for (int i = 0; i < TILES; i++) {
        barrier_init(smem_of(&state->empty[i]), MIXERS / 32 * lanes);
        barrier_init(smem_of(&state->weighed[i]), SCORERS / 32 * lanes);
    }
    for (int i = 0; i < LATES; i++)
        barrier_init(smem_of(&state->late_empty[i]), MIXERS / 2 / 32 * lanes);
    barrier_publish();
}

#endif

__global__ static void __launch_bounds__(THREADS, 1)
    decode_wgmma(const struct mla_attend a, const __grid_constant__ struct decode_maps maps)
{
#if WGMMA_HERE
    extern __shared__ char shared[];
    struct decode_state *state = (struct decode_state *)(shared + TILE + PLACES);
    int role = __shfl_sync(0xffffffffu, (int)threadIdx.x / 128, 0);
    if (smem_of(shared) % 1024) __trap(); /* the swizzle counts from there */
    let_next_launch();
    const struct block b = {a, maps, smem_of(shared), state};
    if (threadIdx.x == 0) make_barriers(state, maps.every_lane);
    plan_parts(a, &state->plan);
    if (role < 2) {
        registers_more<160>();
        wait_for_launch_before();
        tell_merge(a, &state->plan);
        run_mixers(b, role);
    } else if (role == 2) {
        registers_more<168>();
        wait_for_launch_before();
        run_scorers(b);
    } else { /* the cache was written before the launch before this one began */
        registers_less<24>();
        run_copiers(b);
    }
#else
    __trap(); /* mla_decode_has_wgmma() said no */
#endif
}

struct decode_variant mla_variant_parts(void)
{
    return {decode_wgmma, THREADS, SHARED};
}
