/* seam.cu: an op of a whole-model run by its host adapter, where faults can edit it; see model.cuh.
 */
#include "core/fault.h"
#include "gpu/model.cuh"

double *gpu_seam_room(struct run *run, int64_t n, const char *what, struct err *err)
{
    return (double *)arena_alloc(run->arena, n, sizeof(double), what, err);
}

double *gpu_seam_act(struct gpu *g, struct run *run, const bf16 *x, int64_t n, const char *what,
                     struct err *err)
{
    double *y = gpu_seam_room(run, n, what, err);
    return y && gpu_fetch_act(g, y, x, n, what, err) == ERR_OK ? y : NULL;
}

double *gpu_seam_f32(struct gpu *g, struct run *run, const float *x, int64_t n, const char *what,
                     struct err *err)
{
    double *y = gpu_seam_room(run, n, what, err);
    return y && gpu_fetch_f32(g, y, x, n, what, err) == ERR_OK ? y : NULL;
}

static enum err_code put(struct gpu *g, void *to, const void *from, size_t bytes, const char *what,
                         struct err *err)
{
    if (!from) return err->code;
    return gpu_call(g, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, g->stream), what,
                    err);
}

enum err_code gpu_seam_put(struct gpu *g, bf16 *to, const double *x, int64_t n, const char *what,
                           struct err *err)
{
    struct gpu_mark mark = gpu_mark(g);
    const bf16 *sent = gpu_send_act(g, x, 1, n, what, err);
    (void)!put(g, to, sent, (size_t)n * sizeof *to, what, err);
    gpu_release(g, mark);
    return err->code;
}

enum err_code gpu_seam_put_f32(struct gpu *g, float *to, const double *x, int64_t n,
                               const char *what, struct err *err)
{
    struct gpu_mark mark = gpu_mark(g);
    const float *sent = gpu_send_f32(g, x, n, what, err);
    (void)!put(g, to, sent, (size_t)n * sizeof *to, what, err);
    gpu_release(g, mark);
    return err->code;
}

static void round_all(enum dtype type, double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) x[i] = dtype_round(type, x[i]);
}

enum err_code gpu_seam_back(struct gpu *g, bf16 *to, double *x, int64_t n, struct err *err)
{
    round_all(DT_BF16, x, n);
    return gpu_seam_put(g, to, x, n, "an op's output", err);
}

enum err_code gpu_seam_back_f32(struct gpu *g, float *to, double *x, int64_t n, struct err *err)
{
    round_all(DT_F32, x, n);
    return gpu_seam_put_f32(g, to, x, n, "an op's output", err);
}

enum err_code gpu_seam_call(struct gpu *g, const struct fault_place *place, const void *arg,
                            struct run *run, struct err *err)
{
    struct fault_place here = *place;
    here.side = gpu_side();
    enum err_code rc = fault_call(&here, arg, run, err);
    g->log = run->kernels; /* the adapter took it with it */
    gpu_at(g, place->op, place->layer);
    return rc;
}
