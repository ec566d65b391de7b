/* mla_decode_wgmma.cu: absorbed attention over the paged cache with the warpgroup products of
 * sm_90a. Contract: gpu/mla_core.cuh; elsewhere: gpu/mla_decode.cu.
 *
 * A block is 64 heads of one part of one row, and takes part after part; tokens flow through two
 * tiles of 64 in shared memory. Three roles, each in warps of its own:
 *   copiers  a warpgroup: latents from the paged cache into tiles
 *   scorers  a warpgroup: queries; scores of a tile; weights of bf16 into shared memory
 *   mixers   two warpgroups: weights times values, 256 columns each; the values are the tile
 *            itself, read turned. What they have read is free again by halves of a tile
 * What one hands on to the other stands behind a barrier of its own, so that copies, both products
 * and the weights run side by side; nothing waits at the end of a part but for what it needs. */
#include "gpu/mla_decode.cuh"
#include "gpu/mla_wgmma.cuh"

enum {
    TALL = 64,
    TILES = 2,
    TOKENS = MLA_PAGE, /* of a tile */
    HALF = TOKENS / 2,
    BOX = TOKENS * BOX_ROW,
    TILE_BYTES = BOXES * BOX,
    QUERY_BYTES = TALL * BOXES * BOX_ROW,
    WEIGHT_BYTES = TALL * BOX_ROW,
    MIXERS = 256,
    SCORERS = 128,
    COPIERS = 128,
    THREADS = MIXERS + SCORERS + COPIERS,
};

/* Behind queries, tiles and weights, whose places the products' operands fix. */
struct decode_state {
    uint64_t full[TILES], empty[TILES][2]; /* tiles: copied; halves: read by the mixers */
    uint64_t weighed, mixed;               /* weights: written; read */
    float keep[TALL], sum[TALL];           /* factor of earlier results; sum of all weights */
    struct decode_plan plan;
};

enum {
    SHARED = QUERY_BYTES + TILES * TILE_BYTES + WEIGHT_BYTES + (int)sizeof(struct decode_state)
};
static_assert(SHARED <= 232448, "more than a block may have");

#if WGMMA_HERE

/* ---- barriers in shared memory ---- */

__device__ static void barrier_make(uint64_t *b, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(smem_of(b)), "r"(count)
                 : "memory");
}

__device__ static void barrier_arrive(uint64_t *b)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(smem_of(b)) : "memory");
}

/* This thread arrives when all its copies so far have landed. */
__device__ static void barrier_arrive_copied(uint64_t *b)
{
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(smem_of(b))
                 : "memory");
}

/* Until phase `n` of the barrier, counted from 0, is over. */
__device__ static void barrier_wait(uint64_t *b, int n)
{
    asm volatile("{\n.reg .pred p;\nAGAIN:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra AGAIN;\n}" ::"r"(
                     smem_of(b)),
                 "r"(n & 1)
                 : "memory");
}

/* Registers of a thread, given back or taken: 128 at the launch for 512 threads. */
template <int N> __device__ static void registers_less(void)
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

template <int N> __device__ static void registers_more(void)
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

__device__ static void scorers_meet(void)
{
    asm volatile("bar.sync 1, 128;" ::: "memory");
}

/* ---- roles ---- */

/* What all roles know. Tiles are counted through all parts of the block: the n-th lies in tile n %
 * TILES. */
struct block {
    const struct mla_attend &a;
    uint32_t query, tiles, weights;
    struct decode_state *state;
    int items;
};

__device__ static uint32_t tile_of(const struct block &b, int n)
{
    return b.tiles + n % TILES * TILE_BYTES;
}

/* The next half's entries are looked up before its place is waited for. */
__device__ static void run_copiers(const struct block &b)
{
    int n = 0;
    for (int item = blockIdx.x; item < b.items; item += gridDim.x) {
        struct decode_part part = find_part(b.a, &b.state->plan, item, TALL);
        struct decode_row row = find_row(b.a, part.row);
        struct decode_source<HALF, COPIERS> source;
        find_entries(b.a, row, part.begin, part.end, &source);
        for (int token = part.begin; token < part.end; n++) {
            for (int h = 0; h < 2; h++) {
                if (n >= TILES) barrier_wait(&b.state->empty[n % TILES][h], n / TILES - 1);
                copy_tile(b.a, tile_of(b, n) + h * HALF * BOX_ROW, BOX, source);
                token += HALF;
                find_entries(b.a, row, token, part.end, &source);
            }
            barrier_arrive_copied(&b.state->full[n % TILES]);
        }
    }
    copy_wait<0>();
}

/* Begins to copy the queries of the block's part at `item`, if there is one. */
__device__ static void begin_query(const struct block &b, int item)
{
    if (item < b.items)
        copy_query<TALL, SCORERS>(b.a, b.query, find_part(b.a, &b.state->plan, item, TALL));
    copy_commit();
}

