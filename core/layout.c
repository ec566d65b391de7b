/* layout.c: see layout.h. One table of rows; the config turns a row into tensors. */
#include "core/layout.h"

#include "core/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sizes that shapes are made of. */
enum size {
    NONE,
    VOCAB,
    HIDDEN,
    Q_LORA,
    Q_IN,
    Q_OUT,
    KV_A,
    KV_LORA,
    KV_B,
    O_IN,
    DENSE,
    SHARED,
    EXPERT,
    EXPERTS
};

enum when {
    MODEL,       /* once */
    MODEL_HEAD,  /* once, unless the head is the embedding */
    LAYER,       /* in every layer */
    LAYER_LORA,  /* where q_lora_rank is given */
    LAYER_PLAIN, /* where it is not */
    LAYER_DENSE,
    LAYER_MOE,
    LAYER_BIAS,   /* MoE, chosen by noaux_tc */
    LAYER_SHARED, /* MoE with shared experts */
    EACH_EXPERT
};

/* in NONE: a vector [out]. */
struct row {
    const char *name; /* of a linear: without ".weight" */
    enum when when;
    bool linear;
    enum size out, in;
};

static const struct row rows[] = {
    {"model.embed_tokens.weight", MODEL, false, VOCAB, HIDDEN},
    {"model.norm.weight", MODEL, false, HIDDEN, NONE},
    {"lm_head", MODEL_HEAD, true, VOCAB, HIDDEN},
    {"input_layernorm.weight", LAYER, false, HIDDEN, NONE},
    {"self_attn.q_a_proj", LAYER_LORA, true, Q_LORA, HIDDEN},
    {"self_attn.q_a_layernorm.weight", LAYER_LORA, false, Q_LORA, NONE},
    {"self_attn.q_b_proj", LAYER_LORA, true, Q_OUT, Q_IN},
    {"self_attn.q_proj", LAYER_PLAIN, true, Q_OUT, Q_IN},
    {"self_attn.kv_a_proj_with_mqa", LAYER, true, KV_A, HIDDEN},
    {"self_attn.kv_a_layernorm.weight", LAYER, false, KV_LORA, NONE},
    {"self_attn.kv_b_proj", LAYER, true, KV_B, KV_LORA},
    {"self_attn.o_proj", LAYER, true, HIDDEN, O_IN},
    {"post_attention_layernorm.weight", LAYER, false, HIDDEN, NONE},
    {"mlp.gate_proj", LAYER_DENSE, true, DENSE, HIDDEN},
    {"mlp.up_proj", LAYER_DENSE, true, DENSE, HIDDEN},
    {"mlp.down_proj", LAYER_DENSE, true, HIDDEN, DENSE},
    {"mlp.gate", LAYER_MOE, true, EXPERTS, HIDDEN},
    {"mlp.gate.e_score_correction_bias", LAYER_BIAS, false, EXPERTS, NONE},
    {"mlp.shared_experts.gate_proj", LAYER_SHARED, true, SHARED, HIDDEN},
    {"mlp.shared_experts.up_proj", LAYER_SHARED, true, SHARED, HIDDEN},
    {"mlp.shared_experts.down_proj", LAYER_SHARED, true, HIDDEN, SHARED},
    {"gate_proj", EACH_EXPERT, true, EXPERT, HIDDEN},
    {"up_proj", EACH_EXPERT, true, EXPERT, HIDDEN},
    {"down_proj", EACH_EXPERT, true, HIDDEN, EXPERT},
};

enum { ROWS = sizeof rows / sizeof rows[0], PARTS = 5, NAME = 256 };

int layout_roles(void)
{
    return ROWS * PARTS;
}

static int64_t size_of(const struct config *c, enum size s)
{
    switch (s) {
    case VOCAB:
        return c->vocab;
    case HIDDEN:
        return c->hidden;
    case Q_LORA:
        return c->q_lora;
    case Q_IN:
        return c->q_lora ? c->q_lora : c->hidden;
    case Q_OUT:
        return c->heads * config_qk(c);
    case KV_A:
        return c->kv_lora + c->rope;
    case KV_LORA:
        return c->kv_lora;
    case KV_B:
        return c->heads * (c->nope + c->v_head);
    case O_IN:
        return c->heads * c->v_head;
    case DENSE:
        return c->intermediate;
    case SHARED:
        return c->moe_intermediate * c->shared_experts;
    case EXPERT:
        return c->moe_intermediate;
    case EXPERTS:
        return c->experts;
    case NONE:
        break;
    }
    return 0;
}

