/* test_cli_config.c: configs that cannot be run, as the program meets them: exit 2, and the line
 * names the key. The reader's own tests are in test_config.c. */
#include "tests/cli.h"

#include "tests/config_texts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *parsed(const char *text)
{
    json_t *v = json_loads(text, 0, NULL);
    assert_non_null(v);
    return v;
}

/* Where the model's keys lie. */
static json_t *keys_of(json_t *config)
{
    json_t *text = json_object_get(config, "text_config");
    return text ? text : config;
}

/* Both ways to a config: the synthetic model and a folder. Neither comes as far as the weights. */
static void config_refuses(void **state, struct refusal r, const char *text)
{
    const char *folder = *state, *path = textf("%s/config.json", folder);
    const char *out = textf("%s/out.safetensors", folder);
    const char *models[] = {textf("synth:%s?seed=1", path), folder};
    write_text(path, text);
    for (int i = 0; i < 2; i++)
        cli_refused(
            state, r,
            (const char *const[]){"forward", models[i], "--tokens", "1,2", "--out", out, NULL},
            __FILE__, __LINE__);
}

static void object_refuses(void **state, struct refusal r, const json_t *config)
{
    char *text = json_dumps(config, 0);
    assert_non_null(text);
    config_refuses(state, r, text);
    free(text);
}

static const char *const needed[] = {
    "vocab_size",
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
    "rms_norm_eps",
    "rope_theta",
    "max_position_embeddings",
};

static void needed_key__is_named__when_missing_or_null(void **state)
{
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        json_t *config = parsed(CONFIG_K25);
        const char *key = textf("\"%s\"", needed[i]);
        struct refusal none = {2, key, "config.json", "nothing", NULL};
        struct refusal null = {2, key, "config.json", "null", NULL};
        assert_int_equal(json_object_del(keys_of(config), needed[i]), 0);
        object_refuses(state, none, config);
        json_object_set_new(keys_of(config), needed[i], json_null());
        object_refuses(state, null, config);
        json_decref(config);
    }
}

static void needed_key__is_named__when_zero_negative_or_no_number(void **state)
{
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        json_t *config = parsed(CONFIG_K25);
        const char *key = textf("\"%s\"", needed[i]);
        const struct {
            json_t *value;
            const char *found;
        } rows[] = {
            {json_integer(0), "0"},     {json_integer(-1), "-1"}, {json_string("7"), "a string"},
            {json_array(), "an array"}, {json_true(), "true"},
        };
        for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
            struct refusal r = {2, key, "config.json", rows[k].found, NULL};
            json_object_set_new(keys_of(config), needed[i], rows[k].value);
            object_refuses(state, r, config);
        }
        json_decref(config);
    }
}

/* Sizes that no tensor can have must not become allocations. */
static void size__is_refused__when_absurd(void **state)
{
    static const char *const keys[] = {
        "vocab_size",       "hidden_size",  "num_hidden_layers", "num_attention_heads",
        "n_routed_experts", "kv_lora_rank", "n_group",           "q_lora_rank"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        json_t *config = parsed(CONFIG_K25);
        struct refusal r = {2, textf("\"%s\"", keys[i]), "config.json", "9223372036854775807",
                            NULL};
        json_object_set_new(keys_of(config), keys[i], json_integer(INT64_MAX));
        object_refuses(state, r, config);
        json_decref(config);
    }
}

/* One text in the config is replaced by another. */
struct edit {
    const char *from, *to;
    struct refusal r;
};

static void edits_are_refused(void **state, const char *base, const struct edit *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char *text = replaced(base, rows[i].from, rows[i].to);
        config_refuses(state, rows[i].r, text);
        free(text);
    }
}

