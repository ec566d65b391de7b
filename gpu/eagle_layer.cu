/* eagle_layer.cu: op eagle.layer, a decoder layer of a draft head; see eagle.cuh. Attention of
 * Llama heads: eagle_attention.cu, of MLA heads: mla_core.cu. Test: assay op eagle.layer --sweep
 * --on ref,gpu */
#include "gpu/eagle.cuh"

#include "gpu/linear.cuh"
#include "gpu/mlp.cuh"
#include "gpu/norm.cuh"
#include "gpu/ops.h"

#include <string.h>

/* Buffers of one layer, [T, width] each, and what everything reads. */
struct layer_pass {
    const struct gpu_eagle_layer *op;
    const struct head_config *c;
    const struct gpu_head_layer *l;
    int64_t T, H;
    int64_t in;  /* columns of the attention's input: 2H in the first layer */
    bf16 *input; /* [a | b] */
    bf16 *normed, *block;
    bf16 *q, *k, *v, *core; /* MLA: k is the latent, v the roped key */
};

/* Widths of q, k, v and of what the output projection reads. */
static void attention_widths(const struct head_config *c, int64_t width[4])
{
    const struct config *b = &c->base;
    bool mla = c->kind == HEAD_MLA;
    width[0] = mla ? b->heads * config_qk(b) : b->heads * c->head_dim;
    width[1] = mla ? b->kv_lora : c->kv_heads * c->head_dim;
    width[2] = mla ? b->rope : c->kv_heads * c->head_dim;
    width[3] = mla ? b->heads * b->v_head : b->heads * c->head_dim;
}

static enum err_code make_buffers(struct gpu *g, struct layer_pass *p, struct err *err)
{
    int64_t width[4];
    attention_widths(p->c, width);
    const struct {
        bf16 **at;
        int64_t width;
        const char *what;
    } buffers[] = {
        {&p->input, p->in, "attention input"},
        {&p->normed, p->H, "normed rows"},
        {&p->block, p->H, "block output"},
        {&p->q, width[0], "queries"},
        {&p->k, width[1], "keys"},
        {&p->v, width[2], "values"},
        {&p->core, width[3], "attention values"},
    };
    for (const auto &b : buffers) {
        *b.at = gpu_new<bf16>(g, p->T * b.width, b.what, err);
        if (!*b.at) return err->code;
    }
    return ERR_OK;
}

/* `columns` of T rows from one array to another. */
static enum err_code copy_rows(struct gpu *g, bf16 *to, int64_t ld_to, const bf16 *from,
                               int64_t ld_from, int64_t columns, int64_t T, struct err *err)
{
    const size_t size = sizeof(bf16);
    if (to == from) return ERR_OK;
    return gpu_call(g,
                    cudaMemcpy2DAsync(to, (size_t)ld_to * size, from, (size_t)ld_from * size,
                                      (size_t)columns * size, (size_t)T, cudaMemcpyDeviceToDevice,
                                      g->stream),
                    "copy rows", err);
}

/* The attention's input and, in y, the skip path. */
static enum err_code begin(struct gpu *g, struct layer_pass *p, struct err *err)
{
    const struct gpu_eagle_layer *op = p->op;
    double eps = p->c->base.norm_eps;
    bool first = op->layer == 0;
    bf16 *state = p->input + p->in - p->H;
    if (first && gpu_norm(g, p->T, p->H, eps, op->embed, p->H, &p->l->embed_norm, p->input, p->in,
                          err) != ERR_OK)
        return err->code;
    if (gpu_norm(g, p->T, p->H, eps, op->hidden, p->H,
                 first ? &p->l->hidden_norm : &p->l->embed_norm, state, p->in, err) != ERR_OK)
        return err->code;
    if (first && p->c->norm_before_residual)
        return copy_rows(g, op->y, p->H, state, p->in, p->H, p->T, err);
    return copy_rows(g, op->y, p->H, op->hidden, p->H, p->H, p->T, err);
}

/* Head by head: norm where the head has one, then rope over all columns. */
static enum err_code turn_heads(struct gpu *g, const struct layer_pass *p, int64_t heads,
                                const struct gpu_tensor *norm, bf16 *x, struct err *err)
{
    int64_t hd = p->c->head_dim;
    if (p->c->qk_norm &&
        gpu_norm(g, p->T * heads, hd, p->c->base.norm_eps, x, hd, norm, x, hd, err) != ERR_OK)
        return err->code;
    return gpu_rope(g, p->T, heads, hd, 0, p->op->rows->position, &p->op->head->rope, false, false,
                    x, err);
}

/* The rows' entries [k | v] of the cache. */
static enum err_code write_entries(struct gpu *g, const struct layer_pass *p, struct err *err)
{
    int64_t width[4];
    attention_widths(p->c, width);
    return gpu_cache_write(g, p->op->cache, p->op->layer, p->op->rows, width[1], p->k, width[2],
                           p->v, err);
}

