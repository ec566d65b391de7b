/* mla_merge.cu: the parts of a row put together, in ascending order. Contract: gpu/mla_core.cuh.
 * Every sum has one order, so the bits are the same in each run. */
#include "gpu/mla_core.cuh"

enum { THREADS = 128, COLUMNS = 4 /* of a thread at once */ };

/* Columns [c, c + N) of n parts, `step` apart. */
template <int N>
__device__ static void merge_columns(const float *part, int64_t step, const float2 *stat,
                                     int64_t heads, int n, float largest, float sum, bf16 *y)
{
    float v[N] = {};
#pragma unroll 8
    for (int i = 0; i < n; i++) {
        float weight = mla_exp2(stat[i * heads].x - largest), x[N];
        if (N == COLUMNS)
            *(float4 *)x = *(const float4 *)(part + i * step);
        else
            x[0] = part[i * step];
#pragma unroll
        for (int k = 0; k < N; k++) v[k] += weight * x[k];
    }
#pragma unroll
    for (int k = 0; k < N; k++) y[k] = __float2bfloat16_rn(n ? v[k] / sum : 0.0f);
}

/* One block: one head of one row. */
__global__ static void __launch_bounds__(THREADS) merge_parts(struct mla_attend a, bool single)
{
    int64_t row = blockIdx.y, head = blockIdx.x, first = a.first[row], step = a.heads * a.W;
    int n = (int)mla_parts(mla_seen(a, row));
    if (n == 1 && single) return;
    const float2 *stat = a.stat + first * a.heads + head;
    const float *part = a.part + (first * a.heads + head) * a.W;
    bf16 *y = a.y + (row * a.heads + head) * a.W;
    float largest = -INFINITY, sum = 0;
    for (int i = threadIdx.x % 32; i < n; i += 32) largest = fmaxf(largest, stat[i * a.heads].x);
    for (int d = 16; d; d /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, d));
    for (int i = threadIdx.x % 32; i < n; i += 32) {
        float2 s = stat[i * a.heads];
        sum += mla_exp2(s.x - largest) * s.y;
    }
    for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    if (a.W % COLUMNS == 0) {
        for (int64_t c = threadIdx.x * COLUMNS; c < a.W; c += THREADS * COLUMNS)
            merge_columns<COLUMNS>(part + c, step, stat, a.heads, n, largest, sum, y + c);
    } else {
        for (int64_t c = threadIdx.x; c < a.W; c += THREADS)
            merge_columns<1>(part + c, step, stat, a.heads, n, largest, sum, y + c);
    }
}

enum err_code mla_parts_new(struct gpu *g, struct mla_attend *a, struct err *err)
{
    a->part = gpu_new<float>(g, a->parts * a->heads * a->W, "partial sums of attention", err);
    a->stat = gpu_new<float2>(g, a->parts * a->heads, "partial maxima of attention", err);
    a->first = gpu_new<int32_t>(g, a->rows, "parts of rows", err);
    return a->part && a->stat && a->first ? ERR_OK : err->code;
}

enum err_code mla_merge(struct gpu *g, const struct mla_attend *a, bool single, struct err *err)
{
    dim3 grid((unsigned)a->heads, (unsigned)a->rows);
    return GPU_LAUNCH(g, err, "mla_merge", "", grid, dim3(THREADS), 0, merge_parts, *a, single);
}