static void keys__are_refused__when_they_contradict_each_other(void **state)
{
    static const struct edit rows[] = {
        {"\"num_key_value_heads\": 2",
         "\"num_key_value_heads\": 1",
         {2, "attention heads", NULL, "num_key_value_heads 1", "2, as num_attention_heads"}},
        {"\"num_attention_heads\": 2",
         "\"num_attention_heads\": 3",
         {2, "attention heads", NULL, "2, which does not divide the heads", "3"}},
        {"\"qk_rope_head_dim\": 8",
         "\"qk_rope_head_dim\": 7",
         {2, "\"qk_rope_head_dim\"", NULL, "7", "an even number"}},
        {"\"n_group\": 1",
         "\"n_group\": 3",
         {2, "expert groups", NULL, "4 experts in 3", "divide"}},
        {"\"topk_group\": 1",
         "\"topk_group\": 2",
         {2, "expert groups", NULL, "topk_group 2", "at most n_group 1"}},
        {"\"num_experts_per_tok\": 2",
         "\"num_experts_per_tok\": 5",
         {2, "experts a token", NULL, "num_experts_per_tok 5", "at most the 4"}},
        {"\"routed_scaling_factor\": 2.827",
         "\"routed_scaling_factor\": 0",
         {2, "\"routed_scaling_factor\"", NULL, "0", "above 0"}},
        {"\"routed_scaling_factor\": 2.827",
         "\"routed_scaling_factor\": -1",
         {2, "\"routed_scaling_factor\"", NULL, "-1", "above 0"}},
        {"\"hidden_act\": \"silu\"",
         "\"hidden_act\": \"gelu\"",
         {2, "\"hidden_act\"", NULL, "gelu", "silu"}},
        {"\"attention_bias\": false",
         "\"attention_bias\": true",
         {2, "\"attention_bias\"", NULL, "true", "false"}},
        {"\"scoring_func\": \"sigmoid\"",
         "\"scoring_func\": \"relu\"",
         {2, "\"scoring_func\"", NULL, "relu", "sigmoid or softmax"}},
        {"\"topk_method\": \"noaux_tc\"",
         "\"topk_method\": \"best\"",
         {2, "\"topk_method\"", NULL, "best", "noaux_tc"}},
        {"\"type\": \"yarn\"", "\"type\": \"ntk\"", {2, "rope_scaling.type", NULL, "ntk", "yarn"}},
        {"\"factor\": 64.0", "\"factor\": 0", {2, "\"rope_scaling\"", NULL, "factor 0", "above 0"}},
        {"\"torch_dtype\": \"bfloat16\"",
         "\"torch_dtype\": \"int8\"",
         {2, "\"torch_dtype\"", NULL, "int8", "bfloat16"}},
        {"\"model_type\": \"kimi_k2\"",
         "\"model_type\": \"llama\"",
         {2, "\"model_type\"", NULL, "llama", "kimi_k2"}},
    };
    edits_are_refused(state, CONFIG_K25, rows, sizeof rows / sizeof rows[0]);
}

static void quantisation__is_refused__when_unknown(void **state)
{
    static const struct edit rows[] = {
        {"\"compressed-tensors\"", "\"gptq\"", {2, "quantisation method", NULL, "gptq", "fp8"}},
        {"\"pack-quantized\"",
         "\"marlin-24\"",
         {2, "quantisation format", NULL, "marlin-24", "pack-quantized"}},
        {"\"num_bits\": 4",
         "\"num_bits\": 3",
         {2, "quantisation weights", NULL, "3-bit", "4- or 8-bit"}},
        {"\"num_bits\": 4", "\"num_bits\": 0", {2, "\"num_bits\"", NULL, "0", NULL}},
        {"\"type\": \"int\"",
         "\"type\": \"float\"",
         {2, "quantisation weights", NULL, "float", "int"}},
        {"\"strategy\": \"group\"",
         "\"strategy\": \"tensor\"",
         {2, "quantisation strategy", NULL, "tensor", "group or channel"}},
        {"\"group_size\": 32", "\"group_size\": 0", {2, "\"group_size\"", NULL, "0", NULL}},
        {"\"group_size\": 32", "\"group_size\": -32", {2, "\"group_size\"", NULL, "-32", NULL}},
        {"\"input_activations\": null",
         "\"input_activations\": {}",
         {2, "quantisation group", NULL, "quantised activations", "null"}},
        {"\"quantization_config\": {",
         "\"quantization_config\": 4, \"unused\": {",
         {2, "\"quantization_config\"", NULL, "an integer", "an object"}},
    };
    static const struct edit fp8[] = {
        {"\"fmt\": \"e4m3\"", "\"fmt\": \"e5m2\"", {2, "FP8 format", NULL, "e5m2", "e4m3"}},
        {"[128, 128]", "[128, 0]", {2, "\"weight_block_size\"", NULL, NULL, "above 0"}},
        {"[128, 128]", "[128]", {2, "\"weight_block_size\"", NULL, NULL, "two whole numbers"}},
        {"[128, 128]",
         "[128, 9223372036854775807]",
         {2, "\"weight_block_size\"", NULL, "9223372036854775807", NULL}},
    };
    edits_are_refused(state, CONFIG_K25, rows, sizeof rows / sizeof rows[0]);
    edits_are_refused(state, CONFIG_DSV3, fp8, sizeof fp8 / sizeof fp8[0]);
}

