/* mla_merge.cu: the parts of a row put together, in ascending order. Contract: gpu/mla_core.cuh.
 * Every sum has one order, so the bits are the same in each run. */
#include "gpu/launch.cuh"
#include "gpu/mla_core.cuh"

enum { THREADS = 128, COLUMNS = 4 /* of a thread at once */ };

/* Columns [c, c + N) of n parts, `step` apart. */
template <int N>
__device__ static void merge_columns(const float *part, int64_t step, const float2 *stat,
                                     int64_t heads, int n, float largest, bf16 *y)
{
    struct mla_sum s = {};
#pragma unroll 8
    for (int i = 0; i < n; i++) {
        const float *at = part + i * step;
        float4 x = N == COLUMNS ? *(const float4 *)at : make_float4(at[0], 0, 0, 0);
        mla_add_part(&s, stat[i * heads], largest, x);
    }
    if (N == COLUMNS)
        mla_put_sum(&s, n, y);
    else
        y[0] = __float2bfloat16_rn(n ? s.v[0] / s.sum : 0.0f);
}

/* One block: one head of one row. */
__global__ static void __launch_bounds__(THREADS) merge_parts(struct mla_attend a, int done)
{
    int64_t row = blockIdx.y, head = blockIdx.x, step = a.heads * a.W;
    int n = (int)mla_parts(a.cut, mla_seen(a, row)); /* rows were there before the parts' launch */
    let_next_launch();
    wait_for_launch_before();
    if (n >= 1 && n <= done) return;
    const float2 *stat = a.stat + a.first[row] * a.heads + head;
    const float *part = a.part + (a.first[row] * a.heads + head) * a.W;
    bf16 *y = a.y + (row * a.heads + head) * a.W;
    float largest = -INFINITY;
    for (int i = threadIdx.x % 32; i < n; i += 32) largest = fmaxf(largest, stat[i * a.heads].x);
    for (int d = 16; d; d /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, d));
    if (a.W % COLUMNS == 0) {
        for (int64_t c = threadIdx.x * COLUMNS; c < a.W; c += THREADS * COLUMNS)
            merge_columns<COLUMNS>(part + c, step, stat, a.heads, n, largest, y + c);
    } else {
        for (int64_t c = threadIdx.x; c < a.W; c += THREADS)
            merge_columns<1>(part + c, step, stat, a.heads, n, largest, y + c);
    }
}

enum err_code mla_parts_new(struct gpu *g, struct mla_attend *a, struct err *err)
{
    a->part = gpu_new<float>(g, a->parts * a->heads * a->W, "partial sums of attention", err);
    a->stat = gpu_new<float2>(g, a->parts * a->heads, "partial maxima of attention", err);
    a->first = gpu_new<int32_t>(g, a->rows, "parts of rows", err);
    return a->part && a->stat && a->first ? ERR_OK : err->code;
}

enum err_code mla_merge(struct gpu *g, const struct mla_attend *a, int done, struct err *err)
{
    const struct gpu_launch l = {"mla_merge",   "", dim3((unsigned)a->heads, (unsigned)a->rows),
                                 dim3(THREADS), 0,  true};
    return gpu_launch(g, &l, err, merge_parts, *a, done);
}
