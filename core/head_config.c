/* head_config.c: a draft head's config.json to struct head_config; see head.h. */
#include "core/config_read.h"
#include "core/digest.h"
#include "core/file.h"
#include "core/head.h"
#include "core/head_class.h"
#include "core/rope.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The objects of one config.json. */
struct form {
    const json_t *root;    /* flags, draft_vocab_size, dtype */
    const json_t *decoder; /* transformer_layer_config, or the root */
    const json_t *eagle;   /* eagle_config, or NULL */
    const struct head_class *class;
    const char *where;
};

/* A whole number of the decoder; absent or null: the class's. */
struct int_key {
    const char *key;
    size_t at;   /* in struct head_config */
    size_t dflt; /* in struct head_class */
    int64_t min, max;
    bool mla_only, llama_only;
};

#define AT(field) offsetof(struct head_config, field), offsetof(struct head_class, field)
#define IN_BASE(field) offsetof(struct head_config, base.field), offsetof(struct head_class, field)

static const struct int_key int_keys[] = {
    {"vocab_size", IN_BASE(vocab), 1, CONFIG_DIM_MAX, false, false},
    {"hidden_size", IN_BASE(hidden), 1, CONFIG_DIM_MAX, false, false},
    {"intermediate_size", IN_BASE(intermediate), 1, CONFIG_DIM_MAX, false, false},
    {"num_hidden_layers", IN_BASE(layers), 1, HEAD_LAYERS, false, false},
    {"num_attention_heads", IN_BASE(heads), 1, 65536, false, false},
    {"max_position_embeddings", IN_BASE(max_position), 1, (int64_t)1 << 40, false, false},
    {"num_key_value_heads", AT(kv_heads), 1, 65536, false, true},
    {"head_dim", AT(head_dim), 2, 512, false, true},
    {"q_lora_rank", IN_BASE(q_lora), 1, CONFIG_DIM_MAX, true, false},
    {"kv_lora_rank", IN_BASE(kv_lora), 1, CONFIG_DIM_MAX, true, false},
    {"qk_nope_head_dim", IN_BASE(nope), 1, 65536, true, false},
    {"qk_rope_head_dim", IN_BASE(rope), 2, 512, true, false},
    {"v_head_dim", IN_BASE(v_head), 1, 65536, true, false},
};

static enum err_code read_int(const struct form *f, const struct int_key *k, struct head_config *c,
                              struct err *err)
{
    int64_t *out = (int64_t *)(void *)((char *)c + k->at);
    int64_t dflt = *(const int64_t *)(const void *)((const char *)f->class + k->dflt);
    bool given = json_has(f->decoder, k->key);
    if (json_int_or(f->decoder, k->key, k->min, k->max, dflt, f->where, out, err) != ERR_OK)
        return err->code;
    if (!given && *out > k->max)
        return err_set(
            err, ERR_INPUT,
            "read key \"%s\"|%s|nothing, which is %lld by the default of %s|%lld to %lld", k->key,
            f->where, (long long)dflt, f->class->name, (long long)k->min, (long long)k->max);
    return ERR_OK;
}

static enum err_code read_ints(const struct form *f, struct head_config *c, struct err *err)
{
    bool mla = f->class->kind == HEAD_MLA;
    for (size_t i = 0; i < sizeof int_keys / sizeof *int_keys; i++) {
        const struct int_key *k = &int_keys[i];
        if (mla ? k->llama_only : k->mla_only) continue;
        if (read_int(f, k, c, err) != ERR_OK) return err->code;
    }
    /* null is a value here: a plain q_proj. */
    if (mla && json_is_null(json_object_get(f->decoder, "q_lora_rank"))) c->base.q_lora = 0;
    return ERR_OK;
}

