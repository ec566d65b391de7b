/* mla_decode_spread.cu: absorbed attention over the paged cache, cut so finely that even one row
 * occupies the card. Contract: gpu/mla_decode_sm90.cuh; full batches of many heads:
 * gpu/mla_decode_wgmma.cu.
 *
 * A block is sixteen heads, the rows of mma.sync, of one chunk of a row (gpu/mla_split.h), and
 * takes chunk after chunk where there are more than multiprocessors. Its warps divide the tokens of
 * a tile for the scores, and the columns, a box each, for the values. Queries stay in registers.
 *
 * A chunk's sums go to the blocks of the row's other chunks, each of which puts its share of the
 * columns together: as letters (gpu/mla_decode_letters.cuh) whose words say themselves that they
 * are there, so no fence, counter or second launch stands between. All blocks run at once, and each
 * has posted all it has before it waits for others.
 *
 * What limits it, 16 heads, one row of 4096 on an H200, in us from the first block's begin (an
 * earlier state, 8.2 in all): row found 0.6, tile asked for 1.4, there 2.3 to 2.7, scored 2.9,
 * weighed 3.1, multiplied 3.6, sums posted 4.7, those of the others there 6.3, put together 7.3. An
 * empty kernel takes 0.6.
 *
 * Measured, 64 heads / 16 heads, one row of 4096, in us: 8.9 / 7.7. Before it, clusters of sixteen
 * blocks that exchanged weights and did the sums of whole parts: 15.1 / 13.8. Slower, each beside
 * the same state without: clusters of two blocks that have the copy engine bring a tile to both
 * 11.3 instead of 10.5 / 10.4 instead of 9.3, of four 19.4 / 27 (at most 30 such run at once); one
 * thread that asks for all boxes, and the merge of a letter's warps without loads ahead, 9.4 / 8.2;
 * going through the code that follows while the tile is on its way 11.6 / 10.1. */
#include "gpu/mla_decode_letters.cuh"

/* Zeros between launches. */
[[maybe_unused]] __device__ static struct letter mla_mail[MLA_MAIL][LETTERS];

#if WGMMA_HERE

/* ---- one tile ---- */

/* s [16, 8 * BLOCKS] = queries tile^T over 576 columns, of this warp's tokens; wait(u): until a
 * third of the tile is there. Tokens are eight a block; of one block, even and odd steps are added
 * up apart. */
template <int PAGES, class WAIT>
__device__ static void score_tile(float (&s)[2][4], const uint32_t (&q)[BOXES * 4][4],
                                  uint32_t tile, WAIT wait)
{
    typedef spread_shape<PAGES> S;
    int lane = threadIdx.x % 32, first = threadIdx.x / 32 * 8 * S::BLOCKS;
#pragma unroll
    for (int i = 0; i < 8; i++) s[i / 4][i % 4] = 0;
#pragma unroll
    for (int k = 0; k < BOXES * 4; k += 4) {
        uint32_t box = tile + k / 4 * S::WIDE, f[4][4];
        if (k % 12 == 0) wait(k / 12);
#pragma unroll
        for (int i = 0; i < 2 * S::BLOCKS; i++) {
            if (S::BLOCKS == 2)
                load_b(f[i], box, first, i);
            else
                load_matrix(f[i], box + box_chunk(first + lane % 8, 4 * i + lane / 8));
        }
#pragma unroll
        for (int i = 0; i < 2 * S::BLOCKS; i++) {
            mma_k16(s[0], q[S::BLOCKS == 2 ? k + i : k + 2 * i], f[i][0], f[i][1]);
            mma_k16(s[1], q[S::BLOCKS == 2 ? k + i : k + 2 * i + 1], f[i][2], f[i][3]);
        }
    }
#pragma unroll
    for (int i = 0; i < 4 && S::BLOCKS == 1; i++) s[0][i] += s[1][i];
}

