/* mla_decode.cuh: what both decode kernels do alike: which part is whose, and bringing queries and
 * latents into shared memory. Private to gpu/mla_decode*.cu.
 *
 * Tiles are nine boxes of 64 columns (gpu/mla_tile.cuh): eight of the latent, one of the roped
 * key. Eight threads copy a row, 128 bytes at once. */
#ifndef ASSAY_GPU_MLA_DECODE_CUH
#define ASSAY_GPU_MLA_DECODE_CUH

#include "gpu/mla_core.cuh"
#include "gpu/mla_tile.cuh"

enum { LATENT = 512, BOXES = 9 };

/* Which parts there are: first[r] is the number of row r's first one. In shared memory. */
struct decode_plan {
    int first[MLA_ROWS + 1], seen[MLA_ROWS];
    int warp[MLA_ROWS / 32];
};

/* What a block works on: tokens [begin, end) of what `row` sees, for the heads from `head` on. */
struct decode_part {
    int row, number, head;
    int begin, end;
    bool single; /* the row's only part */
};

/* Fills the plan; all threads, at least MLA_ROWS. */
__device__ static inline void plan_parts(const struct mla_attend &a, struct decode_plan *plan)
{
    int row = threadIdx.x, lane = row % 32, seen = 0, before = 0;
    if (row < a.rows) seen = (int)mla_seen(a, row);
    int n = (int)mla_parts(seen), upto = n;
    for (int d = 1; d < 32; d *= 2) {
        int x = __shfl_up_sync(0xffffffffu, upto, d);
        if (lane >= d) upto += x;
    }
    if (lane == 31 && row < MLA_ROWS) plan->warp[row / 32] = upto;
    __syncthreads();
    for (int w = 0; w < row / 32 && w < MLA_ROWS / 32; w++) before += plan->warp[w];
    if (row < MLA_ROWS) {
        plan->first[row] = before + upto - n;
        plan->seen[row] = seen;
    }
    if (row == MLA_ROWS - 1) plan->first[MLA_ROWS] = before + upto;
    __syncthreads();
}

/* The merge learns from the first block where the parts of a row begin. */
__device__ static inline void tell_merge(const struct mla_attend &a, const struct decode_plan *plan)
{
    int row = threadIdx.x;
    if (row < a.rows && blockIdx.x == 0) a.first[row] = plan->first[row];
}

/* Item i of the work list: parts in order, the blocks of `tall` heads of one part side by side. */
__device__ static inline struct decode_part find_part(const struct mla_attend &a,
                                                      const struct decode_plan *plan, int item,
                                                      int tall)
{
    int blocks = ((int)a.heads + tall - 1) / tall, number = item / blocks;
    int low = 0, high = (int)a.rows; /* first[low] <= number < first[high] */
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (plan->first[middle] <= number)
            low = middle;
        else
            high = middle;
    }
    int seen = plan->seen[low], tokens = (int)mla_part_tokens(seen);
    int begin = (number - plan->first[low]) * tokens;
    int end = begin + tokens < seen ? begin + tokens : seen;
    return {low, number, item % blocks * tall, begin, end, tokens >= seen};
}

/* Of a row that is being copied: its span and its line of the block table. */
struct decode_row {
    int span;
    const int64_t *extra;
    const int32_t *table;
};

__device__ static inline struct decode_row find_row(const struct mla_attend &a, int row)
{
    int64_t span = a.span[row];
    return {span > 0 ? (int)span : 0, a.extra ? a.extra + row * a.extra_max : NULL,
            a.keys.table + a.sequence[row] * a.keys.blocks_max};
}

/* Entries of the cache that this thread's rows of a tile of TOKENS come from; -1: past the part's
 * end. N threads copy. */
template <int TOKENS, int N> struct decode_source {
    enum { STEP = N / 8, ROWS = TOKENS / STEP };
    int64_t entry[ROWS];
};

