/* model_taps.cu: what a step shows of itself, fetched only where somebody looks; see model.cuh. */
#include "gpu/collective.cuh"
#include "gpu/model.cuh"

bool gpu_wants(const struct gpu_pass *p, enum tap_kind kind)
{
    char name[TAP_NAME];
    const struct tap_sink *sink = p->step->sink;
    if (!sink) return false;
    tap_format(kind, p->layer, name);
    return sink->replace || sink->wants(sink->ctx, name);
}

/* Gives host rows to the sink; true where they may have been changed. */
static enum err_code give(const struct gpu_pass *p, enum tap_kind kind, int64_t cols, double *x,
                          struct err *err)
{
    char name[TAP_NAME];
    const struct tap_sink *sink = p->step->sink;
    tap_format(kind, p->layer, name);
    if (sink->wants(sink->ctx, name) &&
        sink->reals(sink->ctx, name, p->step->rows, cols, x, err) != ERR_OK)
        return err->code;
    return sink->replace ? sink->replace(sink->ctx, name, p->step->rows, cols, x, err) : ERR_OK;
}

enum err_code gpu_emit(const struct gpu_pass *p, enum tap_kind kind, int64_t cols, bf16 *data,
                       struct err *err)
{
    if (!gpu_wants(p, kind)) return ERR_OK;
    int64_t n = p->T * cols;
    struct arena_block *mark = arena_mark(p->run->arena);
    double *x = gpu_seam_act(p->g, p->run, data, n, "a tap", err);
    if (x && give(p, kind, cols, x, err) == ERR_OK && p->step->sink->replace)
        (void)!gpu_seam_put(p->g, data, x, n, "a replaced tap", err);
    arena_release(p->run->arena, mark);
    return err->code;
}

/* What came back for this rank's columns of [T, tp * cols]. */
static enum err_code take_own(const struct gpu_pass *p, int64_t cols, const bf16 *whole, bf16 *data,
                              struct err *err)
{
    const struct shard *s = &p->m->ranks->shard;
    size_t width = (size_t)cols * sizeof *data;
    return gpu_call(p->g,
                    cudaMemcpy2DAsync(data, width, whole + s->t * cols, width * (size_t)s->plan.tp,
                                      width, (size_t)p->T, cudaMemcpyDeviceToDevice, p->g->stream),
                    "take a rank's columns", err);
}

enum err_code gpu_emit_columns(const struct gpu_pass *p, const char *op, enum tap_kind kind,
                               int64_t cols, bf16 *data, struct err *err)
{
    if (!gpu_is_cut(p)) return gpu_emit(p, kind, cols, data, err);
    if (!gpu_wants(p, kind)) return ERR_OK;
    const struct shard_site at = gpu_site(p, op, cols);
    int64_t all = cols * p->m->ranks->shard.plan.tp;
    struct gpu_mark mark = gpu_mark(p->g);
    bf16 *whole = gpu_new<bf16>(p->g, p->T * all, "columns of all ranks", err);
    if (whole && gpu_gather_columns(p->m->ranks, &at, DT_BF16, data, whole, err) == ERR_OK &&
        gpu_emit(p, kind, all, whole, err) == ERR_OK && p->step->sink->replace)
        (void)!take_own(p, cols, whole, data, err);
    gpu_release(p->g, mark);
    return err->code;
}

enum err_code gpu_emit_f32(const struct gpu_pass *p, enum tap_kind kind, int64_t cols, float *data,
                           struct err *err)
{
    if (!gpu_wants(p, kind)) return ERR_OK;
    int64_t n = p->T * cols;
    struct arena_block *mark = arena_mark(p->run->arena);
    double *x = gpu_seam_f32(p->g, p->run, data, n, "a tap", err);
    if (x && give(p, kind, cols, x, err) == ERR_OK && p->step->sink->replace)
        (void)!gpu_seam_put_f32(p->g, data, x, n, "a replaced tap", err);
    arena_release(p->run->arena, mark);
    return err->code;
}

enum err_code gpu_emit_ids(const struct gpu_pass *p, struct err *err)
{
    char name[TAP_NAME];
    const struct tap_sink *sink = p->step->sink;
    tap_format(TAP_EXPERTS, p->layer, name);
    if (!sink || !sink->wants(sink->ctx, name)) return ERR_OK;
    int64_t n = p->T * p->c->top_k;
    struct arena_block *mark = arena_mark(p->run->arena);
    int32_t *ids = (int32_t *)arena_alloc(p->run->arena, n, sizeof *ids, "expert ids", err);
    if (ids && gpu_fetch(p->g, ids, p->ids, (size_t)n * sizeof *ids, "expert ids", err) == ERR_OK)
        (void)!sink->ints(sink->ctx, name, p->step->rows, p->c->top_k, ids, err);
    arena_release(p->run->arena, mark);
    return err->code;
}
