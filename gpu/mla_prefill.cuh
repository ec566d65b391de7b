/* mla_prefill.cuh: what both prefill kernels do alike: what a row sees, scores to weights, and rows
 * of the result. Private to gpu/mla_prefill*.cu. A block computes 128 queries of one head at a
 * time.
 *
 * Tiles are boxes of 64 columns (gpu/mla_tile.cuh). Queries: three; a tile of tokens: three of the
 * key (two expanded, one roped), two of the value. */
#ifndef ASSAY_GPU_MLA_PREFILL_CUH
#define ASSAY_GPU_MLA_PREFILL_CUH

#include "gpu/mla_core.cuh"
#include "gpu/mla_tile.cuh"

enum {
    PREFILL_ROWS = 128,
    KEY = 192,
    KEY_BOXES = 3,
    KEY_AND_VALUE = 256, /* columns of a head in kv: 128 of the key, 128 of the value */
    VALUE = 128,
    VALUE_BOXES = 2,
};

/* Tokens that row i sees. */
__device__ static inline int64_t prefill_seen(const struct mla_prefill &p, int64_t i)
{
    return p.context - p.T + i + 1;
}

/* Tokens that any of the rows of the tile that begins at `row` sees. */
__device__ static inline int64_t prefill_end(const struct mla_prefill &p, int64_t row)
{
    int64_t most = prefill_seen(p, row + PREFILL_ROWS - 1);
    return most < p.context ? most : p.context;
}

/* Of the two rows that a thread holds: the largest score so far in base 2, and this thread's part
 * of the sum of weights. */
struct prefill_row {
    float largest[2], sum[2];
};

/* Scores of N / 4 blocks of eight tokens (fragments of gpu/mla_tile.cuh): row r sees `seen[r]`
 * tokens from the tile's first on. */
template <int N> __device__ static inline void prefill_mask(float (&s)[N], const int (&seen)[2])
{
    int column = threadIdx.x % 4 * 2;
#pragma unroll
    for (int i = 0; i < N; i++)
        if (i / 4 * 8 + column + i % 2 >= seen[i / 2 % 2]) s[i] = -INFINITY;
}

/* Takes the scores' maxima in; keep[r]: what earlier results are multiplied by. */
template <int N>
__device__ static inline void prefill_raise(const float (&s)[N], float scale,
                                            struct prefill_row *row, float (&keep)[2])
{
    float most[2] = {-INFINITY, -INFINITY};
#pragma unroll
    for (int i = 0; i < N; i++) most[i / 2 % 2] = fmaxf(most[i / 2 % 2], s[i]);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float next = mla_raise(row->largest[i], quad_max(most[i]) * scale);
        keep[i] = mla_exp2(row->largest[i] - (next == -INFINITY ? 0 : next));
        row->largest[i] = next;
        row->sum[i] *= keep[i];
    }
}

/* Scores become weights, still in float32. A row that has seen nothing so far has none. */
template <int N>
__device__ static inline void prefill_weigh(float (&s)[N], float scale, struct prefill_row *row)
{
    float less[2];
#pragma unroll
    for (int i = 0; i < 2; i++) less[i] = row->largest[i] == -INFINITY ? 0 : -row->largest[i];
#pragma unroll
    for (int i = 0; i < N; i++) {
        s[i] = mla_exp2(fmaf(s[i], scale, less[i / 2 % 2]));
        row->sum[i / 2 % 2] += s[i];
    }
}

/* As operand A of the next product. */
template <int N>
__device__ static inline void prefill_round(const float (&s)[N], uint32_t (&p)[N / 2])
{
#pragma unroll
    for (int i = 0; i < N; i += 2) p[i / 2] = pack_pair(s[i], s[i + 1]); /* RP_PROB */
}

template <int N> __device__ static inline void prefill_scale(float (&o)[N], const float (&keep)[2])
{
    if (!__any_sync(0xffffffffu, keep[0] != 1 || keep[1] != 1)) return;
#pragma unroll
    for (int i = 0; i < N; i++) o[i] *= keep[i / 2 % 2];
}

/* Four words of each of the four lanes of a quad change places: lane t has word t of each, in the
 * lanes' order. */
__device__ static inline void quad_turn(uint32_t (&v)[4])
{
#pragma unroll
    for (int bit = 1; bit < 4; bit *= 2) {
        bool upper = threadIdx.x & bit;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (i & bit) continue;
            uint32_t other = __shfl_xor_sync(0xffffffffu, upper ? v[i] : v[i | bit], bit);
            v[i | bit] = upper ? v[i | bit] : other;
            v[i] = upper ? other : v[i];
        }
    }
}

/* Rows `row` and row + 8 of a head's result, 128 columns, as a thread holds them, over its parts of
 * the sums of weights. A lane stores eight columns at a time. */
__device__ static inline void put_rows(const struct mla_prefill &p, int64_t head, int64_t row,
                                       const float (&o)[64], const float (&sums)[2])
{
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float part = 1 / quad_sum(sums[r]);
        bf16 *y = p.y + ((row + 8 * r) * p.heads + head) * VALUE + threadIdx.x % 4 * 8;
#pragma unroll
        for (int i = 0; i < 64; i += 16) {
            uint32_t v[4];
#pragma unroll
            for (int k = 0; k < 4; k++)
                v[k] = pack_pair(o[i + 4 * k + 2 * r] * part, o[i + 4 * k + 2 * r + 1] * part);
            quad_turn(v);
            if (row + 8 * r < p.T) *(uint4 *)(y + i * 2) = make_uint4(v[0], v[1], v[2], v[3]);
        }
    }
}

#endif
