/* test_head_config.c: a draft head's config.json: every spelling that trainers write, the defaults
 * of the classes, and that each bad key is named. */
#include "tests/assert_array.h"
#include "tests/heads.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum err_code parse(const char *text, const char *edits, struct head_config *c,
                           struct err *err)
{
    char *edited = heads_edited(text, edits), *json = heads_json(edited);
    err_clear(err);
    enum err_code rc = head_config_parse(json, (int64_t)strlen(json), "config.json", c, err);
    free(edited);
    free(json);
    return rc;
}

/* The config after edits "FROM -> TO", one a line. */
static struct head_config parsed(const char *text, const char *edits)
{
    struct err err;
    struct head_config c;
    (void)!parse(text, edits, &c, &err);
    assert_ok(&err);
    return c;
}

struct bad {
    const char *edits, *what, *found, *wanted;
};

static void refused(const char *text, const struct bad *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct err err;
        struct head_config c;
        if (parse(text, rows[i].edits, &c, &err) == ERR_OK) fail_msg("taken: %s", rows[i].edits);
        assert_err(&err, ERR_INPUT, rows[i].what, "config.json", rows[i].found, rows[i].wanted);
    }
}

static void parse__reads_a_speculators_llama_head(void **state)
{
    (void)state;
    struct head_config c = parsed(HEADS_LLAMA, NULL);
    const int64_t got[] = {c.kind,          c.naming,      c.base.hidden, c.base.intermediate,
                           c.base.heads,    c.base.layers, c.base.vocab,  c.base.max_position,
                           c.kv_heads,      c.head_dim,    c.base.rope,   c.base.nope,
                           c.target_hidden, c.draft_vocab, c.aux_count,   c.aux[0],
                           c.aux[1],        c.aux[2],      c.aux[3],      c.base.dtype};
    const int64_t want[] = {
        HEAD_LLAMA, HEAD_SPECULATORS, 16, 24, 4, 1, 20, 64, 2, 6, 6, 0, 0, 6, 3, 1, 3, 5,
        -1,         DT_BF16};
    assert_i64_equal(got, want, 1, sizeof want / sizeof *want);
    assert_true(c.speculators && c.aux_given);
    assert_false(c.norm_before_residual || c.norm_before_fc || c.fc_norm || c.norm_output);
    assert_false(c.qk_norm || c.base.rope_interleaved || c.base.scaling.yarn);
    assert_f64_is(c.base.norm_eps, 1e-5);
    assert_f64_is(c.base.rope_theta, 10000);
    assert_f64_is(head_softmax_scale(&c), 1 / sqrt(6.0));
    assert_int_equal(head_cache_width(&c), 24);
    assert_string_equal(c.residual_assumed, "");
    assert_string_equal(c.aux_assumed, "");
    assert_string_equal(c.width_assumed, "");
    assert_string_equal(c.base.model_type, "llama");
    assert_int_equal(strlen(c.base.sha256), 64);
    assert_false(config_is_moe(&c.base, 0));
}

static void parse__reads_an_mla_head(void **state)
{
    (void)state;
    struct head_config c = parsed(HEADS_MLA, NULL);
    const int64_t got[] = {c.kind,      c.base.q_lora, c.base.kv_lora,
                           c.base.nope, c.base.rope,   c.base.v_head};
    const int64_t want[] = {HEAD_MLA, 12, 8, 6, 4, 10};
    assert_i64_equal(got, want, 1, 6);
    assert_true(c.base.rope_interleaved);
    assert_int_equal(head_cache_width(&c), 12);
    assert_f64_is(head_softmax_scale(&c), 1 / sqrt(10.0));
    c = parsed(HEADS_MLA, "'vocab_size' -> 'rope_scaling': {'type': 'yarn', 'factor': 4.0, "
                          "'mscale_all_dim': 1.0}, 'rope_interleave': false, 'vocab_size'");
    assert_true(c.base.scaling.yarn && !c.base.rope_interleaved);
    const double m = 0.1 * log(4) + 1;
    assert_true(fabs(head_softmax_scale(&c) - m * m / sqrt(10.0)) < 1e-15);
    assert_int_equal(parsed(HEADS_MLA, "'q_lora_rank': 12 -> 'q_lora_rank': null").base.q_lora, 0);
    /* The nvidia head of Kimi K2.5: a type of its own, no multi-token-prediction layers. */
    c = parsed(HEADS_MLA, "deepseek_v3' -> kimi_k2', 'num_nextn_predict_layers': 0");
    assert_string_equal(c.base.model_type, "deepseek_v3");
}

