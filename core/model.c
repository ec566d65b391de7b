/* model.c: binding of tensors to roles; see model.h. */
#include "core/model.h"

#include "core/check.h"
#include "core/fault_shard.h"
#include "core/shard.h"

#include <stdio.h>
#include <stdlib.h>

/* Where a layer's tensors are named from: "PREFIXmodel.layers.N." */
struct place {
    const struct weights *w;
    char prefix[96];
};

static struct place layer_place(const struct weights *w, int64_t layer)
{
    struct place p = {.w = w};
    snprintf(p.prefix, sizeof p.prefix, "%smodel.layers.%lld.", w->config.prefix, (long long)layer);
    return p;
}

static enum err_code bind_vector(const struct place *p, const char *name, int64_t n, enum dtype as,
                                 struct tensor *out, struct err *err)
{
    char full[NAME_MAX_BYTES];
    snprintf(full, sizeof full, "%s%s", p->prefix, name);
    return weights_tensor(p->w, full, as, 1, &n, out, err);
}

static enum err_code bind_matrix(const struct place *p, const char *name, int64_t out_rows,
                                 int64_t in, struct matrix *out, struct err *err)
{
    char full[NAME_MAX_BYTES];
    snprintf(full, sizeof full, "%s%s", p->prefix, name);
    return weights_matrix(p->w, full, out_rows, in, out, err);
}

static enum err_code bind_attention(const struct place *p, struct layer *l, struct err *err)
{
    const struct config *c = &p->w->config;
    int64_t q_in = c->q_lora ? c->q_lora : c->hidden;
    if (c->q_lora) {
        if (bind_matrix(p, "self_attn.q_a_proj", c->q_lora, c->hidden, &l->q_a, err) != ERR_OK ||
            bind_vector(p, "self_attn.q_a_layernorm.weight", c->q_lora, DT_COUNT, &l->q_norm,
                        err) != ERR_OK)
            return err->code;
    }
    const char *q = c->q_lora ? "self_attn.q_b_proj" : "self_attn.q_proj";
    if (bind_matrix(p, q, c->heads * config_qk(c), q_in, &l->q_b, err) != ERR_OK ||
        bind_matrix(p, "self_attn.kv_a_proj_with_mqa", c->kv_lora + c->rope, c->hidden, &l->kv_a,
                    err) != ERR_OK ||
        bind_vector(p, "self_attn.kv_a_layernorm.weight", c->kv_lora, DT_COUNT, &l->kv_norm, err) !=
            ERR_OK ||
        bind_matrix(p, "self_attn.kv_b_proj", c->heads * (c->nope + c->v_head), c->kv_lora,
                    &l->kv_b, err) != ERR_OK)
        return err->code;
    return bind_matrix(p, "self_attn.o_proj", c->hidden, c->heads * c->v_head, &l->o, err);
}

static enum err_code bind_mlp(const struct place *p, const char *name, int64_t width,
                              struct matrix *gate, struct matrix *up, struct matrix *down,
                              struct err *err)
{
    int64_t hidden = p->w->config.hidden;
    char full[96];
    snprintf(full, sizeof full, "%s.gate_proj", name);
    if (bind_matrix(p, full, width, hidden, gate, err) != ERR_OK) return err->code;
    snprintf(full, sizeof full, "%s.up_proj", name);
    if (bind_matrix(p, full, width, hidden, up, err) != ERR_OK) return err->code;
    snprintf(full, sizeof full, "%s.down_proj", name);
    return bind_matrix(p, full, hidden, width, down, err);
}

static enum err_code bind_expert(const struct place *p, int64_t e, struct expert *out,
                                 struct err *err)
{
    char name[64];
    snprintf(name, sizeof name, "mlp.experts.%lld", (long long)e);
    return bind_mlp(p, name, p->w->config.moe_intermediate, &out->gate, &out->up, &out->down, err);
}

