/* mla_prefill.cu: causal attention over expanded keys and values with mma.sync, sm_80 and newer;
 * where gpu/mla_prefill_wgmma.cu can run, that. Contract: gpu/mla_core.cuh.
 *
 * A block is 128 queries of one head, 16 to a warp, at 64 tokens a tile. Queries stay in registers;
 * the next tile is copied while this one is computed. */
#include "gpu/mla_prefill.cuh"

#include "core/tactic.h"

#include <string.h>

enum {
    TOKENS = 64,
    QUERY_BYTES = PREFILL_ROWS * KEY_BOXES * BOX_ROW,
    KEY_BYTES = TOKENS * KEY_BOXES * BOX_ROW,
    TILE_BYTES = TOKENS * (KEY_BOXES + VALUE_BOXES) * BOX_ROW,
    TILES_BYTES = 2 * TILE_BYTES,
    SHARED = QUERY_BYTES + TILES_BYTES,
    STEPS = KEY / 16,
    THREADS = 256,
    COPY_ROWS = THREADS / 8, /* rows from copy to copy of a thread: one chunk of a row each */
};

/* Longest first: the last queries see the most tokens, and end last if they begin last. */
__device__ static int64_t first_row(void)
{
    return (int64_t)(gridDim.x - 1 - blockIdx.x) * PREFILL_ROWS;
}

__device__ static void copy_queries(const struct mla_prefill &p, uint32_t tile, int64_t row)
{
    int chunk = threadIdx.x % 8, r = threadIdx.x / 8;
#pragma unroll
    for (int i = 0; i < PREFILL_ROWS; i += COPY_ROWS) {
        bool valid = row + r + i < p.T;
        const bf16 *from = p.q + ((valid ? row + r + i : 0) * p.heads + blockIdx.y) * KEY;
#pragma unroll
        for (int b = 0; b < KEY_BOXES; b++)
            copy16(tile + b * PREFILL_ROWS * BOX_ROW + box_chunk(r + i, chunk),
                   from + b * BOX_COLUMNS + chunk * 8, valid);
    }
}

/* Tokens from `token` on; zeros past the context. */
__device__ static void copy_tokens(const struct mla_prefill &p, uint32_t tile, int64_t token)
{
    int chunk = threadIdx.x % 8, r = threadIdx.x / 8;
#pragma unroll
    for (int i = 0; i < TOKENS; i += COPY_ROWS) {
        bool valid = token + r + i < p.context;
        int64_t at = valid ? token + r + i : 0;
        const bf16 *kv = p.kv + (at * p.heads + blockIdx.y) * KEY_AND_VALUE + chunk * 8;
        const bf16 *rope = p.rope + at * BOX_COLUMNS + chunk * 8;
        uint32_t to = tile + box_chunk(r + i, chunk);
#pragma unroll
        for (int b = 0; b < KEY_BOXES + VALUE_BOXES; b++) {
            int columns = (b < KEY_BOXES ? b : b - 1) * BOX_COLUMNS;
            copy16(to + b * TOKENS * BOX_ROW, b == KEY_BOXES - 1 ? rope : kv + columns, valid);
        }
    }
}

/* s [16, 64] = q keys^T over 192 columns. */
__device__ static void score_tile(float (&s)[32], const uint32_t (&query)[STEPS][4], uint32_t tile)
{
    float c[8][4] = {};
#pragma unroll
    for (int k = 0; k < STEPS; k++) {
#pragma unroll
        for (int n = 0; n < 4; n++) {
            uint32_t b[4];
            load_b(b, tile + k / 4 * TOKENS * BOX_ROW, n * 16, k % 4);
            mma_k16(c[2 * n], query[k], b[0], b[1]);
            mma_k16(c[2 * n + 1], query[k], b[2], b[3]);
        }
    }
#pragma unroll
    for (int i = 0; i < 32; i++) s[i] = c[i / 4][i % 4];
}