static void parse__reads_flat_configs(void **state)
{
    (void)state;
    struct head_config c = parsed(HEADS_FLAT, NULL);
    assert_int_equal(c.naming, HEAD_SAFEAI);
    assert_false(c.speculators);
    assert_int_equal(c.draft_vocab, 6);
    c = parsed(HEADS_FLAT, "'draft_vocab_size': 6,  -> ");
    assert_int_equal(c.draft_vocab, 20);
    c = parsed(HEADS_FLAT, "'draft_vocab_size': 6 -> 'draft_vocab_size': null");
    assert_int_equal(c.draft_vocab, 20);
    c = parsed(HEADS_MODELOPT, NULL);
    assert_int_equal(c.naming, HEAD_MODELOPT);
    assert_int_equal(c.aux[2], 5);
    assert_true(c.aux_given);
    c = parsed(HEADS_MODELOPT, "'draft_vocab_size' -> 'eagle_aux_hidden_state_layer_ids': [1, 3, "
                               "5], 'draft_vocab_size'");
    assert_int_equal(c.aux[1], 3);
    c = parsed(HEADS_FLAT, "'draft_vocab_size' -> 'eagle_config': null, 'draft_vocab_size'");
    assert_int_equal(c.naming, HEAD_SAFEAI);
}

static void parse__takes_flags_at_the_top_or_nested(void **state)
{
    (void)state;
    struct head_config c = parsed(HEADS_FLAT, "'draft_vocab_size' -> 'fc_norm': true, "
                                              "'norm_output': true, 'draft_vocab_size'");
    assert_true(c.fc_norm && c.norm_output && !c.norm_before_fc);
    c = parsed(HEADS_MODELOPT,
               "'use_aux_hidden_state' -> 'norm_before_fc': true, 'norm_output': true, "
               "'norm_before_residual': true, 'use_aux_hidden_state'");
    assert_true(c.norm_before_fc && c.norm_output && c.norm_before_residual);
    assert_string_equal(c.residual_assumed, "");
    c = parsed(HEADS_MODELOPT, "'use_aux_hidden_state' -> 'use_aux_norm': true, "
                               "'return_hidden_post_norm': true, 'use_aux_hidden_state'");
    assert_true(c.fc_norm && c.norm_output);
    c = parsed(HEADS_LLAMA, "'norm_before_residual': false -> 'norm_before_residual': true, "
                            "'target_hidden_size': 32");
    assert_true(c.norm_before_residual);
    assert_int_equal(c.target_hidden, 32);
}