/* Heads of a Llama layer: whole heads are rotated, so that core/rope.h sees their width. */
static enum err_code settle_heads(const struct form *f, struct head_config *c, struct err *err)
{
    struct config *b = &c->base;
    if (c->kind == HEAD_MLA) return ERR_OK;
    if (!c->kv_heads) c->kv_heads = b->heads;
    if (b->heads % c->kv_heads)
        return err_set(
            err, ERR_INPUT,
            "attention heads|%s|%lld query heads on %lld key heads|a number of key heads "
            "that divides them",
            f->where, (long long)b->heads, (long long)c->kv_heads);
    if (!json_has(f->decoder, "head_dim") && !f->class->head_dim) {
        if (b->hidden % b->heads)
            return err_set(err, ERR_INPUT,
                           "read key \"head_dim\"|%s|nothing, and %lld / %lld heads is no width|a "
                           "number",
                           f->where, (long long)b->hidden, (long long)b->heads);
        c->head_dim = b->hidden / b->heads;
        /* speculators 0.3 makes its rotary module from a config of twice the hidden size. */
        if (c->speculators)
            snprintf(c->width_assumed, sizeof c->width_assumed,
                     "no head_dim: hidden_size / heads = %lld; speculators 0.3 may have rotated "
                     "as for %lld",
                     (long long)c->head_dim, (long long)c->head_dim * 2);
    }
    if (c->head_dim % 2 || c->head_dim < 2 || c->head_dim > 512)
        return err_set(err, ERR_INPUT, "read key \"head_dim\"|%s|%lld|an even number, 2 to 512",
                       f->where, (long long)c->head_dim);
    b->rope = c->head_dim;
    return ERR_OK;
}

/* A flag at the top or under eagle_config; in both it must be the same. */
static enum err_code read_flag(const struct form *f, const char *key, bool dflt, bool *out,
                               struct err *err)
{
    bool nested;
    if (json_bool_or(f->eagle, key, dflt, f->where, &nested, err) != ERR_OK ||
        json_bool_or(f->root, key, nested, f->where, out, err) != ERR_OK)
        return err->code;
    if (*out != nested && json_has(f->eagle, key))
        return err_set(err, ERR_INPUT,
                       "read key \"%s\"|%s|%s, and %s under eagle_config|one of them, or both the "
                       "same",
                       key, f->where, *out ? "true" : "false", nested ? "true" : "false");
    return ERR_OK;
}

static enum err_code read_flags(const struct form *f, struct head_config *c, struct err *err)
{
    bool aux_norm, post_norm;
    if (read_flag(f, "norm_before_residual", false, &c->norm_before_residual, err) != ERR_OK ||
        read_flag(f, "norm_before_fc", false, &c->norm_before_fc, err) != ERR_OK ||
        read_flag(f, "fc_norm", false, &c->fc_norm, err) != ERR_OK ||
        read_flag(f, "norm_output", false, &c->norm_output, err) != ERR_OK ||
        read_flag(f, "use_aux_norm", false, &aux_norm, err) != ERR_OK ||
        read_flag(f, "return_hidden_post_norm", false, &post_norm, err) != ERR_OK)
        return err->code;
    c->fc_norm = c->fc_norm || aux_norm;          /* SGLang's older name */
    c->norm_output = c->norm_output || post_norm; /* TensorRT-LLM's name */
    if (c->norm_before_fc && c->fc_norm)
        return err_set(err, ERR_INPUT,
                       "norms before fc|%s|norm_before_fc and fc_norm|one of them, or none",
                       f->where);
    return ERR_OK;
}

