/* eagle_attention.cu: grouped-query attention of a Llama draft layer; see eagle.cuh.
 *
 *   draft_attention   one block a query head of a row and PART_SLOTS of the slots that it sees; its
 *                     warps take 32 of them in turn, lane l holds the column pairs l, l + 32, ...
 *   draft_merge       where a row may see more than one part: adds the parts in ascending order
 *
 * Each warp keeps a running maximum and sum; the warps of a part are merged in ascending order.
 * Which part and warp take a slot follows from its place in the row's list, never from its number
 * in the cache: a row of a tree has the bits of a plain decode of its path, with or without parts.
 */
#include "gpu/eagle.cuh"

#include "core/check.h"

enum { WARPS = 8, LANES = 32, PART_SLOTS = 512, HEAD_DIM_MAX = 512 };

struct attention {
    int64_t heads, kv_heads, head_dim, layer, extra_max, parts;
    float scale; /* of the scores, times log2(e) */
    struct gpu_cache cache;
    const int32_t *sequence;
    const int64_t *span, *extra;
    const bf16 *q;
    bf16 *y;
    float *part_max, *part_sum; /* [rows, heads, parts]; NULL: there is one part, which writes y */
    float *part_mixed;          /* [rows, heads, parts, head_dim] */
};

/* What a warp knows so far: weights are relative to 2^max. */
template <int PAIRS> struct warp_state {
    float max, sum;
    float2 mixed[PAIRS];
};

/* 2^(x - max), where a maximum of -infinity stands for "nothing yet". */
__device__ static inline float weight(float x, float max)
{
    return exp2f(x - (max == -INFINITY ? 0.0f : max));
}

__device__ static inline float2 widen(uint32_t pair)
{
    return make_float2(__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u));
}

