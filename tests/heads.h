/* heads.h: small draft heads that tests write themselves, in every naming: the names and shapes are
 * written out here once more, from the published layouts and not from core/head_layout.c. Texts are
 * JSON with ' for ", so that they can be read. */
#ifndef ASSAY_TESTS_HEADS_H
#define ASSAY_TESTS_HEADS_H

#include "core/head.h"
#include "tests/support.h"

/* Sizes of the small head: see HEADS_LLAMA. The target of the same sizes: HEADS_TARGET, 8 layers.
 */
enum {
    HEADS_H = 16,
    HEADS_I = 24,
    HEADS_V = 20,
    HEADS_VD = 6,
    HEADS_HEADS = 4,
    HEADS_KV = 2,
    HEADS_HD = 6,
    HEADS_LORA = 12,
    HEADS_KV_LORA = 8,
    HEADS_NOPE = 6,
    HEADS_ROPE = 4,
    HEADS_VH = 10,
};

#define HEADS_DECODER                                                                              \
    "'hidden_size': 16, 'intermediate_size': 24, 'num_attention_heads': 4, 'num_hidden_layers': "  \
    "1, 'vocab_size': 20, 'rms_norm_eps': 1e-05, 'max_position_embeddings': 64"
#define HEADS_LLAMA_DECODER                                                                        \
    "'model_type': 'llama', 'num_key_value_heads': 2, 'head_dim': 6, " HEADS_DECODER
#define HEADS_MLA_DECODER                                                                          \
    "'model_type': 'deepseek_v3', 'q_lora_rank': 12, 'kv_lora_rank': 8, 'qk_nope_head_dim': 6, "   \
    "'qk_rope_head_dim': 4, 'v_head_dim': 10, " HEADS_DECODER
#define HEADS_FLAGS                                                                                \
    "'draft_vocab_size': 6, 'norm_before_residual': false, "                                       \
    "'eagle_aux_hidden_state_layer_ids': [1, 3, 5]"

/* The forms of a config. */
#define HEADS_LLAMA                                                                                \
    "{'speculators_model_type': 'eagle3', 'architectures': ['Eagle3Speculator'], "                 \
    "'transformer_layer_config': {" HEADS_LLAMA_DECODER "}, " HEADS_FLAGS "}"
#define HEADS_MLA                                                                                  \
    "{'speculators_model_type': 'eagle3', 'transformer_layer_config': {" HEADS_MLA_DECODER         \
    "}, " HEADS_FLAGS "}"
#define HEADS_FLAT                                                                                 \
    "{'architectures': ['LlamaForCausalLMEagle3'], " HEADS_LLAMA_DECODER ", " HEADS_FLAGS "}"
#define HEADS_MODELOPT                                                                             \
    "{'architectures': ['LlamaForCausalLMEagle3'], " HEADS_LLAMA_DECODER                           \
    ", 'draft_vocab_size': 6, 'eagle_config': {'eagle_aux_hidden_state_layer_ids': [1, 3, 5], "    \
    "'use_aux_hidden_state': true, 'use_input_layernorm_in_first_layer': true, "                   \
    "'use_last_layernorm': true, 'use_mtp_layernorm': false}}"

#define HEADS_TARGET                                                                               \
    "{'model_type': 'deepseek_v3', 'vocab_size': 20, 'hidden_size': 16, 'intermediate_size': 16, " \
    "'moe_intermediate_size': 8, 'num_hidden_layers': 8, 'num_attention_heads': 2, "               \
    "'n_routed_experts': 2, 'num_experts_per_tok': 1, 'kv_lora_rank': 8, 'qk_rope_head_dim': 4, "  \
    "'v_head_dim': 4, 'qk_nope_head_dim': 4, 'max_position_embeddings': 64, 'rms_norm_eps': "      \
    "1e-05, 'rope_theta': 10000.0, 'first_k_dense_replace': 8}"

/* A text with every ' made ". The caller's. */
char *heads_json(const char *text);
/* The text after a list of edits "FROM -> TO", one a line; each must be found. The caller's. */
char *heads_edited(const char *text, const char *edits);

enum { HEADS_PARTS = 64 };

/* Tensors of a head to be written; BF16, all zero but the maps. */
struct heads {
    struct st_part parts[HEADS_PARTS];
    char names[HEADS_PARTS][64];
    int64_t count;
};

/* The head of the sizes above; `layers` of them. */
void heads_make(struct heads *h, enum head_naming naming, enum head_kind kind, int layers);
/* Adds a tensor; out 0: of one dimension. */
struct st_part *heads_add(struct heads *h, const char *name, int64_t out, int64_t in);
/* The tensor of that name, or the test fails. */
struct st_part *heads_part(struct heads *h, const char *name);
void heads_drop(struct heads *h, const char *name);
/* config.json and model.safetensors in the folder of *state. */
void heads_write(void **state, const struct heads *h, const char *config);

/* A target of these sizes, made by rule; its config lies in the folder too. */
struct heads_target {
    struct weights weights;
    struct model model;
};
void heads_target_open(void **state, struct heads_target *t, const char *edits);
void heads_target_close(struct heads_target *t);

#endif
