/* config.c: config.json to struct config; see config.h. */
#include "core/config.h"

#include "core/config_read.h"
#include "core/digest.h"
#include "core/file.h"
#include "core/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* One whole-number key of config.json. `dflt` < min: the key is needed. */
struct int_key {
    const char *key;
    size_t at;
    int64_t min, max, dflt;
};

#define NEEDED INT64_MIN
#define AT(field) offsetof(struct config, field)

static const struct int_key int_keys[] = {
    {"vocab_size", AT(vocab), 1, CONFIG_DIM_MAX, NEEDED},
    {"hidden_size", AT(hidden), 1, CONFIG_DIM_MAX, NEEDED},
    {"num_hidden_layers", AT(layers), 1, 4096, NEEDED},
    {"num_attention_heads", AT(heads), 1, 65536, NEEDED},
    {"q_lora_rank", AT(q_lora), 1, CONFIG_DIM_MAX, 0},
    {"kv_lora_rank", AT(kv_lora), 1, CONFIG_DIM_MAX, NEEDED},
    {"qk_nope_head_dim", AT(nope), 1, 65536, NEEDED},
    {"qk_rope_head_dim", AT(rope), 2, 512, NEEDED},
    {"v_head_dim", AT(v_head), 1, 65536, NEEDED},
    {"intermediate_size", AT(intermediate), 1, CONFIG_DIM_MAX, NEEDED},
    {"moe_intermediate_size", AT(moe_intermediate), 1, CONFIG_DIM_MAX, NEEDED},
    {"n_routed_experts", AT(experts), 1, 65536, NEEDED},
    {"num_experts_per_tok", AT(top_k), 1, 65536, NEEDED},
    {"n_shared_experts", AT(shared_experts), 0, 1024, 0}, /* 0 as null: none */
    {"n_group", AT(groups), 1, 1024, 1},
    {"topk_group", AT(top_groups), 1, 1024, 1},
    {"first_k_dense_replace", AT(first_dense), 0, 4096, 0},
    {"moe_layer_freq", AT(moe_freq), 1, 4096, 1},
    {"max_position_embeddings", AT(max_position), 1, (int64_t)1 << 40, NEEDED},
};

static enum err_code read_ints(const json_t *j, const char *where, struct config *c,
                               struct err *err)
{
    for (size_t i = 0; i < sizeof int_keys / sizeof int_keys[0]; i++) {
        const struct int_key *k = &int_keys[i];
        int64_t *out = (int64_t *)(void *)((char *)c + k->at);
        enum err_code rc = k->dflt == NEEDED
                               ? json_int(j, k->key, k->min, k->max, where, out, err)
                               : json_int_or(j, k->key, k->min, k->max, k->dflt, where, out, err);
        if (rc != ERR_OK) return rc;
    }
    return ERR_OK;
}

static enum err_code read_packed(const json_t *q, const char *where, struct quant *out,
                                 struct err *err)
{
    const char *format, *type, *strategy, *act_order, *name;
    const json_t *group = NULL;
    if (json_text_or(q, "format", "", where, &format, err) != ERR_OK) return err->code;
    if (strcmp(format, "pack-quantized") != 0)
        return err_set(err, ERR_INPUT, "quantisation format|%s|\"%s\"|pack-quantized", where,
                       format);
    const json_t *groups = json_object_get(q, "config_groups");
    if (!json_is_object(groups) || json_object_size(groups) != 1)
        return err_set(err, ERR_INPUT, "quantisation groups|%s|%zu|exactly one config group", where,
                       json_object_size(groups));
    json_object_foreach((json_t *)(uintptr_t)groups, name, group) break;
    const json_t *w = json_object_get(group, "weights");
    if (!json_is_object(w))
        return err_set(err, ERR_INPUT, "quantisation group \"%s\"|%s|%s|an object \"weights\"",
                       name, where, json_kind(w));
    if (json_has(group, "input_activations"))
        return err_set(err, ERR_INPUT,
                       "quantisation group \"%s\"|%s|quantised activations|input_activations null",
                       name, where);
    int64_t bits;
    if (json_int(w, "num_bits", 1, 64, where, &bits, err) != ERR_OK ||
        json_text_or(w, "type", "int", where, &type, err) != ERR_OK ||
        json_bool_or(w, "symmetric", true, where, &out->symmetric, err) != ERR_OK ||
        json_text_or(w, "strategy", "group", where, &strategy, err) != ERR_OK ||
        json_text_or(w, "actorder", "none", where, &act_order, err) != ERR_OK)
        return err_note(err, "quantisation group \"%s\"", name);
    if (strcmp(type, "int") != 0 || (bits != 4 && bits != 8))
        return err_set(err, ERR_INPUT, "quantisation weights|%s|%lld-bit %s|4- or 8-bit int", where,
                       (long long)bits, type);
    bool channel = strcmp(strategy, "channel") == 0;
    if (!channel && strcmp(strategy, "group") != 0)
        return err_set(err, ERR_INPUT, "quantisation strategy|%s|\"%s\"|group or channel", where,
                       strategy);
    if (!channel && json_int(w, "group_size", 1, CONFIG_DIM_MAX, where, &out->group, err) != ERR_OK)
        return err->code;
    out->kind = QUANT_PACKED;
    out->bits = (int)bits;
    out->act_order = strcmp(act_order, "group") == 0;
    return ERR_OK;
}