static void parse__says_what_it_assumed(void **state)
{
    (void)state;
    static const char without[] = "'norm_before_residual': false,  -> ";
    struct head_config c = parsed(HEADS_LLAMA, without);
    assert_false(c.norm_before_residual);
    assert_non_null(strstr(c.residual_assumed, "speculators' class; vLLM's reader serves true"));
    head_config_set_naming(&c, HEAD_VLLM); /* the config is still speculators' */
    assert_non_null(strstr(c.residual_assumed, "speculators' class"));
    c = parsed(HEADS_FLAT, without);
    assert_non_null(strstr(c.residual_assumed, "SafeAILab"));
    head_config_set_naming(&c, HEAD_VLLM);
    assert_non_null(strstr(c.residual_assumed, "vLLM's model"));
    c = parsed(HEADS_MODELOPT, NULL);
    assert_non_null(strstr(c.residual_assumed, "ModelOpt trains"));
    c = parsed(HEADS_LLAMA, ", 'eagle_aux_hidden_state_layer_ids': [1, 3, 5] -> ");
    assert_false(c.aux_given);
    assert_int_equal(c.aux_count, 3);
    assert_int_equal(c.aux[0], -1);
    assert_non_null(strstr(c.aux_assumed, "2, n/2, n-3"));
    c = parsed(HEADS_LLAMA, "[1, 3, 5] -> null");
    assert_false(c.aux_given);
    c = parsed(HEADS_LLAMA, ", 'head_dim': 6 -> ");
    assert_int_equal(c.head_dim, 4);
    assert_non_null(strstr(c.width_assumed, "hidden_size / heads = 4"));
    c = parsed(HEADS_FLAT, "'head_dim': 6 -> 'head_dim': null");
    assert_int_equal(c.head_dim, 4);
    assert_string_equal(c.width_assumed, "");
}

/* What a serialisation leaves out is the default of its class. */
static void parse__takes_the_defaults_of_the_class(void **state)
{
    (void)state;
    struct head_config c = parsed("{'model_type': 'llama', 'num_hidden_layers': 1}", NULL);
    const int64_t llama[] = {c.base.vocab, c.base.hidden, c.base.intermediate, c.base.heads,
                             c.kv_heads,   c.head_dim,    c.base.max_position, c.draft_vocab};
    const int64_t llama_want[] = {32000, 4096, 11008, 32, 32, 128, 2048, 32000};
    assert_i64_equal(llama, llama_want, 1, 8);
    assert_f64_is(c.base.norm_eps, 1e-6);
    assert_f64_is(c.base.rope_theta, 10000);
    c = parsed("{'speculators_model_type': 'eagle3', 'transformer_layer_config': {'model_type': "
               "'qwen3', 'num_hidden_layers': 1}}",
               NULL);
    const int64_t qwen[] = {c.base.vocab, c.base.hidden, c.base.intermediate, c.base.heads,
                            c.kv_heads,   c.head_dim,    c.base.max_position, c.draft_vocab};
    const int64_t qwen_want[] = {151936, 4096, 22016, 32, 32, 128, 32768, 32000};
    assert_i64_equal(qwen, qwen_want, 1, 8);
    assert_true(c.qk_norm);
    static const char *const names[] = {"{'model_type': 'deepseek_v3', 'num_hidden_layers': 1}",
                                        "{'architectures': ['Eagle3DeepSeekV3ForCausalLM'], "
                                        "'num_hidden_layers': 1}",
                                        "{'architectures': ['Eagle3KimiForCausalLM'], "
                                        "'num_hidden_layers': 1}"};
    for (int i = 0; i < 3; i++) {
        c = parsed(names[i], NULL);
        const int64_t v3[] = {c.base.vocab,  c.base.hidden,      c.base.intermediate, c.base.heads,
                              c.base.q_lora, c.base.kv_lora,     c.base.nope,         c.base.rope,
                              c.base.v_head, c.base.max_position};
        const int64_t v3_want[] = {129280, 7168, 18432, 128, 1536, 512, 128, 64, 128, 4096};
        assert_i64_equal(v3, v3_want, 1, 10);
    }
    c = parsed("{'architectures': ['Eagle3DeepseekV2ForCausalLM'], 'num_hidden_layers': 1}", NULL);
    assert_int_equal(c.base.vocab, 102400);
    assert_int_equal(c.base.hidden, 4096);
    c = parsed("{'architectures': ['EAGLE3LlamaForCausalLM'], 'num_hidden_layers': 1}", NULL);
    assert_int_equal(c.kind, HEAD_LLAMA);
}

