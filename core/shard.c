/* shard.c: who holds what, and the sums between the ops; see shard.h. */
#include "core/shard.h"

#include "core/check.h"
#include "core/fault_shard.h"
#include "core/shard_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const maps[EXPERT_MAPS] = {
    [EXPERT_MAP_CONTIGUOUS] = "contiguous", [EXPERT_MAP_ROUND_ROBIN] = "round-robin"};

const char *expert_map_name(int map)
{
    return map >= 0 && map < EXPERT_MAPS ? maps[map] : NULL;
}

struct shard_plan shard_plan_alone(void)
{
    return (struct shard_plan){.tp = 1, .ep = 1, .reduce = DT_F64};
}

int shard_world(const struct shard_plan *p)
{
    return p->tp * p->ep;
}

static struct extent part_of(int64_t all, int i, int n)
{
    return (struct extent){all / n * i, all / n};
}

void shard_of(const struct shard_plan *p, const struct config *c, int rank, struct shard *out)
{
    int tp = p->tp, t = rank % tp;
    CHECK(rank >= 0 && rank < shard_world(p));
    *out = (struct shard){.plan = *p,
                          .rank = rank,
                          .world = shard_world(p),
                          .t = t,
                          .e = rank / tp,
                          .heads = part_of(c->heads, t, tp),
                          .intermediate = part_of(c->intermediate, t, tp),
                          .moe = shard_expert_width(c, tp, t),
                          .shared = part_of(c->moe_intermediate * c->shared_experts, t, tp),
                          .vocab = part_of(c->vocab, t, tp),
                          .experts = c->experts};
}

enum err_code shard_join(struct shard *s, struct collective *all, struct collective *tensor,
                         struct err *err)
{
    int member[COLLECTIVE_RANKS];
    CHECK(all->rank == s->rank && all->world == s->world);
    for (int t = 0; t < s->plan.tp; t++) member[t] = s->e * s->plan.tp + t;
    if (collective_group(tensor, all, 1, member, s->plan.tp, err) != ERR_OK) return err->code;
    s->all = all;
    s->tensor = tensor;
    return ERR_OK;
}

/* ---- experts ---- */

int shard_copies(const struct shard *s, int64_t expert)
{
    return expert < s->plan.redundant ? 2 : 1;
}

int shard_holder(const struct shard *s, int64_t expert, int copy)
{
    int64_t first = s->plan.map == EXPERT_MAP_CONTIGUOUS ? expert / (s->experts / s->plan.ep)
                                                         : expert % s->plan.ep;
    return (int)((first + copy) % s->plan.ep);
}

bool shard_holds(const struct shard *s, int64_t expert)
{
    if (s->moe.count == 0) return false;
    for (int i = 0; i < shard_copies(s, expert); i++) {
        if (shard_holder(s, expert, i) == s->e) return true;
    }
    return false;
}

int shard_computer(const struct shard *s, int64_t expert, int64_t row)
{
    return shard_holder(s, expert, (int)(row % shard_copies(s, expert)));
}

void shard_route(const struct shard *s, int64_t layer, const struct rows *rows, int64_t top_k,
                 int32_t *ids)
{
    if (s->fault) fault_shard_route(s, layer, rows, top_k, ids);
    for (int64_t i = 0; i < rows->count * top_k; i++) {
        bool mine = ids[i] >= 0 && shard_computer(s, ids[i], i / top_k) == s->e;
        if (!mine || s->moe.count == 0) ids[i] = -1;
    }
}

/* ---- a rank's part of the model ---- */

static struct extent times(struct extent e, int64_t unit)
{
    return (struct extent){e.first * unit, e.count * unit};
}

enum err_code shard_cut_matrix(const struct shard_role *r, const struct matrix *whole,
                               struct matrix *out, struct err *err)
{
    const struct extent rows = {0, whole->out}, columns = {0, whole->in};
    *out = *whole;
    switch (r->cut) {
    case SHARD_WHOLE:
        return ERR_OK;
    case SHARD_ROWS:
        return matrix_part(whole, times(r->part, r->unit), columns, out, err);
    case SHARD_COLUMNS:
        return matrix_part(whole, rows, times(r->part, r->unit), out, err);
    }
    return ERR_OK;
}

