/* mla_decode_spread.cu: absorbed attention over the paged cache with the warpgroup products of
 * sm_90a, for batches too small to fill the card: sixteen blocks of a cluster share one part.
 * Contract: gpu/mla_decode_sm90.cuh; full batches: gpu/mla_decode_wgmma.cu.
 *
 * Each block scores one tile of 64 tokens, and multiplies the weights of all tiles, in order, by 32
 * columns of the values. What it needs of the others is their largest scores, which they write into
 * its shared memory, and their weights, which they write to device memory and have sent to all
 * blocks at once. (Each block's own way into its neighbours' shared memory is several times slower
 * than that, and 25 bytes a clock is what a block can read of the far cache while all do.) The sums
 * of a result are those of a block that does the part alone, in the same order, so its bits are the
 * same.
 *
 * One warpgroup multiplies, the other copies. The last block of a row's columns whose part is there
 * puts the parts together. */
#include "gpu/mla_decode_spread.cuh"

/* Of a row, 64 heads and 32 columns: parts that are there. Zero between launches. */
[[maybe_unused]] __device__ static uint32_t mla_arrivals[MLA_MEETINGS];

#if WGMMA_HERE

/* ---- workers ---- */

/* The own tile's largest scores, to all blocks. */
__device__ static void tell_most(const struct spread &b, const float (&most)[2])
{
    for (int r = 0; r < 2; r++) {
        uint32_t own = smem_of(&b.state->most[b.rank][first_head() + 8 * r]);
        for (uint32_t d = threadIdx.x % 4; d < SPREAD; d += 4)
            cluster_put(cluster_address(own, d), most[r]);
    }
}

/* What the largest scores of all tiles of the round say of this thread's two heads. */
struct round_state {
    float own[2];  /* what the own tile's weights are relative to */
    float last[2]; /* and the last one's */
    bool change; /* an earlier result of some head changes at a tile but the part's first; the same
                  * for the whole warpgroup, whose products must be the same */
};

__device__ static struct round_state follow_most(const struct spread &b, int tiles,
                                                 const struct row_state (&row)[2])
{
    struct round_state f = {{}, {row[0].largest, row[1].largest}, false};
    bool same = true;
#pragma unroll 4
    for (int j = 0; j < tiles; j++)
        for (int r = 0; r < 2; r++) {
            float most = b.state->most[j][first_head() + 8 * r];
            float next = mla_raise(f.last[r], most * b.a.scale);
            same = same && (next == f.last[r] || f.last[r] == -INFINITY);
            f.last[r] = next;
            if (j == (int)b.rank) f.own[r] = next;
        }
    f.change = !group_vote(1, same);
    return f;
}

/* Weights of the own tile, and their sums, to all blocks. */
__device__ static void weigh_own(const struct spread &b, const float (&s)[32],
                                 const float (&largest)[2])
{
    uint32_t weights = b.base + b.rank * WEIGHT_BYTES, p[16];
    char *sent = b.weights + b.rank * SENT_BYTES;
    float sum[2];
    weigh_tile(s, b.a.scale, largest, p, sum);
    put_weights(weights, p);
    for (int r = 0; r < 2 && threadIdx.x % 4 == 0; r++) {
        b.state->sum[b.rank][first_head() + 8 * r] = sum[r];
        *(float *)(sent + WEIGHT_BYTES + (first_head() + 8 * r) * 4) = sum[r];
    }
    wgmma_publish();
    group_meet(1);
    for (int i = threadIdx.x * 16; i < weight_bytes(b); i += WORKERS * 16)
        *(uint4 *)(sent + i) = *(const uint4 *)__cvta_shared_to_generic(weights + i);
    __threadfence();
    proxies_meet();
    group_meet(1);
    if (threadIdx.x > 0) return;
    uint32_t barrier = smem_of(&b.state->weighed[b.rank]);
    uint16_t others = (uint16_t)(ALL ^ 1 << b.rank);
    bulk_copy_to(weights, sent, weight_bytes(b), barrier, others);
    bulk_copy_to(smem_of(b.state->sum[b.rank]), sent + WEIGHT_BYTES, SUM_BYTES, barrier, others);
}

