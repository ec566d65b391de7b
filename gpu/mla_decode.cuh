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

/* Which parts there are, in the order in which blocks take them: long ones first. Of the k-th row
 * in that order: first[k], the number of its first part, and the row in the lowest ROW_BITS;
 * seen[k], the tokens it sees. In shared memory. */
struct decode_plan {
    alignas(16) int seen[MLA_ROWS];
    uint32_t first[MLA_ROWS + 1];
    int warp[MLA_ROWS / 32];
};
enum { ROW_BITS = 8 };
static_assert(MLA_ROWS <= 1 << ROW_BITS, "a row has a number of so many bits");

/* What a block works on: tokens [begin, end) of what `row` sees, for the heads from `head` on. */
struct decode_part {
    int row, number, head;
    int index; /* among the row's parts */
    int begin, end;
    bool single; /* the row's only part */
};

/* Where a row stands in the plan: rows with longer parts are before it, and of those with parts as
 * long the ones with smaller numbers. plan->seen: the rows' parts, then the row, as one number. */
__device__ static inline int place_row(const struct decode_plan *plan, int row)
{
    int mine = plan->seen[row], place = 0;
#pragma unroll 8
    for (int i = 0; i < MLA_ROWS / 4; i++) {
        int4 x = *(const int4 *)&plan->seen[4 * i];
        place += (x.x > mine) + (x.y > mine) + (x.z > mine) + (x.w > mine);
    }
    return place;
}

/* Numbers the parts; each thread of a row has those of the place that is its own number. */
__device__ static inline void number_parts(struct decode_plan *plan, int parts)
{
    int row = threadIdx.x, lane = row % 32, before = 0, upto = parts;
    for (int d = 1; d < 32; d *= 2) {
        int x = __shfl_up_sync(0xffffffffu, upto, d);
        if (lane >= d) upto += x;
    }
    if (lane == 31 && row < MLA_ROWS) plan->warp[row / 32] = upto;
    __syncthreads();
    for (int w = 0; w < row / 32 && w < MLA_ROWS / 32; w++) before += plan->warp[w];
    if (row < MLA_ROWS) plan->first[row] |= (uint32_t)(before + upto - parts) << ROW_BITS;
    if (row == MLA_ROWS - 1) plan->first[MLA_ROWS] = (uint32_t)(before + upto) << ROW_BITS;
    __syncthreads();
}

/* Fills the plan; all threads, at least MLA_ROWS. Where all parts are as long as each other, rows
 * stay in order. */
__device__ static inline void plan_parts(const struct mla_attend &a, struct decode_plan *plan)
{
    int row = threadIdx.x, seen = row < a.rows ? (int)mla_seen(a, row) : 0, place = row;
    int tokens = row < a.rows ? (int)mla_part_tokens(a.cut, seen) : 0;
    int of_first = (int)mla_part_tokens(a.cut, mla_seen(a, 0));
    bool uneven = row < a.rows && tokens != of_first;
    if (row < MLA_ROWS) plan->seen[row] = tokens << ROW_BITS | (MLA_ROWS - 1 - row);
    uneven = __syncthreads_or(uneven);
    if (uneven && row < MLA_ROWS) place = place_row(plan, row);
    if (uneven) __syncthreads();
    if (row < MLA_ROWS) plan->seen[place] = seen, plan->first[place] = (uint32_t)row;
    if (uneven) __syncthreads();
    number_parts(plan, row < MLA_ROWS ? (int)mla_parts(a.cut, plan->seen[row]) : 0);
}

/* The number of the first part of the k-th row, or of all parts. */
__device__ static inline int first_part(const struct decode_plan *plan, int k)
{
    return (int)(plan->first[k] >> ROW_BITS);
}

__device__ static inline int planned_row(const struct decode_plan *plan, int k)
{
    return (int)(plan->first[k] % (1 << ROW_BITS));
}

/* The merge learns from the first block where the parts of a row begin. */
__device__ static inline void tell_merge(const struct mla_attend &a, const struct decode_plan *plan)
{
    int k = threadIdx.x;
    if (k < a.rows && blockIdx.x == 0) a.first[planned_row(plan, k)] = first_part(plan, k);
}

/* The n-th item of this block; from the number of items on there are no more. */
__device__ static inline int take_item(int n)
{
    return mla_deal((int)blockIdx.x, (int)gridDim.x, n);
}

/* Item i of the work list: parts in order, the blocks of `tall` heads of one part side by side. */
__device__ static inline struct decode_part find_part(const struct mla_attend &a,
                                                      const struct decode_plan *plan, int item,
                                                      int tall)
{
    int blocks = ((int)a.heads + tall - 1) / tall, number = item / blocks;
    int low = 0, high = (int)a.rows; /* first_part(low) <= number < first_part(high) */
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (first_part(plan, middle) <= number)
            low = middle;
        else
            high = middle;
    }
    int seen = plan->seen[low], tokens = (int)mla_part_tokens(a.cut, seen);
    int index = number - first_part(plan, low), begin = index * tokens;
    int end = begin + tokens < seen ? begin + tokens : seen;
    return {planned_row(plan, low), number, item % blocks * tall, index, begin, end,
            tokens >= seen};
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

/* x / sum, rounded once; r: 1 / sum. In a row of them that is a third of the code. */
__device__ static inline float divide(float x, float sum, float r)
{
    float q = x * r;
    return fmaf(fmaf(-q, sum, x), r, q);
}

/* Results of one head where trade_columns() would have its sums, two a word. */
__device__ static inline uint2 trade_results(float sum, float x0, float x1, float y0, float y1)
{
    bool odd = threadIdx.x % 2;
    float r = 1 / sum;
    uint32_t x = pack_pair(divide(x0, sum, r), divide(x1, sum, r));
    uint32_t y = pack_pair(divide(y0, sum, r), divide(y1, sum, r));
    uint32_t got = __shfl_xor_sync(0xffffffffu, odd ? x : y, 1);
    return odd ? make_uint2(got, y) : make_uint2(x, got);
}

/* Sixteen columns from `column` on, as trade_columns() takes them. Into y where the part is the
 * row's only one, otherwise into the part. All lanes of a warp. */
__device__ static inline void put_columns(const struct mla_attend &a,
                                          const struct decode_part &part, int head, int column,
                                          float sum, float x0, float x1, float y0, float y1)
{
    column += lane_column();
    if (part.single) {
        uint2 v = trade_results(sum, x0, x1, y0, y1);
        if (head < a.heads) *(uint2 *)(a.y + (part.row * a.heads + head) * LATENT + column) = v;
    } else {
        float4 v = trade_columns(x0, x1, y0, y1);
        float *to = a.part + ((int64_t)part.number * a.heads + head) * LATENT + column;
        if (head < a.heads) *(float4 *)to = v;
    }
}

#endif
