/* model.h: a checkpoint's tensors bound to their roles, shapes checked against the config. Contract
 * shared by both engines: what either reads is what is bound here.
 *
 * Ignored on purpose: vision_tower.*, mm_projector.*, rotary_emb.inv_freq, layers past
 * num_hidden_layers (MTP). Test: tests/test_model.c */
#ifndef ASSAY_CORE_MODEL_H
#define ASSAY_CORE_MODEL_H

#include "core/cache.h"
#include "core/moe.h"
#include "core/rope.h"
#include "core/run.h"
#include "core/tap.h"
#include "core/weights.h"

#ifdef __cplusplus
extern "C" {
#endif

struct layer {
    bool moe;
    struct tensor attn_norm, mlp_norm, q_norm, kv_norm;
    struct matrix q_a, q_b; /* q_a unused where q_lora is 0: q_b is then q_proj */
    struct matrix kv_a, kv_b, o;
    struct matrix gate, up, down; /* the dense MLP, or the shared experts */
    struct matrix router;
    struct tensor bias; /* !tensor_exists(): none */
};

struct shard;

struct model {
    const struct weights *weights;
    const struct config *config;
    const struct shard *shard; /* one rank's part of the model (shard.h); NULL: all of it */
    struct rope_table rope;
    struct tensor embed, norm;
    struct matrix head;
    struct layer *layers; /* [config->layers] */
};

/* Every tensor of every layer is looked up and its shape checked, each expert's too; nothing is
 * read. */
enum err_code model_bind(struct model *m, const struct weights *w, struct err *err) ERR_USED;
void model_release(struct model *m);

/* Expert e of a MoE layer, with shapes checked; of a shard: its part of it. ERR_INPUT: an expert
 * that this rank does not hold. */
enum err_code model_expert(const struct model *m, int64_t layer, int64_t e, struct expert *out,
                           struct err *err) ERR_USED;

/* One step of the whole decoder: these rows, through layers [0, layer_end), against this cache. */
struct step {
    const struct model *model;
    struct cache *cache;
    const struct rows *rows;
    int64_t layer_end; /* config->layers: also final norm and logits */
    bool decode;       /* a decode step: the profile may want the absorbed form */
    struct tap_sink *sink;
    /* The ids forced on layer `layer` for these rows ([rows, top_k], -1: free), or false: none. May
     * be NULL. */
    bool (*forced)(void *ctx, int64_t layer, const struct rows *rows, int32_t *ids);
    void *forced_ctx;
    /* Called after each layer with the residual stream and its unrounded form, [rows, H]. May be
     * NULL. For work that can be taken up again: with `x` and `sum` of layer_first - 1 the step
     * goes on at layer_first, for rows that begin their sequences. */
    enum err_code (*after_layer)(void *ctx, int64_t layer, const double *x, const double *sum,
                                 struct err *err);
    void *after_layer_ctx;
    int64_t layer_first;
    const double *x, *sum;
    double *logits; /* NULL, or [rows, V] */
};

enum err_code model_step_ref(const struct step *s, struct run *run, struct err *err) ERR_USED;

#ifdef __cplusplus
}
#endif
#endif