/* o [64, 32] += weights values of tile j of the round. */
__device__ static void mix_tile(const struct spread &b, float (&o)[16], int j)
{
    uint32_t values = b.base + VALUES + j * NARROW_BYTES;
    wgmma_begin();
#pragma unroll
    for (int kk = 0; kk < TOKENS / 16; kk++)
        wgmma_n32_turned(o, wgmma_operand(b.base + j * WEIGHT_BYTES + kk * 32, 0),
                         wgmma_operand_narrow(values + kk * 16 * NARROW_ROW));
    wgmma_end();
}

/* Earlier results before tile j; keep: what they are multiplied by. */
__device__ static void keep_results(const struct spread &b, float (&o)[16], int j,
                                    struct row_state (&row)[2], float (&keep)[2])
{
    for (int r = 0; r < 2; r++)
        keep[r] = raise_row(&row[r], b.state->most[j][first_head() + 8 * r], b.a.scale);
    wgmma_wait<0>();
#pragma unroll
    for (int i = 0; i < 16; i++) o[i] *= keep[i / 2 % 2];
}

/* o = o * keep + weights values over the round's tiles, in order. */
__device__ static void mix_tiles(const struct spread &b, float (&o)[16], int tiles, int round,
                                 const struct round_state &f, struct row_state (&row)[2])
{
    barrier_wait(smem_of(&b.state->values), round & 1);
    for (int j = 0; j < tiles; j++) {
        float keep[2] = {1, 1};
        if (f.change) keep_results(b, o, j, row, keep);
        if (j != (int)b.rank) barrier_wait(smem_of(&b.state->weighed[j]), round & 1);
        for (int r = 0; r < 2; r++)
            row[r].sum = fmaf(row[r].sum, keep[r], b.state->sum[j][first_head() + 8 * r]);
        wgmma_publish();
        mix_tile(b, o, j);
    }
    wgmma_wait<0>();
    for (int r = 0; r < 2; r++) row[r].largest = f.last[r];
}

__device__ static void put_result(const struct spread &b, const float (&o)[16],
                                  const struct row_state (&row)[2])
{
    int head = b.part.head + first_head(), column = (int)b.rank * COLUMNS;
#pragma unroll
    for (int i = 0; i < 16; i += 8) {
        put_columns(b.a, b.part, head, column + i / 4 * 8, row[0].sum, o[i], o[i + 1], o[i + 4],
                    o[i + 5]);
        put_columns(b.a, b.part, head + 8, column + i / 4 * 8, row[1].sum, o[i + 2], o[i + 3],
                    o[i + 6], o[i + 7]);
    }
    for (int r = 0; r < 2 && threadIdx.x % 4 == 0; r++) /* the same from each block */
        if (head + 8 * r < b.a.heads && !b.part.single)
            b.a.stat[(int64_t)b.part.number * b.a.heads + head + 8 * r] =
                make_float2(row[r].largest, row[r].sum);
}

__device__ static void run_workers(const struct spread &b)
{
    struct row_state row[2] = {{-INFINITY, 0}, {-INFINITY, 0}};
    float o[16] = {}, s[32], most[2];
    int round = 0;
    cluster_wait(); /* all barriers are there */
    wait_for_launch_before();
    for (int token = b.part.begin; token < b.part.end; token += SPREAD * TOKENS, round++) {
        int left = b.part.end - token - (int)b.rank * TOKENS, tiles = tiles_of(b, token);
        if (round > 0) cluster_meet(); /* nobody needs the last round's scores and weights */
        auto wait_full = [&](int u) { barrier_wait(smem_of(&b.state->full[u]), round & 1); };
        if (left <= 0) { /* what comes here all the same must be there before weights come */
            for (int u = 0; u < GROUPS; u++) wait_full(u);
        } else {
            begin_scores(s, b.base, b.base + QUERY_BYTES, wait_full);
            wgmma_wait<0>();
            mask_tile(s, left, most);
            tell_most(b, most);
        }
        cluster_meet(); /* all know the largest scores; this block's queries and tile are used */
        struct round_state f = follow_most(b, tiles, row);
        if (left > 0) weigh_own(b, s, f.own);
        mix_tiles(b, o, tiles, round, f, row);
    }
    put_result(b, o, row);
}

/* ---- all ---- */

