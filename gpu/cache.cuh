/* cache.cuh: the pool of a core/cache.h cache on the device, in bf16. Private to gpu/. */
#ifndef ASSAY_GPU_CACHE_CUH
#define ASSAY_GPU_CACHE_CUH

#include "core/cache.h"
#include "gpu/mla.cuh"

/* Gives a planned cache a pool of NaN and sends its tables; c->own is a struct gpu_cache. */
enum err_code gpu_cache_open(struct gpu *g, struct cache *c, struct err *err) ERR_USED;
void gpu_cache_close(struct gpu *g, struct cache *c);
static inline struct gpu_cache *gpu_cache_of(const struct cache *c)
{
    return (struct gpu_cache *)c->own;
}
/* The entries of token `from` also as token `to`, in every layer. */
enum err_code gpu_cache_move(struct gpu *g, const struct gpu_cache *c, int64_t sequence,
                             int64_t from, int64_t to, struct err *err) ERR_USED;
/* One layer's entries into pool[layer] of doubles, for an op's adapter. */
enum err_code gpu_cache_fetch(struct gpu *g, const struct gpu_cache *c, int64_t layer, double *pool,
                              struct err *err) ERR_USED;
/* And back. */
enum err_code gpu_cache_put(struct gpu *g, const struct gpu_cache *c, int64_t layer,
                            const double *pool, struct err *err) ERR_USED;

#endif
