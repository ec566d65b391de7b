/* model_taps.cu: what a step shows of itself, fetched only where somebody looks; see model.cuh. */
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