/* Masks tokens from `left` on; leaves the largest score of this warp's tokens in each[]. */
template <int PAGES>
__device__ static void mask_scores(spread_state<PAGES> *state, float (&s)[2][4], int left)
{
    enum { BLOCKS = spread_shape<PAGES>::BLOCKS };
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float most[2] = {-INFINITY, -INFINITY};
#pragma unroll
    for (int i = 0; i < BLOCKS * 4; i++) {
        float *x = &s[i / 4][i % 4];
        if ((warp * BLOCKS + i / 4) * 8 + lane % 4 * 2 + i % 2 >= left) *x = -INFINITY;
        most[i / 2 % 2] = fmaxf(most[i / 2 % 2], *x);
    }
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float m = quad_max(most[r]);
        if (lane % 4 == 0) state->each[lane / 4 + 8 * r][warp] = m;
    }
}

/* Weights of this warp's tokens into shared memory; keep: what earlier results are multiplied by.
 */
template <int PAGES>
__device__ static void weigh_scores(spread_state<PAGES> *state, const float (&s)[2][4], float scale,
                                    struct row_state (&row)[2], float (&keep)[2])
{
    enum { BLOCKS = spread_shape<PAGES>::BLOCKS };
    int lane = threadIdx.x % 32, first = threadIdx.x / 32 * 8 * BLOCKS;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        int head = lane / 4 + 8 * r;
        float most = state->each[head][0];
#pragma unroll
        for (int w = 1; w < WARPS; w++) most = fmaxf(most, state->each[head][w]);
        keep[r] = raise_row(&row[r], most, scale);
        row[r].sum *= keep[r];
#pragma unroll
        for (int j = 0; j < BLOCKS; j++) {
            float p0 = mla_exp2(fmaf(s[j][2 * r], scale, -row[r].largest));
            float p1 = mla_exp2(fmaf(s[j][2 * r + 1], scale, -row[r].largest));
            row[r].sum += p0 + p1;
            *(uint32_t *)&state->weight[head][first + j * 8 + lane % 4 * 2] = pack_pair(p0, p1);
        }
    }
}

/* o [16, 64] = o * keep + weights values, of this warp's columns: a box. */
template <int PAGES>
__device__ static void mix_tile(spread_state<PAGES> *state, float (&o)[8][4],
                                const float (&keep)[2], uint32_t tile)
{
    typedef spread_shape<PAGES> S;
    int lane = threadIdx.x % 32;
    uint32_t box = tile + threadIdx.x / 32 * S::WIDE;
#pragma unroll
    for (int i = 0; i < 32; i++) o[i / 4][i % 4] *= keep[i / 2 % 2];
#pragma unroll
    for (int k = 0; k < S::TILE; k += 16) {
        uint32_t p[4], f[4][4];
        load_matrix(p, smem_of(&state->weight[lane % 16][k + lane / 16 * 8]));
#pragma unroll
        for (int c = 0; c < 4; c++) load_b_turned(f[c], box, k, c);
#pragma unroll
        for (int c = 0; c < 4; c++) {
            mma_k16(o[2 * c], p, f[c][0], f[c][1]);
            mma_k16(o[2 * c + 1], p, f[c][2], f[c][3]);
        }
    }
}

/* ---- a chunk ---- */

/* Of the row's only chunk: the result itself. */
__device__ static void put_row(const struct spread &b, int row, const float (&o)[8][4],
                               const float (&sum)[2])
{
    const struct decode_part part = {row, 0, 0, 0, 0, 0, true};
    int head = first_of(b) + threadIdx.x % 32 / 4;
#pragma unroll
    for (int i = 0; i < 16; i += 2) {
        const float *x = &o[i % 8][i / 8 * 2], *y = &o[i % 8 + 1][i / 8 * 2];
        put_columns(b.a, part, head + i / 8 * 8, threadIdx.x / 32 * BOX_COLUMNS + i % 8 * 8,
                    sum[i / 8], x[0], x[1], y[0], y[1]);
    }
}

/* A chunk's sums: warp w has letters 4 w to 4 w + 3 of eight heads, and those of the other eight.
 */
