/* head_layout.c: the tensors of a head as data, their names in each naming, and their binding; see
 * head_parts.h and the tables 1.1, 1.2 and 1.6 of the EAGLE-3 fact sheet. */
#include "core/head_parts.h"

#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where the tensors of layer 0 and of layer k stand, and what stands before every other name but
 * lm_head. */
static const struct {
    const char *first, *further, *prefix;
    int number; /* of layer 1 among the further ones */
} places[HEAD_NAMINGS] = {
    [HEAD_SPECULATORS] = {"layers.0.", "layers.", "", 1},
    [HEAD_SAFEAI] = {"midlayer.", "additional_layers.", "", 0},
    [HEAD_VLLM] = {"model.layers.0.", "model.layers.", "model.", 1},
    [HEAD_MODELOPT] = {"midlayer.", "additional_layers.", "", 0},
};

/* Widths that the config gives. */
enum width {
    W_NONE, /* a vector has no second one */
    W_HIDDEN,
    W_INPUT, /* of attention: 2H in the first layer, else H */
    W_MLP,
    W_Q,
    W_KV,
    W_HEAD,
    W_Q_LORA,
    W_MLA_Q, /* heads * (nope + rope) */
    W_KV_A,  /* kv_lora + rope */
    W_KV_LORA,
    W_KV_B,  /* heads * (nope + v) */
    W_MLA_O, /* heads * v */
    W_VOCAB,
    W_DRAFT,
    W_TARGET,
    W_AUX, /* aux_count * target_hidden */
};

/* Which heads have the tensor. */
enum having { ALL, LLAMA, QK_NORM, MLA, MLA_LORA, MLA_PLAIN, FC_INPUT_NORM };

struct slot {
    const char *name; /* a vector's ends in .weight, a matrix's does not */
    enum width out, in;
    enum having having;
    size_t at;
};

#define IN_LAYER(field) offsetof(struct head_layer, field)
#define IN_HEAD(field) offsetof(struct head, field)

static const struct slot layer_slots[] = {
    {"input_layernorm.weight", W_HIDDEN, W_NONE, ALL, IN_LAYER(embed_norm)},
    {"post_attention_layernorm.weight", W_HIDDEN, W_NONE, ALL, IN_LAYER(mlp_norm)},
    {"self_attn.q_proj", W_Q, W_INPUT, LLAMA, IN_LAYER(q)},
    {"self_attn.k_proj", W_KV, W_INPUT, LLAMA, IN_LAYER(k)},
    {"self_attn.v_proj", W_KV, W_INPUT, LLAMA, IN_LAYER(v)},
    {"self_attn.o_proj", W_HIDDEN, W_Q, LLAMA, IN_LAYER(o)},
    {"self_attn.q_norm.weight", W_HEAD, W_NONE, QK_NORM, IN_LAYER(q_head_norm)},
    {"self_attn.k_norm.weight", W_HEAD, W_NONE, QK_NORM, IN_LAYER(k_head_norm)},
    {"self_attn.q_a_proj", W_Q_LORA, W_INPUT, MLA_LORA, IN_LAYER(q_a)},
    {"self_attn.q_a_layernorm.weight", W_Q_LORA, W_NONE, MLA_LORA, IN_LAYER(q_norm)},
    {"self_attn.q_b_proj", W_MLA_Q, W_Q_LORA, MLA_LORA, IN_LAYER(q_b)},
    {"self_attn.q_proj", W_MLA_Q, W_INPUT, MLA_PLAIN, IN_LAYER(q_b)},
    {"self_attn.kv_a_proj_with_mqa", W_KV_A, W_INPUT, MLA, IN_LAYER(kv_a)},
    {"self_attn.kv_a_layernorm.weight", W_KV_LORA, W_NONE, MLA, IN_LAYER(kv_norm)},
    {"self_attn.kv_b_proj", W_KV_B, W_KV_LORA, MLA, IN_LAYER(kv_b)},
    {"self_attn.o_proj", W_HIDDEN, W_MLA_O, MLA, IN_LAYER(o)},
    {"mlp.gate_proj", W_MLP, W_HIDDEN, ALL, IN_LAYER(gate)},
    {"mlp.up_proj", W_MLP, W_HIDDEN, ALL, IN_LAYER(up)},
    {"mlp.down_proj", W_HIDDEN, W_MLP, ALL, IN_LAYER(down)},
};

