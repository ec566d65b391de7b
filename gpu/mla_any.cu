/* mla_any.cu: attention of mla.core for every size and both forms, in float32 on plain cores: the
 * kernel that is right before it is fast. Contract: gpu/mla_core.cuh.
 *
 * One block is one part (mla_split.h) of one head of one row. It goes through its tokens 128 at a
 * time: scores (a warp a token, lanes over columns), weights (a thread a token), weighted values (a
 * thread a column, tokens ascending). The weighted sum is kept in the part's own buffer. */
#include "gpu/mla_core.cuh"

enum { THREADS = 128, WARPS = THREADS / 32 };

/* What the threads of a block share. */
struct shared_part {
    int64_t entry[THREADS]; /* of the tokens at hand */
    float score[THREADS];
    float reduce[WARPS];
    int counts[WARPS];
};

__device__ static float lanes_sum(float x)
{
    for (int d = 16; d; d /= 2) x += __shfl_xor_sync(0xffffffffu, x, d);
    return x;
}

/* The largest x of the block; NaN is not seen here, and shows in the sum. */
__device__ static float block_max(struct shared_part *s, float x)
{
    for (int d = 16; d; d /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, d));
    __syncthreads();
    if (threadIdx.x % 32 == 0) s->reduce[threadIdx.x / 32] = x;
    __syncthreads();
    return fmaxf(fmaxf(s->reduce[0], s->reduce[1]), fmaxf(s->reduce[2], s->reduce[3]));
}

__device__ static float block_sum(struct shared_part *s, float x)
{
    x = lanes_sum(x);
    __syncthreads();
    if (threadIdx.x % 32 == 0) s->reduce[threadIdx.x / 32] = x;
    __syncthreads();
    return (s->reduce[0] + s->reduce[1]) + (s->reduce[2] + s->reduce[3]);
}

__device__ static int64_t block_count(struct shared_part *s, int n)
{
    n = __reduce_add_sync(0xffffffffu, n);
    if (threadIdx.x % 32 == 0) s->counts[threadIdx.x / 32] = n;
    __syncthreads();
    return (int64_t)s->counts[0] + s->counts[1] + s->counts[2] + s->counts[3];
}

__device__ static float lanes_dot(const bf16 *x, const bf16 *y, int64_t n)
{
    float sum = 0;
    for (int64_t i = threadIdx.x % 32; i < n; i += 32)
        sum = fmaf(__bfloat162float(x[i]), __bfloat162float(y[i]), sum);
    return sum;
}

/* Scores of tokens [from, from + n) of the row's view. */
__device__ static void score_tokens(const struct mla_attend &a, struct shared_part *s, int64_t row,
                                    int64_t head, int64_t from, int n)
{
    const bf16 *q = a.q + row * a.q_row + head * a.q_head;
    const bf16 *q_rope = a.q_rope + row * a.rope_row + head * a.rope_head;
    if ((int)threadIdx.x < n)
        s->entry[threadIdx.x] =
            mla_entry(a.keys, a.sequence[row], mla_slot(a, row, from + threadIdx.x));
    __syncthreads();
    for (int i = threadIdx.x / 32; i < n; i += WARPS) {
        const bf16 *key = a.keys.key + s->entry[i] * a.keys.step + head * a.keys.head;
        const bf16 *rope = a.keys.rope + s->entry[i] * a.keys.rope_step;
        float sum = lanes_sum(lanes_dot(q, key, a.K) + lanes_dot(q_rope, rope, a.R));
        if (threadIdx.x % 32 == 0) s->score[i] = sum * a.scale;
    }
    __syncthreads();
}

/* sums = sums * keep + weighted values of the n tokens at hand. */
__device__ static void add_values(const struct mla_attend &a, const struct shared_part *s,
                                  int64_t head, int n, float keep, bool begin, float *sums)
{
    for (int64_t c = threadIdx.x; c < a.W; c += THREADS) {
        const bf16 *value = a.keys.value + head * a.keys.head + c;
        float v = begin ? 0.0f : sums[c] * keep;
        for (int i = 0; i < n; i++)
            v = fmaf(s->score[i], __bfloat162float(value[s->entry[i] * a.keys.step]), v);
        sums[c] = v;
    }
}

__global__ static void __launch_bounds__(THREADS) attend_any(struct mla_attend a)
{
    __shared__ struct shared_part s;
    int64_t row = blockIdx.x / a.most, part = blockIdx.x % a.most, head = blockIdx.y;
    int64_t seen = mla_seen(a, row), tokens = mla_part_tokens(a.cut, seen);
    if (part > 0 && part >= mla_parts(a.cut, seen)) return;
    int before = 0;
    for (int64_t r = threadIdx.x; r < row; r += THREADS)
        before += (int)mla_parts(a.cut, mla_seen(a, r));
    int64_t first = block_count(&s, before), number = first + part;
    if (part == 0 && threadIdx.x == 0) a.first[row] = (int32_t)first; /* every head the same */
    if (seen == 0) return;
    float *sums = a.part + (number * a.heads + head) * a.W;
    int64_t begin = part * tokens, end = begin + tokens < seen ? begin + tokens : seen;
    float largest = -INFINITY, total = 0;
    for (int64_t from = begin; from < end; from += THREADS) {
        int n = end - from < THREADS ? (int)(end - from) : THREADS;
        score_tokens(a, &s, row, head, from, n);
        float t = (int)threadIdx.x < n ? s.score[threadIdx.x] : -INFINITY;
        float next = fmaxf(largest, block_max(&s, t));
        float keep = mla_exp2(largest - next);
        float p = (int)threadIdx.x < n ? mla_exp2(t - next) : 0.0f;
        s.score[threadIdx.x] = round_bf16(p); /* RP_PROB */
        total = total * keep + block_sum(&s, p);
        add_values(a, &s, head, n, keep, from == begin, sums);
        largest = next;
        __syncthreads();
    }
    if (threadIdx.x == 0) a.stat[number * a.heads + head] = make_float2(largest, total);
}

enum err_code mla_any(struct gpu *g, struct mla_attend *a, struct err *err)
{
    if (mla_parts_new(g, a, err) != ERR_OK) return err->code;
    dim3 grid((unsigned)(a->rows * a->most), (unsigned)a->heads); /* most: at least 1 */
    if (GPU_LAUNCH(g, err, "mla_any", "", grid, dim3(THREADS), 0, attend_any, *a) != ERR_OK)
        return err->code;
    return mla_merge(g, a, 0, err);
}