__device__ static void post_sums(struct letter *letters, const float (&o)[8][4], int heads)
{
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int i = 0; i < 16; i += 2) {
        const float *x = &o[i % 8][i / 8 * 2], *y = &o[i % 8 + 1][i / 8 * 2];
        float4 v = trade_columns(x[0], x[1], y[0], y[1]);
        struct letter *to = &letters[i / 8 * (LETTERS / 2) + warp * 4 + i % 8 / 2];
        if (i / 8 * 8 < heads) post(&to->sums[lane], v);
    }
}

template <int PAGES>
__device__ static void put_chunk(const struct spread &b, spread_state<PAGES> *state,
                                 const struct chunk &c, struct letter *letters,
                                 const float (&o)[8][4], const struct row_state (&row)[2])
{
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int heads = (int)b.a.heads - first_of(b);
    float sum[2];
    if (c.of > 1) post_sums(letters, o, heads);
    for (int r = 0; r < 2; r++) {
        float x = quad_sum(row[r].sum);
        if (lane % 4 == 0) state->each[lane / 4 + 8 * r][warp] = x;
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const float *each = state->each[lane / 4 + 8 * r];
        struct letter *to = &letters[r * (LETTERS / 2) + warp * 4 + lane % 4];
        sum[r] = each[0];
#pragma unroll
        for (int w = 1; w < WARPS; w++) sum[r] += each[w];
        if (c.of > 1 && 8 * r < heads) post(&to->stat[lane / 4], row[r].largest, sum[r]);
    }
    if (c.of == 1) put_row(b, c.row, o, sum);
}

/* The tile that takes the place of one that all warps are done with. */
template <int PAGES>
__device__ static void copy_next(const struct spread &b, spread_state<PAGES> *state,
                                 const struct chunk &c, int token, int stage)
{
    publish_to_copies();
    __syncthreads();
    copy_pages<PAGES>(b, state, c, token, stage);
    if (!copy_rest<PAGES>(b, c, token, stage)) return;
    copy_wait<0>();
    __syncthreads();
}

/* Queries and the first tiles are there, or their barriers wait for them. *count: tiles of the
 * block so far. */
template <int PAGES>
__device__ static void work_chunk(const struct spread &b, spread_state<PAGES> *state,
                                  const struct chunk &c, struct letter *letters, int *count)
{
    typedef spread_shape<PAGES> S;
    uint32_t q[BOXES * 4][4];
    float o[8][4] = {};
    struct row_state row[2] = {{-INFINITY, 0}, {-INFINITY, 0}};
#pragma unroll
    for (int k = 0; k < BOXES * 4; k++)
        load_a(q[k], b.base + S::QUERY + k / 4 * QUERY_BOX, 0, k % 4);
#pragma unroll 1
    for (int token = c.begin; token < c.end; token += S::TILE, ++*count) {
        int stage = *count % S::STAGES, next = token + S::STAGES * S::TILE;
        uint32_t tile = b.base + stage * S::STAGE, phase = *count / S::STAGES & 1;
        float s[2][4], keep[2];
        score_tile<PAGES>(s, q, tile,
                          [&](int u) { barrier_wait(smem_of(&state->full[stage][u]), phase); });
        mask_scores<PAGES>(state, s, c.end - token);
        __syncthreads();
        weigh_scores<PAGES>(state, s, b.a.scale, row, keep);
        __syncthreads();
        mix_tile<PAGES>(state, o, keep, tile);
        if (next < c.end) copy_next<PAGES>(b, state, c, next, stage);
    }
    put_chunk<PAGES>(b, state, c, letters, o, row);
}

/* ---- all ---- */

/* A row that sees nothing is zeros. */
__device__ static void clear_row(const struct spread &b, int row)
{
    int heads = min((int)b.a.heads - first_of(b), (int)HEADS);
    uint4 *y = (uint4 *)(b.a.y + (row * b.a.heads + first_of(b)) * LATENT);
    for (int i = threadIdx.x; i < heads * LATENT / 8; i += THREADS) y[i] = make_uint4(0, 0, 0, 0);
}

/* Begins to copy what a chunk needs first; the latents do not wait for the launch before: the cache
 * was written before that one began. The block's first queries come already. */