static const struct slot first_layer_slot = {"hidden_norm.weight", W_HIDDEN, W_NONE, ALL,
                                             IN_LAYER(hidden_norm)};

static const struct slot head_slots[] = {
    {"fc", W_HIDDEN, W_AUX, ALL, IN_HEAD(fc)},
    {"input_norm.weight", W_AUX, W_NONE, FC_INPUT_NORM, IN_HEAD(fc_input_norm)},
    {"norm.weight", W_HIDDEN, W_NONE, ALL, IN_HEAD(norm)},
};

static const struct slot embed_slot = {"embed_tokens.weight", W_VOCAB, W_HIDDEN, ALL,
                                       IN_HEAD(embed)};
static const struct slot lm_head_slot = {"lm_head", W_DRAFT, W_HIDDEN, ALL, IN_HEAD(lm_head)};

static int64_t width_of(const struct head_config *c, enum width w, bool first)
{
    const struct config *b = &c->base;
    const int64_t widths[] = {
        [W_NONE] = 1,
        [W_HIDDEN] = b->hidden,
        [W_INPUT] = first ? 2 * b->hidden : b->hidden,
        [W_MLP] = b->intermediate,
        [W_Q] = b->heads * c->head_dim,
        [W_KV] = c->kv_heads * c->head_dim,
        [W_HEAD] = c->head_dim,
        [W_Q_LORA] = b->q_lora,
        [W_MLA_Q] = b->heads * config_qk(b),
        [W_KV_A] = b->kv_lora + b->rope,
        [W_KV_LORA] = b->kv_lora,
        [W_KV_B] = b->heads * (b->nope + b->v_head),
        [W_MLA_O] = b->heads * b->v_head,
        [W_VOCAB] = b->vocab,
        [W_DRAFT] = c->draft_vocab,
        [W_TARGET] = c->target_hidden,
        [W_AUX] = c->aux_count * c->target_hidden,
    };
    return widths[w];
}

static bool has(const struct head_config *c, enum having having)
{
    const bool mla = c->kind == HEAD_MLA, lora = c->base.q_lora > 0;
    const bool holds[] = {
        [ALL] = true,
        [LLAMA] = !mla,
        [QK_NORM] = c->qk_norm,
        [MLA] = mla,
        [MLA_LORA] = mla && lora,
        [MLA_PLAIN] = mla && !lora,
        [FC_INPUT_NORM] = c->norm_before_fc,
    };
    return holds[having];
}

/* The binding under way. */
struct binding {
    struct head *h;
    bool *known; /* [index_count]: a stored tensor that has its place */
    bool first;  /* the slots are of layer 0 */
    const char *prefix;
};

static void mark(struct binding *b, const struct st_tensor *t)
{
    const struct weights *w = &b->h->weights;
    for (int64_t i = 0; t && i < w->index_count; i++) {
        if (w->index[i] == t) b->known[i] = true;
    }
}

static const char *form_text(int dims, const int64_t *shape, const char *type, char *buf,
                             size_t size)
{
    char text[80];
    snprintf(buf, size, "%s %s", st_shape_text(dims, shape, text, sizeof text), type);
    return buf;
}

/* True where the stored tensor `full` may be bound; else a misfit is noted. */
static bool fits(struct binding *b, const char *full, int dims, const int64_t *shape,
                 struct err *err)
{
    static const char types[] = "BF16, F16 or F32";
    char found[96] = "nothing", wanted[96];
    const struct st_tensor *s = weights_stored(&b->h->weights, full);
    form_text(dims, shape, types, wanted, sizeof wanted);
    if (!s) {
        head_misfit_add(b->h, HEAD_MISSING, full, found, wanted, err);
        return false;
    }
    mark(b, s);
    form_text(s->dims, s->shape, dtype_name(s->dtype), found, sizeof found);
    bool same = s->dims == dims && memcmp(s->shape, shape, (size_t)dims * sizeof *shape) == 0;
    bool real = s->dtype == DT_BF16 || s->dtype == DT_F16 || s->dtype == DT_F32;
    if (!same || !real)
        head_misfit_add(b->h, same ? HEAD_DTYPE : HEAD_SHAPE, full, found, wanted, err);
    return same && real;
}

