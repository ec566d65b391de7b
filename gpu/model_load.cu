/* model_load.cu: a checkpoint's tensors onto the device: what a step needs, when it needs it, after
 * its size was held against what is free; see model.cuh. */
#include "core/engine.h"
#include "core/text.h"
#include "gpu/collective.cuh"
#include "gpu/model.cuh"

#include <stdlib.h>

/* ---- how much ---- */

static int64_t tensor_bytes(const struct tensor *t)
{
    return tensor_exists(t) ? tensor_count(t) * dtype_size(t->dtype) : 0;
}

/* Experts of other ranks are not loaded. */
static bool holds(const struct gpu_model *m, int64_t e)
{
    return !m->host->shard || shard_holds(m->host->shard, e);
}

/* Packed where every expert of the layer fits that layout. */
static enum err_code experts_shape(const struct gpu_model *m, int64_t layer, bool *packed,
                                   int64_t *bytes, struct err *err)
{
    const struct config *c = m->host->config;
    struct expert x;
    *packed = true;
    *bytes = 0;
    for (int64_t e = 0; e < c->experts && *packed; e++) {
        if (!holds(m, e)) continue;
        if (model_expert(m->host, layer, e, &x, err) != ERR_OK) return err->code;
        *packed = gpu_expert_packs(&x);
    }
    for (int64_t e = 0; e < c->experts; e++) {
        if (!holds(m, e)) continue;
        if (model_expert(m->host, layer, e, &x, err) != ERR_OK) return err->code;
        *bytes += gpu_expert_bytes(c->hidden, c->moe_intermediate, *packed, &x);
    }
    return ERR_OK;
}

struct matrix_pair {
    const struct matrix *from;
    struct gpu_matrix *to;
};

struct tensor_pair {
    const struct tensor *from;
    struct gpu_tensor *to;
};

enum { MATRICES = 9, TENSORS = 4 };

/* A layer's matrices and tensors, from and to; those that this model has. */
static int layer_matrices(const struct config *c, const struct layer *l, struct gpu_layer *to,
                          struct matrix_pair out[MATRICES])
{
    const struct matrix_pair all[MATRICES] = {
        {&l->q_a, &to->q_a},   {&l->q_b, &to->q_b}, {&l->kv_a, &to->kv_a},
        {&l->kv_b, &to->kv_b}, {&l->o, &to->o},     {&l->router, &to->router},
        {&l->gate, &to->gate}, {&l->up, &to->up},   {&l->down, &to->down}};
    int n = 0;
    for (const struct matrix_pair &p : all) {
        bool there = p.from == &l->q_a      ? c->q_lora > 0
                     : p.from == &l->router ? l->moe
                     : p.from == &l->gate || p.from == &l->up || p.from == &l->down
                         ? !l->moe || c->shared_experts > 0
                         : true;
        if (there) out[n++] = p;
    }
    return n;
}

static int layer_tensors(const struct config *c, const struct layer *l, struct gpu_layer *to,
                         struct tensor_pair out[TENSORS])
{
    const struct tensor_pair all[TENSORS] = {{&l->attn_norm, &to->attn_norm},
                                             {&l->mlp_norm, &to->mlp_norm},
                                             {&l->kv_norm, &to->kv_norm},
                                             {&l->q_norm, &to->q_norm}};
    int n = c->q_lora > 0 ? TENSORS : TENSORS - 1;
    for (int i = 0; i < n; i++) out[i] = all[i];
    return n;
}

static enum err_code layer_bytes(const struct gpu_model *m, int64_t layer, int64_t *bytes,
                                 struct err *err)
{
    const struct layer *l = &m->host->layers[layer];
    struct gpu_layer none;
    struct matrix_pair matrices[MATRICES];
    struct tensor_pair tensors[TENSORS];
    bool packed;
    int64_t experts = 0;
    int n = layer_matrices(m->host->config, l, &none, matrices);
    for (int i = 0; i < n; i++) *bytes += gpu_matrix_bytes(matrices[i].from);
    n = layer_tensors(m->host->config, l, &none, tensors);
    for (int i = 0; i < n; i++) *bytes += tensor_bytes(tensors[i].from);
    if (!l->moe) return ERR_OK;
    *bytes += tensor_count(&l->bias) * (int64_t)sizeof(float);
    if (experts_shape(m, layer, &packed, &experts, err) == ERR_OK) *bytes += experts;
    return err->code;
}