static void text__is_refused__when_no_config(void **state)
{
    static const struct {
        const char *text;
        struct refusal r;
    } rows[] = {
        {"", {2, "parse JSON", "config.json", NULL, "valid JSON"}},
        {"[]", {2, "read config", "config.json", "an array", "an object"}},
        {"5", {2, "parse JSON", "config.json", NULL, NULL}},
        {"{}", {2, "\"model_type\"", "config.json", "nothing", "kimi_k25"}},
        {"{\"model_type\": \"kimi_k25\"}", {2, "\"text_config\"", "config.json", "nothing", NULL}},
        {"{\"model_type\": \"kimi_k25\", \"model_type\": 1}",
         {2, "parse JSON", NULL, "duplicate", NULL}},
        {"{\"model_type\": \"llama\"}", {2, "\"model_type\"", NULL, "llama", "deepseek_v3"}},
        {"\xff\xfe{\"a\"", {2, "parse JSON", "config.json: line 1", NULL, NULL}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        config_refuses(state, rows[i].r, rows[i].text);
    char deep[8001];
    memset(deep, '[', sizeof deep - 1);
    deep[sizeof deep - 1] = '\0';
    config_refuses(state, (struct refusal){2, "parse JSON", "config.json", "depth", NULL}, deep);
}

static void synth__is_refused__when_its_query_is_wrong(void **state)
{
    const char *path = textf("%s/config.json", (const char *)*state);
    static const struct {
        const char *query;
        struct refusal r;
    } rows[] = {
        {"", {2, "open model", "config.json", "no seed", "?seed=N"}},
        {"?", {2, "open model", NULL, "no seed", NULL}},
        {"?seed=", {2, "open model", NULL, "\"seed=\"", "seed=N"}},
        {"?seed=-1", {2, "open model", NULL, "\"seed=-1\"", NULL}},
        {"?seed=1x", {2, "open model", NULL, "\"seed=1x\"", NULL}},
        {"?seed=18446744073709551616", {2, "open model", NULL, "18446744073709551616", NULL}},
        {"?seed=1&latent_gain=inf", {2, "open model", NULL, "latent_gain=inf", NULL}},
        {"?seed=1&latent_gain=nan", {2, "open model", NULL, "latent_gain=nan", NULL}},
        {"?seed=1&more=1", {2, "open model", NULL, "more=1", NULL}},
        {"?latent_gain=1", {2, "open model", NULL, "no seed", NULL}},
    };
    write_text(path, CONFIG_K25);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *model = textf("synth:%s%s", path, rows[i].query);
        const char *out = textf("%s/out", (const char *)*state);
        cli_refused(state, rows[i].r,
                    (const char *const[]){"forward", model, "--tokens", "1", "--out", out, NULL},
                    __FILE__, __LINE__);
    }
    write_text(path, CONFIG_DSV3);
    struct refusal fp8 = {2, "open model", NULL, "no synthetic rule", "or none"};
    cli_refuses(state, fp8, "forward", textf("synth:%s?seed=1", path), "--tokens", "1", "--out",
                textf("%s/out", (const char *)*state));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, folder_setup, folder_teardown)
    const struct CMUnitTest tests[] = {
        TEST(needed_key__is_named__when_missing_or_null),
        TEST(needed_key__is_named__when_zero_negative_or_no_number),
        TEST(size__is_refused__when_absurd),
        TEST(keys__are_refused__when_they_contradict_each_other),
        TEST(quantisation__is_refused__when_unknown),
        TEST(text__is_refused__when_no_config),
        TEST(synth__is_refused__when_its_query_is_wrong),
    };
    return cmocka_run_group_tests_name("cli_config", tests, NULL, NULL);
}
