/* test_config.c: the readers of config.json: what is read, and that each bad key is named. */
#include "tests/assert_array.h"
#include "tests/config_texts.h"
#include "tests/support.h"

#include "core/config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct config parsed(const char *text)
{
    struct err err = ERR_INIT;
    struct config c;
    (void)!config_parse(text, (int64_t)strlen(text), "config.json", &c, &err);
    assert_ok(&err);
    return c;
}

/* The config after one edit of its text. */
static struct config edited(const char *text, const char *from, const char *to)
{
    char *copy = replaced(text, from, to);
    struct config c = parsed(copy);
    free(copy);
    return c;
}

static void refused_text(const char *text, const char *what, const char *found, const char *wanted)
{
    struct err err = ERR_INIT;
    struct config c;
    assert_int_equal(config_parse(text, (int64_t)strlen(text), "config.json", &c, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, what, "config.json", found, wanted);
}

static void refused(const char *text, const char *from, const char *to, const char *what,
                    const char *found, const char *wanted)
{
    char *copy = replaced(text, from, to);
    refused_text(copy, what, found, wanted);
    free(copy);
}

static void parse__reads_kimi_k25__under_text_config(void **state)
{
    (void)state;
    struct config c = parsed(CONFIG_K25);
    assert_string_equal(c.model_type, "kimi_k25");
    assert_string_equal(c.prefix, "language_model.");
    const int64_t got[] = {c.vocab,
                           c.hidden,
                           c.layers,
                           c.heads,
                           c.q_lora,
                           c.kv_lora,
                           c.nope,
                           c.rope,
                           c.v_head,
                           c.intermediate,
                           c.moe_intermediate,
                           c.experts,
                           c.top_k,
                           c.shared_experts,
                           c.groups,
                           c.top_groups,
                           c.first_dense,
                           c.moe_freq,
                           c.max_position,
                           c.eos};
    const int64_t want[] = {48, 64, 3, 2, 24, 16, 16, 8, 12,     80,
                            32, 4,  2, 1, 1,  1,  1,  1, 262144, 2};
    assert_i64_equal(got, want, 1, sizeof want / sizeof *want);
    assert_f64_is(c.routed_scale, 2.827);
    assert_f64_is(c.norm_eps, 1e-5);
    assert_f64_is(c.rope_theta, 50000);
    assert_true(c.norm_topk && c.rope_interleaved && !c.tied_embeddings);
    assert_int_equal(c.scoring, SCORING_SIGMOID);
    assert_int_equal(c.topk_method, TOPK_NOAUX_TC);
    assert_int_equal(c.dtype, DT_BF16);
    assert_true(c.scaling.yarn);
    assert_f64_is(c.scaling.factor, 64);
    assert_f64_is(c.scaling.beta_fast, 32);
    assert_f64_is(c.scaling.beta_slow, 1);
    assert_f64_is(c.scaling.mscale, 1);
    assert_f64_is(c.scaling.mscale_all_dim, 1);
    assert_f64_is(c.scaling.attention_factor, 0);
    assert_int_equal(c.scaling.original_max_position, 4096);
    assert_int_equal(c.quant.kind, QUANT_PACKED);
    assert_int_equal(c.quant.bits, 4);
    assert_int_equal(c.quant.group, 32);
    assert_true(c.quant.symmetric && !c.quant.act_order);
}

static void parse__reads_deepseek_v3__with_groups_and_fp8(void **state)
{
    (void)state;
    struct config c = parsed(CONFIG_DSV3);
    assert_string_equal(c.model_type, "deepseek_v3");
    assert_string_equal(c.prefix, "");
    assert_int_equal(c.groups, 4);
    assert_int_equal(c.top_groups, 2);
    assert_int_equal(c.shared_experts, 2);
    assert_int_equal(c.first_dense, 2);
    assert_f64_is(c.rope_theta, 10000);
    assert_int_equal(c.quant.kind, QUANT_FP8_BLOCK);
    assert_int_equal(c.quant.block[0], 128);
    assert_int_equal(c.quant.block[1], 128);
    assert_int_equal(c.eos, -1);
}

static void parse__reads_plain_rope_and_no_q_lora(void **state)
{
    (void)state;
    struct config c = parsed(CONFIG_PLAIN);
    assert_string_equal(c.model_type, "kimi_k2");
    assert_int_equal(c.q_lora, 0);
    assert_false(c.scaling.yarn);
    assert_f64_is(c.scaling.factor, 1);
    assert_int_equal(c.quant.kind, QUANT_NONE);
    assert_f64_is(c.routed_scale, 1);
    assert_int_equal(c.groups, 1);
    c = edited(CONFIG_PLAIN, "\"rope_scaling\": null, ", "");
    assert_false(c.scaling.yarn);
    c = edited(CONFIG_PLAIN, "\"rope_scaling\": null",
               "\"rope_scaling\": {\"rope_type\": \"default\"}");
    assert_false(c.scaling.yarn);
}

static void parse__reads_the_newer_spellings(void **state)
{
    (void)state;
    struct config c = edited(CONFIG_K25, "\"type\": \"yarn\"", "\"rope_type\": \"yarn\"");
    assert_true(c.scaling.yarn);
    c = edited(CONFIG_PLAIN, "\"torch_dtype\": \"bfloat16\"", "\"dtype\": \"float16\"");
    assert_int_equal(c.dtype, DT_F16);
    c = edited(
        CONFIG_PLAIN, "\"rope_theta\": 10000.0, \"rope_scaling\": null",
        "\"rope_parameters\": {\"rope_theta\": 20000, \"rope_type\": \"yarn\", \"factor\": 2.0}");
    assert_f64_is(c.rope_theta, 20000);
    assert_true(c.scaling.yarn);
    assert_f64_is(c.scaling.factor, 2);
    assert_int_equal(c.scaling.original_max_position, 262144);
    c = edited(CONFIG_PLAIN, "\"rope_theta\"", "\"rope_interleave\": false, \"rope_theta\"");
    assert_false(c.rope_interleaved);
}

static void parse__reads_the_other_choices(void **state)
{
    (void)state;
    struct config c = edited(CONFIG_DSV3, "\"sigmoid\"", "\"softmax\"");
    assert_int_equal(c.scoring, SCORING_SOFTMAX);
    c = edited(CONFIG_DSV3, "\"noaux_tc\"", "\"group_limited_greedy\"");
    assert_int_equal(c.topk_method, TOPK_GROUP_LIMITED);
    c = edited(CONFIG_K25, "\"noaux_tc\"", "\"greedy\"");
    assert_int_equal(c.topk_method, TOPK_GREEDY);
    c = edited(CONFIG_K25, "\"torch_dtype\": \"bfloat16\"", "\"torch_dtype\": \"float32\"");
    assert_int_equal(c.dtype, DT_F32);
    c = edited(CONFIG_K25, "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true");
    assert_true(c.tied_embeddings);
    c = edited(CONFIG_K25, "\"num_bits\": 4", "\"num_bits\": 8");
    assert_int_equal(c.quant.bits, 8);
    c = edited(CONFIG_K25, "\"group_size\": 32, \"strategy\": \"group\"",
               "\"strategy\": \"channel\"");
    assert_int_equal(c.quant.group, 0);
    c = edited(CONFIG_K25, "\"symmetric\": true", "\"symmetric\": false");
    assert_false(c.quant.symmetric);
    c = edited(CONFIG_K25, "\"actorder\": null", "\"actorder\": \"group\"");
    assert_true(c.quant.act_order);
    c = edited(CONFIG_K25, "\"actorder\": null", "\"actorder\": \"weight\"");
    assert_false(c.quant.act_order);
}

static void parse__takes_quantisation_beside_text_config(void **state)
{
    (void)state;
    char *bare = replaced(CONFIG_K25, ", " CONFIG_PACKED_QUANT, "");
    assert_int_equal(parsed(bare).quant.kind, QUANT_NONE);
    struct config c = edited(bare, "\"vision_config\": {}", CONFIG_PACKED_QUANT);
    assert_int_equal(c.quant.kind, QUANT_PACKED);
    free(bare);
}

static void parse__hashes_the_bytes(void **state)
{
    (void)state;
    struct config a = parsed(CONFIG_PLAIN), b = edited(CONFIG_PLAIN, "{", "{ ");
    assert_int_equal(strlen(a.sha256), 64);
    assert_int_equal(strspn(a.sha256, "0123456789abcdef"), 64);
    assert_string_not_equal(a.sha256, b.sha256);
    assert_string_equal(a.sha256, parsed(CONFIG_PLAIN).sha256);
}

/* Every key that is needed: absent, null, of the wrong kind, zero, negative, too large. */
static void parse__names_each_needed_key__when_it_is_missing_or_bad(void **state)
{
    (void)state;
    static const char *const keys[] = {"vocab_size",
                                       "hidden_size",
                                       "num_hidden_layers",
                                       "num_attention_heads",
                                       "kv_lora_rank",
                                       "qk_nope_head_dim",
                                       "qk_rope_head_dim",
                                       "v_head_dim",
                                       "intermediate_size",
                                       "moe_intermediate_size",
                                       "n_routed_experts",
                                       "num_experts_per_tok",
                                       "max_position_embeddings"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        static const char *const values[][2] = {
            {"null", "null"},      {"0", "0"},
            {"-1", "-1"},          {"\"8\"", "a string"},
            {"8.0", "a fraction"}, {"1000000000000000", "1000000000000000"}};
        char name[64], gone[64], what[80];
        snprintf(name, sizeof name, "\"%s\": ", keys[i]);
        snprintf(gone, sizeof gone, "\"x_%s\": ", keys[i]);
        snprintf(what, sizeof what, "read key \"%s\"", keys[i]);
        refused(CONFIG_K25, name, gone, what, "nothing", "an integer");
        for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
            char twice[192];
            snprintf(twice, sizeof twice, "%s%s, %s", name, values[v][0], gone);
            refused(CONFIG_K25, name, twice, what, values[v][1], NULL);
        }
    }
    refused(CONFIG_K25, "\"rms_norm_eps\": ", "\"x\": ", "read key \"rms_norm_eps\"", "nothing",
            "a number");
    refused(CONFIG_K25, "\"rope_theta\": ", "\"x\": ", "read key \"rope_theta\"", "nothing",
            "a number");
    refused(CONFIG_K25, "\"model_type\": \"kimi_k25\", ", "", "read key \"model_type\"", "nothing",
            "kimi_k25");
}