/* Binds one tensor to *(base + slot->at), where it fits. */
static void bind(struct binding *b, void *base, const struct slot *s, struct err *err)
{
    const struct weights *w = &b->h->weights;
    const struct head_config *c = &b->h->config;
    bool vector = s->in == W_NONE, matrix = !text_ends(s->name, ".weight");
    int64_t shape[2] = {width_of(c, s->out, b->first), width_of(c, s->in, b->first)};
    int dims = vector ? 1 : 2;
    char name[NAME_MAX_BYTES], full[NAME_MAX_BYTES + 8];
    void *at = (char *)base + s->at;
    if (!has(c, s->having) || err->code != ERR_OK) return;
    snprintf(name, sizeof name, "%s%s", b->prefix, s->name);
    snprintf(full, sizeof full, "%s%s", name, matrix ? ".weight" : "");
    if (!w->synthetic && !fits(b, full, dims, shape, err)) return;
    if (matrix)
        (void)!weights_matrix(w, name, shape[0], shape[1], at, err);
    else
        (void)!weights_tensor(w, full, DT_COUNT, dims, shape, at, err);
}

static void bind_layer(struct binding *b, int k, struct err *err)
{
    char prefix[64];
    enum head_naming n = b->h->config.naming;
    /* SGLang's further layers keep the name of the norm that their layer class adds. */
    bool renamed = k > 0 && (n == HEAD_SAFEAI || n == HEAD_MODELOPT);
    snprintf(prefix, sizeof prefix, "%s", places[n].first);
    if (k > 0)
        snprintf(prefix, sizeof prefix, "%s%d.", places[n].further, k - 1 + places[n].number);
    b->prefix = prefix;
    b->first = k == 0;
    if (b->first) bind(b, &b->h->layers[k], &first_layer_slot, err);
    for (size_t i = 0; i < sizeof layer_slots / sizeof *layer_slots; i++) {
        struct slot s = layer_slots[i];
        if (renamed && s.at == IN_LAYER(embed_norm)) s.name = first_layer_slot.name;
        bind(b, &b->h->layers[k], &s, err);
    }
    b->prefix = places[n].prefix;
    b->first = false;
}

/* The embedding: own, or the target's; head_open() has seen to it that aux states are as wide. */
static void bind_embed(struct binding *b, const struct model *target, struct err *err)
{
    struct head *h = b->h;
    const struct head_config *c = &h->config;
    char full[NAME_MAX_BYTES];
    snprintf(full, sizeof full, "%s%s", b->prefix, embed_slot.name);
    h->own_embed = weights_stored(&h->weights, full) != NULL;
    /* A narrower head cannot take its target's: bind() then notes that its own is missing. */
    if (h->own_embed || c->target_hidden != c->base.hidden)
        bind(b, h, &embed_slot, err);
    else if (target)
        h->embed = target->embed;
}

/* The output matrix: own; the embedding where they are tied; or the target's. */
static void bind_lm_head(struct binding *b, const struct model *target, struct err *err)
{
    struct head *h = b->h;
    const struct head_config *c = &h->config;
    bool whole = c->draft_vocab == c->base.vocab, same = c->target_hidden == c->base.hidden;
    bool tied = c->base.tied_embeddings && !c->speculators && whole && tensor_exists(&h->embed);
    h->own_lm_head = h->weights.synthetic || weights_stored(&h->weights, "lm_head.weight");
    b->prefix = "";
    if (h->own_lm_head || (!tied && !(whole && same)))
        bind(b, h, &lm_head_slot, err);
    else if (tied)
        h->lm_head = (struct matrix){
            .format = MATRIX_DENSE, .out = c->base.vocab, .in = c->base.hidden, .data = h->embed};
    else if (target)
        h->lm_head = target->head;
}