static enum err_code bind_moe(const struct place *p, struct layer *l, struct err *err)
{
    const struct config *c = &p->w->config;
    struct expert e;
    if (bind_matrix(p, "mlp.gate", c->experts, c->hidden, &l->router, err) != ERR_OK)
        return err->code;
    if (c->topk_method == TOPK_NOAUX_TC &&
        bind_vector(p, "mlp.gate.e_score_correction_bias", c->experts, DT_COUNT, &l->bias, err) !=
            ERR_OK)
        return err->code;
    if (c->shared_experts > 0 &&
        bind_mlp(p, "mlp.shared_experts", c->moe_intermediate * c->shared_experts, &l->gate, &l->up,
                 &l->down, err) != ERR_OK)
        return err->code;
    for (int64_t i = 0; i < c->experts && !p->w->synthetic; i++) {
        if (bind_expert(p, i, &e, err) != ERR_OK) return err->code;
    }
    return ERR_OK;
}

static enum err_code bind_layer(const struct weights *w, int64_t i, struct layer *l,
                                struct err *err)
{
    const struct config *c = &w->config;
    struct place p = layer_place(w, i);
    l->moe = config_is_moe(c, i);
    if (bind_vector(&p, "input_layernorm.weight", c->hidden, DT_COUNT, &l->attn_norm, err) !=
            ERR_OK ||
        bind_vector(&p, "post_attention_layernorm.weight", c->hidden, DT_COUNT, &l->mlp_norm,
                    err) != ERR_OK ||
        bind_attention(&p, l, err) != ERR_OK)
        return err->code;
    if (l->moe) return bind_moe(&p, l, err);
    return bind_mlp(&p, "mlp", c->intermediate, &l->gate, &l->up, &l->down, err);
}

static enum err_code bind_ends(struct model *m, struct err *err)
{
    const struct config *c = m->config;
    const int64_t table[2] = {c->vocab, c->hidden}, norm[1] = {c->hidden};
    char name[NAME_MAX_BYTES];
    snprintf(name, sizeof name, "%smodel.embed_tokens.weight", c->prefix);
    if (weights_tensor(m->weights, name, DT_COUNT, 2, table, &m->embed, err) != ERR_OK)
        return err->code;
    snprintf(name, sizeof name, "%smodel.norm.weight", c->prefix);
    if (weights_tensor(m->weights, name, DT_COUNT, 1, norm, &m->norm, err) != ERR_OK)
        return err->code;
    snprintf(name, sizeof name, "%slm_head", c->prefix);
    if (!c->tied_embeddings)
        return weights_matrix(m->weights, name, c->vocab, c->hidden, &m->head, err);
    m->head =
        (struct matrix){.format = MATRIX_DENSE, .out = c->vocab, .in = c->hidden, .data = m->embed};
    return ERR_OK;
}

enum err_code model_bind(struct model *m, const struct weights *w, struct err *err)
{
    *m = (struct model){.weights = w, .config = &w->config};
    if (rope_table_make(m->config, &m->rope, err) != ERR_OK || bind_ends(m, err) != ERR_OK)
        return err->code;
    m->layers = calloc((size_t)m->config->layers, sizeof *m->layers);
    if (!m->layers) return err_set(err, ERR_MEMORY, "bind model|%s|no memory", w->path);
    for (int64_t i = 0; i < m->config->layers; i++) {
        if (bind_layer(w, i, &m->layers[i], err) != ERR_OK)
            return err_note(err, "layer %lld", (long long)i);
    }
    weights_advise(w);
    return ERR_OK;
}

void model_release(struct model *m)
{
    free(m->layers);
    *m = (struct model){0};
}

enum err_code model_expert(const struct model *m, int64_t layer, int64_t e, struct expert *out,
                           struct err *err)
{
    CHECK(layer >= 0 && layer < m->config->layers && m->layers[layer].moe);
    struct place p = layer_place(m->weights, layer);
    const struct shard *s = m->shard;
    struct expert whole;
    if (!s) return bind_expert(&p, e, out, err);
    if (!shard_holds(s, e))
        return err_set(err, ERR_INPUT, "expert of a rank|layers.%lld, expert %lld|rank %d|rank %d",
                       (long long)layer, (long long)e, s->rank,
                       shard_holder(s, e, 0) * s->plan.tp + s->t);
    if (s->fault) e = fault_shard_expert(s, layer, e);
    if (bind_expert(&p, e, &whole, err) != ERR_OK) return err->code;
    return shard_expert(s, &m->weights->config, layer, &whole, out, err);
}
