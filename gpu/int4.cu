/* int4.cu: packed codes to values; see int4.cuh. Test: assay op int4 --sweep --on ref,gpu */
#include "gpu/int4.cuh"

#include "gpu/ops.h"

__global__ static void int4_kernel(struct gpu_view w, int64_t row, int64_t n, int8_t *q, float *y)
{
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n * w.in; i += step) {
        int64_t r = row + i / w.in, c = i % w.in;
        if (q) q[i] = (int8_t)packed_code((const int32_t *)w.data + r * w.words, w.bits, c);
        y[i] = packed_at(w, r, c);
    }
}

enum err_code gpu_int4(struct gpu *g, const struct gpu_matrix *w, int64_t row, int64_t n, int8_t *q,
                       float *y, struct err *err)
{
    if (n == 0) return ERR_OK;
    int64_t blocks = ceil_div(n * w->in, 256), most = (int64_t)g->sms * 32;
    return GPU_LAUNCH(g, err, "int4", w->g_idx.data ? "group index" : "groups",
                      dim3((unsigned)(blocks < most ? blocks : most)), dim3(256), 0, int4_kernel,
                      gpu_view_of(w), row, n, q, y);
}

enum err_code int4_gpu(const struct int4_op *op, struct run *run, struct err *err)
{
    if (int4_check(op, err) != ERR_OK) return err->code;
    struct gpu *g = gpu_enter("int4", run, err);
    if (!g) return err->code;
    struct gpu_mark m = gpu_mark(g);
    struct gpu_matrix w;
    int64_t n = op->n * op->w->in;
    float *y = gpu_new<float>(g, n, "int4 values", err);
    int8_t *q = y && op->q ? gpu_new<int8_t>(g, n, "int4 codes", err) : NULL;
    if (err->code == ERR_OK && gpu_matrix_send(g, op->w, false, &w, err) == ERR_OK &&
        gpu_int4(g, &w, op->row, op->n, q, y, err) == ERR_OK &&
        gpu_fetch_f32(g, op->y, y, n, "int4 values", err) == ERR_OK && q)
        (void)!gpu_fetch(g, op->q, q, (size_t)n, "int4 codes", err);
    return gpu_leave(g, m, err);
}
