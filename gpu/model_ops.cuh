/* model_ops.cuh: what every op of a step does around its device function: the seam to its adapter,
 * and the sum over ranks; shared by gpu/model_ops.cu and model_experts.cu, private to them. */
#ifndef ASSAY_GPU_MODEL_OPS_CUH
#define ASSAY_GPU_MODEL_OPS_CUH

#include "core/fault.h"
#include "gpu/collective.cuh"
#include "gpu/model.cuh"

static inline enum err_code call(struct gpu_pass *p, const char *op, enum tap_kind tap,
                                 const void *arg, struct err *err)
{
    struct fault_place place = {};
    place.op = op;
    place.tap = tap;
    place.layer = p->layer;
    place.model = p->m->host;
    place.step = p->step;
    return gpu_seam_call(p->g, &place, arg, p->run, err);
}

static inline double *in(struct gpu_pass *p, const bf16 *x, int64_t cols, struct err *err)
{
    return gpu_seam_act(p->g, p->run, x, p->T * cols, "an op's input", err);
}

static inline double *out(struct gpu_pass *p, int64_t cols, struct err *err)
{
    return gpu_seam_room(p->run, p->T * cols, "an op's output", err);
}

static inline enum err_code put(struct gpu_pass *p, bf16 *to, double *x, int64_t cols,
                                struct err *err)
{
    return gpu_seam_back(p->g, to, x, p->T * cols, err);
}

/* Whether to go through the seam, with where we are. */
static inline bool by_adapter(struct gpu_pass *p, const char *op)
{
    const struct run *run = p->run;
    gpu_at(p->g, op, p->layer);
    if (run->doing && !p->g->capturing) run->doing(run->doing_ctx, op, p->layer);
    return p->run->faults != NULL;
}

static inline enum err_code release(struct gpu_pass *p, struct arena_block *mark, struct err *err)
{
    arena_release(p->run->arena, mark);
    return err->code;
}

static inline const struct layer *host_layer(const struct gpu_pass *p)
{
    return &p->m->host->layers[p->layer];
}

static inline const struct gpu_layer *own_layer(const struct gpu_pass *p)
{
    return &p->m->layers[p->layer];
}

/* ---- ranks ---- */

/* y [T, H] = the sum of what the ranks hold of it in p->partial. */
static inline enum err_code reduce(struct gpu_pass *p, const char *op, bf16 *y, struct err *err)
{
    const struct shard_site at = gpu_site(p, op, p->c->hidden);
    return gpu_reduce(p->m->ranks, &at, p->partial, y, err);
}

static inline enum dtype partial_type(const struct gpu_pass *p)
{
    return gpu_partial_type(p->m->ranks);
}

/* The same for an adapter's output, where it lies on the host already. */
static inline enum err_code reduce_host(struct gpu_pass *p, const char *op, double *y,
                                        struct err *err)
{
    const struct shard_site at = gpu_site(p, op, p->c->hidden);
    return shard_reduce(&p->m->ranks->shard, &at, y, err);
}

#endif