template <int TOKENS, int N>
__device__ static inline void find_entries(const struct mla_attend &a, const struct decode_row &row,
                                           int token, int end, struct decode_source<TOKENS, N> *s)
{
#pragma unroll
    for (int i = 0; i < s->ROWS; i++) {
        int j = token + threadIdx.x % N / 8 + i * s->STEP;
        s->entry[i] = -1;
        if (j >= end) continue;
        uint32_t slot = (uint32_t)(j < row.span ? j : row.extra[j - row.span]);
        uint32_t block = (uint32_t)a.keys.block, at = slot / block;
        s->entry[i] = row.table[at] * a.keys.block + (slot - at * block);
    }
}

/* Begins to copy a tile, whose boxes are `box` bytes apart; rows past the part's end become zeros,
 * so that nothing that a page holds behind the last token reaches a product. */
template <int TOKENS, int N>
__device__ static inline void copy_tile(const struct mla_attend &a, uint32_t tile, uint32_t box,
                                        const struct decode_source<TOKENS, N> &s)
{
    int chunk = threadIdx.x % 8, r = threadIdx.x % N / 8;
#pragma unroll
    for (int i = 0; i < s.ROWS; i++) {
        bool valid = s.entry[i] >= 0;
        const bf16 *from = a.keys.key + (valid ? s.entry[i] * a.keys.step : 0) + chunk * 8;
#pragma unroll
        for (int b = 0; b < BOXES; b++)
            copy16(tile + b * box + box_chunk(r + i * s.STEP, chunk), from + b * BOX_COLUMNS,
                   valid);
    }
}

/* Begins to copy the queries of TALL heads, by N threads; zeros where there is none. */
template <int TALL, int N>
__device__ static inline void copy_query(const struct mla_attend &a, uint32_t tile,
                                         const struct decode_part &part)
{
    int chunk = threadIdx.x % 8, r = threadIdx.x % N / 8;
#pragma unroll
    for (int i = 0; i < TALL; i += N / 8) {
        int head = part.head + r + i;
        bool valid = head < a.heads;
        const bf16 *latent = a.q + part.row * a.q_row + (valid ? head : 0) * a.q_head;
        const bf16 *rope = a.q_rope + part.row * a.rope_row + (valid ? head : 0) * a.rope_head;
#pragma unroll
        for (int b = 0; b < BOXES; b++)
            copy16(tile + b * TALL * BOX_ROW + box_chunk(r + i, chunk),
                   (b < LATENT / BOX_COLUMNS ? latent + b * BOX_COLUMNS : rope) + chunk * 8, valid);
    }
}

/* Columns of one head's sums as a thread holds them: x0, x1 of eight columns, y0, y1 of the next
 * eight. Neighbouring lanes trade, so that each has four columns, from lane_column() on, and a
 * head's sixteen are one piece. All lanes of a warp. */
__device__ static inline float4 trade_columns(float x0, float x1, float y0, float y1)
{
    int odd = threadIdx.x % 2;
    float got0 = __shfl_xor_sync(0xffffffffu, odd ? x0 : y0, 1);
    float got1 = __shfl_xor_sync(0xffffffffu, odd ? x1 : y1, 1);
    return odd ? make_float4(got0, got1, y0, y1) : make_float4(x0, x1, got0, got1);
}

__device__ static inline int lane_column(void)
{
    return threadIdx.x % 2 * 8 + threadIdx.x % 4 / 2 * 4;
}

/* Sixteen columns from `column` on, as trade_columns() takes them. Into y where the part is the
 * row's only one, otherwise into the part. All lanes of a warp. */
__device__ static inline void put_columns(const struct mla_attend &a,
                                          const struct decode_part &part, int head, int column,
                                          float sum, float x0, float x1, float y0, float y1)
{
    float4 v = trade_columns(x0, x1, y0, y1);
    column += lane_column();
    if (head >= a.heads) return;
    if (part.single) {
        uint2 packed = make_uint2(pack_pair(v.x / sum, v.y / sum), pack_pair(v.z / sum, v.w / sum));
        *(uint2 *)(a.y + (part.row * a.heads + head) * LATENT + column) = packed;
    } else {
        *(float4 *)(a.part + ((int64_t)part.number * a.heads + head) * LATENT + column) = v;
    }
}

#endif