/* Buffers of a step's rows. */
static int64_t pass_bytes(const struct config *c, int64_t T, bool head)
{
    int64_t acts = 5 * c->hidden + c->heads * (config_qk(c) + c->v_head) + c->kv_lora + c->rope;
    int64_t floats = c->experts + 3 * c->top_k + (head ? c->vocab : 0);
    return T * (acts * (int64_t)sizeof(bf16) + floats * (int64_t)sizeof(float));
}

struct wanted {
    bool embed, head;
    int64_t first, end; /* layers */
};

/* Bytes that are to be loaded. */
static enum err_code missing_bytes(const struct gpu_model *m, const struct wanted *w,
                                   int64_t *bytes, struct err *err)
{
    *bytes = 0;
    if (w->embed && !m->embed.data) *bytes += tensor_bytes(&m->host->embed);
    if (w->head && !m->norm.data)
        *bytes += tensor_bytes(&m->host->norm) + gpu_matrix_bytes(&m->host->head);
    for (int64_t l = w->first; l < w->end; l++) {
        if (!m->layers[l].loaded && layer_bytes(m, l, bytes, err) != ERR_OK) return err->code;
    }
    return ERR_OK;
}

static enum err_code check_room(struct gpu_model *m, int64_t bytes, int64_t rows, struct err *err)
{
    char needs[32], has[32];
    int64_t room = gpu_free_bytes(m->g);
    if (bytes + rows <= room) return ERR_OK;
    return err_set(err, ERR_MEMORY, "load model|%s|%s free|%s: weights, and the buffers of a step",
                   m->g->name, text_bytes((double)room, has, sizeof has),
                   text_bytes((double)(bytes + rows), needs, sizeof needs));
}

/* ---- loading ---- */

static enum err_code load_bias(struct gpu *g, const struct tensor *t, float **out, struct err *err)
{
    if (!tensor_exists(t)) return ERR_OK;
    int64_t n = tensor_count(t);
    size_t stored = (size_t)n * (size_t)dtype_size(t->dtype), bytes = (size_t)n * sizeof(float);
    void *buf = malloc(stored + 1);
    float *values = (float *)malloc(bytes + 1);
    if (buf && values) {
        dtype_to_f32(t->dtype, tensor_elements(t, 0, n, buf), n, values);
        *out = (float *)gpu_keep(g, n, sizeof **out, t->name, err);
        if (*out) (void)!gpu_send(g, *out, values, bytes, t->name, err);
    } else {
        (void)!err_set(err, ERR_MEMORY, "load model|%s|no memory on the host", t->name);
    }
    free(buf);
    free(values);
    return err->code;
}

static enum err_code load_experts(struct gpu_model *m, int64_t layer, struct gpu_layer *to,
                                  struct err *err)
{
    const struct config *c = m->host->config;
    struct expert x;
    bool packed;
    int64_t bytes, number = 0;
    int64_t held = m->host->shard ? gpu_ranks_held(m->host->shard) : c->experts;
    if (held == 0) return ERR_OK;
    if (experts_shape(m, layer, &packed, &bytes, err) != ERR_OK ||
        gpu_experts_open(m->g, held, c->hidden, c->moe_intermediate, packed, &to->experts, err) !=
            ERR_OK)
        return err->code;
    to->experts.all = c->experts;
    for (int64_t e = 0; e < c->experts; e++) {
        if (!holds(m, e)) continue;
        if (model_expert(m->host, layer, e, &x, err) != ERR_OK) return err->code;
        if (gpu_experts_load(m->g, &to->experts, number++, &x, err) != ERR_OK)
            return err_note(err, "expert %lld", (long long)e);
    }
    return ERR_OK;
}