static void parse__reads_both_spellings_of_rope(void **state)
{
    (void)state;
    struct head_config c = parsed(HEADS_LLAMA, "'head_dim' -> 'rope_theta': 1000000.0, "
                                               "'rope_scaling': null, 'head_dim'");
    assert_f64_is(c.base.rope_theta, 1e6);
    assert_false(c.base.scaling.yarn);
    c = parsed(HEADS_LLAMA, "'head_dim' -> 'rope_parameters': {'rope_theta': 50000.0, "
                            "'rope_type': 'default'}, 'head_dim'");
    assert_f64_is(c.base.rope_theta, 50000);
    assert_false(c.base.scaling.yarn);
    c = parsed(
        HEADS_LLAMA,
        "'head_dim' -> 'rope_theta': 50000.0, 'rope_parameters': "
        "{'rope_theta': 50000.0, 'rope_type': 'yarn', 'factor': 8.0, 'mscale_all_dim': 1.0}, "
        "'head_dim'");
    assert_f64_is(c.base.rope_theta, 50000);
    assert_f64_is(c.base.scaling.factor, 8);
    assert_int_equal(c.base.scaling.original_max_position, 64);
    /* Llama's YaRN scales cos and sin, not the scores. */
    assert_f64_is(head_softmax_scale(&c), 1 / sqrt(6.0));
    c = parsed(HEADS_LLAMA, "'head_dim' -> 'rope_theta': 2000, 'rope_parameters': null, "
                            "'layer_types': ['full_attention'], 'head_dim'");
    assert_f64_is(c.base.rope_theta, 2000);
    assert_int_equal(parsed(HEADS_LLAMA, "'head_dim' -> 'dtype': 'float16', 'head_dim'").base.dtype,
                     DT_F16);
    c = parsed(HEADS_LLAMA, "'draft_vocab_size' -> 'torch_dtype': 'float32', 'draft_vocab_size'");
    assert_int_equal(c.base.dtype, DT_F32);
}

static void parse__refuses_what_is_no_head_config(void **state)
{
    (void)state;
    static const struct bad rows[] = {
        {"{'model_type': 'llama'} -> ", "parse JSON", NULL, NULL},
        {"{'model_type': 'llama'} -> {'model_type': 'llama'", "parse JSON", NULL, NULL},
        {"{'model_type': 'llama'} -> {'model_type': 'llama', 'model_type': 'llama'}", "parse JSON",
         NULL, NULL},
        {"{'model_type': 'llama'} -> {'rms_norm_eps': NaN}", "parse JSON", NULL, NULL},
        {"{'model_type': 'llama'} -> {'rms_norm_eps': 1e999}", "parse JSON", NULL, NULL},
        {"{'model_type': 'llama'} -> []", "read head config", "an array", "an object"},
        {"{'model_type': 'llama'} -> {}", "\"model_type\"", "nothing", "llama, qwen3"},
        {"'llama' -> 'mistral'", "\"model_type\"", "\"mistral\"", "llama, qwen3"},
        {"'llama' -> 'kimi_k25'", "\"model_type\"", "\"kimi_k25\"", "kimi_k2"},
        {"'llama' -> 7", "\"model_type\"", "an integer", "a string"},
        {"{'model_type': 'llama'} -> {'architectures': ['Eagle3Speculator']}", "\"model_type\"",
         "nothing", "llama"},
        {"{'model_type': 'llama'} -> {'architectures': ['MistralForCausalLM']}",
         "\"architectures\"", "\"MistralForCausalLM\"", "an EAGLE-3 head"},
        {"{'model_type': 'llama'} -> {'architectures': []}", "\"architectures\"", "an array",
         "one name"},
        {"{'model_type': 'llama'} -> {'architectures': ['a', 'b']}", "\"architectures\"",
         "an array", "one name"},
        {"{'model_type': 'llama'} -> {'architectures': 'LlamaForCausalLMEagle3'}",
         "\"architectures\"", "a string", "one name"},
        {"'llama' -> 'llama', 'architectures': ['Eagle3DeepseekV2ForCausalLM']", "layer type",
         "architectures of MLA layers", "the same"},
        {"'llama' -> 'deepseek_v3', 'architectures': ['LlamaForCausalLMEagle3']", "layer type",
         "architectures of Llama layers", "the same"},
        {"'llama' -> 'llama', 'speculators_model_type': 'mtp'", "\"speculators_model_type\"",
         "\"mtp\"", "eagle3"},
        {"'llama' -> 'llama', 'speculators_model_type': 3", "\"speculators_model_type\"",
         "an integer", "a string"},
        {"'llama' -> 'llama', 'speculators_model_type': 'eagle3'", "\"transformer_layer_config\"",
         "nothing", "an object"},
        {"'llama' -> 'llama', 'transformer_layer_config': []", "\"transformer_layer_config\"",
         "an array", "an object"},
        {"'llama' -> 'llama', 'eagle_config': 1", "\"eagle_config\"", "an integer", "an object"},
        /* The class says 32 layers. */
        {"'llama' -> 'llama'", "\"num_hidden_layers\"", "32 by the default of LlamaConfig",
         "1 to 8"},
        {"'llama' -> 'deepseek_v3'", "\"num_hidden_layers\"", "61 by the default", "1 to 8"},
    };
    refused("{'model_type': 'llama'}", rows, sizeof rows / sizeof *rows);
}

