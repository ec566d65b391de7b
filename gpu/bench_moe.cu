/* bench_moe.cu: the cases of `assay bench --on gpu`: router and experts. Weights of the experts are
 * a synthetic checkpoint's, made on the device and repacked as a load would; which experts a set
 * touches is drawn at random, and their bytes are counted, not assumed. */
#include "core/check.h"
#include "core/weights.h"
#include "gpu/bench_work.cuh"
#include "gpu/moe.cuh"
#include "gpu/router.cuh"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXPERTS = 384, TOP = 8, SETS = 16 };

static const int64_t hidden = 7168;

struct moe_work {
    struct gpu_experts experts;
    bool open;
    bf16 *x, *y;
    int32_t *ids[SETS];
    float *weights;
    struct gpu_matrix router[SETS];
    float *logits, *bias;
};

static uint64_t mixed(uint64_t *state)
{
    uint64_t z = (*state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* TOP of EXPERTS for each row, ascending, each set equally likely. Returns how many experts one row
 * or more chose. */
static int64_t draw_ids(int64_t T, uint64_t seed, int32_t *ids)
{
    bool touched[EXPERTS] = {};
    int64_t distinct = 0;
    for (int64_t t = 0; t < T; t++) {
        for (int e = 0, left = TOP; e < EXPERTS; e++) {
            if ((int)(mixed(&seed) % (uint64_t)(EXPERTS - e)) >= left) continue;
            ids[t * TOP + TOP - left--] = e;
            distinct += !touched[e];
            touched[e] = true;
        }
    }
    return distinct;
}

/* ---- experts ---- */

static void close_moe(struct bench_work *w)
{
    struct moe_work *o = (struct moe_work *)w->operands;
    if (o->open) gpu_experts_close(w->g, &o->experts);
}

static enum err_code launch_moe(struct bench_work *w, int set, struct err *err)
{
    struct moe_work *o = (struct moe_work *)w->operands;
    struct gpu_moe op = {};
    op.T = w->size.T;
    op.top_k = TOP;
    op.x = o->x;
    op.ids = o->ids[set];
    op.weights = o->weights;
    op.experts = &o->experts;
    op.sum_scale = 1;
    op.y = o->y;
    return gpu_moe(w->g, &op, err);
}

static enum err_code expert_of(const struct weights *from, int64_t e, int64_t I, struct expert *out,
                               struct err *err)
{
    static const char *const names[] = {"gate_proj", "up_proj", "down_proj"};
    struct matrix *at[] = {&out->gate, &out->up, &out->down};
    for (int i = 0; i < 3; i++) {
        char name[NAME_MAX_BYTES];
        snprintf(name, sizeof name, "model.layers.1.mlp.experts.%lld.%s", (long long)e, names[i]);
        if (weights_matrix(from, name, i == 2 ? hidden : I, i == 2 ? I : hidden, at[i], err) !=
            ERR_OK)
            return err->code;
    }
    return ERR_OK;
}

static enum err_code load_experts(struct bench_work *w, struct moe_work *o, struct err *err)
{
    struct weights *from = (struct weights *)calloc(1, sizeof *from);
    int64_t I = w->size.out;
    if (!from) return err_set(err, ERR_MEMORY, "bench||a synthetic checkpoint");
    from->synthetic = true;
    from->seed = 1;
    from->latent_gain = 1;
    from->config.hidden = hidden;
    from->config.moe_intermediate = I;
    from->config.experts = EXPERTS;
    from->config.dtype = DT_BF16;
    from->config.quant.kind = QUANT_PACKED;
    from->config.quant.bits = 4;
    from->config.quant.group = 32;
    from->config.quant.symmetric = true;
    o->open = gpu_experts_open(w->g, EXPERTS, hidden, I, true, &o->experts, err) == ERR_OK;
    for (int64_t e = 0; err->code == ERR_OK && e < EXPERTS; e++) {
        struct expert x;
        struct gpu_mark m = gpu_mark(w->g);
        if (expert_of(from, e, I, &x, err) == ERR_OK)
            (void)!gpu_experts_load(w->g, &o->experts, e, &x, err);
        gpu_release(w->g, m);
    }
    free(from);
    return err->code;
}

/* Ids of every set, and the bytes of the experts that a set touches on average. */
static enum err_code send_ids(struct bench_work *w, struct moe_work *o, double *touched,
                              struct err *err)
{
    int64_t n = w->size.T * TOP;
    int32_t *ids = (int32_t *)malloc((size_t)n * sizeof *ids);
    float *weights = (float *)malloc((size_t)n * sizeof *weights);
    if (!ids || !weights)
        (void)err_set(err, ERR_MEMORY, "bench||routing of %lld rows", (long long)n);
    *touched = 0;
    for (int s = 0; err->code == ERR_OK && s < w->sets; s++) {
        *touched += (double)draw_ids(w->size.T, 77u + (uint64_t)s, ids) / w->sets;
        o->ids[s] = (int32_t *)bench_room(w, n * (int64_t)sizeof *ids, err);
        if (o->ids[s]) (void)!gpu_send(w->g, o->ids[s], ids, (size_t)n * sizeof *ids, "ids", err);
    }
    for (int64_t i = 0; weights && i < n; i++) weights[i] = 0.1f + (float)(i % 7) * 0.05f;
    if (err->code == ERR_OK) o->weights = (float *)bench_room(w, n * (int64_t)sizeof(float), err);
    if (err->code == ERR_OK)
        (void)!gpu_send(w->g, o->weights, weights, (size_t)n * sizeof *weights, "weights", err);
    free(ids);
    free(weights);
    return err->code;
}

enum err_code bench_moe(struct bench_work *w, struct err *err)
{
    struct moe_work *o = (struct moe_work *)calloc(1, sizeof *o);
    double T = (double)w->size.T, I = (double)w->size.out, touched;
    w->operands = o;
    if (!o) return err_set(err, ERR_MEMORY, "bench||no memory");
    w->close = close_moe;
    w->sets = w->size.T > 256 ? 1 : SETS;
    w->graph = true;
    w->launch = launch_moe;
    o->x = bench_values(w, w->size.T * hidden, 1, err);
    o->y = (bf16 *)bench_room(w, w->size.T * hidden * 2, err);
    if (err->code != ERR_OK || send_ids(w, o, &touched, err) != ERR_OK ||
        load_experts(w, o, err) != ERR_OK)
        return err->code;
    w->bytes = touched * 3 * (double)hidden * I * 0.5625 + 2 * T * (double)hidden * 2;
    w->flops = T * TOP * 6 * (double)hidden * I;
    return ERR_OK;
}

/* ---- router ---- */

static enum err_code launch_router(struct bench_work *w, int set, struct err *err)
{
    struct moe_work *o = (struct moe_work *)w->operands;
    struct gpu_router op = {};
    op.T = w->size.T;
    op.H = hidden;
    op.E = EXPERTS;
    op.top_k = TOP;
    op.groups = op.top_groups = 1;
    op.scoring = SCORING_SIGMOID;
    op.method = TOPK_NOAUX_TC;
    op.norm_topk = true;
    op.routed_scale = 2.827f;
    op.x = o->x;
    op.w = &o->router[set];
    op.bias = o->bias;
    op.logits = o->logits;
    op.ids = o->ids[0];
    op.weights = o->weights;
    return gpu_router(w->g, &op, err);
}

enum err_code bench_router(struct bench_work *w, struct err *err)
{
    struct moe_work *o = (struct moe_work *)calloc(1, sizeof *o);
    int64_t T = w->size.T;
    float bias[EXPERTS];
    w->operands = o;
    if (!o) return err_set(err, ERR_MEMORY, "bench||no memory");
    w->bytes = 2.0 * EXPERTS * (double)hidden + 2.0 * (double)T * (double)hidden +
               4.0 * (double)T * EXPERTS;
    w->flops = 2.0 * (double)T * EXPERTS * (double)hidden;
    w->sets = bench_sets(w, 2.0 * EXPERTS * (double)hidden, SETS);
    w->graph = true;
    w->launch = launch_router;
    for (int e = 0; e < EXPERTS; e++) bias[e] = 0.01f * (float)(e % 11);
    o->x = bench_values(w, T * hidden, 1, err);
    o->logits = (float *)bench_room(w, T * EXPERTS * 4, err);
    o->bias = (float *)bench_room(w, EXPERTS * 4, err);
    o->ids[0] = (int32_t *)bench_room(w, T * TOP * 4, err);
    o->weights = (float *)bench_room(w, T * TOP * 4, err);
    for (int s = 0; err->code == ERR_OK && s < w->sets; s++) {
        struct gpu_matrix *m = &o->router[s];
        m->format = MATRIX_DENSE;
        m->out = EXPERTS;
        m->in = hidden;
        m->data.dtype = DT_BF16;
        m->data.count = (int64_t)EXPERTS * hidden;
        m->data.data = bench_values(w, (int64_t)EXPERTS * hidden, 0.0118, err);
    }
    if (err->code == ERR_OK) (void)!gpu_send(w->g, o->bias, bias, sizeof bias, "router bias", err);
    return err->code;
}
