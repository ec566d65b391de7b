/* eagle_attention.h: grouped-query attention over the paged cache of a draft head; private to ref/.
 * Test: tests/test_eagle.c */
#ifndef ASSAY_REF_EAGLE_ATTENTION_H
#define ASSAY_REF_EAGLE_ATTENTION_H

#include "core/cache.h"
#include "core/run.h"

/* Query head h reads key head h / (heads / kv_heads). An entry of the cache is [k | v], each
 * [kv_heads, head_dim]; k is roped. The sums run in float64, columns and slots ascending, as those
 * of mla.core do; a row's bits depend on its own sequence alone. Rounds at RP_SCORE,
 * RP_SCORE_SCALED, RP_PROB, RP_ATTN_CORE. */
struct eagle_attention {
    int64_t heads, kv_heads, head_dim;
    double scale; /* of the scores */
    const struct rows *rows;
    const double *q; /* [rows, heads, head_dim], roped */
    const struct cache *cache;
    int64_t layer;
    double *y; /* [rows, heads * head_dim] */
};

enum err_code eagle_attention_ref(const struct eagle_attention *op, struct run *run,
                                  struct err *err) ERR_USED;

#endif
