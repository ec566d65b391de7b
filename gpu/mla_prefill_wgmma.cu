/* mla_prefill_wgmma.cu: causal attention over expanded keys and values with the warpgroup products
 * of sm_90a. Contract: gpu/mla_core.cuh; elsewhere: gpu/mla_prefill.cu.
 *
 * A block is 128 queries of one head, 64 to a warpgroup, at 128 tokens a tile. The next tile is
 * copied while this one is computed. The second warpgroup issues its scores after the first one
 * has, so that each computes weights while the other keeps the tensor cores busy. */
#include "gpu/mla_prefill.cuh"
#include "gpu/mla_wgmma.cuh"

enum {
    TOKENS = 128,
    QUERY_BYTES = PREFILL_ROWS * KEY_BOXES * BOX_ROW,
    KEY_BYTES = TOKENS * KEY_BOXES * BOX_ROW,
    TILE_BYTES = TOKENS * (KEY_BOXES + VALUE_BOXES) * BOX_ROW,
    SHARED = 1024 + QUERY_BYTES + 2 * TILE_BYTES,
};

#if WGMMA_HERE

/* s [64, 128] = q keys^T over 192 columns. */
__device__ static void score_tile(float (&s)[64], uint32_t query, uint32_t tile)
{
    wgmma_begin();
#pragma unroll
    for (int b = 0; b < KEY_BOXES; b++) {
#pragma unroll
        for (int kk = 0; kk < 4; kk++)
            wgmma_n128(s, wgmma_operand(query + b * PREFILL_ROWS * BOX_ROW + kk * 32, 0),
                       wgmma_operand(tile + b * TOKENS * BOX_ROW + kk * 32, 0), b + kk > 0);
    }
    wgmma_end();
}

/* o [64, 128] += p values. */
__device__ static void add_values(float (&o)[64], const uint32_t (&p)[32], uint32_t values)
{
    wgmma_begin();
#pragma unroll
    for (int kk = 0; kk < TOKENS / 16; kk++)
        wgmma_n128_turned(o, p[4 * kk], p[4 * kk + 1], p[4 * kk + 2], p[4 * kk + 3],
                          wgmma_operand(values + kk * 16 * BOX_ROW, TOKENS * BOX_ROW));
    wgmma_end();
}

/* The first warpgroup's scores are issued before the second one's. */
__device__ static void take_turn_begin(int group)
{
    if (group == 1) asm volatile("bar.sync 1, 256;" ::: "memory");
}

__device__ static void take_turn_end(int group)
{
    if (group == 0) asm volatile("bar.arrive 1, 256;" ::: "memory");
}

#endif

__global__ static void __launch_bounds__(PREFILL_THREADS, 1) prefill_wgmma(struct mla_prefill p)
{
#if WGMMA_HERE
    extern __shared__ char shared[];
    uint32_t query = (smem_of(shared) + 1023) / 1024 * 1024, tile = query + QUERY_BYTES;
    int group = threadIdx.x / 128;
    int64_t first = prefill_first_row(), end = prefill_end(p, first);
    int64_t row = first + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
    int tiles = (int)((end + TOKENS - 1) / TOKENS);
    struct prefill_row state = {{-INFINITY, -INFINITY}, {0, 0}};
    float o[64];
#pragma unroll
    for (int i = 0; i < 64; i++) o[i] = 0;
    copy_queries(p, query, first);
    copy_tokens<TOKENS>(p, tile, 0);
    copy_commit();
    for (int j = 0; j < tiles; j++) {
        float s[64], keep[2];
        uint32_t weights[32], here = tile + j % 2 * TILE_BYTES;
        int64_t see = prefill_seen(p, row) - (int64_t)j * TOKENS;
        const int seen[2] = {(int)(see < TOKENS ? see : TOKENS),
                             (int)(see + 8 < TOKENS ? see + 8 : TOKENS)};
        copy_wait<0>();
        wgmma_publish();
        __syncthreads();
        if (j + 1 < tiles)
            copy_tokens<TOKENS>(p, tile + (j + 1) % 2 * TILE_BYTES, (int64_t)(j + 1) * TOKENS);
        copy_commit();
        take_turn_begin(group);
        score_tile(s, query + group * 64 * BOX_ROW, here);
        take_turn_end(group);
        wgmma_wait<0>();
        prefill_weigh(s, p.scale, seen, &state, keep, weights);
        if (__any_sync(0xffffffffu, keep[0] != 1 || keep[1] != 1)) {
#pragma unroll
            for (int i = 0; i < 64; i++) o[i] *= keep[i / 2 % 2];
        }
        add_values(o, weights, here + KEY_BYTES);
        wgmma_wait<0>();
    }
    put_rows(p, row, o, state);
#else
    __trap(); /* mla_prefill_has_wgmma() said no */
#endif
}

bool mla_prefill_has_wgmma(const struct gpu *g)
{
    cudaFuncAttributes attributes;
    return g->major == 9 && g->minor == 0 && g->shared_max >= SHARED &&
           cudaFuncGetAttributes(&attributes, prefill_wgmma) == cudaSuccess &&
           attributes.ptxVersion >= 90;
}

enum err_code mla_prefill_wgmma(struct gpu *g, const struct mla_prefill *p, struct err *err)
{
    dim3 grid((unsigned)((p->T + PREFILL_ROWS - 1) / PREFILL_ROWS), (unsigned)p->heads);
    if (gpu_shared(g, (const void *)prefill_wgmma, "mla_prefill_wgmma", SHARED, err) != ERR_OK)
        return err->code;
    return GPU_LAUNCH(g, err, "mla_prefill_wgmma", "128 rows, 128 tokens, 2 stages", grid,
                      dim3(PREFILL_THREADS), SHARED, prefill_wgmma, *p);
}