/* s [64, 64] = q tile^T over 576 columns, of the n-th tile. */
__device__ static void score_tile(const struct block &b, float (&s)[32], int n)
{
    uint32_t tile = tile_of(b, n), query = b.query;
    asm volatile("" : "+r"(query)); /* operands are made here, not kept in registers */
    wgmma_publish();
    wgmma_begin();
#pragma unroll
    for (int k = 0; k < BOXES * 4; k++) {
        uint32_t at = k / 4 * BOX + k % 4 * 32;
        wgmma_n64(s, wgmma_operand(query + at, 0), wgmma_operand(tile + at, 0), k > 0);
    }
    wgmma_end();
    wgmma_wait<0>();
}

/* Of the two rows that a scorer's thread holds: what weights are relative to (gpu/mla_core.cuh),
 * and this thread's part of their sum. */
struct row_state {
    float largest[2], sum[2];
};

/* Masks tokens from `left` on; keep[r]: what earlier results are multiplied by. */
__device__ static void raise_rows(const struct block &b, float (&s)[32], int left,
                                  struct row_state *row, float (&keep)[2])
{
    int column = threadIdx.x % 4 * 2;
    float most[2] = {-INFINITY, -INFINITY};
    if (left < TOKENS) {
#pragma unroll
        for (int i = 0; i < 32; i++)
            if (i / 4 * 8 + column + i % 2 >= left) s[i] = -INFINITY;
    }
#pragma unroll
    for (int i = 0; i < 32; i++) most[i / 2 % 2] = fmaxf(most[i / 2 % 2], s[i]);
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float next = mla_raise(row->largest[r], quad_max(most[r]) * b.a.scale);
        keep[r] = mla_exp2(row->largest[r] - next);
        row->largest[r] = next;
        row->sum[r] *= keep[r];
    }
}

/* Scores become weights of bf16, in shared memory; `left` tokens are the part's from this tile on.
 */
__device__ static void weigh(const struct block &b, float (&s)[32], int left, int n,
                             struct row_state *row)
{
    int t = threadIdx.x % 4, first = threadIdx.x % SCORERS / 32 * 16 + threadIdx.x % 32 / 4;
    uint32_t p[16];
    float keep[2];
    raise_rows(b, s, left, row, keep);
#pragma unroll
    for (int i = 0; i < 32; i += 2) {
        int r = i / 2 % 2;
        float p0 = mla_exp2(fmaf(s[i], b.a.scale, -row->largest[r]));
        float p1 = mla_exp2(fmaf(s[i + 1], b.a.scale, -row->largest[r]));
        row->sum[r] += p0 + p1;
        p[i / 2] = pack_pair(p0, p1); /* RP_PROB */
    }
    if (n > 0) barrier_wait(&b.state->mixed, n - 1);
#pragma unroll
    for (int i = 0; i < 16; i++) {
        uint32_t at = b.weights + box_chunk(first + i % 2 * 8, i / 2) + t * 4;
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(p[i]) : "memory");
    }
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float sum = left <= TOKENS ? quad_sum(row->sum[r]) : 0;
        if (t == 0) b.state->keep[first + 8 * r] = keep[r];
        if (t == 0 && left <= TOKENS) b.state->sum[first + 8 * r] = sum;
    }
    wgmma_publish();
    barrier_arrive(&b.state->weighed);
}

__device__ static void put_stat(const struct block &b, const struct decode_part &part,
                                const struct row_state &row)
{
    for (int r = 0; r < 2; r++) {
        int head = part.head + threadIdx.x % SCORERS / 32 * 16 + threadIdx.x % 32 / 4 + 8 * r;
        float sum = quad_sum(row.sum[r]);
        if (threadIdx.x % 4 == 0 && head < b.a.heads && !part.single)
            b.a.stat[(int64_t)part.number * b.a.heads + head] = make_float2(row.largest[r], sum);
    }
}

__device__ static void run_scorers(const struct block &b)
{
    int n = 0;
    begin_query(b, blockIdx.x);
    for (int item = blockIdx.x; item < b.items; item += gridDim.x) {
        struct decode_part part = find_part(b.a, &b.state->plan, item, TALL);
        struct row_state row = {{-INFINITY, -INFINITY}, {0, 0}};
        copy_wait<0>();
        wgmma_publish();
        scorers_meet();
        for (int left = part.end - part.begin; left > 0; left -= TOKENS, n++) {
            float s[32];
            barrier_wait(&b.state->full[n % TILES], n / TILES);
            score_tile(b, s, n);
            if (left <= TOKENS) { /* nobody needs these queries any more */
                scorers_meet();
                begin_query(b, item + gridDim.x);
            }
            weigh(b, s, left, n, &row);
        }
        put_stat(b, part, row);
    }
}