/* Whole numbers: of the wrong kind, zero, negative, too large. */
static void parse__names_each_bad_number(void **state)
{
    (void)state;
    static const struct {
        const char *text, *key, *value;
    } keys[] = {
        {HEADS_LLAMA, "hidden_size", "16"},        {HEADS_LLAMA, "intermediate_size", "24"},
        {HEADS_LLAMA, "num_attention_heads", "4"}, {HEADS_LLAMA, "num_hidden_layers", "1"},
        {HEADS_LLAMA, "vocab_size", "20"},         {HEADS_LLAMA, "max_position_embeddings", "64"},
        {HEADS_LLAMA, "num_key_value_heads", "2"}, {HEADS_LLAMA, "head_dim", "6"},
        {HEADS_LLAMA, "draft_vocab_size", "6"},    {HEADS_MLA, "q_lora_rank", "12"},
        {HEADS_MLA, "kv_lora_rank", "8"},          {HEADS_MLA, "qk_nope_head_dim", "6"},
        {HEADS_MLA, "qk_rope_head_dim", "4"},      {HEADS_MLA, "v_head_dim", "10"},
    };
    static const char *const values[] = {"0",   "-3",  "9223372036854775807", "2.5", "'2'",
                                         "[2]", "true"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
            char edit[160], what[64];
            snprintf(edit, sizeof edit, "'%s': %s -> '%s': %s", keys[i].key, keys[i].value,
                     keys[i].key, values[k]);
            snprintf(what, sizeof what, "read key \"%s\"", keys[i].key);
            const struct bad row = {edit, what, NULL, NULL};
            refused(keys[i].text, &row, 1);
        }
    }
}

