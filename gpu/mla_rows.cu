/* mla_rows.cu: the rows of a step on the device, and their entries in the paged cache; see mla.cuh.
 * Contract: core/cache.h. */
#include "gpu/mla.cuh"

#include "core/cache.h"

#include <stdlib.h>

/* ---- rows ---- */

/* What rows_slot() and rows_span() say, for all rows. */
static void fill_views(const struct rows *r, int64_t *slot, int64_t *span, int64_t *context_max)
{
    *context_max = 0;
    for (int64_t i = 0; i < r->count; i++) {
        slot[i] = rows_slot(r, i);
        span[i] = rows_span(r, i);
        int64_t context = rows_context(r, i);
        if (context > *context_max) *context_max = context;
    }
}

static enum err_code send_views(struct gpu *g, const struct rows *r, struct gpu_rows *out,
                                struct err *err)
{
    size_t n = (size_t)r->count;
    int64_t *views = (int64_t *)malloc((2 * n + 1) * sizeof *views);
    int64_t *device = gpu_new<int64_t>(g, 2 * r->count, "rows", err);
    if (!views)
        (void)!err_set(err, ERR_MEMORY, "allocate memory|rows|%zu rows|enough memory", n);
    else
        fill_views(r, views, views + n, &out->context_max);
    if (err->code == ERR_OK) (void)!gpu_send(g, device, views, 2 * n * sizeof *views, "rows", err);
    out->slot = device;
    out->span = device ? device + n : NULL;
    free(views);
    return err->code;
}

enum err_code gpu_rows_send(struct gpu *g, const struct rows *r, struct gpu_rows *out,
                            struct err *err)
{
    int64_t n = r->count, extras = r->extra ? n * r->extra_max : 0;
    int32_t *sequence = gpu_new<int32_t>(g, n, "sequences of rows", err);
    int64_t *position = gpu_new<int64_t>(g, n, "positions of rows", err);
    int64_t *extra = extras ? gpu_new<int64_t>(g, extras, "seen slots of rows", err) : NULL;
    *out = (struct gpu_rows){};
    if (err->code != ERR_OK ||
        gpu_send(g, sequence, r->sequence, (size_t)n * sizeof *sequence, "sequences of rows",
                 err) != ERR_OK ||
        gpu_send(g, position, r->position, (size_t)n * sizeof *position, "positions of rows",
                 err) != ERR_OK ||
        (extras && gpu_send(g, extra, r->extra, (size_t)extras * sizeof *extra,
                            "seen slots of rows", err) != ERR_OK))
        return err->code;
    out->count = n;
    out->sequence = sequence;
    out->position = position;
    out->extra = extra;
    out->extra_max = r->extra_max;
    out->host = r;
    return send_views(g, r, out, err);
}

/* ---- the cache ---- */

struct cache_rows {
    struct gpu_cache cache;
    int64_t layer, L, R;
    const int32_t *sequence;
    const int64_t *slot;
    const bf16 *latent, *k_rope;
};

/* One block a row. */
__global__ static void write_cache(struct cache_rows p)
{
    int64_t row = blockIdx.x, slot = p.slot[row];
    if (slot < 0) return;
    const struct gpu_cache *c = &p.cache;
    int64_t b = c->table[p.sequence[row] * c->blocks_max + slot / c->block];
    bf16 *entry = c->pool + ((p.layer * c->blocks + b) * c->block + slot % c->block) * c->width;
    for (int64_t i = threadIdx.x; i < p.L; i += blockDim.x) entry[i] = p.latent[row * p.L + i];
    for (int64_t i = threadIdx.x; i < p.R; i += blockDim.x)
        entry[p.L + i] = p.k_rope[row * p.R + i];
}

enum err_code gpu_cache_write(struct gpu *g, const struct gpu_cache *c, int64_t layer,
                              const struct gpu_rows *rows, int64_t L, const bf16 *latent, int64_t R,
                              const bf16 *k_rope, struct err *err)
{
    const struct cache_rows p = {*c, layer, L, R, rows->sequence, rows->slot, latent, k_rope};
    if (rows->count == 0) return ERR_OK;
    return GPU_LAUNCH(g, err, "cache_write", "", dim3((unsigned)rows->count), dim3(128), 0,
                      write_cache, p);
}