static enum err_code attend_llama(struct gpu *g, const struct layer_pass *p, struct err *err)
{
    const struct head_config *c = p->c;
    const struct gpu_head_layer *l = p->l;
    if (gpu_linear(g, p->T, p->input, &l->q, p->q, DT_BF16, err) != ERR_OK ||
        gpu_linear(g, p->T, p->input, &l->k, p->k, DT_BF16, err) != ERR_OK ||
        gpu_linear(g, p->T, p->input, &l->v, p->v, DT_BF16, err) != ERR_OK ||
        turn_heads(g, p, c->base.heads, &l->q_head_norm, p->q, err) != ERR_OK ||
        turn_heads(g, p, c->kv_heads, &l->k_head_norm, p->k, err) != ERR_OK ||
        write_entries(g, p, err) != ERR_OK)
        return err->code;
    const struct gpu_eagle_attention core = {c->base.heads,         c->kv_heads,  c->head_dim,
                                             head_softmax_scale(c), p->op->rows,  p->q,
                                             p->op->cache,          p->op->layer, p->core};
    return gpu_eagle_attention(g, &core, err);
}

static enum err_code attend_mla(struct gpu *g, const struct layer_pass *p, struct err *err)
{
    const struct config *c = &p->c->base;
    const struct gpu_head_layer *l = p->l;
    const struct gpu_rows *rows = p->op->rows;
    const struct gpu_rope *rope = &p->op->head->rope;
    if (gpu_mla_q(g, p->T, p->input, c->q_lora ? &l->q_a : NULL, &l->q_norm, &l->q_b,
                  MLA_LATENT_EPS, p->q, err) != ERR_OK ||
        gpu_mla_kv(g, p->T, c->kv_lora, c->rope, p->input, &l->kv_a, &l->kv_norm, MLA_LATENT_EPS,
                   rows->position, rope, c->rope_interleaved, p->k, p->v, err) != ERR_OK ||
        gpu_rope(g, p->T, c->heads, config_qk(c), c->nope, rows->position, rope,
                 c->rope_interleaved, false, p->q, err) != ERR_OK ||
        write_entries(g, p, err) != ERR_OK)
        return err->code;
    struct gpu_mla_core core = {};
    core.heads = c->heads;
    core.P = c->nope;
    core.R = c->rope;
    core.V = c->v_head;
    core.L = c->kv_lora;
    core.scale = head_softmax_scale(p->c);
    core.rows = rows;
    core.q = p->q;
    core.kv_b = &l->kv_b;
    core.cache = p->op->cache;
    core.layer = p->op->layer;
    core.y = p->core;
    return gpu_mla_core(g, &core, err);
}

__global__ static void sum_kernel(int64_t n, const bf16 *x, const bf16 *block, float *sum)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) sum[i] = __bfloat162float(x[i]) + __bfloat162float(block[i]);
}

/* y += mlp(norm(y += block)) */
static enum err_code feed_forward(struct gpu *g, const struct layer_pass *p, struct err *err)
{
    int64_t n = p->T * p->H;
    if (gpu_norm_add(g, p->T, p->H, p->c->base.norm_eps, p->op->y, p->block, &p->l->mlp_norm,
                     p->normed, err) != ERR_OK ||
        gpu_mlp(g, p->T, p->normed, &p->l->gate, &p->l->up, &p->l->down, p->block, DT_BF16, err) !=
            ERR_OK)
        return err->code;
    if (p->op->y_sum &&
        GPU_LAUNCH(g, err, "residual_sum", "", dim3((unsigned)ceil_div(n, 256)), dim3(256), 0,
                   sum_kernel, n, p->op->y, p->block, p->op->y_sum) != ERR_OK)
        return err->code;
    return gpu_add(g, n, p->op->y, p->block, err);
}

enum err_code gpu_eagle_layer(struct gpu *g, const struct gpu_eagle_layer *op, struct err *err)
{
    struct layer_pass p = {};
    if (op->rows->count == 0) return ERR_OK;
    struct gpu_mark m = gpu_mark(g);
    p.op = op;
    p.c = &op->head->host->config;
    p.l = &op->head->layers[op->layer];
    p.T = op->rows->count;
    p.H = p.c->base.hidden;
    p.in = op->layer == 0 ? 2 * p.H : p.H;
    if (make_buffers(g, &p, err) == ERR_OK && begin(g, &p, err) == ERR_OK &&
        (p.c->kind == HEAD_MLA ? attend_mla(g, &p, err) : attend_llama(g, &p, err)) == ERR_OK &&
        gpu_linear(g, p.T, p.core, &p.l->o, p.block, DT_BF16, err) == ERR_OK)
        (void)!feed_forward(g, &p, err);
    gpu_release(g, m);
    return err->code;
}

/* ---- adapter ---- */