static enum err_code read_fp8(const json_t *q, const char *where, struct quant *out,
                              struct err *err)
{
    const char *fmt;
    const json_t *block = json_object_get(q, "weight_block_size");
    if (json_text_or(q, "fmt", "e4m3", where, &fmt, err) != ERR_OK) return err->code;
    if (strcmp(fmt, "e4m3") != 0)
        return err_set(err, ERR_INPUT, "FP8 format|%s|\"%s\"|e4m3", where, fmt);
    for (size_t i = 0; i < 2; i++) {
        const json_t *b = json_array_get(block, i);
        if (json_array_size(block) != 2 || !json_is_integer(b) || json_integer_value(b) < 1)
            return err_set(err, ERR_INPUT,
                           "read key \"weight_block_size\"|%s|%s|two whole numbers above 0", where,
                           json_kind(block));
        out->block[i] = json_integer_value(b);
        if (out->block[i] > CONFIG_DIM_MAX)
            return err_set(err, ERR_INPUT, "read key \"weight_block_size\"|%s|%lld|1 to %lld",
                           where, (long long)out->block[i], (long long)CONFIG_DIM_MAX);
    }
    out->kind = QUANT_FP8_BLOCK;
    return ERR_OK;
}

static enum err_code read_quant(const json_t *root, const json_t *text, const char *where,
                                struct config *c, struct err *err)
{
    const char *method;
    const json_t *q = json_object_get(text, "quantization_config");
    if (!q || json_is_null(q)) q = json_object_get(root, "quantization_config");
    if (!q || json_is_null(q)) return ERR_OK;
    if (!json_is_object(q))
        return err_set(err, ERR_INPUT, "read key \"quantization_config\"|%s|%s|an object", where,
                       json_kind(q));
    if (json_text_or(q, "quant_method", "", where, &method, err) != ERR_OK) return err->code;
    if (strcmp(method, "compressed-tensors") == 0) return read_packed(q, where, &c->quant, err);
    if (strcmp(method, "fp8") == 0) return read_fp8(q, where, &c->quant, err);
    return err_set(err, ERR_INPUT,
                   "quantisation method|%s|\"%s\"|compressed-tensors (pack-quantized) or fp8",
                   where, method);
}

/* What must hold between keys. */
static enum err_code check_relations(const json_t *j, const char *where, const struct config *c,
                                     struct err *err)
{
    int64_t kv_heads;
    bool bias;
    const char *act;
    if (json_int_or(j, "num_key_value_heads", 1, 65536, c->heads, where, &kv_heads, err) !=
            ERR_OK ||
        json_bool_or(j, "attention_bias", false, where, &bias, err) != ERR_OK ||
        json_text_or(j, "hidden_act", "silu", where, &act, err) != ERR_OK)
        return err->code;
    if (kv_heads != c->heads)
        return err_set(err, ERR_INPUT,
                       "attention heads|%s|num_key_value_heads %lld%s|%lld, as num_attention_heads",
                       where, (long long)kv_heads,
                       c->heads % kv_heads ? ", which does not divide the heads" : "",
                       (long long)c->heads);
    if (bias) return err_set(err, ERR_INPUT, "read key \"attention_bias\"|%s|true|false", where);
    if (strcmp(act, "silu") != 0)
        return err_set(err, ERR_INPUT, "read key \"hidden_act\"|%s|\"%s\"|silu", where, act);
    double scale = config_softmax_scale(c);
    if (!(scale > 0) || !isfinite(scale))
        return err_set(
            err, ERR_INPUT,
            "softmax scale|%s|%g from mscale_all_dim %g and factor %g|a finite one above 0", where,
            scale, c->scaling.mscale_all_dim, c->scaling.factor);
    if (c->experts % c->groups)
        return err_set(
            err, ERR_INPUT,
            "expert groups|%s|%lld experts in %lld groups|groups that divide the experts", where,
            (long long)c->experts, (long long)c->groups);
    if (c->top_groups > c->groups)
        return err_set(err, ERR_INPUT, "expert groups|%s|topk_group %lld|at most n_group %lld",
                       where, (long long)c->top_groups, (long long)c->groups);
    if (c->top_k > c->experts / c->groups * c->top_groups)
        return err_set(
            err, ERR_INPUT,
            "experts a token|%s|num_experts_per_tok %lld|at most the %lld experts to choose from",
            where, (long long)c->top_k, (long long)(c->experts / c->groups * c->top_groups));
    if (c->groups > 1 && c->topk_method == TOPK_NOAUX_TC && c->experts / c->groups < 2)
        return err_set(err, ERR_INPUT,
                       "expert groups|%s|groups of 1 expert|at least 2: a group's score is the sum "
                       "of its two best",
                       where);
    return ERR_OK;
}