template <int PAGES>
__device__ static void begin_chunk(const struct spread &b, spread_state<PAGES> *state,
                                   const struct chunk &c, int count, bool queries)
{
    typedef spread_shape<PAGES> S;
    int end = min(c.end, c.begin + S::STAGES * S::TILE);
#pragma unroll 1
    for (int n = 0; c.begin + n * S::TILE < end; n++)
        copy_pages<PAGES>(b, state, c, c.begin + n * S::TILE, (count + n) % S::STAGES);
    wait_for_launch_before();
    if (queries) {
        copy_wait<0>(); /* of a chunk that was none */
        copy_queries<PAGES>(b, c.row);
    }
#pragma unroll 1
    for (int n = 0; c.begin + n * S::TILE < end; n++)
        (void)copy_rest<PAGES>(b, c, c.begin + n * S::TILE, (count + n) % S::STAGES);
    copy_wait<0>();
    __syncthreads();
}

/* Chunks of the block; the last one that is not empty. */
template <int PAGES>
__device__ static struct chunk work_chunks(const struct spread &b, spread_state<PAGES> *state,
                                           int items)
{
    struct chunk last = {};
    int count = 0;
    if (threadIdx.x >= THREADS - ASKERS) { /* the first queries need not know the row's length */
        wait_for_launch_before();
        copy_queries<PAGES>(b, row_of(b, blockIdx.y));
        copy_commit();
    }
#pragma unroll 1
    for (int item = blockIdx.y; item < items; item += gridDim.y) {
        struct chunk c = find_chunk(b, item);
        publish_to_copies();
        __syncthreads(); /* barriers are there; nobody needs the last chunk's tiles and queries */
        if (c.seen > 0 && c.begin < c.end) {
            begin_chunk<PAGES>(b, state, c, count, item != blockIdx.y);
            count_chunks(b, &c); /* not before: the latents are on their way meanwhile */
            work_chunk<PAGES>(b, state, c, letters_of(mla_mail, item), &count);
            last = c;
        } else {
            wait_for_launch_before();
            if (c.seen == 0 && c.number == 0) clear_row(b, c.row);
        }
    }
    copy_wait<0>();
    __syncthreads(); /* nobody needs the tiles */
    return last;
}

#endif

template <int PAGES>
__global__ static void __launch_bounds__(THREADS, 1)
    decode_spread(const struct mla_attend a, const __grid_constant__ struct decode_maps maps)
{
#if WGMMA_HERE
    typedef spread_shape<PAGES> S;
    extern __shared__ char shared[];
    spread_state<PAGES> *state = (spread_state<PAGES> *)(shared + S::STATE);
    struct spread_heap *heap = (struct spread_heap *)shared;
    const struct spread b = {a, maps, smem_of(shared)};
    int items = (int)(a.rows * a.places);
    if (smem_of(shared) % 1024) __trap(); /* the swizzle counts from there */
    let_next_launch();
    if (threadIdx.x == 32) { /* a warp that has no queries to copy, and no row to find at once */
        for (int i = 0; i < S::STAGES * THIRDS; i++) barrier_init(smem_of(&state->full[0][i]), 1);
        barrier_publish();
        fetch_map(&maps.tile);
    }
    const struct chunk last = work_chunks<PAGES>(b, state, items);
    int done = last.row * (int)a.places + last.number;
    /* Most blocks have no other, and need not find it again. */
    if (last.of > 1) merge_row(b, heap, last, letters_of(mla_mail, done - last.number));
#pragma unroll 1
    for (int item = blockIdx.y; item + (int)gridDim.y < items; item += gridDim.y) {
        struct chunk c = find_chunk(b, item);
        count_chunks(b, &c);
        __syncthreads(); /* nobody needs the heap */
        if (c.begin < c.end && c.of > 1 && item != done)
            merge_row(b, heap, c, letters_of(mla_mail, item - c.number));
    }
#else
    __trap(); /* mla_decode_has_wgmma() said no */
#endif
}

struct decode_variant mla_variant_spread64(void)
{
    return {decode_spread<1>, THREADS, SPREAD_SHARED(1)};
}

struct decode_variant mla_variant_spread128(void)
{
    return {decode_spread<2>, THREADS, SPREAD_SHARED(2)};
}