static void parse__refuses_numbers_that_do_not_go_together(void **state)
{
    (void)state;
    static const struct bad rows[] = {
        {"'num_key_value_heads': 2 -> 'num_key_value_heads': 3", "attention heads",
         "4 query heads on 3 key heads", "divides"},
        {"'num_key_value_heads': 2 -> 'num_key_value_heads': 8", "attention heads",
         "4 query heads on 8 key heads", "divides"},
        {"'head_dim': 6 -> 'head_dim': 7", "\"head_dim\"", "7", "an even number"},
        {"'head_dim': 6 -> 'head_dim': 514", "\"head_dim\"", "514", "2 to 512"},
        {"'head_dim': 6, 'hidden_size': 16 -> 'hidden_size': 18", "\"head_dim\"",
         "18 / 4 heads is no width", "a number"},
        {"'head_dim': 6, 'hidden_size': 16 -> 'hidden_size': 12", "\"head_dim\"", "3",
         "an even number"},
        {"'head_dim': 6, 'hidden_size': 16 -> 'hidden_size': 4096", "\"head_dim\"", "1024",
         "2 to 512"},
        {"'draft_vocab_size': 6 -> 'draft_vocab_size': 21", "\"draft_vocab_size\"", "21",
         "at most vocab_size 20"},
        {"'draft_vocab_size': 6,  -> ", "\"draft_vocab_size\"", "32000", "at most vocab_size 20"},
        {"'draft_vocab_size' -> 'target_hidden_size': 0, 'draft_vocab_size'",
         "\"target_hidden_size\"", "0", "1 to"},
        {"'rms_norm_eps': 1e-05 -> 'rms_norm_eps': 0", "\"rms_norm_eps\"", "0", "above 0"},
        {"'rms_norm_eps': 1e-05 -> 'rms_norm_eps': -1e-5", "\"rms_norm_eps\"", "-1e-05", "above 0"},
        {"'rms_norm_eps': 1e-05 -> 'rms_norm_eps': 1e5", "\"rms_norm_eps\"", "100000", "below 1"},
        {"'rms_norm_eps': 1e-05 -> 'rms_norm_eps': 'NaN'", "\"rms_norm_eps\"", "a string",
         "a number"},
        {"'head_dim' -> 'rope_theta': 1, 'head_dim'", "\"rope_theta\"", "1", "above 1"},
        {"'head_dim' -> 'rope_theta': -10000.0, 'head_dim'", "\"rope_theta\"", "-10000", "above 1"},
        {"'head_dim' -> 'rope_theta': 'x', 'head_dim'", "\"rope_theta\"", "a string", "a number"},
        {"'head_dim' -> 'rope_theta': 10.0, 'rope_parameters': {'rope_theta': 20.0}, 'head_dim'",
         "\"rope_theta\"", "10, and 20 in rope_parameters", "both the same"},
        {"'head_dim' -> 'rope_parameters': [], 'head_dim'", "\"rope_parameters\"", "an array",
         "an object or null"},
        {"'head_dim' -> 'rope_scaling': 4, 'head_dim'", "\"rope_scaling\"", "an integer",
         "an object or null"},
        {"'head_dim' -> 'rope_scaling': {'type': 'linear', 'factor': 2.0}, 'head_dim'",
         "rope_scaling.type", "\"linear\"", "yarn or default"},
        {"'head_dim' -> 'rope_scaling': {'rope_type': 'llama3', 'factor': 8.0}, 'head_dim'",
         "rope_scaling.rope_type", "\"llama3\"", "yarn or default"},
        {"'head_dim' -> 'rope_parameters': {'rope_type': 'dynamic'}, 'head_dim'",
         "rope_scaling.rope_type", "\"dynamic\"", "yarn or default"},
        {"'head_dim' -> 'rope_scaling': {'type': 'yarn'}, 'head_dim'", "\"factor\"", "nothing",
         "a number"},
        {"'head_dim' -> 'rope_scaling': {'type': 'yarn', 'factor': 0}, 'head_dim'",
         "\"rope_scaling\"", "factor 0", "above 0"},
        {"'head_dim' -> 'rope_scaling': {'type': 'yarn', 'factor': 2, 'truncate': false}, "
         "'head_dim'",
         "\"rope_scaling\"", "truncate false", "true"},
        {"'head_dim' -> 'rope_scaling': {'type': 'yarn', 'factor': 2, 'attention_factor': -1}, "
         "'head_dim'",
         "\"rope_scaling\"", "attention_factor -1", "0 or more"},
        {"'head_dim' -> 'rope_scaling': {'type': 'yarn', 'factor': 2, 'mscale': -100, "
         "'mscale_all_dim': 1}, 'head_dim'",
         "\"rope_scaling\"", "attention factor -", "above 0"},
        {"'head_dim' -> 'dtype': 'int8', 'head_dim'", "\"dtype\"", "\"int8\"", "bfloat16"},
    };
    refused(HEADS_LLAMA, rows, sizeof rows / sizeof *rows);
    static const struct bad mla = {"'qk_rope_head_dim': 4 -> 'qk_rope_head_dim': 5",
                                   "\"qk_rope_head_dim\"", "5", "an even number"};
    refused(HEADS_MLA, &mla, 1);
}

