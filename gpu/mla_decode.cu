/* mla_decode.cu: absorbed attention over the paged cache with mma.sync, sm_80 and newer; where
 * the kernels of gpu/mla_decode_choose.cu can run, those. Contract: gpu/mla_core.cuh.
 *
 * A block is TALL heads of one part of one row, at 32 tokens a tile. For the scores the warps
 * divide heads by 16 and tokens by what is left; for the values, heads by 32 and the 512 columns by
 * what is left. The weights go through shared memory from the one division to the other; the values
 * are the tile itself, read turned. Blocks stay and take part after part. */
#include "gpu/mla_decode.cuh"

enum {
    TOKENS = 32,
    BOX = TOKENS * BOX_ROW,
    TILE_BYTES = BOXES * BOX,
    DECODE_THREADS = 256,
    WARPS = DECODE_THREADS / 32,
};

/* TALL heads: 64, or 32 with half the shared memory. STAGES tiles in shared memory. */
template <int TALL_HEADS, int STAGES> struct decode_shape {
    enum {
        TALL = TALL_HEADS,
        SCORE_ROWS = TALL / 16,                      /* warps along heads, for scores */
        SCORE_COLUMNS = WARPS / SCORE_ROWS,          /* and along tokens */
        BLOCKS = TOKENS / SCORE_COLUMNS / 8,         /* of eight tokens a warp */
        VALUE_ROWS = TALL / 32,                      /* warps along heads, for values */
        VALUE_COLUMNS = LATENT * VALUE_ROWS / WARPS, /* columns of a warp */
        QUERY_BYTES = TALL * BOXES * BOX_ROW,
        STAGE_COUNT = STAGES,
        WEIGHT_ROW = TOKENS + 8, /* padded: eight rows of 80 bytes touch all banks */
        SHARED = QUERY_BYTES + STAGES * TILE_BYTES + (int)sizeof(struct decode_plan) +
                 TALL * WEIGHT_ROW * 2 + TALL * (SCORE_COLUMNS + 1) * 4,
    };
};

/* Shared memory of a block, behind the tiles. */
template <class S> struct decode_shared {
    bf16 weight[S::TALL][S::WEIGHT_ROW];
    float most[S::SCORE_COLUMNS][S::TALL]; /* of a warp's tokens; at the end, their sums */
    float keep[S::TALL]; /* what earlier results are multiplied by; then the sums */
    struct decode_plan plan;
};

/* s [16, 8 * BLOCKS] = q tile^T over 576 columns, of this warp's heads and tokens. */
template <class S>
__device__ static void score_tile(float (&s)[S::BLOCKS][4], uint32_t query, uint32_t tile, int r0,
                                  int n0)
{
#pragma unroll
    for (int i = 0; i < S::BLOCKS * 4; i++) s[i / 4][i % 4] = 0;
#pragma unroll
    for (int k = 0; k < BOXES * 4; k++) {
        uint32_t a[4], b[4];
        load_a(a, query + k / 4 * S::TALL * BOX_ROW, r0, k % 4);
        /* Eight tokens need half of what one load brings; the other half is this or the last. */
        load_b(b, tile + k / 4 * TOKENS * BOX_ROW, n0 / 16 * 16, k % 4);
        if (S::BLOCKS == 2) {
            mma_k16(s[0], a, b[0], b[1]);
            mma_k16(s[S::BLOCKS - 1], a, b[2], b[3]);
        } else {
            mma_k16(s[0], a, n0 % 16 ? b[2] : b[0], n0 % 16 ? b[3] : b[1]);
        }
    }
}

/* Masks tokens from `left` on and leaves the largest score of this warp's tokens in most[]. */
template <class S>
__device__ static void mask_scores(struct decode_shared<S> *sh, float (&s)[S::BLOCKS][4], int r0,
                                   int n0, int left)
{
    int lane = threadIdx.x % 32;
    float most[2] = {-INFINITY, -INFINITY};
#pragma unroll
    for (int i = 0; i < S::BLOCKS * 4; i++) {
        float *x = &s[i / 4][i % 4];
        if (n0 + i / 4 * 8 + lane % 4 * 2 + i % 2 >= left) *x = -INFINITY;
        most[i / 2 % 2] = fmaxf(most[i / 2 % 2], *x);
    }
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float m = quad_max(most[r]);
        if (lane % 4 == 0) sh->most[n0 / (8 * S::BLOCKS)][r0 + lane / 4 + 8 * r] = m;
    }
}

