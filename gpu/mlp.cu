/* mlp.cu: SwiGLU feed-forward; see mlp.cuh. Tests: assay op mlp, moe.shared --sweep --on ref,gpu */
#include "gpu/mlp.cuh"

#include "gpu/launch.cuh"
#include "gpu/linear.cuh"
#include "gpu/ops.h"
#include "gpu/vector.cuh"

struct swiglu_rows {
    int64_t T, I, ld;
    const bf16 *gate, *up;
    bf16 *y;
    bool wide;
};

__global__ static void swiglu_kernel(struct swiglu_rows p)
{
    let_next_launch();
    wait_for_launch_before();
    int64_t eights = (p.I + VECTOR - 1) / VECTOR, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t k = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; k < p.T * eights; k += step) {
        int64_t t = k / eights, i = k % eights * VECTOR;
        float a[VECTOR], b[VECTOR];
        vector_load(p.gate + t * p.ld + i, p.I - i, p.wide, a);
        vector_load(p.up + t * p.ld + i, p.I - i, p.wide, b);
#pragma unroll
        for (int j = 0; j < VECTOR; j++) a[j] = swiglu_of(a[j], b[j]);
        vector_store(p.y + t * p.I + i, p.I - i, p.wide, a);
    }
}

enum err_code gpu_swiglu(struct gpu *g, int64_t T, int64_t I, const bf16 *gate, const bf16 *up,
                         int64_t ld, bf16 *y, struct err *err)
{
    if (T == 0) return ERR_OK;
    struct swiglu_rows p = {T, I, ld, gate, up, y, false};
    p.wide = vector_fits(gate, ld) && vector_fits(up, ld) && vector_fits(y, I);
    int64_t blocks = ceil_div(T * ceil_div(I, VECTOR), 256), most = (int64_t)g->sms * 16;
    return gpu_launch_early(g, err, "swiglu", p.wide ? "16 bytes" : "2 bytes",
                            dim3((unsigned)(blocks < most ? blocks : most)), dim3(256), 0,
                            swiglu_kernel, p);
}

enum err_code gpu_gated(struct gpu *g, int64_t T, const bf16 *x, const struct gpu_matrix *gate,
                        const struct gpu_matrix *up, const struct gpu_product *beside, bf16 *y,
                        struct err *err)
{
    struct gpu_mark m = gpu_mark(g);
    if (T > 0 && linear_joins(g, T, x, gate) && linear_joins(g, T, x, up) &&
        (!beside || linear_joins(g, T, x, beside->w))) {
        struct gpu_product both[2] = {{gate, up, y, DT_BF16}};
        if (beside) both[1] = *beside;
        return linear_joined(g, T, x, both, beside ? 2 : 1, err);
    }
    bf16 *b = gpu_new<bf16>(g, T * gate->out, "up", err);
    if (b && gpu_linear(g, T, x, gate, y, DT_BF16, err) == ERR_OK &&
        gpu_linear(g, T, x, up, b, DT_BF16, err) == ERR_OK &&
        gpu_swiglu(g, T, gate->out, y, b, gate->out, y, err) == ERR_OK && beside)
        (void)!gpu_linear(g, T, x, beside->w, beside->y, beside->type, err);
    gpu_release(g, m);
    return err->code;
}

enum err_code gpu_mlp(struct gpu *g, int64_t T, const bf16 *x, const struct gpu_matrix *gate,
                      const struct gpu_matrix *up, const struct gpu_matrix *down, void *y,
                      enum dtype ytype, struct err *err)
{
    struct gpu_mark m = gpu_mark(g);
    bf16 *a = gpu_new<bf16>(g, T * gate->out, "gate", err);
    if (a && gpu_gated(g, T, x, gate, up, NULL, a, err) == ERR_OK)
        (void)!gpu_linear(g, T, a, down, y, ytype, err);
    gpu_release(g, m);
    return err->code;
}

static enum err_code run_mlp(const char *name, const struct mlp *op, struct run *run,
                             struct err *err)
{
    if (mlp_check(op, err) != ERR_OK) return err->code;
    struct gpu *g = gpu_enter(name, run, err);
    if (!g) return err->code;
    struct gpu_mark m = gpu_mark(g);
    struct gpu_matrix gate, up, down;
    int64_t H = op->gate->in, n = op->T * H;
    bf16 *x = gpu_send_act(g, op->x, op->T, H, "mlp input", err);
    enum dtype type = op->partial ? DT_F32 : DT_BF16;
    void *y = x ? gpu_alloc(g, n, (size_t)dtype_size(type), "mlp output", err) : NULL;
    if (y && gpu_matrix_send(g, op->gate, false, &gate, err) == ERR_OK &&
        gpu_matrix_send(g, op->up, false, &up, err) == ERR_OK &&
        gpu_matrix_send(g, op->down, false, &down, err) == ERR_OK &&
        gpu_mlp(g, op->T, x, &gate, &up, &down, y, type, err) == ERR_OK &&
        gpu_fetch_as(g, op->y, type, y, n, "mlp output", err) == ERR_OK) {
        const struct matrix *const parts[] = {op->gate, op->up, op->down};
        (void)!gpu_linear_explain(op->x, n, op->y, n, parts, 3, err);
    }
    return gpu_leave(g, m, err);
}

enum err_code mlp_gpu(const struct mlp *op, struct run *run, struct err *err)
{
    return run_mlp("mlp", op, run, err);
}

enum err_code moe_shared_gpu(const struct mlp *op, struct run *run, struct err *err)
{
    return run_mlp("moe.shared", op, run, err);
}