/* Slots of a row's list: [0, span), then the extras, which end at the first -1. */
__device__ static inline int64_t seen_count(const struct attention &p, int64_t row, int64_t span)
{
    int64_t low = 0, high = p.extra ? p.extra_max : 0;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (p.extra[row * p.extra_max + middle] >= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return span + low;
}

/* The entry of the list's slot i, counted in entries from the pool's first. */
__device__ static inline int seen_entry(const struct attention &p, int64_t row, int64_t i,
                                        int64_t span)
{
    int64_t slot = i < span ? i : p.extra[row * p.extra_max + i - span];
    const struct gpu_cache &c = p.cache;
    int64_t b = c.table[p.sequence[row] * c.blocks_max + slot / c.block];
    return (int)((p.layer * c.blocks + b) * c.block + slot % c.block);
}

/* Column pairs of AHEAD entries (-1: none) from `column` on; zeros where there are none. */
template <int PAIRS, int AHEAD>
__device__ static inline void load_pairs(const struct attention &p, const int (&entry)[AHEAD],
                                         int64_t column, int lane, uint32_t (&out)[AHEAD][PAIRS])
{
#pragma unroll
    for (int u = 0; u < AHEAD; u++) {
        const bf16 *at = p.cache.pool + (int64_t)entry[u] * p.cache.width + column;
#pragma unroll
        for (int i = 0; i < PAIRS; i++) {
            int pair = lane + i * LANES;
            bool there = entry[u] >= 0 && 2 * pair < p.head_dim;
            out[u][i] = there ? ((const uint32_t *)at)[pair] : 0;
        }
    }
}

template <int PAIRS>
__device__ static inline float dot(const float2 (&q)[PAIRS], const uint32_t (&k)[PAIRS])
{
    float sum = 0;
#pragma unroll
    for (int i = 0; i < PAIRS; i++) {
        float2 v = widen(k[i]);
        sum = fmaf(q[i].x, v.x, sum);
        sum = fmaf(q[i].y, v.y, sum);
    }
#pragma unroll
    for (int n = LANES / 2; n > 0; n /= 2) sum += __shfl_xor_sync(~0u, sum, n);
    return sum;
}

/* Adds AHEAD slots: one new maximum, weights rounded to bf16 as they meet the values. */
template <int PAIRS, int AHEAD>
__device__ static inline void add_slots(const struct attention &p, const float2 (&q)[PAIRS],
                                        const int (&entry)[AHEAD], int64_t head, int lane,
                                        struct warp_state<PAIRS> &own)
{
    uint32_t k[AHEAD][PAIRS], v[AHEAD][PAIRS];
    float score[AHEAD], max = own.max;
    load_pairs<PAIRS, AHEAD>(p, entry, head * p.head_dim, lane, k);
    load_pairs<PAIRS, AHEAD>(p, entry, (p.kv_heads + head) * p.head_dim, lane, v);
#pragma unroll
    for (int u = 0; u < AHEAD; u++) {
        score[u] = dot<PAIRS>(q, k[u]) * p.scale;
        if (entry[u] < 0) score[u] = -INFINITY;
        max = fmaxf(max, score[u]);
    }
    float keep = weight(own.max, max);
    own.max = max;
    own.sum *= keep;
#pragma unroll
    for (int i = 0; i < PAIRS; i++) {
        own.mixed[i].x *= keep;
        own.mixed[i].y *= keep;
    }
#pragma unroll
    for (int u = 0; u < AHEAD; u++) {
        float w = entry[u] < 0 ? 0.0f : weight(score[u], max);
        float rounded = round_bf16(w);
        own.sum += w;
#pragma unroll
        for (int i = 0; i < PAIRS; i++) {
            float2 x = widen(v[u][i]);
            own.mixed[i].x = fmaf(rounded, x.x, own.mixed[i].x);
            own.mixed[i].y = fmaf(rounded, x.y, own.mixed[i].y);
        }
    }
}

/* One warp's share of the part [first, end) of a row's list. */
template <int PAIRS, int AHEAD>
__device__ static inline void walk_part(const struct attention &p, const float2 (&q)[PAIRS],
                                        int64_t row, int64_t head, int64_t first, int64_t end,
                                        int64_t span, struct warp_state<PAIRS> &own)
{
    int warp = (int)threadIdx.x / LANES, lane = (int)threadIdx.x % LANES;
    for (int64_t t = first + warp * LANES; t < end; t += WARPS * LANES) {
        int mine = t + lane < end ? seen_entry(p, row, t + lane, span) : -1;
        for (int k = 0; k < LANES && t + k < end; k += AHEAD) {
            int entry[AHEAD];
#pragma unroll
            for (int u = 0; u < AHEAD; u++) entry[u] = __shfl_sync(~0u, mine, k + u);
            add_slots<PAIRS, AHEAD>(p, q, entry, head, lane, own);
        }
    }
}

/* n parts in ascending order: column `c` of their mixed values, [n][ld]; *total: of their sums. */
__device__ static inline float merge(int64_t n, const float *max, const float *sum,
                                     const float *mixed, int64_t ld, int64_t c, float *top,
                                     float *total)
{
    float value = 0;
    *top = -INFINITY;
    *total = 0;
    for (int64_t i = 0; i < n; i++) *top = fmaxf(*top, max[i]);
    for (int64_t i = 0; i < n; i++) {
        float keep = weight(max[i], *top);
        *total = fmaf(keep, sum[i], *total);
        value = fmaf(keep, mixed[i * ld + c], value);
    }
    return value;
}

/* A row that sees nothing is padding: zeros, which harm nobody who reads them. */
__device__ static inline bf16 result(int64_t seen, float value, float total)
{
    return __float2bfloat16_rn(seen > 0 ? value / total : 0.0f);
}

template <int PAIRS, int AHEAD>
__global__ static void __launch_bounds__(WARPS *LANES) attention_kernel(struct attention p)
{
    __shared__ float mixed[WARPS][HEAD_DIM_MAX], max[WARPS], sum[WARPS];
    int warp = (int)threadIdx.x / LANES, lane = (int)threadIdx.x % LANES;
    int64_t row = blockIdx.x, head = blockIdx.y, at = row * p.heads + head, span = p.span[row];
    int64_t first = (int64_t)blockIdx.z * PART_SLOTS, seen = seen_count(p, row, span);
    if (first > 0 && first >= seen) return;
    int64_t end = seen < first + PART_SLOTS ? seen : first + PART_SLOTS;
    struct warp_state<PAIRS> own = {
        - INFINITY, 0,
        {
        }
    };
    float2 q[PAIRS] = {};
#pragma unroll
    for (int i = 0; i < PAIRS; i++) {
        int pair = lane + i * LANES;
        if (2 * pair < p.head_dim) q[i] = widen(((const uint32_t *)(p.q + at * p.head_dim))[pair]);
    }
    walk_part<PAIRS, AHEAD>(p, q, row, head / (p.heads / p.kv_heads), first, end, span, own);
#pragma unroll
    for (int i = 0; i < PAIRS; i++) {
        int column = 2 * (lane + i * LANES);
        if (column >= p.head_dim) continue;
        mixed[warp][column] = own.mixed[i].x;
        mixed[warp][column + 1] = own.mixed[i].y;
    }
    if (lane == 0) {
        max[warp] = own.max;
        sum[warp] = own.sum;
    }
    __syncthreads();
    int64_t part = at * p.parts + blockIdx.z;
    for (int c = (int)threadIdx.x; c < p.head_dim; c += WARPS * LANES) {
        float top, total, value = merge(WARPS, max, sum, mixed[0], HEAD_DIM_MAX, c, &top, &total);
        if (!p.part_max) {
            p.y[at * p.head_dim + c] = result(seen, value, total);
            continue;
        }
        p.part_mixed[part * p.head_dim + c] = value;
        if (c == 0) {
            p.part_max[part] = top;
            p.part_sum[part] = total;
        }
    }
}

__global__ static void merge_kernel(struct attention p)
{
    int64_t row = blockIdx.x, at = row * p.heads + blockIdx.y, part = at * p.parts;
    int64_t seen = seen_count(p, row, p.span[row]), n = (seen + PART_SLOTS - 1) / PART_SLOTS;
    for (int64_t c = threadIdx.x; c < p.head_dim; c += blockDim.x) {
        float top, total;
        float value = merge(n, p.part_max + part, p.part_sum + part,
                            p.part_mixed + part * p.head_dim, p.head_dim, c, &top, &total);
        p.y[at * p.head_dim + c] = result(seen, value, total);
    }
}

static enum err_code launch_parts(struct gpu *g, const struct attention *p, int64_t rows,
                                  struct err *err)
{
    dim3 grid((unsigned)rows, (unsigned)p->heads, (unsigned)p->parts), block(WARPS * LANES);
    if (p->head_dim <= 64)
        return GPU_LAUNCH(g, err, "draft_attention", "heads to 64", grid, block, 0,
                          (attention_kernel<1, 8>), *p);
    if (p->head_dim <= 128)
        return GPU_LAUNCH(g, err, "draft_attention", "heads to 128", grid, block, 0,
                          (attention_kernel<2, 8>), *p);
    return GPU_LAUNCH(g, err, "draft_attention", "heads to 512", grid, block, 0,
                      (attention_kernel<8, 2>), *p);
}

/* Room for the parts of every row, where there may be several. */
static enum err_code make_parts(struct gpu *g, struct attention *p, int64_t rows, struct err *err)
{
    int64_t n = rows * p->heads * p->parts;
    if (p->parts == 1) return ERR_OK;
    p->part_max = gpu_new<float>(g, n, "maxima of parts", err);
    p->part_sum = p->part_max ? gpu_new<float>(g, n, "sums of parts", err) : NULL;
    p->part_mixed = p->part_sum ? gpu_new<float>(g, n * p->head_dim, "values of parts", err) : NULL;
    return err->code;
}

enum err_code gpu_eagle_attention(struct gpu *g, const struct gpu_eagle_attention *op,
                                  struct err *err)
{
    const double log2_e = 1.4426950408889634;
    const struct gpu_rows *rows = op->rows;
    struct attention p = {};
    if (rows->count == 0) return ERR_OK;
    CHECK(op->head_dim >= 2 && op->head_dim % 2 == 0);
    if (op->head_dim > HEAD_DIM_MAX)
        return err_set(err, ERR_INPUT, "draft attention on gpu||heads of %lld|at most %d",
                       (long long)op->head_dim, HEAD_DIM_MAX);
    const struct gpu_cache *c = op->cache;
    if (c->layers * c->blocks * c->block > INT32_MAX)
        return err_set(err, ERR_INPUT, "draft attention on gpu|the cache|%lld entries|below 2^31",
                       (long long)(c->layers * c->blocks * c->block));
    p.heads = op->heads;
    p.kv_heads = op->kv_heads;
    p.head_dim = op->head_dim;
    p.layer = op->layer;
    p.extra_max = rows->extra_max;
    p.parts = rows->context_max > PART_SLOTS ? ceil_div(rows->context_max, PART_SLOTS) : 1;
    p.scale = (float)(op->scale * log2_e);
    p.cache = *op->cache;
    p.sequence = rows->sequence;
    p.span = rows->span;
    p.extra = rows->extra;
    p.q = op->q;
    p.y = op->y;
    struct gpu_mark m = gpu_mark(g);
    if (make_parts(g, &p, rows->count, err) == ERR_OK &&
        launch_parts(g, &p, rows->count, err) == ERR_OK && p.parts > 1)
        (void)!GPU_LAUNCH(g, err, "draft_merge", "", dim3((unsigned)rows->count, (unsigned)p.heads),
                          dim3(128), 0, merge_kernel, p);
    gpu_release(g, m);
    return err->code;
}