static void bind_ends(struct binding *b, const struct model *target, struct err *err)
{
    struct head *h = b->h;
    b->prefix = places[h->config.naming].prefix;
    for (size_t i = 0; i < sizeof head_slots / sizeof *head_slots; i++)
        bind(b, h, &head_slots[i], err);
    for (int k = 0; k < h->config.aux_count && h->config.fc_norm; k++) {
        char name[32];
        snprintf(name, sizeof name, "fc_norm.%d.weight", k);
        const struct slot s = {name, W_TARGET, W_NONE, ALL,
                               IN_HEAD(fc_norm) + (size_t)k * sizeof h->fc_norm[0]};
        bind(b, h, &s, err);
    }
    bind_embed(b, target, err);
    bind_lm_head(b, target, err);
}

/* What is stored and has no place. Rotary tables of older transformers are no weights. */
static void note_extras(struct binding *b, struct err *err)
{
    const struct weights *w = &b->h->weights;
    mark(b, b->h->d2t);
    mark(b, b->h->t2d);
    for (int64_t i = 0; i < w->index_count; i++) {
        const struct st_tensor *s = w->index[i];
        char found[96];
        if (b->known[i] || text_ends(s->name, "rotary_emb.inv_freq")) continue;
        form_text(s->dims, s->shape, dtype_name(s->dtype), found, sizeof found);
        head_misfit_add(b->h, HEAD_EXTRA, s->name, found, "nothing", err);
    }
}

enum err_code head_bind(struct head *h, const struct model *target, struct err *err)
{
    char text[ERR_PART];
    struct binding b = {.h = h, .prefix = ""};
    b.known = calloc((size_t)h->weights.index_count + 1, sizeof *b.known);
    if (!b.known) return err_set(err, ERR_MEMORY, "bind head|%s|no memory", h->weights.path);
    for (int k = 0; k < h->config.base.layers; k++) bind_layer(&b, k, err);
    bind_ends(&b, target, err);
    note_extras(&b, err);
    free(b.known);
    if (err->code != ERR_OK || h->misfit_count == 0) return err->code;
    return err_set(err, ERR_INPUT,
                   "head tensors|%s|%s|%s tensors of a %s head, as config.json says",
                   h->weights.path, head_misfit_text(h, text, sizeof text),
                   head_naming_name(h->config.naming), head_kind_name(h->config.kind));
}

/* Every stored tensor is a misfit. */
static enum err_code refuse_naming(struct head *h, const char *found, struct err *err)
{
    struct binding b = {.h = h};
    char text[ERR_PART];
    b.known = calloc((size_t)h->weights.index_count + 1, sizeof *b.known);
    if (!b.known) return err_set(err, ERR_MEMORY, "bind head|%s|no memory", h->weights.path);
    note_extras(&b, err);
    free(b.known);
    head_misfit_text(h, text, sizeof text - strlen(found) - 2);
    return err_set(err, ERR_INPUT,
                   "head naming|%s|%s: %s|a decoder layer under one of layers.0. (speculators), "
                   "midlayer. (SafeAILab, SGLang, ModelOpt), model.layers.0. (vLLM)",
                   h->weights.path, found, text);
}

enum err_code head_naming_find(struct head *h, struct err *err)
{
    const struct weights *w = &h->weights;
    bool seen[HEAD_NAMINGS] = {false};
    int count = 0, last = HEAD_SPECULATORS;
    enum head_naming guess = h->config.naming;
    if (w->synthetic) {
        head_config_set_naming(&h->config, HEAD_SPECULATORS);
        return ERR_OK;
    }
    for (int64_t i = 0; i < w->index_count; i++) {
        for (int n = 0; n < HEAD_MODELOPT; n++)
            seen[n] = seen[n] || text_starts(w->index[i]->name, places[n].first);
    }
    for (int n = 0; n < HEAD_NAMINGS; n++) {
        if (!seen[n]) continue;
        count++;
        last = n;
    }
    if (count != 1)
        return refuse_naming(h, count ? "layers of two namings" : "no known decoder layer", err);
    /* ModelOpt's names are SafeAILab's; its export has a config of its own and no t2d. */
    if (last == HEAD_SAFEAI && guess == HEAD_MODELOPT && !weights_stored(w, "t2d"))
        last = HEAD_MODELOPT;
    head_config_set_naming(&h->config, (enum head_naming)last);
    return ERR_OK;
}
