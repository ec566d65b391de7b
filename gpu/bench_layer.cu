/* bench_layer.cu: the cases of `assay bench --on gpu` that are many ops in a row: decode layers of
 * Kimi-K2.5's shape, and a whole decode step of one rank's part of it, as the engine runs them
 * (gpu/model.cu) and in a graph, as it replays them.
 *
 * The weights are a synthetic checkpoint's. Few layers hold weights of their own and the others
 * share these: no layer finds in the cache what it reads, for what others read in between exceeds
 * it. A rank's part is a model of its heads, widths and rows of the head; the sums over ranks are
 * left out. Which experts are touched is the router's choice and counted. So that rows choose
 * apart, as they do in a trained model, the embedded rows are far larger than what synthetic blocks
 * add, which would make them all alike, and the router has no bias. */
#include "core/check.h"
#include "gpu/bench_work.cuh"
#include "gpu/model.cuh"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    EXPERTS = 384,
    TOP = 8,
    WIDTH = 2048,  /* of a whole expert */
    DENSE = 18432, /* of a whole dense MLP */
    VOCAB = 163840,
    BLOCK = 64,
    STREAM = 1000, /* of a residual stream that no block turns: what a block adds is of size 1 */
    OWN = 4,       /* MoE layers with weights of their own: 4 x 93 MB of a rank's part at one row */
    ROWS_MOST = 256,
};

struct touched {
    int64_t experts, layers; /* distinct experts, over the layers that were looked at */
};

struct layer_work {
    struct weights weights;
    struct model host;
    struct gpu_model model;
    int64_t own; /* layers [0, own) hold weights, the others are copies of their pointers */
    struct arena arena;
    struct run run;
    struct cache cache;
    struct rows rows;
    int32_t sequence[ROWS_MOST];
    int64_t position[ROWS_MOST], token[ROWS_MOST], length[ROWS_MOST];
    struct gpu_rows sent;
    int64_t *token_sent;
    float *logits;
    double logits_host; /* of a step with a head: asks for logits, and is not written */
    struct step step;
    struct touched touched;
};

/* ---- the model ---- */

static void set_attention(struct config *c, int64_t heads)
{
    c->hidden = 7168;
    c->heads = heads;
    c->q_lora = 1536;
    c->kv_lora = 512;
    c->nope = c->v_head = 128;
    c->rope = 64;
    c->rope_theta = 50000;
    c->rope_interleaved = true;
    c->scaling = (struct rope_scaling){true, 64, 32, 1, 1, 1, 0, 4096};
    c->max_position = 262144;
    c->norm_eps = 1e-5;
    c->dtype = DT_BF16;
}

/* size: heads; in: layers; out: width of an expert's part. */
static void set_config(const struct bench_size *size, int64_t first_dense, bool head,
                       struct config *c)
{
    set_attention(c, size->heads);
    c->layers = size->in;
    c->vocab = head ? VOCAB * size->out / WIDTH : ROWS_MOST;
    c->moe_intermediate = size->out;
    c->intermediate = DENSE * size->out / WIDTH;
    c->experts = EXPERTS;
    c->top_k = TOP;
    c->shared_experts = c->groups = c->top_groups = c->moe_freq = 1;
    c->first_dense = first_dense;
    c->routed_scale = 2.827;
    c->norm_topk = true;
    c->scoring = SCORING_SIGMOID;
    c->topk_method = TOPK_NOAUX_TC;
    c->quant.kind = QUANT_PACKED;
    c->quant.bits = 4;
    c->quant.group = 32;
    c->quant.symmetric = true;
    c->eos = -1;
}

/* One new row of each sequence, at its end. */
static void set_rows(const struct bench_size *size, struct layer_work *o)
{
    CHECK(size->T <= ROWS_MOST);
    for (int64_t i = 0; i < size->T; i++) {
        o->sequence[i] = (int32_t)i;
        o->position[i] = size->context - 1;
        o->token[i] = i;
        o->length[i] = size->context;
    }
    o->rows.count = size->T;
    o->rows.sequence = o->sequence;
    o->rows.position = o->position;
    o->rows.token = o->token;
}