/* The layer's entries of the host's cache, in a device cache of the same tables. */
static enum err_code send_cache(struct gpu *g, const struct eagle_layer *op, struct gpu_cache *out,
                                struct err *err)
{
    const struct cache *c = op->cache;
    int64_t cells = c->blocks * c->block, tables = c->sequences * c->blocks_max;
    *out = (struct gpu_cache){c->layers,     c->sequences, c->block, c->blocks,
                              c->blocks_max, c->width,     NULL,     NULL};
    out->table = gpu_new<int32_t>(g, tables, "block tables", err);
    out->pool = gpu_new<bf16>(g, c->layers * cells * c->width, "draft cache", err);
    if (!out->table || !out->pool ||
        gpu_send(g, out->table, c->table, (size_t)tables * sizeof *c->table, "block tables", err) !=
            ERR_OK)
        return err->code;
    struct gpu_mark m = gpu_mark(g);
    int64_t first = op->layer * cells * c->width;
    const bf16 *sent = gpu_send_act(g, c->pool + first, cells, c->width, "draft cache", err);
    if (sent)
        (void)!copy_rows(g, out->pool + first, c->width, sent, c->width, c->width, cells, err);
    gpu_release(g, m);
    return err->code;
}

/* The rows' new entries into the host's cache. */
static enum err_code fetch_entries(struct gpu *g, const struct eagle_layer *op,
                                   const struct gpu_cache *c, struct arena *arena, struct err *err)
{
    int64_t cells = c->blocks * c->block * c->width, first = op->layer * cells;
    double *pool = (double *)arena_alloc(arena, cells, sizeof *pool, "draft cache", err);
    if (!pool || gpu_fetch_act(g, pool, c->pool + first, cells, "draft cache", err) != ERR_OK)
        return err->code;
    for (int64_t i = 0; i < op->rows->count; i++) {
        double *entry =
            cache_write(op->cache, op->layer, op->rows->sequence[i], rows_slot(op->rows, i));
        memcpy(entry, pool + (entry - op->cache->pool - first), (size_t)c->width * sizeof *entry);
    }
    return ERR_OK;
}

/* y that is not finite though the inputs are: a weight that is not is named. */
static enum err_code explain(const struct eagle_layer *op, struct err *err)
{
    const struct head_layer *l = &op->head->layers[op->layer];
    const struct matrix *const all[] = {&l->q,    &l->k, &l->v,    &l->q_a, &l->q_b, &l->kv_a,
                                        &l->kv_b, &l->o, &l->gate, &l->up,  &l->down};
    const struct matrix *there[sizeof all / sizeof all[0]];
    int64_t n = op->rows->count * op->head->config.base.hidden;
    int count = 0;
    for (const struct matrix *m : all) {
        if (tensor_exists(&m->data)) there[count++] = m;
    }
    return gpu_linear_explain(op->hidden, n, op->y, n, there, count, err);
}

static enum err_code run_layer(struct gpu *g, const struct eagle_layer *op, struct arena *arena,
                               struct err *err)
{
    int64_t T = op->rows->count, H = op->head->config.base.hidden;
    struct gpu_head head = {};
    struct gpu_rows rows;
    struct gpu_cache cache;
    struct gpu_eagle_layer own = {};
    if (gpu_head_send_layer(g, op->head, op->layer, false, &head, err) != ERR_OK ||
        gpu_rows_send(g, op->rows, &rows, err) != ERR_OK ||
        send_cache(g, op, &cache, err) != ERR_OK)
        return err->code;
    own.head = &head;
    own.layer = op->layer;
    own.rows = &rows;
    own.cache = &cache;
    own.embed = op->embed ? gpu_send_act(g, op->embed, T, H, "embeddings", err) : NULL;
    own.hidden = own.y = gpu_send_act(g, op->hidden, T, H, "hidden states", err);
    own.y_sum = op->y_sum ? gpu_new<float>(g, T * H, "unrounded residual", err) : NULL;
    if (err->code != ERR_OK || gpu_eagle_layer(g, &own, err) != ERR_OK ||
        fetch_entries(g, op, &cache, arena, err) != ERR_OK)
        return err->code;
    if (op->y_sum &&
        gpu_fetch_f32(g, op->y_sum, own.y_sum, T * H, "unrounded residual", err) != ERR_OK)
        return err->code;
    return gpu_fetch_act(g, op->y, own.y, T * H, "layer output", err);
}

enum err_code eagle_layer_gpu(const struct eagle_layer *op, struct run *run, struct err *err)
{
    if (eagle_layer_check(op, err) != ERR_OK || op->rows->count == 0) return err->code;
    struct gpu *g = gpu_enter("eagle.layer", run, err);
    if (!g) return err->code;
    struct gpu_mark m = gpu_mark(g);
    struct arena_block *mark = arena_mark(run->arena);
    if (run_layer(g, op, run->arena, err) == ERR_OK) (void)!explain(op, err);
    arena_release(run->arena, mark);
    return gpu_leave(g, m, err);
}