/* o [16, 128] += p values: a fragment of four for every eight columns. */
__device__ static void add_values(float (&o)[64], const uint32_t (&p)[16], uint32_t values)
{
#pragma unroll
    for (int k = 0; k < TOKENS / 16; k++) {
        const uint32_t a[4] = {p[4 * k], p[4 * k + 1], p[4 * k + 2], p[4 * k + 3]};
#pragma unroll
        for (int n = 0; n < 8; n++) {
            uint32_t b[4];
            load_b_turned(b, values + n / 4 * TOKENS * BOX_ROW, k * 16, n % 4);
            mma_k16(reinterpret_cast<float(&)[4]>(o[8 * n]), a, b[0], b[1]);
            mma_k16(reinterpret_cast<float(&)[4]>(o[8 * n + 4]), a, b[2], b[3]);
        }
    }
}

__global__ static void __launch_bounds__(THREADS, 1) prefill_mma(struct mla_prefill p)
{
    extern __shared__ char shared[];
    uint32_t at = smem_of(shared), tile = at + QUERY_BYTES;
    int64_t first = first_row(), end = prefill_end(p, first);
    int64_t row = first + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
    int tiles = (int)((end + TOKENS - 1) / TOKENS);
    struct prefill_row state = {{-INFINITY, -INFINITY}, {0, 0}};
    float o[64] = {};
    uint32_t query[STEPS][4];
    copy_queries(p, at, first);
    copy_tokens(p, tile, 0);
    copy_commit();
    copy_wait<0>();
    __syncthreads();
#pragma unroll
    for (int k = 0; k < STEPS; k++)
        load_a(query[k], at + k / 4 * PREFILL_ROWS * BOX_ROW, threadIdx.x / 32 * 16, k % 4);
    for (int j = 0; j < tiles; j++) {
        float s[32], keep[2];
        uint32_t weights[16], here = tile + j % 2 * TILE_BYTES;
        int64_t see = prefill_seen(p, row) - (int64_t)j * TOKENS;
        const int seen[2] = {(int)(see < TOKENS ? see : TOKENS),
                             (int)(see + 8 < TOKENS ? see + 8 : TOKENS)};
        copy_wait<0>();
        __syncthreads();
        if (j + 1 < tiles)
            copy_tokens(p, tile + (j + 1) % 2 * TILE_BYTES, (int64_t)(j + 1) * TOKENS);
        copy_commit();
        score_tile(s, query, here);
        if (seen[0] < TOKENS || seen[1] < TOKENS) prefill_mask(s, seen);
        prefill_raise(s, p.scale, &state, keep);
        prefill_weigh(s, p.scale, &state);
        prefill_round(s, weights);
        prefill_scale(o, keep);
        add_values(o, weights, here + KEY_BYTES);
    }
    put_rows(p, blockIdx.y, row, o, state.sum);
}

/* ---- the choice ---- */

static bool always(const struct gpu *g)
{
    (void)g;
    return true;
}

static enum err_code launch_mma(struct gpu *g, const struct mla_prefill *p, struct err *err)
{
    dim3 grid((unsigned)((p->T + PREFILL_ROWS - 1) / PREFILL_ROWS), (unsigned)p->heads);
    if (gpu_shared(g, (const void *)prefill_mma, "mla_prefill_mma", SHARED, err) != ERR_OK)
        return err->code;
    return GPU_LAUNCH(g, err, "mla_prefill_mma", "128 rows, 64 tokens, 2 stages", grid,
                      dim3(THREADS), SHARED, prefill_mma, *p);
}

/* The first that can run is taken. On an H200, 128 heads: wgmma 730 and 792 TFLOP/s at 4096 and
 * 16384 tokens; mma is for cards without it. */
static const struct prefill_tactic {
    const char *name;
    bool (*can)(const struct gpu *g);
    enum err_code (*launch)(struct gpu *g, const struct mla_prefill *p, struct err *err);
} tactics[] = {
    {"wgmma", mla_prefill_has_wgmma, mla_prefill_wgmma},
    {"mma", always, launch_mma},
};

enum err_code mla_prefill(struct gpu *g, const struct mla_prefill *p, struct err *err)
{
    const char *forced = tactic_forced("mla.prefill");
    for (const struct prefill_tactic &t : tactics) {
        if ((!forced || strcmp(forced, t.name) == 0) && t.can(g)) return t.launch(g, p, err);
    }
    return tactic_none("mla.prefill", "this card has no such products", err);
}