/* The block that comes last with its part of the row merges the 32 columns. */
__device__ static void merge_row(const struct spread &b)
{
    enum { LANES = COLUMNS / 4, NEXT = THREADS / LANES };
    int blocks = ((int)b.a.heads + TALL - 1) / TALL, end = min(b.part.head + TALL, (int)b.a.heads);
    uint32_t *count = &mla_arrivals[(b.part.row * blocks + b.part.head / TALL) * SPREAD + b.rank];
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        b.state->last = atomicAdd(count, 1) == (uint32_t)b.parts - 1;
        if (b.state->last) atomicExch(count, 0);
        __threadfence();
    }
    __syncthreads();
    if (!b.state->last) return;
    mla_merge_few<TALL / NEXT>(b.a, b.part.row, b.part.row * (int)b.a.most, b.parts,
                               b.part.head + (int)threadIdx.x / LANES, NEXT, end,
                               (int)b.rank * COLUMNS + (int)threadIdx.x % LANES * 4);
}

/* Clusters are parts of rows, a->most a row, the blocks of heads of one part side by side. */
__device__ static struct spread find_spread(const struct mla_attend &a,
                                            const struct decode_maps &maps, uint32_t base,
                                            struct spread_state *state)
{
    int item = blockIdx.x / SPREAD, blocks = ((int)a.heads + TALL - 1) / TALL;
    int number = item / blocks, row = number / (int)a.most, seen = (int)mla_seen(a, row);
    int tokens = (int)mla_part_tokens(seen), begin = (number - row * (int)a.most) * tokens;
    struct decode_part part = {
        row,           number, item % blocks * TALL, min(begin, seen), min(begin + tokens, seen),
        tokens >= seen};
    return {a,    maps,           part,  (int)mla_parts(seen),
            base, cluster_rank(), state, a.weights + (int64_t)item * SPREAD * SENT_BYTES};
}

__device__ static void make_barriers(struct spread_state *state)
{
    for (int u = 0; u < GROUPS; u++) barrier_init(smem_of(&state->full[u]), COPIERS + 1);
    barrier_init(smem_of(&state->values), COPIERS);
    for (int j = 0; j < SPREAD; j++) barrier_init(smem_of(&state->weighed[j]), 1);
    barrier_publish();
}

/* A row that sees nothing is zeros. */
__device__ static void clear_row(const struct spread &b)
{
    uint4 *y = (uint4 *)(b.a.y + (b.part.row * b.a.heads + b.part.head) * LATENT);
    int heads = min((int)b.a.heads - b.part.head, (int)TALL);
    wait_for_launch_before();
    for (int i = threadIdx.x; b.rank == 0 && i < heads * LATENT / 8; i += THREADS)
        y[i] = make_uint4(0, 0, 0, 0);
}

#endif

__global__ static void __launch_bounds__(THREADS, 1)
    decode_spread(const struct mla_attend a, const __grid_constant__ struct decode_maps maps)
{
#if WGMMA_HERE
    extern __shared__ char shared[];
    enum { STATE = VALUES + SPREAD * NARROW_BYTES };
    struct spread_state *state = (struct spread_state *)(shared + STATE);
    if (smem_of(shared) % 1024) __trap(); /* the swizzle counts from there */
    let_next_launch();
    if (threadIdx.x == 0) make_barriers(state);
    if (threadIdx.x == WORKERS) {
        fetch_map(&maps.tile);
        fetch_map(&maps.query);
        fetch_map(&maps.rope);
        fetch_map(&maps.narrow);
    }
    const struct spread b = find_spread(a, maps, smem_of(shared), state);
    __syncthreads();
    cluster_arrive();
    if (b.part.begin >= b.part.end) {
        cluster_wait();
        if (b.parts == 0 && b.part.number == b.part.row * a.most) clear_row(b);
        return;
    }
    if (threadIdx.x < WORKERS)
        run_workers(b);
    else
        run_copiers(b);
    cluster_meet(); /* nobody sends to a block that has ended, or out of it */
    if (b.parts > 1) merge_row(b);
#else
    __trap(); /* mla_decode_has_wgmma() said no */
#endif
}

struct decode_variant mla_variant_spread(void)
{
    return {"64 heads, 16 blocks a part", decode_spread, THREADS, SHARED, SPREAD};
}
