/* model_graph.cu: decode steps as CUDA graphs, some in a row for a shape: rows, seen slots of a
 * row, context (in powers of two) and cache. See model.cuh.
 *
 * A shape is run twice by launches, and captured right behind the second run, which left all the
 * scratch that it needs. What changes from step to step (tokens, positions, slots) lies in one
 * buffer that each step fills; all else is the same work at the same addresses, for as long as no
 * scratch is in use when the graph is launched. ASSAY_GPU_GRAPH=0: no graphs. */
#include "core/check.h"
#include "gpu/collective.cuh"
#include "gpu/graph.cuh"
#include "gpu/model.cuh"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GRAPHS = 16, CONTEXT_MIN = 256, RUNS_BEFORE = 2 };

struct shape {
    int64_t rows, extra_max, context;
    const struct gpu_cache *cache;
};

/* Inputs of a step as one block: [rows] each, extra [rows][extra_max]. */
struct inputs {
    int64_t *token, *position, *slot, *span, *extra;
    int32_t *sequence;
};

struct graph {
    struct shape shape;
    int64_t runs;          /* by launches */
    char *block;           /* device: the inputs */
    float *logits;         /* device [rows, V] */
    struct gpu_graph made; /* of no parts: not captured yet */
    char nodes[48];        /* "412 nodes in 8 graphs" */
};

struct gpu_graphs {
    bool off;
    int count, next; /* next: to be replaced when all are in use */
    struct graph graph[GRAPHS];
};

/* ---- shapes ---- */

static bool same_shape(const struct shape *a, const struct shape *b)
{
    return a->rows == b->rows && a->extra_max == b->extra_max && a->context == b->context &&
           a->cache == b->cache;
}

static struct shape shape_of(const struct step *s)
{
    struct shape x = {s->rows->count, s->rows->extra ? s->rows->extra_max : 0, CONTEXT_MIN,
                      gpu_cache_of(s->cache)};
    int64_t most = 1, room = s->cache->blocks_max * s->cache->block;
    for (int64_t i = 0; i < s->rows->count; i++) {
        int64_t n = rows_context(s->rows, i);
        if (n > most) most = n;
    }
    while (x.context < most) x.context *= 2;
    if (x.context > room) x.context = room;
    return x;
}

/* Nobody looks into the step, and nothing but the rows changes from one to the next. */
static bool may_be_graph(const struct gpu_model *m, const struct step *s, const struct run *run)
{
    const struct gpu_mark mark = gpu_mark(m->g);
    const struct gpu_ranks *r = m->ranks;
    if (r && (!r->transport.nccl || r->shard.fault || r->agrees))
        return false; /* the host takes part */
    return s->decode && s->logits && !s->sink && !s->forced && !s->after_layer &&
           s->layer_first == 0 && s->layer_end == m->host->config->layers && !run->faults &&
           run->profile.decode_absorbed && !m->g->sync && mark.top == 0 && mark.used == 0;
}

/* ---- inputs ---- */

static size_t block_bytes(const struct shape *x)
{
    return (size_t)x->rows * ((size_t)(4 + x->extra_max) * sizeof(int64_t) + sizeof(int32_t));
}

static struct inputs inputs_in(char *block, const struct shape *x)
{
    int64_t *at = (int64_t *)block, n = x->rows;
    return {at,         at + n,     at + 2 * n,
            at + 3 * n, at + 4 * n, (int32_t *)(at + (4 + x->extra_max) * n)};
}

static enum err_code send_inputs(struct gpu *g, const struct graph *k, const struct step *s,
                                 struct err *err)
{
    const struct rows *r = s->rows;
    size_t bytes = block_bytes(&k->shape);
    char *block = (char *)malloc(bytes);
    if (!block) return err_set(err, ERR_MEMORY, "decode step|host|no memory");
    const struct inputs in = inputs_in(block, &k->shape);
    for (int64_t i = 0; i < r->count; i++) {
        in.token[i] = r->token[i];
        in.position[i] = r->position[i];
        in.slot[i] = rows_slot(r, i);
        in.span[i] = rows_span(r, i);
        in.sequence[i] = r->sequence[i];
    }
    if (k->shape.extra_max)
        memcpy(in.extra, r->extra, (size_t)(r->count * r->extra_max) * sizeof *in.extra);
    (void)!gpu_send(g, k->block, block, bytes, "rows of a decode step", err);
    free(block);
    return err->code;
}

/* ---- one graph ---- */

static void drop_graph(struct gpu *g, struct graph *k)
{
    gpu_graph_drop(&k->made);
    gpu_drop(g, k->logits);
    gpu_drop(g, k->block);
    *k = (struct graph){};
}

static enum err_code open_graph(struct gpu_model *m, struct graph *k, const struct shape *x,
                                struct err *err)
{
    k->shape = *x;
    k->block = (char *)gpu_keep(m->g, (int64_t)block_bytes(x), 1, "rows of a decode step", err);
    if (!k->block) return err->code;
    k->logits = (float *)gpu_keep(m->g, x->rows * m->host->config->vocab, sizeof *k->logits,
                                  "logits of a decode step", err);
    return err->code;
}