/* Loads the layers that hold weights; the MoE layers behind them take turns in these. */
static enum err_code load(struct bench_work *w, struct layer_work *o, bool head, struct err *err)
{
    const struct config *c = &o->weights.config;
    int64_t dense = c->first_dense, moe = c->layers - dense;
    struct step some = o->step;
    o->own = dense + (moe < OWN ? moe : OWN);
    if (!head) o->own = dense + 1;
    some.layer_end = o->own;
    if (gpu_model_open(w->g, &o->host, &o->model, err) != ERR_OK ||
        gpu_model_load(&o->model, &some, head, &o->run, err) != ERR_OK)
        return err->code;
    CHECK(o->model.embed.dtype == DT_BF16);
    if (bench_fill(w, (bf16 *)o->model.embed.data, o->model.embed.count, STREAM, err) != ERR_OK)
        return err->code;
    for (int64_t l = 0; l < o->own; l++) {
        gpu_drop(w->g, o->model.layers[l].bias);
        o->model.layers[l].bias = NULL;
    }
    for (int64_t l = o->own; l < c->layers; l++)
        o->model.layers[l] = o->model.layers[dense + (l - dense) % (o->own - dense)];
    return ERR_OK;
}

static enum err_code open_model(struct bench_work *w, struct layer_work *o, bool head,
                                struct err *err)
{
    o->weights.synthetic = true;
    o->weights.seed = 1;
    o->weights.latent_gain = 1;
    o->run.arena = &o->arena;
    o->run.precision = PRECISION_F32;
    o->run.act = DT_BF16;
    o->run.threads = 1;
    if (profile_find("gpu", &o->run.profile, err) != ERR_OK ||
        model_bind(&o->host, &o->weights, err) != ERR_OK)
        return err->code;
    o->step.model = &o->host;
    o->step.rows = &o->rows;
    o->step.cache = &o->cache;
    o->step.decode = true;
    o->step.layer_end = o->host.config->layers;
    o->step.logits = head ? &o->logits_host : NULL;
    return load(w, o, head, err);
}

/* ---- rows and their past ---- */

static enum err_code open_rows(struct bench_work *w, struct layer_work *o, struct err *err)
{
    const struct config *c = o->host.config;
    int64_t B = w->size.T, context = w->size.context, layers = c->layers;
    const struct cache_sizes sizes = {layers, B, o->length, BLOCK, c->kv_lora + c->rope, 1};
    if (cache_plan(&o->cache, &o->arena, &sizes, err) != ERR_OK ||
        gpu_cache_open(w->g, &o->cache, err) != ERR_OK)
        return err->code;
    struct gpu_cache *pool = gpu_cache_of(&o->cache);
    o->token_sent = (int64_t *)bench_room(w, B * (int64_t)sizeof *o->token_sent, err);
    o->logits = (float *)bench_room(w, B * c->vocab * (int64_t)sizeof *o->logits, err);
    if (err->code != ERR_OK ||
        bench_fill(w, pool->pool, layers * pool->blocks * BLOCK * pool->width, 1, err) != ERR_OK ||
        gpu_send(w->g, o->token_sent, o->token, (size_t)B * sizeof *o->token, "tokens", err) !=
            ERR_OK ||
        gpu_rows_send(w->g, &o->rows, &o->sent, err) != ERR_OK)
        return err->code;
    o->sent.host = NULL; /* as in the engine's graphs, which serve every step of a shape */
    o->sent.context_max = context;
    return ERR_OK;
}

/* ---- a step ---- */

static enum err_code launch_step(struct bench_work *w, int set, struct err *err)
{
    struct layer_work *o = (struct layer_work *)w->operands;
    struct gpu_pass p = {};
    (void)set;
    p.m = &o->model;
    p.g = w->g;
    p.step = &o->step;
    p.run = &o->run;
    p.c = o->host.config;
    p.T = w->size.T;
    p.cache = gpu_cache_of(&o->cache);
    p.token = o->token_sent;
    p.logits = o->logits;
    p.rows = o->sent;
    return gpu_pass_make(&p, o->step.logits != NULL, err) == ERR_OK ? gpu_pass_run(&p, err)
                                                                    : err->code;
}

static bool is_ids(void *ctx, const char *name)
{
    enum tap_kind kind;
    int64_t layer;
    (void)ctx;
    return tap_parse(name, &kind, &layer) && kind == TAP_EXPERTS;
}

static enum err_code no_reals(void *ctx, const char *name, const struct rows *rows, int64_t cols,
                              const double *data, struct err *err)
{
    (void)ctx;
    (void)rows;
    (void)cols;
    (void)data;
    return err_set(err, ERR_PROCESS, "bench|%s|a tap that nobody asked for|expert ids", name);
}