int shard_roles(const struct shard *s, const struct config *c, bool moe,
                struct shard_role out[SHARD_ROLES])
{
    int64_t H = c->hidden, q_in = c->q_lora ? c->q_lora : H, V = c->v_head, qk = config_qk(c);
    int64_t kv = c->nope + V, n = c->heads;
    int64_t inner = moe ? c->moe_intermediate * c->shared_experts : c->intermediate;
    const struct extent all = {0, 0}, h = s->heads, part = moe ? s->shared : s->intermediate;
    const char *op = moe ? "moe.shared" : "mlp";
#define AT(field) offsetof(struct layer, field)
    const struct shard_role roles[SHARD_ROLES] = {
        {"self_attn.q_a_proj", AT(q_a), SHARD_WHOLE, c->q_lora, H, 1, all, NULL},
        {c->q_lora ? "self_attn.q_b_proj" : "self_attn.q_proj", AT(q_b), SHARD_ROWS, n * qk, q_in,
         qk, h, NULL},
        {"self_attn.kv_a_proj_with_mqa", AT(kv_a), SHARD_WHOLE, c->kv_lora + c->rope, H, 1, all,
         NULL},
        {"self_attn.kv_b_proj", AT(kv_b), SHARD_ROWS, n * kv, c->kv_lora, kv, h, NULL},
        {"self_attn.o_proj", AT(o), SHARD_COLUMNS, H, n * V, V, h, "mla.output"},
        {moe ? "mlp.shared_experts.gate_proj" : "mlp.gate_proj", AT(gate), SHARD_ROWS, inner, H, 1,
         part, op},
        {moe ? "mlp.shared_experts.up_proj" : "mlp.up_proj", AT(up), SHARD_ROWS, inner, H, 1, part,
         op},
        {moe ? "mlp.shared_experts.down_proj" : "mlp.down_proj", AT(down), SHARD_COLUMNS, H, inner,
         1, part, NULL},
        {"mlp.gate", AT(router), SHARD_WHOLE, moe ? c->experts : 0, H, 1, all, NULL},
    };
#undef AT
    int count = 0;
    for (int i = 0; i < SHARD_ROLES; i++) {
        if (roles[i].out > 0 && roles[i].in > 0) out[count++] = roles[i];
    }
    return count;
}

void shard_expert_roles(const struct shard *s, const struct config *c, struct shard_role out[3])
{
    int64_t H = c->hidden, inner = c->moe_intermediate;
#define AT(field) offsetof(struct expert, field)
    const struct shard_role roles[3] = {
        {"gate_proj", AT(gate), SHARD_ROWS, inner, H, 1, s->moe, "moe"},
        {"up_proj", AT(up), SHARD_ROWS, inner, H, 1, s->moe, "moe"},
        {"down_proj", AT(down), SHARD_COLUMNS, H, inner, 1, s->moe, NULL},
    };
#undef AT
    memcpy(out, roles, sizeof roles);
}

/* Where the part begins that a fault makes this rank hold. Parts that are not of one size cannot be
 * exchanged. */
static int64_t misplaced(const struct shard *s, const struct shard_role *r, int64_t layer)
{
    bool even = r->part.first == r->part.count * s->t &&
                r->part.count * r->unit * s->plan.tp == (r->cut == SHARD_ROWS ? r->out : r->in);
    return even ? r->part.count * fault_shard_part(s, r->sum, layer) : r->part.first;
}

enum err_code shard_cut_roles(const struct shard *s, int64_t layer, struct shard_role *role, int n,
                              const void *whole, void *out, struct err *err)
{
    for (int i = 0; i < n; i++) {
        const void *from = (const char *)whole + role[i].at;
        void *to = (char *)out + role[i].at;
        if (s->fault && role[i].sum) role[i].part.first = misplaced(s, &role[i], layer);
        if (shard_cut_matrix(&role[i], from, to, err) != ERR_OK) return err->code;
    }
    return ERR_OK;
}

enum err_code shard_expert(const struct shard *s, const struct config *whole, int64_t layer,
                           const struct expert *from, struct expert *out, struct err *err)
{
    struct shard_role role[3];
    shard_expert_roles(s, whole, role);
    return shard_cut_roles(s, layer, role, 3, from, out, err);
}

static enum err_code cut_ends(const struct shard *s, const struct model *whole, struct model *out,
                              struct err *err)
{
    const struct extent columns = {0, whole->config->hidden};
    if (tensor_rows_part(&whole->embed, s->vocab, &out->embed, err) != ERR_OK) return err->code;
    return matrix_part(&whole->head, s->vocab, columns, &out->head, err);
}

static struct config rank_config(const struct shard *s, const struct config *whole)
{
    struct config c = *whole;
    c.heads = s->heads.count;
    c.intermediate = s->intermediate.count;
    c.moe_intermediate = s->moe.count;
    return c;
}

