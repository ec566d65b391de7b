/* bench_layer.cu: the cases of `assay bench --on gpu` that are many ops in a row: layers of
 * Kimi-K2.5's shape, decode and prefill, on one card or cut over ranks, and a whole decode step of
 * one rank's part of it, as the engine runs them (gpu/model.cu) and in a graph, as it replays them.
 *
 * The weights are a synthetic checkpoint's. Few layers hold weights of their own and the others
 * share these: no layer finds in the cache what it reads, for what others read in between exceeds
 * it. Which experts are touched is the router's choice and counted. So that rows choose apart, as
 * they do in a trained model, the embedded rows are far larger than what synthetic blocks add,
 * which would make them all alike, and the router has no bias.
 *
 * A step's part is a model of a rank's heads, widths and rows of the head, and the sums over ranks
 * are left out. Over ranks (w->shard) each holds its part of the same layer and they add up as in a
 * run; bytes and operations are then those of the rank that has most of them. */
#include "core/check.h"
#include "gpu/bench_work.cuh"
#include "gpu/collective.cuh"
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
    VOCAB_FEW = 256, /* of a model without a head: as many rows as there are, or these */
    ROWS_MOST = 4096,
};

/* Over the layers that were looked at, on this rank: distinct experts, rows of experts. */
struct touched {
    int64_t experts, picks, layers;
};

struct layer_work {
    struct weights weights;
    struct model whole;
    struct shard_model part;
    const struct model *host; /* the whole one, or this rank's part */
    struct gpu_model model;
    int64_t own; /* layers [0, own) hold weights, the others are copies of their pointers */
    struct arena arena;
    struct run run;
    struct cache cache;
    struct rows rows;
    int64_t sequences;
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
    c->vocab = head ? VOCAB * size->out / WIDTH : size->T > VOCAB_FEW ? size->T : VOCAB_FEW;
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

/* Decode: one new row of each sequence, at its end. Prefill: all rows of one. */
static void set_rows(const struct bench_size *size, bool decode, struct layer_work *o)
{
    CHECK(size->T <= ROWS_MOST);
    for (int64_t i = 0; i < size->T; i++) {
        o->sequence[i] = decode ? (int32_t)i : 0;
        o->position[i] = decode ? size->context - 1 : i;
        o->token[i] = i;
        o->length[i] = size->context;
    }
    o->sequences = decode ? size->T : 1;
    o->step.decode = decode;
    o->rows.count = size->T;
    o->rows.sequence = o->sequence;
    o->rows.position = o->position;
    o->rows.token = o->token;
}

/* A whole layer is of ten gigabytes and read once a round; of a rank's small part of one as many
 * are needed as make up for that. */
static int64_t own_layers(const struct bench_work *w, bool head, int64_t moe)
{
    int64_t most = head ? OWN : w->shard ? w->shard->world : 1;
    most = most < OWN ? most : OWN;
    return moe < most ? moe : most;
}

/* Rows of the table that other ranks hold are other rows: each call has values of its own. */
static enum err_code fill_embedding(struct bench_work *w, struct layer_work *o, struct err *err)
{
    CHECK(o->model.embed.dtype == DT_BF16);
    for (int t = 0; err->code == ERR_OK && t <= (w->shard ? w->shard->t : 0); t++)
        (void)!bench_fill(w, (bf16 *)o->model.embed.data, o->model.embed.count, STREAM, err);
    return err->code;
}

/* Loads the layers that hold weights; the MoE layers behind them take turns in these. */
static enum err_code load(struct bench_work *w, struct layer_work *o, bool head, struct err *err)
{
    const struct config *c = o->host->config;
    int64_t dense = c->first_dense;
    struct step some = o->step;
    o->own = dense + own_layers(w, head, c->layers - dense);
    some.layer_end = o->own;
    if (gpu_model_open(w->g, o->host, &o->model, err) != ERR_OK ||
        gpu_model_load(&o->model, &some, head, &o->run, err) != ERR_OK ||
        fill_embedding(w, o, err) != ERR_OK)
        return err->code;
    for (int64_t l = 0; l < o->own; l++) {
        gpu_drop(w->g, o->model.layers[l].bias);
        o->model.layers[l].bias = NULL;
    }
    for (int64_t l = o->own; l < c->layers; l++)
        o->model.layers[l] = o->model.layers[dense + (l - dense) % (o->own - dense)];
    return ERR_OK;
}

/* What of the model this process runs. */
static enum err_code open_part(struct bench_work *w, struct layer_work *o, struct err *err)
{
    struct shard mine;
    o->host = &o->whole;
    if (!w->shard) return ERR_OK;
    if (shard_plan_check(&w->shard->plan, o->whole.config, err) != ERR_OK) return err->code;
    shard_of(&w->shard->plan, o->whole.config, w->shard->rank, &mine);
    mine.all = w->shard->all;
    mine.tensor = w->shard->tensor;
    o->host = &o->part.model;
    return shard_model_open(&o->part, &o->whole, &mine, err);
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
        model_bind(&o->whole, &o->weights, err) != ERR_OK || open_part(w, o, err) != ERR_OK)
        return err->code;
    o->step.model = o->host;
    o->step.rows = &o->rows;
    o->step.cache = &o->cache;
    o->step.layer_end = o->host->config->layers;
    o->step.logits = head ? &o->logits_host : NULL;
    return load(w, o, head, err);
}