static enum err_code read_names(const json_t *root, const char *where, struct config *c,
                                const json_t **text, struct err *err)
{
    static const char *const outer[] = {"deepseek_v3", "kimi_k2", "kimi_k25", NULL};
    static const char *const inner[] = {"deepseek_v3", "kimi_k2", NULL};
    int type = 0;
    if (!json_is_object(root))
        return err_set(err, ERR_INPUT, "read config|%s|%s|an object", where, json_kind(root));
    if (!json_has(root, "model_type"))
        return err_set(err, ERR_INPUT,
                       "read key \"model_type\"|%s|nothing|kimi_k25, kimi_k2 or deepseek_v3",
                       where);
    if (config_read_choice(root, "model_type", outer, 0, where, &type, err) != ERR_OK)
        return err->code;
    snprintf(c->model_type, sizeof c->model_type, "%s", outer[type]);
    *text = json_object_get(root, "text_config");
    if (type == 2 && !json_is_object(*text))
        return err_set(err, ERR_INPUT,
                       "read key \"text_config\"|%s|%s|an object, as model_type kimi_k25 has",
                       where, json_kind(*text));
    if (json_is_object(*text)) {
        snprintf(c->prefix, sizeof c->prefix, "language_model.");
        return config_read_choice(*text, "model_type", inner, 1, where, &type, err);
    }
    *text = root;
    return ERR_OK;
}

static enum err_code read_root(const json_t *root, const char *where, struct config *c,
                               struct err *err)
{
    static const char *const scorings[] = {"sigmoid", "softmax", NULL};
    static const char *const methods[] = {"noaux_tc", "greedy", "group_limited_greedy", NULL};
    const json_t *j = NULL;
    int scoring = 0, method = 0;
    if (read_names(root, where, c, &j, err) != ERR_OK) return err->code;
    const json_t *eos = json_object_get(j, "eos_token_id");
    c->eos = json_is_integer(eos) ? json_integer_value(eos) : -1;
    if (read_ints(j, where, c, err) != ERR_OK ||
        json_double_or(j, "routed_scaling_factor", 1, where, &c->routed_scale, err) != ERR_OK ||
        json_bool_or(j, "norm_topk_prob", true, where, &c->norm_topk, err) != ERR_OK ||
        json_double(j, "rms_norm_eps", where, &c->norm_eps, err) != ERR_OK ||
        json_bool_or(j, "tie_word_embeddings", false, where, &c->tied_embeddings, err) != ERR_OK ||
        config_read_choice(j, "scoring_func", scorings, 0, where, &scoring, err) != ERR_OK ||
        config_read_choice(j, "topk_method", methods, 0, where, &method, err) != ERR_OK ||
        config_read_dtype(j, where, &c->dtype, err) != ERR_OK ||
        config_read_rope(j, where, 0, c, err) != ERR_OK ||
        read_quant(root, j, where, c, err) != ERR_OK)
        return err->code;
    c->scoring = (enum scoring)scoring;
    c->topk_method = (enum topk_method)method;
    if (c->topk_method == TOPK_GREEDY) c->groups = c->top_groups = 1; /* greedy knows no groups */
    if (!(c->routed_scale > 0))
        return err_set(err, ERR_INPUT, "read key \"routed_scaling_factor\"|%s|%g|above 0", where,
                       c->routed_scale);
    if (!(c->norm_eps > 0))
        return err_set(err, ERR_INPUT, "read key \"rms_norm_eps\"|%s|%g|above 0", where,
                       c->norm_eps);
    return check_relations(j, where, c, err);
}

enum err_code config_parse(const char *text, int64_t size, const char *where, struct config *out,
                           struct err *err)
{
    json_t *root;
    *out = (struct config){0};
    if (json_parse(text, size, where, &root, err) != ERR_OK) return err->code;
    enum err_code rc = read_root(root, where, out, err);
    json_decref(root);
    return rc == ERR_OK ? digest_sha256(text, size, where, out->sha256, err) : rc;
}

enum err_code config_read(const char *path, struct config *out, struct err *err)
{
    struct file_map m;
    if (file_map(path, &m, err) != ERR_OK) return err->code;
    enum err_code rc = config_parse(m.data ? (const char *)m.data : "", m.size, path, out, err);
    file_unmap(&m);
    return rc;
}

bool config_is_moe(const struct config *c, int64_t layer)
{
    return layer >= c->first_dense && layer % c->moe_freq == 0;
}

bool config_is_quantised(const struct config *c, const char *name)
{
    if (c->quant.kind == QUANT_PACKED) return strstr(name, ".mlp.experts.") != NULL;
    if (c->quant.kind == QUANT_NONE) return false;
    return text_ends(name, "_proj") || text_ends(name, "kv_a_proj_with_mqa");
}

int64_t config_qk(const struct config *c)
{
    return c->nope + c->rope;
}

double config_softmax_scale(const struct config *c)
{
    double m = 1;
    const struct rope_scaling *s = &c->scaling;
    if (s->yarn && s->mscale_all_dim != 0 && s->factor > 1)
        m = 0.1 * s->mscale_all_dim * log(s->factor) + 1;
    return m * m / sqrt((double)config_qk(c));
}