/* Keys whose other value makes it another computation than the one of eagle.h. */
static enum err_code check_unread(const struct form *f, struct head_config *c, struct err *err)
{
    static const struct {
        const char *key;
        bool wanted;
    } flags[] = {
        {"use_aux_hidden_state", true},
        {"use_input_layernorm_in_first_layer", true},
        {"use_last_layernorm", true},
        {"use_mtp_layernorm", false},
        {"eh_proj_before_attn", false},
        {"next_layer_regular", true},
        {"attention_bias", false},
        {"mlp_bias", false},
        {"bias", false},
        {"qkv_bias", false},
        {"use_sliding_window", false},
        {"parallel_drafting", false},
    };
    const char *act;
    double scale;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        const json_t *const objects[] = {f->root, f->decoder, f->eagle};
        for (int k = 0; k < 3; k++) {
            bool value;
            if (json_bool_or(objects[k], flags[i].key, flags[i].wanted, f->where, &value, err) !=
                ERR_OK)
                return err->code;
            if (value != flags[i].wanted)
                return err_set(err, ERR_INPUT, "read key \"%s\"|%s|%s|%s", flags[i].key, f->where,
                               value ? "true" : "false", value ? "false" : "true");
        }
    }
    if (json_text_or(f->decoder, "hidden_act", "silu", f->where, &act, err) != ERR_OK ||
        json_double_or(f->root, "logit_scale", 1, f->where, &scale, err) != ERR_OK)
        return err->code;
    if (strcmp(act, "silu") != 0)
        return err_set(err, ERR_INPUT, "read key \"hidden_act\"|%s|\"%.80s\"|silu", f->where, act);
    if (scale != 1)
        return err_set(err, ERR_INPUT, "read key \"logit_scale\"|%s|%g|1", f->where, scale);
    if (json_has(f->root, "quantization_config") || json_has(f->decoder, "quantization_config"))
        return err_set(err, ERR_INPUT,
                       "read key \"quantization_config\"|%s|a quantised head|none: heads are read "
                       "in BF16, F16 or F32",
                       f->where);
    if (c->kind == HEAD_LLAMA && json_has(f->decoder, "kv_lora_rank"))
        return err_set(err, ERR_INPUT,
                       "read key \"kv_lora_rank\"|%s|a latent rank in a %s|a DeepSeek class, or no "
                       "such key",
                       f->where, f->class->name);
    return ERR_OK;
}

/* transformers 5 lists the kind of each layer. */
static enum err_code check_layer_types(const struct form *f, struct err *err)
{
    const json_t *list = json_object_get(f->decoder, "layer_types");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *type = json_string_value(json_array_get(list, i));
        if (!type || strcmp(type, "full_attention") != 0)
            return err_set(err, ERR_INPUT, "read key \"layer_types\"|%s|%.80s|full_attention",
                           f->where, type ? type : json_kind(json_array_get(list, i)));
    }
    return ERR_OK;
}

static const char aux_key[] = "eagle_aux_hidden_state_layer_ids";

static enum err_code check_aux(const struct head_config *c, const char *where, struct err *err)
{
    for (int i = 1; i < c->aux_count; i++) {
        if (c->aux[i] > c->aux[i - 1]) continue;
        if (c->aux[i] == c->aux[i - 1])
            return err_set(err, ERR_INPUT, "read key \"%s\"|%s|%lld twice|ids that all differ",
                           aux_key, where, (long long)c->aux[i]);
        /* Engines collect the states as they pass the layers: a permuted list is served sorted,
         * and the columns of fc then meet the wrong states. */
        return err_set(err, ERR_INPUT,
                       "read key \"%s\"|%s|%lld after %lld|ascending ids: engines capture in that "
                       "order, and fc's columns are low, mid, high",
                       aux_key, where, (long long)c->aux[i], (long long)c->aux[i - 1]);
    }
    return ERR_OK;
}

static enum err_code read_aux(const struct form *f, struct head_config *c, struct err *err)
{
    const json_t *top = json_object_get(f->root, aux_key);
    const json_t *nested = json_object_get(f->eagle, aux_key);
    const json_t *list = top && !json_is_null(top) ? top : nested;
    c->aux_count = 3;
    for (int i = 0; i < HEAD_AUX; i++) c->aux[i] = -1;
    if (!list || json_is_null(list)) {
        snprintf(c->aux_assumed, sizeof c->aux_assumed,
                 "no aux ids: those that engines take by default, 2, n/2, n-3");
        return ERR_OK;
    }
    if (list == top && nested && !json_is_null(nested) && !json_equal(top, nested))
        return err_set(err, ERR_INPUT,
                       "read key \"%s\"|%s|other ids under eagle_config|one list, or both the same",
                       aux_key, f->where);
    size_t n = json_array_size(list);
    if (n < 1 || n > HEAD_AUX)
        return err_set(err, ERR_INPUT, "read key \"%s\"|%s|%s of %zu|a list of 1 to %d layer ids",
                       aux_key, f->where, json_kind(list), n, HEAD_AUX);
    c->aux_count = (int)n;
    c->aux_given = true;
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_array_get(list, i);
        c->aux[i] = json_integer_value(id);
        if (!json_is_integer(id) || c->aux[i] < 0 || c->aux[i] > 4096)
            return err_set(err, ERR_INPUT, "read key \"%s\"|%s|%s %lld|layer ids, 0 to 4096",
                           aux_key, f->where, json_kind(id), (long long)c->aux[i]);
    }
    return check_aux(c, f->where, err);
}

