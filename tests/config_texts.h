/* config_texts.h: small config.json texts for tests: one with everything under text_config and INT4
 * experts, one DeepSeek-V3 with groups and FP8 blocks, one with plain RoPE and without q_lora. Edit
 * them with replaced(). */
#ifndef ASSAY_TESTS_CONFIG_TEXTS_H
#define ASSAY_TESTS_CONFIG_TEXTS_H

#define CONFIG_PACKED_QUANT                                                                        \
    "\"quantization_config\": {\"quant_method\": \"compressed-tensors\", \"format\": "             \
    "\"pack-quantized\","                                                                          \
    " \"config_groups\": {\"group_0\": {\"targets\": [\"Linear\"], \"input_activations\": null,"   \
    " \"weights\": {\"num_bits\": 4, \"type\": \"int\", \"symmetric\": true, \"group_size\": 32,"  \
    " \"strategy\": \"group\", \"actorder\": null}}}}"

#define CONFIG_K25                                                                                 \
    "{\"model_type\": \"kimi_k25\", \"text_config\": {\"model_type\": \"kimi_k2\","                \
    " \"vocab_size\": 48, \"hidden_size\": 64, \"intermediate_size\": 80, "                        \
    "\"moe_intermediate_size\": 32,"                                                               \
    " \"num_hidden_layers\": 3, \"num_attention_heads\": 2, \"num_key_value_heads\": 2,"           \
    " \"n_shared_experts\": 1, \"n_routed_experts\": 4, \"num_experts_per_tok\": 2,"               \
    " \"routed_scaling_factor\": 2.827, \"kv_lora_rank\": 16, \"q_lora_rank\": 24, "               \
    "\"qk_rope_head_dim\": 8,"                                                                     \
    " \"v_head_dim\": 12, \"qk_nope_head_dim\": 16, \"n_group\": 1, \"topk_group\": 1,"            \
    " \"topk_method\": \"noaux_tc\", \"scoring_func\": \"sigmoid\", \"norm_topk_prob\": true,"     \
    " \"first_k_dense_replace\": 1, \"moe_layer_freq\": 1, \"hidden_act\": \"silu\","              \
    " \"max_position_embeddings\": 262144, \"rms_norm_eps\": 1e-05, \"rope_theta\": 50000.0,"      \
    " \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 64.0, "                                   \
    "\"original_max_position_embeddings\": 4096,"                                                  \
    " \"beta_fast\": 32.0, \"beta_slow\": 1.0, \"mscale\": 1.0, \"mscale_all_dim\": 1.0},"         \
    " \"attention_bias\": false, \"tie_word_embeddings\": false, \"torch_dtype\": \"bfloat16\","   \
    " \"eos_token_id\": 2, " CONFIG_PACKED_QUANT "}, \"vision_config\": {}}"

#define CONFIG_DSV3                                                                                \
    "{\"model_type\": \"deepseek_v3\","                                                            \
    " \"vocab_size\": 48, \"hidden_size\": 64, \"intermediate_size\": 80, "                        \
    "\"moe_intermediate_size\": 32,"                                                               \
    " \"num_hidden_layers\": 4, \"num_attention_heads\": 2, \"n_shared_experts\": 2,"              \
    " \"n_routed_experts\": 8, \"num_experts_per_tok\": 3, \"routed_scaling_factor\": 2.5,"        \
    " \"kv_lora_rank\": 16, \"q_lora_rank\": 24, \"qk_rope_head_dim\": 8, \"v_head_dim\": 12,"     \
    " \"qk_nope_head_dim\": 16, \"n_group\": 4, \"topk_group\": 2, \"topk_method\": \"noaux_tc\"," \
    " \"scoring_func\": \"sigmoid\", \"norm_topk_prob\": true, \"first_k_dense_replace\": 2,"      \
    " \"moe_layer_freq\": 1, \"hidden_act\": \"silu\", \"max_position_embeddings\": 163840,"       \
    " \"rms_norm_eps\": 1e-06, \"rope_theta\": 10000, \"rope_scaling\": {\"type\": \"yarn\","      \
    " \"factor\": 40, \"original_max_position_embeddings\": 4096, \"beta_fast\": 32, "             \
    "\"beta_slow\": 1,"                                                                            \
    " \"mscale\": 1.0, \"mscale_all_dim\": 1.0}, \"torch_dtype\": \"bfloat16\","                   \
    " \"quantization_config\": {\"quant_method\": \"fp8\", \"fmt\": \"e4m3\","                     \
    " \"activation_scheme\": \"dynamic\", \"weight_block_size\": [128, 128]}}"

#define CONFIG_PLAIN                                                                               \
    "{\"model_type\": \"kimi_k2\", \"vocab_size\": 48, \"hidden_size\": 64, "                      \
    "\"intermediate_size\": 80,"                                                                   \
    " \"moe_intermediate_size\": 32, \"num_hidden_layers\": 2, \"num_attention_heads\": 2,"        \
    " \"n_shared_experts\": 1, \"n_routed_experts\": 4, \"num_experts_per_tok\": 2, "              \
    "\"kv_lora_rank\": 16,"                                                                        \
    " \"q_lora_rank\": null, \"qk_rope_head_dim\": 8, \"v_head_dim\": 12, \"qk_nope_head_dim\": "  \
    "16,"                                                                                          \
    " \"first_k_dense_replace\": 1, \"max_position_embeddings\": 262144, \"rms_norm_eps\": 1e-05," \
    " \"rope_theta\": 10000.0, \"rope_scaling\": null, \"torch_dtype\": \"bfloat16\"}"

#endif