static void parse__refuses_aux_ids_that_cannot_be_served(void **state)
{
    (void)state;
    static const struct bad rows[] = {
        {"[1, 3, 5] -> [5, 3, 1]", "layer_ids", "3 after 5", "fc's columns are low, mid, high"},
        {"[1, 3, 5] -> [1, 5, 3]", "layer_ids", "3 after 5", "ascending ids"},
        {"[1, 3, 5] -> [1, 3, 3]", "layer_ids", "3 twice", "all differ"},
        {"[1, 3, 5] -> []", "layer_ids", "an array of 0", "1 to 8"},
        {"[1, 3, 5] -> [1, 2, 3, 4, 5, 6, 7, 8, 9]", "layer_ids", "an array of 9", "1 to 8"},
        {"[1, 3, 5] -> 5", "layer_ids", "an integer", "a list"},
        {"[1, 3, 5] -> {'0': 5}", "layer_ids", "an object", "a list"},
        {"[1, 3, 5] -> [-1, 3, 5]", "layer_ids", "-1", "0 to 4096"},
        {"[1, 3, 5] -> [1, 3, 4097]", "layer_ids", "4097", "0 to 4096"},
        {"[1, 3, 5] -> [1, 3, 5.0]", "layer_ids", "a fraction", "0 to 4096"},
        {"[1, 3, 5] -> [1, '3', 5]", "layer_ids", "a string", "0 to 4096"},
        {"[1, 3, 5] -> [1, null, 5]", "layer_ids", "null", "0 to 4096"},
        {"[1, 3, 5] -> [1, 3, 5], 'eagle_config': {'eagle_aux_hidden_state_layer_ids': [2, 3, 5]}",
         "layer_ids", "other ids under eagle_config", "the same"},
    };
    refused(HEADS_LLAMA, rows, sizeof rows / sizeof *rows);
}

/* Each of these keys, at this value, stands for another computation. */
static void parse__refuses_what_it_does_not_compute(void **state)
{
    (void)state;
    static const struct {
        const char *key, *value, *wanted;
    } keys[] = {
        {"attention_bias", "true", "false"},
        {"mlp_bias", "true", "false"},
        {"bias", "true", "false"},
        {"qkv_bias", "true", "false"},
        {"use_sliding_window", "true", "false"},
        {"parallel_drafting", "true", "false"},
        {"attention_bias", "1", "true or false"},
        {"use_aux_hidden_state", "false", "true"},
        {"hidden_act", "'gelu'", "silu"},
        {"hidden_act", "1", "a string"},
        {"logit_scale", "0.5", "1"},
        {"logit_scale", "'a'", "a number"},
        {"quantization_config", "{'quant_method': 'fp8'}", "heads are read in BF16, F16 or F32"},
        {"kv_lora_rank", "8", "a DeepSeek class"},
        {"layer_types", "['sliding_attention']", "full_attention"},
        {"layer_types", "[3]", "full_attention"},
        {"norm_before_fc", "1", "true or false"},
        {"fc_norm", "'true'", "true or false"},
        {"norm_output", "[]", "true or false"},
        {"use_aux_norm", "0", "true or false"},
        {"return_hidden_post_norm", "0", "true or false"},
        {"tie_word_embeddings", "0", "true or false"},
        {"rope_interleave", "0", "true or false"},
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char edit[160];
        snprintf(edit, sizeof edit, "'draft_vocab_size' -> '%s': %s, 'draft_vocab_size'",
                 keys[i].key, keys[i].value);
        const struct bad row = {edit, keys[i].key, NULL, keys[i].wanted};
        refused(HEADS_FLAT, &row, 1);
    }
    static const struct bad nested[] = {
        {"'use_aux_hidden_state': true -> 'use_aux_hidden_state': false", "use_aux_hidden_state",
         "false", "true"},
        {"'use_input_layernorm_in_first_layer': true -> 'use_input_layernorm_in_first_layer': "
         "false",
         "use_input_layernorm_in_first_layer", "false", "true"},
        {"'use_last_layernorm': true -> 'use_last_layernorm': false", "use_last_layernorm", "false",
         "true"},
        {"'use_mtp_layernorm': false -> 'use_mtp_layernorm': true", "use_mtp_layernorm", "true",
         "false"},
        {"'use_mtp_layernorm': false -> 'eh_proj_before_attn': true", "eh_proj_before_attn", "true",
         "false"},
        {"'use_mtp_layernorm': false -> 'next_layer_regular': false", "next_layer_regular", "false",
         "true"},
        {"'use_mtp_layernorm': false -> 'norm_output': 1", "norm_output", "an integer",
         "true or false"},
        {"'use_mtp_layernorm': false -> 'norm_before_fc': true, 'fc_norm': true", "norms before fc",
         "norm_before_fc and fc_norm", "one of them"},
        {"'draft_vocab_size' -> 'norm_output': true, 'draft_vocab_size'\n'use_mtp_layernorm' -> "
         "'norm_output': false, 'use_mtp_layernorm'",
         "norm_output", "true, and false under eagle_config", "both the same"},
        {"'draft_vocab_size' -> 'norm_output': false, 'draft_vocab_size'\n'use_mtp_layernorm' -> "
         "'norm_output': true, 'use_mtp_layernorm'",
         "norm_output", "false, and true under eagle_config", "both the same"},
    };
    refused(HEADS_MODELOPT, nested, sizeof nested / sizeof *nested);
}