/* Weights of this warp's heads and tokens into shared memory. */
template <class S>
__device__ static void weigh(struct decode_shared<S> *sh, const float (&s)[S::BLOCKS][4],
                             float scale, int r0, int n0, float (&largest)[2], float (&sum)[2])
{
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        int head = r0 + lane / 4 + 8 * r;
        float most = sh->most[0][head];
#pragma unroll
        for (int w = 1; w < S::SCORE_COLUMNS; w++) most = fmaxf(most, sh->most[w][head]);
        float next = mla_raise(largest[r], most * scale), keep = mla_exp2(largest[r] - next);
        largest[r] = next;
        sum[r] *= keep;
        if (n0 == 0 && lane % 4 == 0) sh->keep[head] = keep;
#pragma unroll
        for (int b = 0; b < S::BLOCKS; b++) {
            float p0 = mla_exp2(fmaf(s[b][2 * r], scale, -next));
            float p1 = mla_exp2(fmaf(s[b][2 * r + 1], scale, -next));
            sum[r] += p0 + p1;
            *(uint32_t *)&sh->weight[head][n0 + b * 8 + lane % 4 * 2] = pack_pair(p0, p1);
        }
    }
}

/* o [32, VALUE_COLUMNS] = o * keep + weights values, of this warp's heads and columns. */
template <class S>
__device__ static void add_values(struct decode_shared<S> *sh,
                                  float (&o)[2][S::VALUE_COLUMNS / 8][4], uint32_t tile, int r0,
                                  int c0)
{
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int m = 0; m < 2; m++) {
        float keep[2] = {sh->keep[r0 + m * 16 + lane / 4], sh->keep[r0 + m * 16 + lane / 4 + 8]};
#pragma unroll
        for (int i = 0; i < S::VALUE_COLUMNS / 2; i++) o[m][i / 4][i % 4] *= keep[i / 2 % 2];
    }
#pragma unroll
    for (int k = 0; k < TOKENS / 16; k++) {
        uint32_t a[2][4];
#pragma unroll
        for (int m = 0; m < 2; m++)
            load_matrix(a[m],
                        smem_of(&sh->weight[r0 + m * 16 + lane % 16][k * 16 + lane / 16 * 8]));
#pragma unroll
        for (int n = 0; n < S::VALUE_COLUMNS / 16; n++) {
            uint32_t b[4];
            int box = (c0 + n * 16) / BOX_COLUMNS;
            load_b_turned(b, tile + box * TOKENS * BOX_ROW, k * 16, (c0 / 16 + n) % 4);
#pragma unroll
            for (int m = 0; m < 2; m++) {
                mma_k16(o[m][2 * n], a[m], b[0], b[1]);
                mma_k16(o[m][2 * n + 1], a[m], b[2], b[3]);
            }
        }
    }
}

/* Sums of the weights over all warps of a head, in order, into keep[]; also into the statistics. */
template <class S>
__device__ static void sum_up(const struct mla_attend &a, const struct decode_part &part,
                              struct decode_shared<S> *sh, int r0, int n0,
                              const float (&largest)[2], const float (&sum)[2])
{
    int lane = threadIdx.x % 32;
    for (int r = 0; r < 2; r++) {
        float total = quad_sum(sum[r]);
        if (lane % 4 == 0) sh->most[n0 / (8 * S::BLOCKS)][r0 + lane / 4 + 8 * r] = total;
    }
    __syncthreads();
    for (int r = 0; r < 2 && n0 == 0 && lane % 4 == 0; r++) {
        int head = r0 + lane / 4 + 8 * r;
        float total = sh->most[0][head];
        for (int w = 1; w < S::SCORE_COLUMNS; w++) total += sh->most[w][head];
        sh->keep[head] = total;
        if (part.head + head < a.heads && !part.single)
            a.stat[(int64_t)part.number * a.heads + part.head + head] =
                make_float2(largest[r], total);
    }
    __syncthreads();
}

template <class S>
__device__ static void put_part(const struct mla_attend &a, const struct decode_part &part,
                                const struct decode_shared<S> *sh,
                                const float (&o)[2][S::VALUE_COLUMNS / 8][4], int r0, int c0)
{
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < S::VALUE_COLUMNS / 8; i += 2) {
#pragma unroll
        for (int m = 0; m < 4; m++) {
            const float *x = &o[m / 2][i][m % 2 * 2], *y = &o[m / 2][i + 1][m % 2 * 2];
            int head = r0 + m * 8 + lane / 4;
            put_columns(a, part, part.head + head, c0 + i * 8, sh->keep[head], x[0], x[1], y[0],
                        y[1]);
        }
    }
}

