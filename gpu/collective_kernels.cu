/* collective_kernels.cu: what ranks do with parts once they have them; see collective_parts.cuh. */
#include "gpu/collective_parts.cuh"

#include "core/weights.h"

/* N elements that lie together. */
template <typename T, int N> struct alignas(sizeof(T) * N) group {
    T v[N];
};

__device__ static inline float widen(float x)
{
    return x;
}

__device__ static inline float widen(bf16 x)
{
    return __bfloat162float(x);
}

/* A step of the sum in the type of the parts. */
__device__ static inline float step(float sum, float x)
{
    return __fadd_rn(sum, x);
}

__device__ static inline float step(float sum, bf16 x)
{
    return __bfloat162float(__float2bfloat16_rn(__fadd_rn(sum, __bfloat162float(x))));
}

template <typename T, int N> __global__ static void add_parts(const struct ranks_sum p)
{
    const T *parts = (const T *)p.parts;
    int64_t threads = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * N; i < p.n;
         i += threads * N) {
        float sum[N];
        group<T, N> x = *(const group<T, N> *)(parts + i);
        group<bf16, N> y;
#pragma unroll
        for (int k = 0; k < N; k++) sum[k] = widen(x.v[k]);
        for (int m = 1; m < p.members; m++) {
            x = *(const group<T, N> *)(parts + m * p.apart + i);
#pragma unroll
            for (int k = 0; k < N; k++) sum[k] = step(sum[k], x.v[k]);
        }
#pragma unroll
        for (int k = 0; k < N; k++) y.v[k] = __float2bfloat16_rn(sum[k]);
        *(group<bf16, N> *)(p.y + i) = y;
    }
    if (p.done && blockIdx.x == 0 && threadIdx.x == 0) *p.done = p.number;
}

__global__ static void set_done(volatile uint32_t *done, uint32_t number)
{
    *done = number;
}

template <typename E> __global__ static void join_columns(const struct ranks_columns p)
{
    int64_t n = p.members * p.T * p.width, threads = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += threads) {
        int64_t row = i / p.width, m = row / p.T, t = row % p.T;
        ((E *)p.y)[(t * p.members + m) * p.width + i % p.width] = ((const E *)p.parts)[i];
    }
    if (p.done && blockIdx.x == 0 && threadIdx.x == 0) *p.done = p.number;
}

__global__ static void own_experts(int64_t n, int64_t top_k, int64_t E, const int32_t *number,
                                   const int32_t *ids, int32_t *own)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int32_t id = ids[i];
    own[i] = id < 0 || id >= E ? -1 : number[i / top_k % 2 * E + id];
}

static unsigned blocks_for(const struct gpu *g, int64_t threads)
{
    int64_t blocks = ceil_div(threads, 256), most = (int64_t)g->sms * 8;
    return (unsigned)(blocks < 1 ? 1 : blocks < most ? blocks : most);
}

template <typename T>
static enum err_code launch_sum(struct gpu *g, const struct ranks_sum *p, struct err *err)
{
    bool wide =
        (p->n | p->apart) % 4 == 0 && (uintptr_t)p->parts % 16 == 0 && (uintptr_t)p->y % 8 == 0;
    dim3 grid(blocks_for(g, wide ? p->n / 4 : p->n));
    if (wide)
        return GPU_LAUNCH(g, err, "ranks_sum", "4 columns a thread", grid, dim3(256), 0,
                          (add_parts<T, 4>), *p);
    return GPU_LAUNCH(g, err, "ranks_sum", "1 column a thread", grid, dim3(256), 0,
                      (add_parts<T, 1>), *p);
}

enum err_code ranks_add(struct gpu *g, enum dtype type, const struct ranks_sum *p, struct err *err)
{
    return type == DT_F32 ? launch_sum<float>(g, p, err) : launch_sum<bf16>(g, p, err);
}

enum err_code ranks_join(struct gpu *g, enum dtype type, const struct ranks_columns *p,
                         struct err *err)
{
    dim3 grid(blocks_for(g, p->members * p->T * p->width));
    if (type == DT_F32)
        return GPU_LAUNCH(g, err, "ranks_columns", "float32", grid, dim3(256), 0,
                          join_columns<float>, *p);
    return GPU_LAUNCH(g, err, "ranks_columns", "bf16", grid, dim3(256), 0, join_columns<bf16>, *p);
}

enum err_code ranks_set_done(struct gpu *g, volatile uint32_t *done, uint32_t number,
                             struct err *err)
{
    return GPU_LAUNCH(g, err, "ranks_done", "", dim3(1), dim3(1), 0, set_done, done, number);
}

enum err_code ranks_own(struct gpu *g, int64_t n, int64_t top_k, int64_t E, const int32_t *number,
                        const int32_t *ids, int32_t *own, struct err *err)
{
    return GPU_LAUNCH(g, err, "ranks_route", "", dim3((unsigned)ceil_div(n, 256)), dim3(256), 0,
                      own_experts, n, top_k, E, number, ids, own);
}