/* Every prefix of a config is a refusal with a text. */
static void parse__refuses_every_cut(void **state)
{
    (void)state;
    static const char *const texts[] = {HEADS_LLAMA, HEADS_MLA, HEADS_MODELOPT};
    for (int i = 0; i < 3; i++) {
        char *text = heads_json(texts[i]);
        int64_t size = (int64_t)strlen(text);
        for (int64_t n = 0; n < size; n++) {
            struct err err = ERR_INIT;
            struct head_config c;
            assert_int_equal(head_config_parse(text, n, "config.json", &c, &err), ERR_INPUT);
            assert_err(&err, ERR_INPUT, "parse JSON", "config.json", NULL, NULL);
        }
        free(text);
    }
}

static void names__are_those_of_the_fields(void **state)
{
    (void)state;
    static const char *const names[] = {"speculators", "safeai", "vllm", "modelopt"};
    for (int n = 0; n < HEAD_NAMINGS; n++)
        assert_string_equal(head_naming_name((enum head_naming)n), names[n]);
    assert_string_equal(head_kind_name(HEAD_LLAMA), "Llama");
    assert_string_equal(head_kind_name(HEAD_MLA), "MLA");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parse__reads_a_speculators_llama_head),
        cmocka_unit_test(parse__reads_an_mla_head),
        cmocka_unit_test(parse__reads_flat_configs),
        cmocka_unit_test(parse__takes_flags_at_the_top_or_nested),
        cmocka_unit_test(parse__says_what_it_assumed),
        cmocka_unit_test(parse__takes_the_defaults_of_the_class),
        cmocka_unit_test(parse__reads_both_spellings_of_rope),
        cmocka_unit_test(parse__refuses_what_is_no_head_config),
        cmocka_unit_test(parse__names_each_bad_number),
        cmocka_unit_test(parse__refuses_numbers_that_do_not_go_together),
        cmocka_unit_test(parse__refuses_aux_ids_that_cannot_be_served),
        cmocka_unit_test(parse__refuses_what_it_does_not_compute),
        cmocka_unit_test(parse__refuses_every_cut),
        cmocka_unit_test(names__are_those_of_the_fields),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
