/* cache.cu: the paged cache's pool on the device; see cache.cuh. Writing entries: mla.cu. */
#include "gpu/cache.cuh"

#include "core/check.h"

#include <stdlib.h>

static int64_t pool_cells(const struct gpu_cache *c)
{
    return c->layers * c->blocks * c->block * c->width;
}

enum err_code gpu_cache_open(struct gpu *g, struct cache *c, struct err *err)
{
    struct gpu_cache *own = (struct gpu_cache *)calloc(1, sizeof *own);
    if (!own) return err_set(err, ERR_MEMORY, "open cache|host|no memory");
    c->own = own;
    own->layers = c->layers;
    own->sequences = c->sequences;
    own->block = c->block;
    own->blocks = c->blocks;
    own->blocks_max = c->blocks_max;
    own->width = c->width;
    int64_t entries = c->sequences * c->blocks_max;
    gpu_at(g, "cache", -1);
    own->table = (int32_t *)gpu_keep(g, entries, sizeof *own->table, "block tables", err);
    if (!own->table) return err->code;
    own->pool = (bf16 *)gpu_keep(g, pool_cells(own), sizeof *own->pool, "latent cache", err);
    if (!own->pool) return err->code;
    if (gpu_send(g, own->table, c->table, (size_t)entries * sizeof *own->table, "block tables",
                 err) != ERR_OK)
        return err->code;
    /* Bytes of ones are a NaN: what was never written must show when it is read. */
    size_t bytes = (size_t)pool_cells(own) * sizeof *own->pool;
    return gpu_call(g, cudaMemsetAsync(own->pool, 0xFF, bytes, g->stream), "fill the cache", err);
}

void gpu_cache_close(struct gpu *g, struct cache *c)
{
    struct gpu_cache *own = gpu_cache_of(c);
    if (!own) return;
    gpu_drop(g, own->pool);
    gpu_drop(g, own->table);
    free(own);
    c->own = NULL;
}

__device__ static inline int64_t entry_at(const struct gpu_cache &c, int64_t layer,
                                          int64_t sequence, int64_t t)
{
    int64_t b = c.table[sequence * c.blocks_max + t / c.block];
    return ((layer * c.blocks + b) * c.block + t % c.block) * c.width;
}

__global__ static void cache_move_rows(struct gpu_cache c, int64_t sequence, int64_t from,
                                       int64_t to)
{
    const bf16 *x = c.pool + entry_at(c, blockIdx.x, sequence, from);
    bf16 *y = c.pool + entry_at(c, blockIdx.x, sequence, to);
    for (int64_t i = threadIdx.x; i < c.width; i += blockDim.x) y[i] = x[i];
}

enum err_code gpu_cache_move(struct gpu *g, const struct gpu_cache *c, int64_t sequence,
                             int64_t from, int64_t to, struct err *err)
{
    CHECK(from != to && from >= 0 && to >= 0 && sequence >= 0 && sequence < c->sequences);
    CHECK(from < c->blocks_max * c->block && to < c->blocks_max * c->block);
    if (c->layers == 0) return ERR_OK;
    gpu_at(g, "cache", -1);
    return GPU_LAUNCH(g, err, "cache_move_rows", "", dim3((unsigned)c->layers), dim3(128), 0,
                      cache_move_rows, *c, sequence, from, to);
}

enum err_code gpu_cache_fetch(struct gpu *g, const struct gpu_cache *c, int64_t layer, double *pool,
                              struct err *err)
{
    int64_t cells = c->blocks * c->block * c->width;
    return gpu_fetch_act(g, pool + layer * cells, c->pool + layer * cells, cells, "latent cache",
                         err);
}

enum err_code gpu_cache_put(struct gpu *g, const struct gpu_cache *c, int64_t layer,
                            const double *pool, struct err *err)
{
    int64_t cells = c->blocks * c->block * c->width;
    struct gpu_mark mark = gpu_mark(g);
    const bf16 *sent =
        gpu_send_act(g, pool + layer * cells, c->blocks * c->block, c->width, "latent cache", err);
    if (sent)
        (void)!gpu_call(g,
                        cudaMemcpyAsync(c->pool + layer * cells, sent, (size_t)cells * sizeof *sent,
                                        cudaMemcpyDeviceToDevice, g->stream),
                        "copy the latent cache", err);
    gpu_release(g, mark);
    return err->code;
}