static enum err_code read_vocab(const struct form *f, struct head_config *c, struct err *err)
{
    /* speculators' class has a default of its own; elsewhere a head without the key drafts over
     * the whole vocabulary. */
    int64_t dflt = c->speculators ? 32000 : c->base.vocab;
    if (json_int_or(f->root, "draft_vocab_size", 1, CONFIG_DIM_MAX, dflt, f->where, &c->draft_vocab,
                    err) != ERR_OK ||
        json_int_or(f->root, "target_hidden_size", 1, CONFIG_DIM_MAX, 0, f->where,
                    &c->target_hidden, err) != ERR_OK)
        return err->code;
    if (c->draft_vocab > c->base.vocab)
        return err_set(err, ERR_INPUT,
                       "read key \"draft_vocab_size\"|%s|%lld|at most vocab_size %lld", f->where,
                       (long long)c->draft_vocab, (long long)c->base.vocab);
    return ERR_OK;
}

static enum err_code read_numbers(const struct form *f, struct head_config *c, struct err *err)
{
    struct config *b = &c->base;
    const json_t *typed =
        json_has(f->root, "dtype") || json_has(f->root, "torch_dtype") ? f->root : f->decoder;
    if (json_double_or(f->decoder, "rms_norm_eps", 1e-6, f->where, &b->norm_eps, err) != ERR_OK ||
        json_bool_or(f->decoder, "tie_word_embeddings", false, f->where, &b->tied_embeddings,
                     err) != ERR_OK ||
        config_read_dtype(typed, f->where, &b->dtype, err) != ERR_OK ||
        config_read_rope(f->decoder, f->where, 10000, b, err) != ERR_OK)
        return err->code;
    if (!(b->norm_eps > 0 && b->norm_eps < 1))
        return err_set(err, ERR_INPUT, "read key \"rms_norm_eps\"|%s|%g|above 0, below 1", f->where,
                       b->norm_eps);
    if (c->kind == HEAD_LLAMA) b->rope_interleaved = false;
    struct rope_table table;
    double scale = head_softmax_scale(c);
    if (rope_table_make(b, &table, err) != ERR_OK) return err_note(err, "%s", f->where);
    if (!(scale > 0) || !isfinite(scale) || !(table.factor > 0) || !isfinite(table.factor))
        return err_set(err, ERR_INPUT,
                       "read key \"rope_scaling\"|%s|softmax scale %g, attention factor %g|finite "
                       "ones above 0",
                       f->where, scale, table.factor);
    return ERR_OK;
}

static enum err_code read_form(const json_t *root, const char *where, struct form *f,
                               struct head_config *c, struct err *err)
{
    const char *type;
    *f = (struct form){.root = root, .decoder = root, .where = where};
    if (!json_is_object(root))
        return err_set(err, ERR_INPUT, "read head config|%s|%s|an object", where, json_kind(root));
    if (json_text_or(root, "speculators_model_type", "", where, &type, err) != ERR_OK)
        return err->code;
    if (type[0] && strcmp(type, "eagle3") != 0)
        return err_set(err, ERR_INPUT, "read key \"speculators_model_type\"|%s|\"%.80s\"|eagle3",
                       where, type);
    const json_t *layer = json_object_get(root, "transformer_layer_config");
    c->speculators = type[0] || layer;
    if (c->speculators && !json_is_object(layer))
        return err_set(err, ERR_INPUT, "read key \"transformer_layer_config\"|%s|%s|an object",
                       where, json_kind(layer));
    if (c->speculators) f->decoder = layer;
    f->eagle = json_object_get(root, "eagle_config");
    if (json_is_null(f->eagle)) f->eagle = NULL;
    if (f->eagle && !json_is_object(f->eagle))
        return err_set(err, ERR_INPUT, "read key \"eagle_config\"|%s|%s|an object", where,
                       json_kind(f->eagle));
    return head_class_find(f->decoder, root, where, &f->class, err);
}