enum err_code shard_model_open(struct shard_model *out, const struct model *whole,
                               const struct shard *shard, struct err *err)
{
    struct shard_role role[SHARD_ROLES];
    const struct config *c = whole->config;
    *out = (struct shard_model){.shard = *shard, .config = rank_config(shard, c)};
    out->shard.whole = whole;
    if (shard_plan_check(&shard->plan, c, err) != ERR_OK) return err->code;
    out->model = *whole;
    out->model.config = &out->config;
    out->model.shard = &out->shard;
    out->model.layers = calloc((size_t)c->layers, sizeof *out->model.layers);
    if (!out->model.layers)
        return err_set(err, ERR_MEMORY, "cut a model|%s|no memory", whole->weights->path);
    (void)!cut_ends(shard, whole, &out->model, err);
    for (int64_t i = 0; i < c->layers && err->code == ERR_OK; i++) {
        const struct layer *l = &whole->layers[i];
        int n = shard_roles(shard, c, l->moe, role);
        out->model.layers[i] = *l;
        (void)!shard_cut_roles(shard, i, role, n, l, &out->model.layers[i], err);
    }
    if (err->code == ERR_OK) return ERR_OK;
    err_note(err, "rank %d of tp %d, ep %d", shard->rank, shard->plan.tp, shard->plan.ep);
    shard_model_close(out);
    return err->code;
}

enum err_code shard_layer_again(const struct shard *s, int64_t layer, struct layer *out,
                                struct err *err)
{
    struct shard_role role[SHARD_ROLES];
    struct shard right;
    const struct model *whole = s->whole;
    shard_of(&s->plan, whole->config, s->rank, &right);
    int n = shard_roles(&right, whole->config, whole->layers[layer].moe, role);
    *out = whole->layers[layer];
    return shard_cut_roles(&right, layer, role, n, &whole->layers[layer], out, err);
}

void shard_model_close(struct shard_model *m)
{
    free(m->model.layers);
    m->model.layers = NULL;
}

/* ---- between the ops ---- */

static const char *site_name(const struct shard_site *at, char name[COLLECTIVE_NAME])
{
    if (at->layer < 0)
        snprintf(name, COLLECTIVE_NAME, "%s", at->op);
    else
        snprintf(name, COLLECTIVE_NAME, "layers.%lld.%s", (long long)at->layer, at->op);
    return name;
}

enum err_code shard_reduce(const struct shard *s, const struct shard_site *at, double *x,
                           struct err *err)
{
    struct collective *group = strcmp(at->op, "moe") == 0 ? s->all : s->tensor;
    enum dtype dtype = strcmp(at->op, "embed") == 0 ? DT_F64 : s->plan.reduce;
    char name[COLLECTIVE_NAME];
    int64_t n = at->T * at->width;
    int times = 1;
    if (s->world == 1) return ERR_OK;
    CHECK(group);
    if (group->world == 1) return ERR_OK;
    bool replicas = s->replicas_agree && group->world < s->world;
    if (s->fault) times = fault_shard_sum(s, at, x, &dtype);
    struct shard_held held = {.part = replicas ? shard_hash(x, n) : 0};
    for (int i = 0; i < times; i++) {
        if (collective_all_reduce_sum(group, site_name(at, name), x, n, dtype, err) != ERR_OK)
            return err->code;
    }
    if (!replicas) return ERR_OK;
    held.sum = shard_hash(x, n);
    return shard_replicas_agree(s, at, site_name(at, name), held, err);
}

enum err_code shard_gather_columns(const struct shard *s, const struct shard_site *at,
                                   const double *part, double *y, struct err *err)
{
    int tp = s->plan.tp;
    int64_t n = at->T * at->width, size = (int64_t)sizeof *part;
    char name[COLLECTIVE_NAME];
    if (tp == 1) {
        if (n > 0) memcpy(y, part, (size_t)(n * size));
        return ERR_OK;
    }
    CHECK(s->tensor);
    double *all = malloc((size_t)(n * tp * size) + 1);
    if (!all)
        return err_set(err, ERR_MEMORY, "gather|%s|no memory for %lld values", site_name(at, name),
                       (long long)(n * tp));
    if (collective_all_gather(s->tensor, site_name(at, name), part, n * size, all, err) == ERR_OK) {
        for (int64_t r = 0; r < tp * at->T; r++) {
            int64_t t = r / (at->T ? at->T : 1), row = r - t * at->T;
            memcpy(y + (row * tp + t) * at->width, all + r * at->width, (size_t)(at->width * size));
        }
    }
    free(all);
    return err->code;
}