/* ---- rows and their past ---- */

static enum err_code open_rows(struct bench_work *w, struct layer_work *o, struct err *err)
{
    const struct config *c = o->host->config;
    int64_t T = w->size.T, layers = c->layers;
    const struct cache_sizes sizes = {layers, o->sequences,         o->length,
                                      BLOCK,  c->kv_lora + c->rope, 1};
    if (cache_plan(&o->cache, &o->arena, &sizes, err) != ERR_OK ||
        gpu_cache_open(w->g, &o->cache, err) != ERR_OK)
        return err->code;
    struct gpu_cache *pool = gpu_cache_of(&o->cache);
    o->token_sent = (int64_t *)bench_room(w, T * (int64_t)sizeof *o->token_sent, err);
    if (o->step.logits)
        o->logits = (float *)bench_room(w, T * c->vocab * (int64_t)sizeof *o->logits, err);
    if (err->code != ERR_OK ||
        bench_fill(w, pool->pool, layers * pool->blocks * BLOCK * pool->width, 1, err) != ERR_OK ||
        gpu_send(w->g, o->token_sent, o->token, (size_t)T * sizeof *o->token, "tokens", err) !=
            ERR_OK ||
        gpu_rows_send(w->g, &o->rows, &o->sent, err) != ERR_OK)
        return err->code;
    if (!o->step.decode) return ERR_OK;
    o->sent.host = NULL; /* as in the engine's graphs, which serve every step of a shape */
    o->sent.context_max = w->size.context;
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
    p.c = o->host->config;
    p.T = w->size.T;
    p.cache = gpu_cache_of(&o->cache);
    p.token = o->token_sent;
    p.logits = o->logits;
    p.rows = o->sent;
    if (o->model.ranks) gpu_ranks_begin(o->model.ranks, w->g->capturing);
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
    struct layer_work *o = (struct layer_work *)ctx;
    const struct shard *s = o->host->shard;
    bool chosen[EXPERTS] = {};
    (void)name;
    (void)err;
    for (int64_t i = 0; i < rows->count * cols; i++) {
        CHECK(ids[i] >= 0 && ids[i] < EXPERTS);
        if (s && shard_computer(s, ids[i], i / cols) != s->e) continue;
        o->touched.picks++;
        o->touched.experts += !chosen[ids[i]];
        chosen[ids[i]] = true;
    }
    o->touched.layers++;
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
    sink.ctx = o;
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

/* What rows look back on, in one layer: read as latents; operations of the absorbed form, or of the
 * causal scores and values of the expanded one. */
static void count_past(const struct bench_work *w, const struct layer_work *o, double *bytes,
                       double *flops)
{
    const struct config *c = o->host->config;
    double T = (double)w->size.T, context = (double)w->size.context, heads = (double)c->heads;
    double latent = (double)(c->kv_lora + c->rope);
    if (o->step.decode) {
        *bytes = 2 * T * context * latent;
        *flops = 2 * T * context * heads * (latent + (double)c->kv_lora);
    } else {
        *bytes = 2 * T * latent;
        *flops = heads * T * (T + 1) * (double)(config_qk(c) + c->v_head);
    }
}

/* The rank that has most to do decides. */
static enum err_code most_work(struct bench_work *w, struct err *err)
{
    struct amount {
        double bytes, flops;
    } mine = {w->bytes, w->flops}, all[COLLECTIVE_RANKS];
    if (!w->shard) return ERR_OK;
    if (collective_all_gather(w->shard->all, "work of the ranks", &mine, sizeof mine, all, err) !=
        ERR_OK)
        return err->code;
    for (int r = 0; r < w->shard->world; r++) {
        w->bytes = fmax(w->bytes, all[r].bytes);
        w->flops = fmax(w->flops, all[r].flops);
    }
    return ERR_OK;
}

/* Bytes as stored, each once: of packed weights a code of half a byte and 1/32 of a scale of two.
 */
static enum err_code count_work(struct bench_work *w, const struct layer_work *o, struct err *err)
{
    const struct config *c = o->host->config;
    double T = (double)w->size.T, layers = (double)c->layers, past_bytes, past_flops;
    double moe = (double)o->touched.layers, dense = layers - moe, E = (double)c->experts;
    double expert = mlp_weights(c, c->moe_intermediate), router = E * (double)c->hidden;
    double head = o->step.logits ? (double)c->vocab * (double)c->hidden : 0;
    double shared =
        mlp_weights(c, o->host->shard ? o->host->shard->shared.count : c->moe_intermediate);
    double wide = layers * attention_weights(c) + head + dense * mlp_weights(c, c->intermediate) +
                  moe * (shared + router);
    count_past(w, o, &past_bytes, &past_flops);
    w->bytes = 2 * wide + (double)o->touched.experts * expert * 0.5625 + layers * past_bytes;
    w->flops = 2 * T * wide + 2 * (double)o->touched.picks * expert + layers * past_flops;
    w->bytes /= w->units;
    w->flops /= w->units;
    return most_work(w, err);
}

static void close_layers(struct bench_work *w)
{
    struct layer_work *o = (struct layer_work *)w->operands;
    int64_t layers = o->whole.config ? o->whole.config->layers : 0;
    for (int64_t l = o->own; o->model.layers && l < layers; l++) o->model.layers[l] = {};
    gpu_model_close(&o->model);
    if (o->cache.own) gpu_cache_close(w->g, &o->cache);
    shard_model_close(&o->part);
    model_release(&o->whole);
    arena_release(&o->arena, NULL);
}

/* Ranks that add up over the host cannot be captured. */
static bool in_graph(const struct layer_work *o)
{
    return o->step.decode && (!o->model.ranks || o->model.ranks->transport.nccl);
}

static enum err_code open_layers(struct bench_work *w, int64_t first_dense, bool head, bool decode,
                                 struct err *err)
{
    struct layer_work *o = (struct layer_work *)calloc(1, sizeof *o);
    if (!o) return err_set(err, ERR_MEMORY, "bench||no memory");
    w->operands = o;
    w->close = close_layers;
    w->launch = launch_step;
    w->sets = 1;
    w->kernels = true;
    set_config(&w->size, first_dense, head, &o->weights.config);
    set_rows(&w->size, decode, o);
    if (open_model(w, o, head, err) != ERR_OK || open_rows(w, o, err) != ERR_OK ||
        count_touched(w, o, err) != ERR_OK)
        return err->code;
    w->graph = in_graph(o);
    return count_work(w, o, err);
}

/* MoE layers, one of them timed; the embedding of the rows is a small part of what is timed. */
enum err_code bench_layer(struct bench_work *w, struct err *err)
{
    w->units = (int)w->size.in;
    return open_layers(w, 0, false, true, err);
}

enum err_code bench_layer_prefill(struct bench_work *w, struct err *err)
{
    w->units = (int)w->size.in;
    return open_layers(w, 0, false, false, err);
}

const struct bench_case *bench_layer_case(int i)
{
    static const struct bench_case cases[] = {
        {"layer",
         "decode, MoE layer, B=1, context 4096",
         bench_layer,
         {1, 8, WIDTH, 64, 4096, false}},
        {"layer",
         "decode, MoE layer, B=64, context 4096",
         bench_layer,
         {64, 8, WIDTH, 64, 4096, false}},
        {"layer",
         "prefill, MoE layer, 4096 tokens",
         bench_layer_prefill,
         {4096, 8, WIDTH, 64, 4096, false}},
    };
    return i >= 0 && i < (int)(sizeof cases / sizeof cases[0]) ? &cases[i] : NULL;
}

/* The first layer is dense; with the head. */
enum err_code bench_step(struct bench_work *w, struct err *err)
{
    w->units = 1;
    return open_layers(w, 1, true, true, err);
}