static enum err_code read_root(const json_t *root, const char *where, struct head_config *c,
                               struct err *err)
{
    struct form f;
    if (read_form(root, where, &f, c, err) != ERR_OK) return err->code;
    c->kind = f.class->kind;
    c->qk_norm = f.class->qk_norm;
    snprintf(c->base.model_type, sizeof c->base.model_type, "%s", f.class->model_type);
    if (read_ints(&f, c, err) != ERR_OK || settle_heads(&f, c, err) != ERR_OK ||
        read_vocab(&f, c, err) != ERR_OK || read_flags(&f, c, err) != ERR_OK ||
        check_unread(&f, c, err) != ERR_OK || check_layer_types(&f, err) != ERR_OK ||
        read_numbers(&f, c, err) != ERR_OK || read_aux(&f, c, err) != ERR_OK)
        return err->code;
    /* Never a mixture of experts, where anybody asks. */
    c->base.first_dense = c->base.layers;
    c->base.moe_freq = c->base.groups = c->base.top_groups = 1;
    c->base.eos = -1;
    if (!json_has(f.root, "norm_before_residual") && !json_has(f.eagle, "norm_before_residual"))
        c->residual_assumed[0] = '?'; /* head_config_set_naming() puts it into words */
    head_config_set_naming(c, c->speculators ? HEAD_SPECULATORS
                              : f.eagle      ? HEAD_MODELOPT
                                             : HEAD_SAFEAI);
    return ERR_OK;
}

enum err_code head_config_parse(const char *text, int64_t size, const char *where,
                                struct head_config *out, struct err *err)
{
    json_t *root;
    *out = (struct head_config){0};
    if (json_parse(text, size, where, &root, err) != ERR_OK) return err->code;
    enum err_code rc = read_root(root, where, out, err);
    json_decref(root);
    return rc == ERR_OK ? digest_sha256(text, size, where, out->base.sha256, err) : rc;
}

/* Every trainer that leaves the key out has an un-normed skip path, or a class whose default it is;
 * who reads it otherwise is said. */
void head_config_set_naming(struct head_config *c, enum head_naming naming)
{
    static const char *const reasons[HEAD_NAMINGS] = {
        [HEAD_SPECULATORS] = "the default of speculators' class; vLLM's reader serves true",
        [HEAD_SAFEAI] = "heads of SafeAILab and SGLang have no such norm",
        [HEAD_VLLM] = "the default of vLLM's model",
        [HEAD_MODELOPT] = "as ModelOpt trains; its script for vLLM writes true",
    };
    c->naming = naming;
    if (!c->residual_assumed[0]) return;
    snprintf(c->residual_assumed, sizeof c->residual_assumed, "no norm_before_residual: false, %s",
             reasons[c->speculators ? HEAD_SPECULATORS : naming]);
}

int64_t head_cache_width(const struct head_config *c)
{
    return c->kind == HEAD_MLA ? c->base.kv_lora + c->base.rope : 2 * c->kv_heads * c->head_dim;
}

double head_softmax_scale(const struct head_config *c)
{
    return c->kind == HEAD_MLA ? config_softmax_scale(&c->base) : 1 / sqrt((double)c->head_dim);
}

const char *head_naming_name(enum head_naming n)
{
    static const char *const names[HEAD_NAMINGS] = {"speculators", "safeai", "vllm", "modelopt"};
    return names[n];
}

const char *head_kind_name(enum head_kind k)
{
    return k == HEAD_MLA ? "MLA" : "Llama";
}