/* o [64, 2 * 128] = o * keep + weights values, of the n-th tile. */
__device__ static void mix_tile(const struct block &b, float (&o)[2][64], int n, int first,
                                uint32_t columns)
{
    float keep[2] = {b.state->keep[first], b.state->keep[first + 8]};
    if (__any_sync(0xffffffffu, keep[0] != 1 || keep[1] != 1)) {
#pragma unroll
        for (int i = 0; i < 128; i++) o[i / 64][i % 64] *= keep[i / 2 % 2];
    }
    wgmma_publish();
    wgmma_begin();
#pragma unroll
    for (int kk = 0; kk < TOKENS / 16; kk++) {
        uint64_t a = wgmma_operand(b.weights + kk * 32, 0);
        uint32_t at = tile_of(b, n) + columns + kk * 16 * BOX_ROW;
        wgmma_n128_turned(o[0], a, wgmma_operand(at, BOX));
        wgmma_n128_turned(o[1], a, wgmma_operand(at + 2 * BOX, BOX));
        if (kk * 16 == HALF - 16) wgmma_end();
    }
    wgmma_end();
    wgmma_wait<1>();
    barrier_arrive(&b.state->empty[n % TILES][0]);
    wgmma_wait<0>();
}

__device__ static void put_part(const struct block &b, const struct decode_part &part,
                                const float (&o)[2][64], const float (&sum)[2])
{
    int group = threadIdx.x / 128;
    int head = part.head + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
#pragma unroll
    for (int i = 0; i < 128; i += 8) {
        const float *v = &o[i / 64][i % 64];
        int column = group * 256 + i / 4 * 8;
        put_columns(b.a, part, head, column, sum[0], v[0], v[1], v[4], v[5]);
        put_columns(b.a, part, head + 8, column, sum[1], v[2], v[3], v[6], v[7]);
    }
}

__device__ static void run_mixers(const struct block &b)
{
    int n = 0, first = threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
    for (int item = blockIdx.x; item < b.items; item += gridDim.x) {
        struct decode_part part = find_part(b.a, &b.state->plan, item, TALL);
        float o[2][64], sum[2];
#pragma unroll
        for (int i = 0; i < 128; i++) o[i / 64][i % 64] = 0;
        for (int token = part.begin; token < part.end; token += TOKENS, n++) {
            barrier_wait(&b.state->full[n % TILES], n / TILES);
            barrier_wait(&b.state->weighed, n);
            mix_tile(b, o, n, first, threadIdx.x / 128 * 4 * BOX);
            for (int r = 0; r < 2; r++) sum[r] = b.state->sum[first + 8 * r];
            barrier_arrive(&b.state->mixed);
            barrier_arrive(&b.state->empty[n % TILES][1]);
        }
        put_part(b, part, o, sum);
    }
}

#endif

__global__ static void __launch_bounds__(THREADS, 1) decode_wgmma(struct mla_attend a)
{
#if WGMMA_HERE
    extern __shared__ char shared[];
    enum { WEIGHTS = QUERY_BYTES + TILES * TILE_BYTES };
    struct decode_state *state = (struct decode_state *)(shared + WEIGHTS + WEIGHT_BYTES);
    uint32_t base = smem_of(shared);
    if (base % 1024) __trap(); /* the swizzle counts from there */
    if (threadIdx.x == 0) {
        for (int i = 0; i < TILES; i++) barrier_make(&state->full[i], COPIERS);
        for (int i = 0; i < 2 * TILES; i++) barrier_make(&state->empty[i / 2][i % 2], MIXERS);
        barrier_make(&state->weighed, SCORERS);
        barrier_make(&state->mixed, MIXERS);
    }
    plan_parts(a, &state->plan);
    const struct block b = {a,
                            base,
                            base + QUERY_BYTES,
                            base + WEIGHTS,
                            state,
                            state->plan.first[MLA_ROWS] * (((int)a.heads + TALL - 1) / TALL)};
    if (threadIdx.x < MIXERS) {
        registers_more<168>();
        run_mixers(b);
    } else if (threadIdx.x < MIXERS + SCORERS) {
        registers_more<136>();
        run_scorers(b);
    } else {
        registers_less<40>();
        run_copiers(b);
    }
#else
    __trap(); /* mla_decode_has_wgmma() said no */
#endif
}

bool mla_decode_has_wgmma(const struct gpu *g)
{
    cudaFuncAttributes attributes;
    return g->major == 9 && g->minor == 0 && g->shared_max >= SHARED &&
           cudaFuncGetAttributes(&attributes, decode_wgmma) == cudaSuccess &&
           attributes.ptxVersion >= 90;
}

enum err_code mla_decode_wgmma(struct gpu *g, const struct mla_attend *a, struct err *err)
{
    int64_t items = a->parts * ((a->heads + TALL - 1) / TALL);
    dim3 grid((unsigned)(items < g->sms ? items : g->sms));
    if (gpu_shared(g, (const void *)decode_wgmma, "mla_decode_wgmma", SHARED, err) != ERR_OK)
        return err->code;
    return GPU_LAUNCH(g, err, "mla_decode_wgmma", "64 heads, 2 tiles of 64 tokens", grid,
                      dim3(THREADS), SHARED, decode_wgmma, *a);
}