template <class S>
__device__ static void attend_part(const struct mla_attend &a, const struct decode_part &part,
                                   uint32_t query, struct decode_shared<S> *sh)
{
    int warp = threadIdx.x / 32;
    int r0 = warp % S::SCORE_ROWS * 16, n0 = warp / S::SCORE_ROWS * 8 * S::BLOCKS;
    int r1 = warp % S::VALUE_ROWS * 32, c1 = warp / S::VALUE_ROWS * S::VALUE_COLUMNS;
    int tiles = (part.end - part.begin + TOKENS - 1) / TOKENS;
    uint32_t tile = query + S::QUERY_BYTES;
    struct decode_source<TOKENS, DECODE_THREADS> source;
    float o[2][S::VALUE_COLUMNS / 8][4] = {};
    float largest[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};
    struct decode_row row = find_row(a, part.row);
    find_entries(a, row, part.begin, part.end, &source);
    copy_query<S::TALL, DECODE_THREADS>(a, query, part);
    copy_tile(a, tile, BOX, source);
    copy_commit();
    find_entries(a, row, part.begin + TOKENS, part.end, &source);
    for (int j = 0; j < tiles; j++) {
        float s[S::BLOCKS][4];
        uint32_t here = tile + j % S::STAGE_COUNT * TILE_BYTES;
        copy_wait<0>();
        __syncthreads();
        if (S::STAGE_COUNT > 1 && j + 1 < tiles)
            copy_tile(a, tile + (j + 1) % S::STAGE_COUNT * TILE_BYTES, BOX, source);
        copy_commit();
        score_tile<S>(s, query, here, r0, n0);
        mask_scores(sh, s, r0, n0, part.end - part.begin - j * TOKENS);
        __syncthreads();
        weigh(sh, s, a.scale, r0, n0, largest, sum);
        __syncthreads();
        add_values(sh, o, here, r1, c1);
        if (S::STAGE_COUNT == 1 && j + 1 < tiles) {
            __syncthreads();
            copy_tile(a, tile, BOX, source);
            copy_commit();
        }
        find_entries(a, row, part.begin + (j + 2) * TOKENS, part.end, &source);
    }
    __syncthreads();
    sum_up(a, part, sh, r0, n0, largest, sum);
    put_part(a, part, sh, o, r1, c1);
}

template <class S>
__global__ static void __launch_bounds__(DECODE_THREADS, 1) decode_mma(struct mla_attend a)
{
    extern __shared__ char shared[];
    struct decode_shared<S> *sh =
        (struct decode_shared<S> *)(shared + S::QUERY_BYTES + S::STAGE_COUNT * TILE_BYTES);
    plan_parts(a, &sh->plan);
    tell_merge(a, &sh->plan);
    int items = first_part(&sh->plan, MLA_ROWS) * (((int)a.heads + S::TALL - 1) / S::TALL);
    for (int n = 0, item; (item = take_item(n)) < items; n++) {
        attend_part(a, find_part(a, &sh->plan, item, S::TALL), smem_of(shared), sh);
        __syncthreads(); /* before the next part's query overwrites this one's */
    }
}

template <class S>
static enum err_code launch(struct gpu *g, const struct mla_attend *a, const char *tactic,
                            struct err *err)
{
    static_assert(S::SHARED >= S::QUERY_BYTES + S::STAGE_COUNT * TILE_BYTES +
                                   (int)sizeof(struct decode_shared<S>),
                  "shared memory");
    int64_t items = a->parts * ((a->heads + S::TALL - 1) / S::TALL);
    dim3 grid((unsigned)(items < g->sms ? items : g->sms));
    if (gpu_shared(g, (const void *)decode_mma<S>, "mla_decode_mma", S::SHARED, err) != ERR_OK)
        return err->code;
    return GPU_LAUNCH(g, err, "mla_decode_mma", tactic, grid, dim3(DECODE_THREADS), S::SHARED,
                      decode_mma<S>, *a);
}

enum err_code mla_decode(struct gpu *g, struct mla_attend *a, struct err *err)
{
    typedef decode_shape<64, 2> tall;
    typedef decode_shape<32, 1> low; /* cards with 99 KB a block */
    if (mla_decode_has_wgmma(g)) return mla_decode_wgmma(g, a, err);
    if (mla_parts_new(g, a, err) != ERR_OK) return err->code;
    if (a->heads > 32 && g->shared_max >= tall::SHARED)
        (void)!launch<tall>(g, a, "64 heads, 32 tokens, 2 stages", err);
    else
        (void)!launch<low>(g, a, "32 heads, 32 tokens, 1 stage", err);
    return err->code == ERR_OK ? mla_merge(g, a, 1, err) : err->code;
}