static void parse__names_the_key__when_an_optional_one_is_bad(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *what, *found, *wanted;
    } rows[] = {
        {"\"q_lora_rank\": 24", "\"q_lora_rank\": 0", "\"q_lora_rank\"", "0", "1 to"},
        {"\"q_lora_rank\": 24", "\"q_lora_rank\": -3", "\"q_lora_rank\"", "-3", "1 to"},
        {"\"first_k_dense_replace\": 1", "\"first_k_dense_replace\": -1",
         "\"first_k_dense_replace\"", "-1", "0 to"},
        {"\"moe_layer_freq\": 1", "\"moe_layer_freq\": 0", "\"moe_layer_freq\"", "0", "1 to"},
        {"\"n_group\": 1", "\"n_group\": 0", "\"n_group\"", "0", "1 to"},
        {"\"rms_norm_eps\": 1e-05", "\"rms_norm_eps\": 0", "\"rms_norm_eps\"", "0", "above 0"},
        {"\"rms_norm_eps\": 1e-05", "\"rms_norm_eps\": -1e-5", "\"rms_norm_eps\"", "-1e-05",
         "above 0"},
        {"\"rope_theta\": 50000.0", "\"rope_theta\": 1", "\"rope_theta\"", "1", "above 1"},
        {"\"rope_theta\": 50000.0", "\"rope_theta\": -5", "\"rope_theta\"", "-5", "above 1"},
        {"\"qk_rope_head_dim\": 8", "\"qk_rope_head_dim\": 7", "\"qk_rope_head_dim\"", "7",
         "an even number"},
        {"\"norm_topk_prob\": true", "\"norm_topk_prob\": 1", "\"norm_topk_prob\"", "an integer",
         "true or false"},
        {"\"hidden_act\": \"silu\"", "\"hidden_act\": \"gelu\"", "\"hidden_act\"", "\"gelu\"",
         "silu"},
        {"\"attention_bias\": false", "\"attention_bias\": true", "\"attention_bias\"", "true",
         "false"},
        {"\"scoring_func\": \"sigmoid\"", "\"scoring_func\": \"sqrt\"", "\"scoring_func\"",
         "\"sqrt\"", "sigmoid or softmax"},
        {"\"noaux_tc\"", "\"best\"", "\"topk_method\"", "\"best\"",
         "noaux_tc or greedy or group_limited_greedy"},
        {"\"bfloat16\"", "\"int8\"", "\"torch_dtype\"", "\"int8\"",
         "bfloat16 or float16 or float32"},
        {"\"model_type\": \"kimi_k2\"", "\"model_type\": \"llama\"", "\"model_type\"", "\"llama\"",
         "deepseek_v3 or kimi_k2"},
        {"\"kimi_k25\"", "\"qwen\"", "\"model_type\"", "\"qwen\"", "kimi_k25"},
        {"\"text_config\": {", "\"text\": {", "\"text_config\"", "nothing", "an object"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        refused(CONFIG_K25, rows[i].from, rows[i].to, rows[i].what, rows[i].found, rows[i].wanted);
}

static void parse__refuses_keys_that_contradict_each_other(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *what, *found, *wanted;
    } rows[] = {
        {"\"n_group\": 4", "\"n_group\": 3", "expert groups", "8 experts in 3 groups", "divide"},
        {"\"topk_group\": 2", "\"topk_group\": 5", "expert groups", "topk_group 5",
         "at most n_group 4"},
        {"\"num_experts_per_tok\": 3", "\"num_experts_per_tok\": 5", "experts a token",
         "num_experts_per_tok 5", "at most the 4 experts"},
        {"\"n_group\": 4", "\"n_group\": 8", "experts a token", "num_experts_per_tok 3",
         "at most the 2 experts"},
        {"\"num_attention_heads\": 2", "\"num_attention_heads\": 2, \"num_key_value_heads\": 1",
         "attention heads", "num_key_value_heads 1", "2, as num_attention_heads"},
        {"\"num_attention_heads\": 2", "\"num_attention_heads\": 4, \"num_key_value_heads\": 3",
         "attention heads", "does not divide", "4, as num_attention_heads"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        refused(CONFIG_DSV3, rows[i].from, rows[i].to, rows[i].what, rows[i].found, rows[i].wanted);
    char *ones = replaced(CONFIG_DSV3, "\"n_group\": 4", "\"n_group\": 8");
    refused(ones, "\"num_experts_per_tok\": 3", "\"num_experts_per_tok\": 2", "expert groups",
            "groups of 1 expert", "at least 2");
    free(ones);
}

static void parse__refuses_rope_scaling_it_does_not_know(void **state)
{
    (void)state;
    refused(CONFIG_K25, "\"yarn\"", "\"linear\"", "\"rope_scaling.type\"", "\"linear\"",
            "yarn or default");
    refused(CONFIG_K25, "\"factor\": 64.0, ", "", "read key \"factor\"", "nothing", "a number");
    refused(CONFIG_K25, "\"factor\": 64.0", "\"factor\": 0", "\"rope_scaling\"", "factor 0",
            "above 0");
    refused(CONFIG_K25, "\"beta_fast\": 32.0", "\"beta_fast\": \"x\"", "\"beta_fast\"", "a string",
            "a number");
    refused(CONFIG_K25, "\"original_max_position_embeddings\": 4096",
            "\"original_max_position_embeddings\": 0", "\"original_max_position_embeddings\"", "0",
            "1 to");
    refused(CONFIG_PLAIN, "\"rope_scaling\": null", "\"rope_scaling\": 2", "\"rope_scaling\"",
            "an integer", "an object or null");
}

static void parse__refuses_a_softmax_scale_that_is_none(void **state)
{
    (void)state;
    refused(CONFIG_K25, "\"mscale_all_dim\": 1.0", "\"mscale_all_dim\": 1e200", "softmax scale",
            "mscale_all_dim 1e+200", "a finite one above 0");
}

static void parse__refuses_quantisation_it_does_not_know(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *what, *found, *wanted;
    } rows[] = {
        {"\"compressed-tensors\"", "\"gptq\"", "quantisation method", "\"gptq\"",
         "compressed-tensors"},
        {"\"quant_method\": \"compressed-tensors\", ", "", "quantisation method", "\"\"", "fp8"},
        {"\"pack-quantized\"", "\"naive\"", "quantisation format", "\"naive\"", "pack-quantized"},
        {"\"config_groups\": {", "\"config_groups\": {\"b\": {}, ", "quantisation groups", "2",
         "exactly one"},
        {"\"config_groups\"", "\"groups\"", "quantisation groups", "0", "exactly one"},
        {"\"weights\": {", "\"w\": {", "quantisation group \"group_0\"", "nothing",
         "an object \"weights\""},
        {"\"input_activations\": null", "\"input_activations\": {}", "quantisation group",
         "quantised activations", "input_activations null"},
        {"\"num_bits\": 4", "\"num_bits\": 3", "quantisation weights", "3-bit int",
         "4- or 8-bit int"},
        {"\"num_bits\": 4, ", "", "read key \"num_bits\"", "nothing", "an integer"},
        {"\"type\": \"int\"", "\"type\": \"float\"", "quantisation weights", "4-bit float",
         "4- or 8-bit int"},
        {"\"strategy\": \"group\"", "\"strategy\": \"tensor\"", "quantisation strategy",
         "\"tensor\"", "channel"},
        {"\"group_size\": 32", "\"group_size\": -1", "read key \"group_size\"", "-1", "1 to"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        refused(CONFIG_K25, rows[i].from, rows[i].to, rows[i].what, rows[i].found, rows[i].wanted);
    refused(CONFIG_DSV3, "\"e4m3\"", "\"e5m2\"", "FP8 format", "\"e5m2\"", "e4m3");
    refused(CONFIG_DSV3, "[128, 128]", "[128]", "\"weight_block_size\"", "an array",
            "two whole numbers");
    refused(CONFIG_DSV3, "[128, 128]", "[128, 0]", "\"weight_block_size\"", "an array", "above 0");
    refused(CONFIG_DSV3, "\"weight_block_size\": [128, 128]", "\"x\": 1", "\"weight_block_size\"",
            "nothing", "two");
    refused(CONFIG_PLAIN, "\"rope_scaling\": null", "\"quantization_config\": 4",
            "\"quantization_config\"", "an integer", "an object");
}

static void parse__refuses_what_is_no_object(void **state)
{
    (void)state;
    refused_text("[]", "read config", "an array", "an object");
    refused_text("{\"model_type\": 3}", "read key \"model_type\"", "an integer", "a string");
    refused_text("{", "parse JSON", NULL, "valid JSON");
}

static void read__takes_a_file_and_names_it(void **state)
{
    struct err err = ERR_INIT;
    struct config c;
    write_text(folder_path(state, "config.json"), CONFIG_K25);
    assert_int_equal(config_read(folder_path(state, "config.json"), &c, &err), ERR_OK);
    assert_int_equal(c.vocab, 48);
    assert_int_equal(config_read(folder_path(state, "none.json"), &c, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "open", "/none.json", "No such file", NULL);
    write_text(folder_path(state, "empty.json"), "");
    err_clear(&err);
    assert_int_equal(config_read(folder_path(state, "empty.json"), &c, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "parse JSON", "/empty.json: line 1", NULL, NULL);
}

static void is_moe__follows_first_dense_and_frequency(void **state)
{
    (void)state;
    struct config c = {.first_dense = 2, .moe_freq = 3};
    const int64_t want[10] = {0, 0, 0, 1, 0, 0, 1, 0, 0, 1};
    for (int64_t i = 0; i < 10; i++) assert_int_equal(config_is_moe(&c, i), want[i]);
    c = parsed(CONFIG_K25);
    assert_false(config_is_moe(&c, 0));
    assert_true(config_is_moe(&c, 1));
}

static void is_quantised__knows_experts_for_packed_and_all_linears_for_fp8(void **state)
{
    (void)state;
    struct config packed = parsed(CONFIG_K25), fp8 = parsed(CONFIG_DSV3),
                  none = parsed(CONFIG_PLAIN);
    static const struct {
        const char *name;
        bool packed, fp8;
    } rows[] = {
        {"language_model.model.layers.1.mlp.experts.3.up_proj", true, true},
        {"model.layers.1.mlp.shared_experts.up_proj", false, true},
        {"model.layers.0.mlp.down_proj", false, true},
        {"model.layers.1.self_attn.q_a_proj", false, true},
        {"model.layers.1.self_attn.kv_a_proj_with_mqa", false, true},
        {"model.layers.1.mlp.gate", false, false},
        {"lm_head", false, false},
        {"model.embed_tokens", false, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(config_is_quantised(&packed, rows[i].name), rows[i].packed);
        assert_int_equal(config_is_quantised(&fp8, rows[i].name), rows[i].fp8);
        assert_false(config_is_quantised(&none, rows[i].name));
    }
}

/* The table of scales that the model math notes give for the published shapes. */
static void softmax_scale__matches_the_published_models(void **state)
{
    (void)state;
    struct config c = {
        .nope = 128, .rope = 64, .scaling = {.yarn = true, .factor = 64, .mscale_all_dim = 1}};
    assert_int_equal(config_qk(&c), 192);
    assert_f64_close(config_softmax_scale(&c), 0.144679625803, 0, 1e-11);
    c.scaling.factor = 32;
    assert_f64_close(config_softmax_scale(&c), 0.130860799963, 0, 1e-11);
    c.scaling.factor = 40;
    assert_f64_close(config_softmax_scale(&c), 0.135233778861, 0, 1e-11);
    c.scaling.mscale_all_dim = 0.707;
    assert_f64_close(config_softmax_scale(&c), 0.114721386793, 0, 1e-11);
    c.scaling.mscale_all_dim = 0;
    assert_f64_close(config_softmax_scale(&c), 1 / sqrt(192.0), 0, 1e-15);
    c.scaling = (struct rope_scaling){.factor = 1};
    assert_f64_close(config_softmax_scale(&c), 1 / sqrt(192.0), 0, 1e-15);
    c.scaling = (struct rope_scaling){.yarn = true, .factor = 0.5, .mscale_all_dim = 1};
    assert_f64_close(config_softmax_scale(&c), 1 / sqrt(192.0), 0, 1e-15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parse__reads_kimi_k25__under_text_config),
        cmocka_unit_test(parse__reads_deepseek_v3__with_groups_and_fp8),
        cmocka_unit_test(parse__reads_plain_rope_and_no_q_lora),
        cmocka_unit_test(parse__reads_the_newer_spellings),
        cmocka_unit_test(parse__reads_the_other_choices),
        cmocka_unit_test(parse__takes_quantisation_beside_text_config),
        cmocka_unit_test(parse__hashes_the_bytes),
        cmocka_unit_test(parse__names_each_needed_key__when_it_is_missing_or_bad),
        cmocka_unit_test(parse__names_the_key__when_an_optional_one_is_bad),
        cmocka_unit_test(parse__refuses_keys_that_contradict_each_other),
        cmocka_unit_test(parse__refuses_rope_scaling_it_does_not_know),
        cmocka_unit_test(parse__refuses_a_softmax_scale_that_is_none),
        cmocka_unit_test(parse__refuses_quantisation_it_does_not_know),
        cmocka_unit_test(parse__refuses_what_is_no_object),
        cmocka_unit_test_setup_teardown(read__takes_a_file_and_names_it, folder_setup,
                                        folder_teardown),
        cmocka_unit_test(is_moe__follows_first_dense_and_frequency),
        cmocka_unit_test(is_quantised__knows_experts_for_packed_and_all_linears_for_fp8),
        cmocka_unit_test(softmax_scale__matches_the_published_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