static enum err_code load_layer(struct gpu_model *m, int64_t layer, struct err *err)
{
    const struct layer *l = &m->host->layers[layer];
    struct gpu_layer *to = &m->layers[layer];
    struct matrix_pair matrices[MATRICES];
    struct tensor_pair tensors[TENSORS];
    to->moe = l->moe;
    gpu_at(m->g, "load", layer);
    int n = layer_tensors(m->host->config, l, to, tensors);
    for (int i = 0; i < n; i++) {
        if (gpu_tensor_send(m->g, tensors[i].from, true, tensors[i].to, err) != ERR_OK)
            return err->code;
    }
    n = layer_matrices(m->host->config, l, to, matrices);
    for (int i = 0; i < n; i++) {
        if (gpu_matrix_send(m->g, matrices[i].from, true, matrices[i].to, err) != ERR_OK)
            return err->code;
    }
    if (!l->moe) return ERR_OK;
    return load_bias(m->g, &l->bias, &to->bias, err) == ERR_OK ? load_experts(m, layer, to, err)
                                                               : err->code;
}

static void drop_layer(struct gpu_model *m, struct gpu_layer *l)
{
    struct gpu_matrix *const matrices[] = {&l->q_a,    &l->q_b,  &l->kv_a, &l->kv_b, &l->o,
                                           &l->router, &l->gate, &l->up,   &l->down};
    struct gpu_tensor *const tensors[] = {&l->attn_norm, &l->mlp_norm, &l->q_norm, &l->kv_norm};
    if (l->moe) gpu_experts_close(m->g, &l->experts);
    gpu_drop(m->g, l->bias);
    for (struct gpu_matrix *x : matrices) gpu_matrix_drop(m->g, x);
    for (struct gpu_tensor *x : tensors) gpu_tensor_drop(m->g, x);
    *l = (struct gpu_layer){};
}

static enum err_code load_ends(struct gpu_model *m, const struct wanted *w, struct err *err)
{
    gpu_at(m->g, "load", -1);
    if (w->embed && !m->embed.data &&
        gpu_tensor_send(m->g, &m->host->embed, true, &m->embed, err) != ERR_OK)
        return err->code;
    if (!w->head || m->norm.data) return ERR_OK;
    return gpu_tensor_send(m->g, &m->host->norm, true, &m->norm, err) == ERR_OK
               ? gpu_matrix_send(m->g, &m->host->head, true, &m->head, err)
               : err->code;
}

enum err_code gpu_model_load(struct gpu_model *m, const struct step *s, bool head, struct run *run,
                             struct err *err)
{
    const struct config *c = m->host->config;
    const struct wanted w = {s->layer_first == 0, head, s->layer_first, s->layer_end};
    int64_t bytes;
    if (missing_bytes(m, &w, &bytes, err) != ERR_OK) return err->code;
    if (bytes == 0) return ERR_OK;
    if (check_room(m, bytes, pass_bytes(c, s->rows->count, head), err) != ERR_OK ||
        load_ends(m, &w, err) != ERR_OK)
        return err->code;
    for (int64_t l = w.first; l < w.end; l++) {
        if (run->progress) run->progress(run->progress_ctx, ENGINE_LOADING, l, s->layer_end);
        if (m->layers[l].loaded) continue;
        if (load_layer(m, l, err) != ERR_OK) {
            drop_layer(m, &m->layers[l]);
            return err_note(err, "layer %lld", (long long)l);
        }
        m->layers[l].loaded = true;
    }
    return gpu_wait(m->g, err);
}

enum err_code gpu_model_open(struct gpu *g, const struct model *host, struct gpu_model *m,
                             struct err *err)
{
    *m = (struct gpu_model){};
    m->g = g;
    m->host = host;
    m->layers = (struct gpu_layer *)calloc((size_t)host->config->layers + 1, sizeof *m->layers);
    if (!m->layers) return err_set(err, ERR_MEMORY, "open model|host|no memory");
    if (host->shard && host->shard->world > 1 &&
        gpu_ranks_open(g, host->shard, &m->ranks, err) != ERR_OK)
        return err->code;
    return gpu_rope_send(g, &host->rope, true, &m->rope, err);
}

void gpu_model_close(struct gpu_model *m)
{
    if (!m->host) return;
    gpu_graphs_close(m);
    for (int64_t l = m->host->config->layers - 1; m->layers && l >= 0; l--)
        drop_layer(m, &m->layers[l]);
    gpu_matrix_drop(m->g, &m->head);
    gpu_tensor_drop(m->g, &m->norm);
    gpu_tensor_drop(m->g, &m->embed);
    gpu_drop(m->g, m->rope.frequency);
    gpu_ranks_close(m->ranks);
    free(m->layers);
    *m = (struct gpu_model){};
}
