/* moe_combine.cu: the weighted sum of a token's experts, op moe's last step; see moe_parts.cuh. A
 * thread owns columns of one token and adds the experts in ascending id (ids ascend in a row), in
 * float32: the same bits whatever stands beside it. What was tried: with the addition to the stream
 * and the norm behind it in one launch, a block a token, 7.0 us instead of 2.7 and 2.5 at one row
 * on an H200, 10.3 instead of 6.1 and 3.2 at 64: a block with all registers of a multiprocessor
 * finds none that is free before the products have ended. */
#include "gpu/moe_parts.cuh"

enum { COMBINE_THREADS = 256, AT_ONCE = 8, CHOSEN = 32 };

struct combine {
    int64_t H, top_k;
    const bf16 *rows;      /* [.., H] */
    const int32_t *row_of; /* [T, top_k] */
    const float *weights;  /* [T, top_k] */
    float sum_scale;
    const bf16 *shared;
    bf16 *routed, *y;
    float *partial;
};

/* N values that lie together, read and written at once. */
template <typename T, int N> struct alignas(sizeof(T) * N) piece {
    T v[N];
};

template <int N> __device__ static inline struct piece<bf16, N> piece_at(const bf16 *x, int64_t i) {
    return *reinterpret_cast<const struct piece<bf16, N> *>(x + i);
}

template <typename T, int N>
__device__ static inline void put_piece(T *y, int64_t i, const struct piece<T, N> &x)
{
    *reinterpret_cast<struct piece<T, N> *>(y + i) = x;
}

/* The weighted sum of N columns from h on; AT_ONCE rows are loaded before the first is used. */
template <int N>
__device__ static inline void sum_rows(const struct combine &c, const int32_t *row_of,
                                       const float *weights, int64_t h, float (&sum)[N])
{
    for (int first = 0; first < (int)c.top_k; first += AT_ONCE) {
        struct piece<bf16, N> x[AT_ONCE];
        bool there[AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            int64_t row = first + j < (int)c.top_k ? row_of[first + j] : -1;
            there[j] = row >= 0;
            if (there[j]) x[j] = piece_at<N>(c.rows, row * c.H + h);
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            if (!there[j]) continue;
#pragma unroll
            for (int i = 0; i < N; i++)
                sum[i] = fmaf(weights[first + j], __bfloat162float(x[j].v[i]), sum[i]);
        }
    }
}

template <int N> __global__ static void moe_sum(const struct combine c)
{
    int64_t t = blockIdx.x, step = (int64_t)gridDim.y * COMBINE_THREADS * N;
    const int32_t *row_of = c.row_of + t * c.top_k;
    const float *weights = c.weights + t * c.top_k;
    let_next_launch();
    if (c.top_k <= CHOSEN) { /* the plan is older than the launch before */
        __shared__ int32_t row_near[CHOSEN];
        __shared__ float weight_near[CHOSEN];
        if (threadIdx.x < c.top_k) {
            row_near[threadIdx.x] = row_of[threadIdx.x];
            weight_near[threadIdx.x] = weights[threadIdx.x];
        }
        __syncthreads();
        row_of = row_near;
        weights = weight_near;
    }
    wait_for_launch_before();
    for (int64_t h = ((int64_t)blockIdx.y * COMBINE_THREADS + threadIdx.x) * N; h < c.H;
         h += step) {
        float sum[N] = {};
        struct piece<bf16, N> routed, y;
        sum_rows<N>(c, row_of, weights, h, sum);
        if (c.partial) {
            struct piece<float, N> part;
#pragma unroll
            for (int i = 0; i < N; i++) part.v[i] = sum[i] * c.sum_scale;
            put_piece(c.partial, t * c.H + h, part);
            continue;
        }
#pragma unroll
        for (int i = 0; i < N; i++) routed.v[i] = __float2bfloat16_rn(sum[i] * c.sum_scale);
        y = routed;
        if (c.shared) {
            struct piece<bf16, N> s = piece_at<N>(c.shared, t * c.H + h);
#pragma unroll
            for (int i = 0; i < N; i++)
                y.v[i] =
                    __float2bfloat16_rn(__bfloat162float(routed.v[i]) + __bfloat162float(s.v[i]));
        }
        if (c.routed) put_piece(c.routed, t * c.H + h, routed);
        put_piece(c.y, t * c.H + h, y);
    }
}

/* Rows begin at multiples of 16 bytes, or are not there. */
static bool by_eight(int64_t H, const void *p)
{
    return H % 8 == 0 && (uintptr_t)p % 16 == 0;
}

enum err_code moe_combine(struct gpu *g, const struct gpu_moe *op, const struct moe_plan *p,
                          const bf16 *rows, struct err *err)
{
    int64_t H = op->experts->H;
    struct combine c = {
        H,          op->top_k,  rows,  p->row_of,  op->weights, (float)op->sum_scale,
        op->shared, op->routed, op->y, op->partial};
    bool wide = by_eight(H, rows) && by_eight(H, op->shared) && by_eight(H, op->routed) &&
                by_eight(H, op->y) && (uintptr_t)op->partial % 32 == 0;
    int64_t columns = COMBINE_THREADS * (wide ? 8 : 1), parts = (H + columns - 1) / columns;
    dim3 grid((unsigned)op->T, (unsigned)(parts < 64 ? parts : 64));
    if (wide)
        return gpu_launch_early(g, err, "moe_sum", "8 columns a thread", grid,
                                dim3(COMBINE_THREADS), 0, moe_sum<8>, c);
    return gpu_launch_early(g, err, "moe_sum", "1 column a thread", grid, dim3(COMBINE_THREADS), 0,
                            moe_sum<1>, c);
}
