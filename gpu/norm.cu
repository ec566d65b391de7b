/* norm.cu: RMSNorm with and without the residual addition before it; see norm.cuh. Test: assay op
 * norm --sweep --on ref,gpu */
#include "gpu/norm.cuh"

#include "core/matrix.h"
#include "gpu/ops.h"
#include "gpu/vector.cuh"

enum { NORM_THREADS = 1024, WARP = 32 };

struct norm_rows {
    int64_t H, ldx, ldy;
    float eps;
    bf16 *x; /* written where there is a block */
    const bf16 *block;
    const void *w; /* NULL: ones */
    int w_type;
    bf16 *y;
    bool wide;
};

/* The sum over the block in a fixed order: lanes by halves, then warps ascending. */
__device__ static float block_sum(float v)
{
    __shared__ float part[NORM_THREADS / WARP];
    for (int k = WARP / 2; k > 0; k /= 2) v += __shfl_xor_sync(~0u, v, k);
    if (threadIdx.x % WARP == 0) part[threadIdx.x / WARP] = v;
    __syncthreads();
    float sum = 0;
    for (unsigned i = 0; i < blockDim.x / WARP; i++) sum += part[i];
    return sum;
}

__device__ static inline void load_weight(const struct norm_rows &p, int64_t i, float w[VECTOR])
{
    if (p.w && p.w_type == DT_BF16) {
        vector_load((const bf16 *)p.w + i, p.H - i, p.wide, w);
        return;
    }
#pragma unroll
    for (int k = 0; k < VECTOR; k++)
        w[k] = p.w && i + k < p.H ? stored_float(p.w, p.w_type, i + k) : 1.0f;
}

/* One block a row; thread j handles the eights j, j + threads, ... of it. */
__global__ static void __launch_bounds__(NORM_THREADS) norm_kernel(struct norm_rows p)
{
    int64_t row = blockIdx.x, step = (int64_t)blockDim.x * VECTOR;
    bf16 *x = p.x + row * p.ldx, *y = p.y + row * p.ldy;
    float squares = 0, v[VECTOR], w[VECTOR];
    for (int64_t i = (int64_t)threadIdx.x * VECTOR; i < p.H; i += step) {
        vector_load(x + i, p.H - i, p.wide, v);
        if (p.block) {
            vector_load(p.block + row * p.H + i, p.H - i, p.wide, w);
#pragma unroll
            for (int k = 0; k < VECTOR; k++)
                v[k] = __bfloat162float(__float2bfloat16_rn(v[k] + w[k]));
            vector_store(x + i, p.H - i, p.wide, v);
        }
#pragma unroll
        for (int k = 0; k < VECTOR; k++) squares = fmaf(v[k], v[k], squares);
    }
    float scale = 1.0f / sqrtf(block_sum(squares) / (float)p.H + p.eps);
    for (int64_t i = (int64_t)threadIdx.x * VECTOR; i < p.H; i += step) {
        vector_load(x + i, p.H - i, p.wide, v);
        load_weight(p, i, w);
#pragma unroll
        for (int k = 0; k < VECTOR; k++) v[k] = v[k] * scale * w[k];
        vector_store(y + i, p.H - i, p.wide, v);
    }
}

static enum err_code launch_norm(struct gpu *g, int64_t T, const struct norm_rows *p,
                                 struct err *err)
{
    if (T == 0) return ERR_OK;
    int64_t lanes = ceil_div(ceil_div(p->H, VECTOR), WARP) * WARP;
    unsigned threads = (unsigned)(lanes < NORM_THREADS ? lanes : NORM_THREADS);
    return GPU_LAUNCH(g, err, p->block ? "norm_add" : "norm", p->wide ? "16 bytes" : "2 bytes",
                      dim3((unsigned)T), dim3(threads), 0, norm_kernel, *p);
}

enum err_code gpu_norm(struct gpu *g, int64_t T, int64_t H, double eps, const bf16 *x, int64_t ldx,
                       const struct gpu_tensor *w, bf16 *y, int64_t ldy, struct err *err)
{
    struct norm_rows p = {};
    p.H = H;
    p.ldx = ldx;
    p.ldy = ldy;
    p.eps = (float)eps;
    p.x = (bf16 *)x; /* only read: there is no block */
    p.w = w ? w->data : NULL;
    p.w_type = w ? w->dtype : DT_BF16;
    p.y = y;
    p.wide = vector_fits(x, ldx) && vector_fits(y, ldy) && vector_fits(p.w, 0);
    return launch_norm(g, T, &p, err);
}

enum err_code gpu_norm_add(struct gpu *g, int64_t T, int64_t H, double eps, bf16 *x,
                           const bf16 *block, const struct gpu_tensor *w, bf16 *y, struct err *err)
{
    struct norm_rows p = {};
    p.H = p.ldx = p.ldy = H;
    p.eps = (float)eps;
    p.x = x;
    p.block = block;
    p.w = w ? w->data : NULL;
    p.w_type = w ? w->dtype : DT_BF16;
    p.y = y;
    p.wide = vector_fits(x, H) && vector_fits(block, H) && vector_fits(y, H) && vector_fits(p.w, 0);
    return launch_norm(g, T, &p, err);
}

__global__ static void add_kernel(int64_t n, bf16 *x, const bf16 *block, bool wide)
{
    int64_t step = (int64_t)gridDim.x * blockDim.x * VECTOR;
    int64_t i = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * VECTOR;
    for (; i < n; i += step) {
        float v[VECTOR], b[VECTOR];
        vector_load(x + i, n - i, wide, v);
        vector_load(block + i, n - i, wide, b);
#pragma unroll
        for (int k = 0; k < VECTOR; k++) v[k] += b[k];
        vector_store(x + i, n - i, wide, v);
    }
}

enum err_code gpu_add(struct gpu *g, int64_t n, bf16 *x, const bf16 *block, struct err *err)
{
    if (n == 0) return ERR_OK;
    bool wide = vector_fits(x, 0) && vector_fits(block, 0);
    int64_t blocks = ceil_div(n, 256 * VECTOR), most = (int64_t)g->sms * 8;
    return GPU_LAUNCH(g, err, "add", wide ? "16 bytes" : "2 bytes",
                      dim3((unsigned)(blocks < most ? blocks : most)), dim3(256), 0, add_kernel, n,
                      x, block, wide);
}

enum err_code norm_gpu(const struct norm *op, struct run *run, struct err *err)
{
    if (norm_check(op, err) != ERR_OK || (op->w && tensor_find_bad(op->w, 0, op->H, err) != ERR_OK))
        return err->code;
    struct gpu *g = gpu_enter("norm", run, err);
    if (!g) return err->code;
    struct gpu_mark m = gpu_mark(g);
    struct gpu_tensor w = {};
    if (op->w && (gpu_want_real(op->w, err) != ERR_OK ||
                  gpu_tensor_send(g, op->w, false, &w, err) != ERR_OK))
        return gpu_leave(g, m, err);
    bf16 *x = gpu_send_act(g, op->x, op->T, op->H, "norm input", err);
    if (x && gpu_norm(g, op->T, op->H, op->eps, x, op->H, &w, x, op->H, err) == ERR_OK)
        (void)!gpu_fetch_act(g, op->y, x, op->T * op->H, "norm output", err);
    return gpu_leave(g, m, err);
}