static struct graph *find_graph(struct gpu_model *m, const struct shape *x, struct err *err)
{
    struct gpu_graphs *all = m->graphs;
    for (int i = 0; i < all->count; i++) {
        if (same_shape(&all->graph[i].shape, x)) return &all->graph[i];
    }
    struct graph *k;
    if (all->count < GRAPHS) {
        k = &all->graph[all->count++];
    } else {
        k = &all->graph[all->next];
        all->next = (all->next + 1) % GRAPHS;
        drop_graph(m->g, k);
    }
    if (open_graph(m, k, x, err) == ERR_OK) return k;
    drop_graph(m->g, k);
    return NULL;
}

/* The step's launches: run, or recorded. */
static enum err_code launch_all(struct gpu_model *m, struct graph *k, const struct step *s,
                                struct run *run, struct err *err)
{
    const struct inputs in = inputs_in(k->block, &k->shape);
    struct gpu_mark mark = gpu_mark(m->g);
    struct gpu_pass p = {};
    p.m = m;
    p.g = m->g;
    p.step = s;
    p.run = run;
    p.c = m->host->config;
    p.T = k->shape.rows;
    p.cache = gpu_cache_of(s->cache);
    p.token = in.token;
    p.logits = k->logits;
    p.rows.count = k->shape.rows;
    p.rows.sequence = in.sequence;
    p.rows.position = in.position;
    p.rows.slot = in.slot;
    p.rows.span = in.span;
    p.rows.extra = k->shape.extra_max ? in.extra : NULL;
    p.rows.extra_max = k->shape.extra_max;
    p.rows.context_max = k->shape.context;
    if (m->ranks) gpu_ranks_begin(m->ranks, m->g->capturing);
    if (gpu_pass_make(&p, true, err) == ERR_OK) (void)!gpu_pass_run(&p, err);
    gpu_release(m->g, mark);
    return err->code;
}

static enum err_code capture(struct gpu_model *m, struct graph *k, const struct step *s,
                             struct run *run, struct err *err)
{
    struct gpu *g = m->g;
    struct kernel_log *log = g->log;
    g->log = NULL; /* what is recorded does not run */
    if (gpu_graph_begin(g, &k->made, err) == ERR_OK) (void)!launch_all(m, k, s, run, err);
    gpu_at(g, "graph", -1);
    (void)!gpu_graph_end(g, err);
    g->log = log;
    snprintf(k->nodes, sizeof k->nodes, "%lld nodes in %d graphs", (long long)k->made.nodes,
             k->made.parts);
    return err->code;
}

static enum err_code replay(struct gpu_model *m, struct graph *k, struct run *run, struct err *err)
{
    struct gpu *g = m->g;
    gpu_at(g, "graph", -1);
    if (run->doing) run->doing(run->doing_ctx, "decode_graph", -1);
    if (m->ranks) gpu_ranks_begin(m->ranks, true);
    if (gpu_before(g, "decode_graph", k->nodes, dim3(0, 0, 0), dim3(0, 0, 0), 0, err) != ERR_OK ||
        gpu_graph_launch(g, &k->made, err) != ERR_OK)
        return err->code;
    return gpu_after(g, "decode_graph", err);
}

/* ---- all of them ---- */

static enum err_code open_graphs(struct gpu_model *m, struct err *err)
{
    const char *said = getenv("ASSAY_GPU_GRAPH");
    if (m->graphs) return ERR_OK;
    m->graphs = (struct gpu_graphs *)calloc(1, sizeof *m->graphs);
    if (!m->graphs) return err_set(err, ERR_MEMORY, "decode step|host|no memory");
    m->graphs->off = said && strcmp(said, "0") == 0;
    return ERR_OK;
}

enum err_code gpu_graph_step(struct gpu_model *m, const struct step *s, struct run *run, bool *done,
                             struct err *err)
{
    *done = false;
    if (open_graphs(m, err) != ERR_OK) return err->code;
    if (m->graphs->off || !may_be_graph(m, s, run)) return ERR_OK;
    const struct shape shape = shape_of(s);
    struct graph *k = find_graph(m, &shape, err);
    if (!k || send_inputs(m->g, k, s, err) != ERR_OK) return err->code;
    if (k->made.parts) {
        if (replay(m, k, run, err) != ERR_OK) return err->code;
    } else if (launch_all(m, k, s, run, err) != ERR_OK ||
               (++k->runs == RUNS_BEFORE && capture(m, k, s, run, err) != ERR_OK)) {
        return err->code;
    }
    *done = true;
    return gpu_fetch_f32(m->g, s->logits, k->logits, shape.rows * m->host->config->vocab, "logits",
                         err);
}

void gpu_graphs_forget(struct gpu_model *m, const struct gpu_cache *cache)
{
    struct gpu_graphs *all = m->graphs;
    if (!all || !cache) return;
    for (int i = all->count - 1; i >= 0; i--) {
        if (all->graph[i].shape.cache != cache) continue;
        drop_graph(m->g, &all->graph[i]);
        all->graph[i] = all->graph[--all->count];
        all->graph[all->count] = (struct graph){};
    }
    all->next = 0;
}

void gpu_graphs_close(struct gpu_model *m)
{
    if (!m->graphs) return;
    for (int i = 0; i < m->graphs->count; i++) drop_graph(m->g, &m->graphs->graph[i]);
    free(m->graphs);
    m->graphs = NULL;
}
