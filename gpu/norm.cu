/* norm.cu: RMSNorm with and without the residual addition before it; see norm.cuh. Test: assay op
 * norm --sweep --on ref,gpu */
#include "gpu/norm.cuh"

#include "core/matrix.h"
#include "gpu/norm_row.cuh"
#include "gpu/ops.h"

/* One block a row. */
template <bool ONCE>
__global__ static void __launch_bounds__(NORM_THREADS) norm_kernel(struct norm_rows p)
{
    let_next_launch();
    norm_row<ONCE>(p, blockIdx.x);
}

static enum err_code launch_norm(struct gpu *g, int64_t T, const struct norm_rows *p,
                                 struct err *err)
{
    if (T == 0) return ERR_OK;
    unsigned threads = norm_threads(p->H);
    bool once = p->H <= (int64_t)threads * VECTOR;
    return gpu_launch_early(g, err, p->block ? "norm_add" : "norm",
                            p->wide ? "16 bytes" : "2 bytes", dim3((unsigned)T), dim3(threads), 0,
                            once ? norm_kernel<true> : norm_kernel<false>, *p);
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
