/* mla_prefill.cuh: what both prefill kernels do alike: which tile of queries is whose, and bringing
 * queries, keys and values into shared memory. Private to gpu/mla_prefill*.cu. 256 threads a block,
 * 128 queries of one head.
 *
 * Tiles are boxes of 64 columns (gpu/mla_tile.cuh). Queries: three; a tile of tokens: three of the
 * key (two expanded, one roped), two of the value. A thread copies one chunk of every 32nd row. */
#ifndef ASSAY_GPU_MLA_PREFILL_CUH
#define ASSAY_GPU_MLA_PREFILL_CUH

#include "gpu/mla_core.cuh"
#include "gpu/mla_tile.cuh"

enum {
    PREFILL_THREADS = 256,
    PREFILL_ROWS = 128,
    PREFILL_STEP = PREFILL_THREADS / 8, /* rows from copy to copy of a thread */
    KEY = 192,
    KEY_BOXES = 3,
    KEY_AND_VALUE = 256, /* columns of a head in kv: 128 of the key, 128 of the value */
    VALUE = 128,
    VALUE_BOXES = 2,
};

/* Longest first: the last queries see the most tokens, and end last if they begin last. */
__device__ static inline int64_t prefill_first_row(void)
{
    return (int64_t)(gridDim.x - 1 - blockIdx.x) * PREFILL_ROWS;
}

/* Tokens that row i sees. */
__device__ static inline int64_t prefill_seen(const struct mla_prefill &p, int64_t i)
{
    return p.context - p.T + i + 1;
}

/* Tokens that any of the block's rows sees. */
__device__ static inline int64_t prefill_end(const struct mla_prefill &p, int64_t row)
{
    int64_t most = prefill_seen(p, row + PREFILL_ROWS - 1);
    return most < p.context ? most : p.context;
}

__device__ static inline void copy_queries(const struct mla_prefill &p, uint32_t tile, int64_t row)
{
    int chunk = threadIdx.x % 8, r = threadIdx.x / 8;
#pragma unroll
    for (int i = 0; i < PREFILL_ROWS; i += PREFILL_STEP) {
        bool valid = row + r + i < p.T;
        const bf16 *from = p.q + ((valid ? row + r + i : 0) * p.heads + blockIdx.y) * KEY;
#pragma unroll
        for (int b = 0; b < KEY_BOXES; b++)
            copy16(tile + b * PREFILL_ROWS * BOX_ROW + box_chunk(r + i, chunk),
                   from + b * BOX_COLUMNS + chunk * 8, valid);
    }
}

/* Tokens from `token` on; zeros past the context. */
template <int TOKENS>
__device__ static inline void copy_tokens(const struct mla_prefill &p, uint32_t tile, int64_t token)
{
    int chunk = threadIdx.x % 8, r = threadIdx.x / 8;
#pragma unroll
    for (int i = 0; i < TOKENS; i += PREFILL_STEP) {
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

/* Of the two rows that a thread holds: the largest score so far in base 2, and this thread's part
 * of the sum of weights. */
struct prefill_row {
    float largest[2], sum[2];
};

/* Scores of N / 4 blocks of eight tokens (fragments of gpu/mla_tile.cuh) become weights of bf16.
 * Row r sees `seen[r]` tokens from the tile's first on; keep[r]: what earlier results are
 * multiplied by. */
template <int N>
__device__ static inline void prefill_weigh(float (&s)[N], float scale, const int (&seen)[2],
                                            struct prefill_row *row, float (&keep)[2],
                                            uint32_t (&p)[N / 2])
{
    int column = threadIdx.x % 4 * 2;
    float most[2] = {-INFINITY, -INFINITY};
    if (seen[0] < N * 2 || seen[1] < N * 2) {
#pragma unroll
        for (int i = 0; i < N; i++)
            if (i / 4 * 8 + column + i % 2 >= seen[i / 2 % 2]) s[i] = -INFINITY;
    }
#pragma unroll
    for (int i = 0; i < N; i++) most[i / 2 % 2] = fmaxf(most[i / 2 % 2], s[i]);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float next = mla_raise(row->largest[i], quad_max(most[i]) * scale);
        keep[i] = mla_exp2(row->largest[i] - next);
        row->largest[i] = next;
        row->sum[i] *= keep[i];
    }
#pragma unroll
    for (int i = 0; i < N; i += 2) {
        int r = i / 2 % 2;
        float p0 = mla_exp2(fmaf(s[i], scale, -row->largest[r]));
        float p1 = mla_exp2(fmaf(s[i + 1], scale, -row->largest[r]));
        row->sum[r] += p0 + p1;
        p[i / 2] = pack_pair(p0, p1); /* RP_PROB */
    }
}

/* Rows `row` and row + 8 of the result, 128 columns, as a thread holds them. */
__device__ static inline void put_rows(const struct mla_prefill &p, int64_t row,
                                       const float (&o)[64], const struct prefill_row &state)
{
    float sum[2] = {quad_sum(state.sum[0]), quad_sum(state.sum[1])};
#pragma unroll
    for (int i = 0; i < 64; i += 2) {
        int r = i / 2 % 2;
        if (row + 8 * r >= p.T) continue;
        bf16 *y = p.y + ((row + 8 * r) * p.heads + blockIdx.y) * VALUE;
        *(uint32_t *)(y + i / 4 * 8 + threadIdx.x % 4 * 2) =
            pack_pair(o[i] / sum[r], o[i + 1] / sum[r]);
    }
}

#endif
