/* mla_prefill.cu: causal attention over expanded keys and values with mma.sync, sm_80 and newer;
 * where gpu/mla_prefill_wgmma.cu can run, that. Contract: gpu/mla_core.cuh.
 *
 * A block is 128 queries of one head, 16 to a warp, at 64 tokens a tile. Queries stay in registers;
 * the next tile is copied while this one is computed. */
#include "gpu/mla_prefill.cuh"

enum {
    TOKENS = 64,
    QUERY_BYTES = PREFILL_ROWS * KEY_BOXES * BOX_ROW,
    KEY_BYTES = TOKENS * KEY_BOXES * BOX_ROW,
    TILE_BYTES = TOKENS * (KEY_BOXES + VALUE_BOXES) * BOX_ROW,
    TILES_BYTES = 2 * TILE_BYTES,
    SHARED = QUERY_BYTES + TILES_BYTES,
    STEPS = KEY / 16,
};

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
            multiply(c[2 * n], query[k], b[0], b[1]);
            multiply(c[2 * n + 1], query[k], b[2], b[3]);
        }
    }
#pragma unroll
    for (int i = 0; i < 32; i++) s[i] = c[i / 4][i % 4];
}

/* o [16, 128] += p values. */
__device__ static void add_values(float (&o)[16][4], const uint32_t (&p)[16], uint32_t values)
{
#pragma unroll
    for (int k = 0; k < TOKENS / 16; k++) {
        const uint32_t a[4] = {p[4 * k], p[4 * k + 1], p[4 * k + 2], p[4 * k + 3]};
#pragma unroll
        for (int n = 0; n < 8; n++) {
            uint32_t b[4];
            load_b_turned(b, values + n / 4 * TOKENS * BOX_ROW, k * 16, n % 4);
            multiply(o[2 * n], a, b[0], b[1]);
            multiply(o[2 * n + 1], a, b[2], b[3]);
        }
    }
}

__global__ static void __launch_bounds__(PREFILL_THREADS, 1) prefill_mma(struct mla_prefill p)
{
    extern __shared__ char shared[];
    uint32_t at = smem_of(shared), tile = at + QUERY_BYTES;
    int64_t first = prefill_first_row(), end = prefill_end(p, first);
    int64_t row = first + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
    int tiles = (int)((end + TOKENS - 1) / TOKENS);
    struct prefill_row state = {{-INFINITY, -INFINITY}, {0, 0}};
    float o[16][4] = {}, result[64];
    uint32_t query[STEPS][4];
    copy_queries(p, at, first);
    copy_tokens<TOKENS>(p, tile, 0);
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
            copy_tokens<TOKENS>(p, tile + (j + 1) % 2 * TILE_BYTES, (int64_t)(j + 1) * TOKENS);
        copy_commit();
        score_tile(s, query, here);
        prefill_weigh(s, p.scale, seen, &state, keep, weights);
        if (__any_sync(0xffffffffu, keep[0] != 1 || keep[1] != 1)) {
#pragma unroll
            for (int i = 0; i < 64; i++) o[i / 4][i % 4] *= keep[i / 2 % 2];
        }
        add_values(o, weights, here + KEY_BYTES);
    }
#pragma unroll
    for (int i = 0; i < 64; i++) result[i] = o[i / 4][i % 4];
    put_rows(p, row, result, state);
}

enum err_code mla_prefill(struct gpu *g, const struct mla_prefill *p, struct err *err)
{
    if (mla_prefill_has_wgmma(g)) return mla_prefill_wgmma(g, p, err);
    dim3 grid((unsigned)((p->T + PREFILL_ROWS - 1) / PREFILL_ROWS), (unsigned)p->heads);
    if (gpu_shared(g, (const void *)prefill_mma, "mla_prefill_mma", SHARED, err) != ERR_OK)
        return err->code;
    return GPU_LAUNCH(g, err, "mla_prefill_mma", "128 rows, 64 tokens, 2 stages", grid,
                      dim3(PREFILL_THREADS), SHARED, prefill_mma, *p);
}