static bool in_layer(const struct config *c, enum when when, int64_t layer)
{
    bool moe = config_is_moe(c, layer);
    switch (when) {
    case LAYER:
        return true;
    case LAYER_LORA:
        return c->q_lora > 0;
    case LAYER_PLAIN:
        return c->q_lora == 0;
    case LAYER_DENSE:
        return !moe;
    case LAYER_MOE:
    case EACH_EXPERT:
        return moe;
    case LAYER_BIAS:
        return moe && c->topk_method == TOPK_NOAUX_TC;
    case LAYER_SHARED:
        return moe && c->shared_experts > 0;
    case MODEL:
    case MODEL_HEAD:
        break;
    }
    return false;
}

/* ---- the list, growing ---- */

struct maker {
    const struct config *config;
    const struct layout_choice *choice;
    struct layout *out;
    int64_t room;
    size_t used, name_room; /* of out->names */
    struct err *err;
};

/* Names are kept as offsets until the text no longer moves. */
static void add(struct maker *m, struct layout_tensor t, const char *name, const char *suffix)
{
    struct layout *l = m->out;
    size_t n = strlen(name) + strlen(suffix) + 1;
    if (m->err->code != ERR_OK) return;
    if (l->count == m->room) {
        int64_t room = m->room ? m->room * 2 : 1024;
        struct layout_tensor *more = realloc(l->tensors, (size_t)room * sizeof *more);
        if (more) {
            l->tensors = more;
            m->room = room;
        }
    }
    if (m->used + n > m->name_room) {
        size_t room = m->name_room * 2 + NAME * 64;
        char *more = realloc(l->names, room);
        if (more) {
            l->names = more;
            m->name_room = room;
        }
    }
    if (l->count == m->room || m->used + n > m->name_room) {
        err_set(m->err, ERR_MEMORY, "list tensors|%s|no memory", name);
        return;
    }
    snprintf(l->names + m->used, n, "%s%s", name, suffix);
    t.name = (const char *)(uintptr_t)m->used;
    m->used += n;
    l->tensors[l->count++] = t;
}

static enum dtype stored(const struct maker *m, const char *name, const char *suffix)
{
    char full[NAME + 32];
    if (!m->choice->stored) return DT_COUNT;
    snprintf(full, sizeof full, "%s%s", name, suffix);
    return m->choice->stored(m->choice->ctx, full);
}

static void add_packed(struct maker *m, struct layout_tensor t, const char *name)
{
    const struct quant *q = &m->config->quant;
    int64_t per_word = 32 / q->bits, groups = q->group ? ceil_div(t.in, q->group) : 1;
    int role = t.role;
    t.dims = 2;
    t.kind = LAYOUT_CODES;
    t.shape[0] = t.out;
    t.shape[1] = ceil_div(t.in, per_word);
    add(m, t, name, ".weight_packed");
    t.kind = LAYOUT_SCALE;
    t.role = role + 1;
    t.shape[1] = groups;
    add(m, t, name, ".weight_scale");
    if (!q->symmetric) {
        t.kind = LAYOUT_CODES;
        t.role = role + 2;
        t.shape[0] = ceil_div(t.out, per_word);
        add(m, t, name, ".weight_zero_point");
    }
    t.dims = 1;
    if (m->choice->weight_shapes) {
        t.kind = LAYOUT_PAIR;
        t.role = role + 3;
        t.shape[0] = 2;
        add(m, t, name, ".weight_shape");
    }
    if (q->act_order) {
        t.kind = LAYOUT_CODES;
        t.role = role + 4;
        t.shape[0] = t.in;
        add(m, t, name, ".weight_g_idx");
    }
}

static void add_fp8(struct maker *m, struct layout_tensor t, const char *name)
{
    const int64_t *block = m->config->quant.block;
    t.kind = LAYOUT_FP8;
    add(m, t, name, ".weight");
    t.kind = LAYOUT_BLOCK;
    t.role++;
    t.shape[0] = ceil_div(t.out, block[0]);
    t.shape[1] = ceil_div(t.in, block[1]);
    add(m, t, name, ".weight_scale_inv");
}

/* Experts are packed where the config says so; of the other linears a packed checkpoint may hold
 * some packed and an FP8 one some dense (the config's lists of exceptions are patterns that only
 * the engine applies). */
static bool is_quantised(const struct maker *m, const char *name)
{
    const struct config *c = m->config;
    bool wanted = config_is_quantised(c, name);
    if (c->quant.kind == QUANT_PACKED)
        return wanted || stored(m, name, ".weight_packed") != DT_COUNT;
    if (c->quant.kind == QUANT_NONE) return false;
    if (stored(m, name, ".weight_scale_inv") != DT_COUNT) return true;
    return wanted && !layout_dtype_fits(c, LAYOUT_REAL, stored(m, name, ".weight"));
}

