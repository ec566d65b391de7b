/* mla_layer.h: the ops of one MLA layer, made from what they share: its weights, rows, cache and
 * buffers. For the decoder and for a draft head of that kind; private to ref/. Tests:
 * tests/test_golden.c, tests/test_golden_eagle.c */
#ifndef ASSAY_REF_MLA_LAYER_H
#define ASSAY_REF_MLA_LAYER_H

#include "core/mla.h"

struct mla_layer {
    const struct config *c; /* widths: a rank's where it holds some of the heads */
    const struct rows *rows;
    struct cache *cache;
    int64_t layer; /* of the cache */
    const struct rope_table *table;
    const struct matrix *q_a, *q_b, *kv_a, *kv_b; /* as in mla.h; q_a counts where q_lora > 0 */
    const struct tensor *q_norm, *kv_norm;
    double scale;
    enum mla_form form;
    const double *x;                 /* [T, H], input of the layer */
    double *q, *latent, *k_rope, *y; /* as in mla.h */
};

struct mla_q mla_layer_q(const struct mla_layer *m, const struct run *run);
struct mla_kv mla_layer_kv(const struct mla_layer *m, const struct run *run);
/* Of the queries; mla.kv turns its keys itself. */
struct rope mla_layer_rope(const struct mla_layer *m);
/* Between mla.kv and mla.core: the rows' entries of the cache. */
void mla_layer_store(const struct mla_layer *m);
struct mla_core mla_layer_core(const struct mla_layer *m);

#endif
