/* config.h: the shape of a DeepSeek-V3-family decoder, read from a checkpoint's config.json.
 *
 * Readers: kimi_k25 (values under text_config; tensors prefixed "language_model."), kimi_k2,
 * deepseek_v3. With and without q_lora_rank, rope_scaling (null: plain RoPE), quantisation
 * (compressed-tensors pack-quantized, FP8 128x128 blocks, none). A needed key that is missing,
 * zero, negative or contradictory is one clear error. Test: tests/test_config.c */
#ifndef ASSAY_CORE_CONFIG_H
#define ASSAY_CORE_CONFIG_H

#include "core/dtype.h"
#include "core/error.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum scoring { SCORING_SIGMOID, SCORING_SOFTMAX };

/* How experts are chosen: noaux_tc (bias, group score = sum of the two best), greedy (no groups),
 * or group_limited_greedy (group score = the best). */
enum topk_method { TOPK_NOAUX_TC, TOPK_GREEDY, TOPK_GROUP_LIMITED };

enum quant_kind { QUANT_NONE, QUANT_PACKED, QUANT_FP8_BLOCK };

struct quant {
    enum quant_kind kind;
    int bits;         /* QUANT_PACKED: 4 or 8 */
    int64_t group;    /* QUANT_PACKED: columns a scale; 0: one scale a row (channel) */
    bool symmetric;   /* QUANT_PACKED */
    bool act_order;   /* QUANT_PACKED: a weight_g_idx tensor gives each column's group */
    int64_t block[2]; /* QUANT_FP8_BLOCK: rows, columns a scale */
};

/* YaRN; factor 1 with `yarn` false is plain RoPE. */
struct rope_scaling {
    bool yarn;
    double factor, beta_fast, beta_slow, mscale, mscale_all_dim;
    double attention_factor; /* 0: not given */
    int64_t original_max_position;
};

struct config {
    char model_type[32]; /* kimi_k25, kimi_k2, deepseek_v3 */
    char prefix[32];     /* "" or "language_model." */
    char sha256[65];     /* of config.json's bytes */
    int64_t vocab, hidden, layers, heads;
    int64_t q_lora; /* 0: a plain q_proj */
    int64_t kv_lora, nope, rope, v_head;
    int64_t intermediate, moe_intermediate;
    int64_t experts, top_k, shared_experts, groups, top_groups;
    int64_t first_dense, moe_freq; /* layer i is MoE iff i >= first_dense and i % moe_freq == 0 */
    double routed_scale;
    bool norm_topk;
    enum scoring scoring;
    enum topk_method topk_method;
    double norm_eps;
    double rope_theta;
    bool rope_interleaved; /* adjacent pairs; false: halves */
    struct rope_scaling scaling;
    int64_t max_position;
    bool tied_embeddings;
    enum dtype dtype; /* the engine's activation type: torch_dtype */
    struct quant quant;
    int64_t eos; /* -1: none */
};

/* Parses the text of a config.json; `where` is used in messages. */
enum err_code config_parse(const char *text, int64_t size, const char *where, struct config *out,
                           struct err *err) ERR_USED;
enum err_code config_read(const char *path, struct config *out, struct err *err) ERR_USED;

/* True where layer i has a mixture of experts. */
bool config_is_moe(const struct config *c, int64_t layer);
/* True when the linear `name` (full tensor name without ".weight") is stored quantised: experts for
 * pack-quantized, every attention and MLP linear for FP8. */
bool config_is_quantised(const struct config *c, const char *name);
/* Width of a query or key head: nope + rope. */
int64_t config_qk(const struct config *c);
/* Softmax scale: (nope+rope)^-1/2 * m^2, m = 0.1*mscale_all_dim*ln(factor)+1 under YaRN, else 1. */
double config_softmax_scale(const struct config *c);

#ifdef __cplusplus
}
#endif
#endif