static void add_linear(struct maker *m, struct layout_tensor t, const char *name)
{
    if (!is_quantised(m, name)) {
        add(m, t, name, ".weight");
    } else if (m->config->quant.kind == QUANT_PACKED) {
        add_packed(m, t, name);
    } else {
        add_fp8(m, t, name);
    }
}

static void add_row(struct maker *m, int at, const char *name, int64_t layer, int64_t expert)
{
    const struct row *r = &rows[at];
    struct layout_tensor t = {.kind = LAYOUT_REAL,
                              .role = at * PARTS,
                              .dims = r->in == NONE ? 1 : 2,
                              .shape = {size_of(m->config, r->out), size_of(m->config, r->in)},
                              .layer = (int32_t)layer,
                              .expert = (int32_t)expert};
    if (!r->linear) {
        add(m, t, name, "");
        return;
    }
    t.out = t.shape[0];
    t.in = t.shape[1];
    add_linear(m, t, name);
}

static void add_layer(struct maker *m, int64_t layer)
{
    char name[NAME];
    const char *prefix = m->config->prefix;
    for (int i = 0; i < ROWS; i++) {
        if (rows[i].when == EACH_EXPERT || !in_layer(m->config, rows[i].when, layer)) continue;
        snprintf(name, sizeof name, "%smodel.layers.%lld.%s", prefix, (long long)layer,
                 rows[i].name);
        add_row(m, i, name, layer, -1);
    }
    for (int64_t e = 0; config_is_moe(m->config, layer) && e < m->config->experts; e++) {
        for (int i = 0; i < ROWS; i++) {
            if (rows[i].when != EACH_EXPERT) continue;
            snprintf(name, sizeof name, "%smodel.layers.%lld.mlp.experts.%lld.%s", prefix,
                     (long long)layer, (long long)e, rows[i].name);
            add_row(m, i, name, layer, e);
        }
    }
}

/* A number of layers or experts that no model has must not become a list that fills the memory. */
static enum err_code check_count(const struct config *c, struct err *err)
{
    int64_t moe = 0;
    for (int64_t i = 0; i < c->layers; i++) moe += config_is_moe(c, i);
    if (c->layers * ROWS + moe * c->experts * 3 < LAYOUT_MAX) return ERR_OK;
    return err_set(err, ERR_INPUT,
                   "list tensors|config.json|%lld layers with %lld experts|fewer than %d linears",
                   (long long)c->layers, (long long)c->experts, LAYOUT_MAX);
}

enum err_code layout_make(struct layout *l, const struct config *c,
                          const struct layout_choice *choice, struct err *err)
{
    char name[NAME];
    struct maker m = {.config = c, .choice = choice, .out = l, .err = err};
    *l = (struct layout){0};
    if (check_count(c, err) != ERR_OK) return err->code;
    for (int i = 0; i < ROWS; i++) {
        bool head = rows[i].when == MODEL_HEAD && !c->tied_embeddings;
        if (rows[i].when != MODEL && !head) continue;
        snprintf(name, sizeof name, "%s%s", c->prefix, rows[i].name);
        add_row(&m, i, name, -1, -1);
    }
    for (int64_t i = 0; i < c->layers; i++) add_layer(&m, i);
    for (int64_t i = 0; i < l->count; i++)
        l->tensors[i].name = l->names + (size_t)(uintptr_t)l->tensors[i].name;
    return err->code;
}

void layout_free(struct layout *l)
{
    free(l->tensors);
    free(l->names);
    *l = (struct layout){0};
}

/* ---- dtypes ---- */

bool layout_dtype_fits(const struct config *c, enum layout_kind kind, enum dtype t)
{
    switch (kind) {
    case LAYOUT_REAL:
    case LAYOUT_SCALE:
        return t == c->dtype || t == DT_F32;
    case LAYOUT_CODES:
        return t == DT_I32;
    case LAYOUT_PAIR:
        return t == DT_I32 || t == DT_I64;
    case LAYOUT_FP8:
        return t == DT_F8_E4M3;
    case LAYOUT_BLOCK:
        return t == DT_F32;
    }
    return false;
}

const char *layout_dtype_text(const struct config *c, enum layout_kind kind, char *buf, size_t size)
{
    size_t n = 0;
    buf[0] = '\0';
    for (int t = 0; t < DT_COUNT; t++) {
        if (layout_dtype_fits(c, kind, (enum dtype)t) && n < size)
            n += (size_t)snprintf(buf + n, size - n, "%s%s", n ? " or " : "",
                                  dtype_name((enum dtype)t));
    }
    return buf;
}