static enum err_code count_ids(void *ctx, const char *name, const struct rows *rows, int64_t cols,
                               const int32_t *ids, struct err *err)
{
    struct touched *t = (struct touched *)ctx;
    bool chosen[EXPERTS] = {};
    (void)name;
    (void)err;
    for (int64_t i = 0; i < rows->count * cols; i++) {
        CHECK(ids[i] >= 0 && ids[i] < EXPERTS);
        t->experts += !chosen[ids[i]];
        chosen[ids[i]] = true;
    }
    t->layers++;
    return ERR_OK;
}

/* One step by launches, in which the router's choices are looked at. */
static enum err_code count_touched(struct bench_work *w, struct layer_work *o, struct err *err)
{
    struct tap_sink sink = {};
    struct gpu_mark m = gpu_mark(w->g);
    sink.wants = is_ids;
    sink.reals = no_reals;
    sink.ints = count_ids;
    sink.ctx = &o->touched;
    o->step.sink = &sink;
    (void)!launch_step(w, 0, err);
    o->step.sink = NULL;
    gpu_release(w->g, m);
    return err->code;
}

/* ---- what it reads and computes ---- */

static double mlp_weights(const struct config *c, int64_t width)
{
    return 3.0 * (double)c->hidden * (double)width;
}

static double attention_weights(const struct config *c)
{
    return (double)c->hidden * (double)(c->q_lora + c->kv_lora + c->rope) +
           (double)(c->heads * config_qk(c)) * (double)c->q_lora +
           (double)(c->heads * (c->nope + c->v_head)) * (double)c->kv_lora +
           (double)(c->heads * c->v_head) * (double)c->hidden;
}

/* Bytes as stored, each once: of packed weights a code of half a byte and 1/32 of a scale of two.
 */
static void count_work(struct bench_work *w, const struct layer_work *o)
{
    const struct config *c = o->host.config;
    double B = (double)w->size.T, context = (double)w->size.context, layers = (double)c->layers;
    double moe = (double)o->touched.layers, dense = layers - moe, E = (double)c->experts;
    double expert = mlp_weights(c, c->moe_intermediate), router = E * (double)c->hidden;
    double head = o->step.logits ? (double)c->vocab * (double)c->hidden : 0;
    double wide = layers * attention_weights(c) + head + dense * mlp_weights(c, c->intermediate) +
                  moe * (expert + router);
    double latent = (double)(c->kv_lora + c->rope), core = latent + (double)c->kv_lora;
    w->bytes =
        2 * wide + (double)o->touched.experts * expert * 0.5625 + layers * B * context * latent * 2;
    w->flops =
        2 * B * (wide + moe * TOP * expert) + 2 * B * layers * (double)c->heads * context * core;
    w->bytes /= w->units;
    w->flops /= w->units;
}

static void close_layers(struct bench_work *w)
{
    struct layer_work *o = (struct layer_work *)w->operands;
    int64_t layers = o->host.config ? o->host.config->layers : 0;
    for (int64_t l = o->own; o->model.layers && l < layers; l++) o->model.layers[l] = {};
    gpu_model_close(&o->model);
    if (o->cache.own) gpu_cache_close(w->g, &o->cache);
    model_release(&o->host);
    arena_release(&o->arena, NULL);
}

static enum err_code open_layers(struct bench_work *w, int64_t first_dense, bool head,
                                 struct err *err)
{
    struct layer_work *o = (struct layer_work *)calloc(1, sizeof *o);
    if (!o) return err_set(err, ERR_MEMORY, "bench||no memory");
    w->operands = o;
    w->close = close_layers;
    w->launch = launch_step;
    w->sets = 1;
    w->graph = true;
    w->kernels = true;
    set_config(&w->size, first_dense, head, &o->weights.config);
    set_rows(&w->size, o);
    if (open_model(w, o, head, err) != ERR_OK || open_rows(w, o, err) != ERR_OK ||
        count_touched(w, o, err) != ERR_OK)
        return err->code;
    count_work(w, o);
    return ERR_OK;
}

/* MoE layers, one of them timed; the embedding of the rows is a small part of what is timed. */
enum err_code bench_layer(struct bench_work *w, struct err *err)
{
    w->units = (int)w->size.in;
    return open_layers(w, 0, false, err);
}

/* The first layer is dense; with the head. */
enum err_code bench_step(struct bench_work *w, struct err *err)
{
    w->units = 1;
    return open_layers(w, 1, true, err);
}
