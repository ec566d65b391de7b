/* head_class.c: see head_class.h. */
#include "core/head_class.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static const struct head_class classes[] = {
    {.model_type = "llama",
     .name = "LlamaConfig",
     .kind = HEAD_LLAMA,
     .vocab = 32000,
     .hidden = 4096,
     .intermediate = 11008,
     .layers = 32,
     .heads = 32,
     .max_position = 2048},
    {.model_type = "qwen3",
     .name = "Qwen3Config",
     .kind = HEAD_LLAMA,
     .qk_norm = true,
     .vocab = 151936,
     .hidden = 4096,
     .intermediate = 22016,
     .layers = 32,
     .heads = 32,
     .kv_heads = 32,
     .head_dim = 128,
     .max_position = 32768},
    {.model_type = "deepseek_v3",
     .name = "DeepseekV3Config",
     .kind = HEAD_MLA,
     .vocab = 129280,
     .hidden = 7168,
     .intermediate = 18432,
     .layers = 61,
     .heads = 128,
     .max_position = 4096,
     .q_lora = 1536,
     .kv_lora = 512,
     .nope = 128,
     .rope = 64,
     .v_head = 128},
    {.model_type = "deepseek_v2",
     .name = "DeepseekV2Config",
     .kind = HEAD_MLA,
     .vocab = 102400,
     .hidden = 4096,
     .intermediate = 11008,
     .layers = 32,
     .heads = 32,
     .max_position = 2048,
     .q_lora = 1536,
     .kv_lora = 512,
     .nope = 128,
     .rope = 64,
     .v_head = 128},
};

/* Words of an architecture's name, the first that is found holds, and the type they stand for.
 * kimi_k2 is DeepseekV3Config under another model_type; an EAGLE-3 class without one of these words
 * says nothing about its layer. */
static const struct {
    const char *word, *model_type;
} architectures[] = {
    {"llama", "llama"},          {"qwen3", "qwen3"},      {"deepseekv2", "deepseek_v2"},
    {"deepseek", "deepseek_v3"}, {"kimi", "deepseek_v3"}, {"eagle3", ""},
};

static const char known[] = "llama, qwen3, deepseek_v3, deepseek_v2 or kimi_k2";

static const struct head_class *by_type(const char *type)
{
    if (strcmp(type, "kimi_k2") == 0) type = "deepseek_v3";
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        if (strcmp(classes[i].model_type, type) == 0) return &classes[i];
    }
    return NULL;
}

/* The type that the architectures stand for, "" where they say nothing. */
static enum err_code by_architecture(const json_t *root, const char *where, const char **type,
                                     struct err *err)
{
    const json_t *list = json_object_get(root, "architectures");
    *type = "";
    if (!list || json_is_null(list)) return ERR_OK;
    const char *name = json_string_value(json_array_get(list, 0));
    if (!name || json_array_size(list) != 1)
        return err_set(err, ERR_INPUT, "read key \"architectures\"|%s|%s%s|a list of one name",
                       where, json_kind(list), json_is_array(list) ? " that is none" : "");
    for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++) {
        if (!strcasestr(name, architectures[i].word)) continue;
        *type = architectures[i].model_type;
        return ERR_OK;
    }
    return err_set(err, ERR_INPUT,
                   "read key \"architectures\"|%s|\"%.80s\"|an EAGLE-3 head of Llama, Qwen3 or "
                   "DeepSeek layers",
                   where, name);
}

enum err_code head_class_find(const json_t *decoder, const json_t *root, const char *where,
                              const struct head_class **out, struct err *err)
{
    const char *type, *implied;
    if (json_text_or(decoder, "model_type", "", where, &type, err) != ERR_OK ||
        by_architecture(root, where, &implied, err) != ERR_OK)
        return err->code;
    if (!type[0] && !implied[0])
        return err_set(err, ERR_INPUT, "read key \"model_type\"|%s|nothing|%s", where, known);
    *out = by_type(type[0] ? type : implied);
    if (!*out)
        return err_set(err, ERR_INPUT, "read key \"model_type\"|%s|\"%.80s\"|%s", where, type,
                       known);
    if (implied[0] && by_type(implied)->kind != (*out)->kind)
        return err_set(
            err, ERR_INPUT,
            "layer type|%s|model_type \"%s\", architectures of %s layers|the same in both", where,
            type, head_kind_name(by_type(implied)->kind));
    return ERR_OK;
}
