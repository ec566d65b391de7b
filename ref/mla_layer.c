/* mla_layer.c: see mla_layer.h. */
#include "ref/mla_layer.h"

#include "ref/attend.h"

static double latent_eps(const struct mla_layer *m, const struct run *run)
{
    return run->profile.latent_eps_config ? m->c->norm_eps : MLA_LATENT_EPS;
}

struct mla_q mla_layer_q(const struct mla_layer *m, const struct run *run)
{
    return (struct mla_q){.T = m->rows->count,
                          .x = m->x,
                          .a = m->c->q_lora ? m->q_a : NULL,
                          .norm = m->q_norm,
                          .b = m->q_b,
                          .eps = latent_eps(m, run),
                          .q = m->q};
}

struct mla_kv mla_layer_kv(const struct mla_layer *m, const struct run *run)
{
    return (struct mla_kv){.T = m->rows->count,
                           .L = m->c->kv_lora,
                           .R = m->c->rope,
                           .x = m->x,
                           .a = m->kv_a,
                           .norm = m->kv_norm,
                           .eps = latent_eps(m, run),
                           .position = m->rows->position,
                           .table = m->table,
                           .interleaved = m->c->rope_interleaved,
                           .latent = m->latent,
                           .k_rope = m->k_rope};
}

struct rope mla_layer_rope(const struct mla_layer *m)
{
    return (struct rope){.T = m->rows->count,
                         .heads = m->c->heads,
                         .stride = config_qk(m->c),
                         .offset = m->c->nope,
                         .position = m->rows->position,
                         .table = m->table,
                         .interleaved = m->c->rope_interleaved,
                         .x = m->q};
}

void mla_layer_store(const struct mla_layer *m)
{
    attend_store(m->cache, m->layer, m->rows, m->latent, m->c->kv_lora, m->k_rope, m->c->rope);
}

struct mla_core mla_layer_core(const struct mla_layer *m)
{
    return (struct mla_core){.heads = m->c->heads,
                             .P = m->c->nope,
                             .R = m->c->rope,
                             .V = m->c->v_head,
                             .L = m->c->kv_lora,
                             .scale = m->scale,
                             .form = m->form,
                             .rows = m->rows,
                             .q = m->q,
                             .kv_b = m->kv_b,
                             .cache = m->cache,
                             .layer = m->layer,
                             .y = m->y};
}
