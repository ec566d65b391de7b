/* fault_ranks.c: see fault_ranks.h. */
#include "core/fault_ranks.h"

#include "core/fault_shard.h"
#include "core/mla.h"
#include "core/mlp.h"
#include "core/moe.h"
#include "core/shard_parts.h"

#include <string.h>

/* One op over the ranks that add it up. */
struct summed {
    struct fault_call *call;
    const void *arg;
    struct run *run;
    const struct config *whole;
    struct shard_fault fault;
    struct shard shard; /* of the rank whose turn it is */
    struct layer own;   /* its part of the op's matrices */
    double *part, *sum; /* [rows, width] */
    int64_t rows, width;
};

bool fault_ranks_apply(const struct fault_call *c)
{
    const struct fault_place *p = c->place;
    return c->faults->plan && p->model && !p->model->shard && p->step && p->layer >= 0 &&
           fault_is_of_ranks(c->use->row->id);
}

/* ---- one rank's part of an op ---- */

/* The parts of the matrices that the op has. */
static enum err_code cut_layer(struct summed *s, const struct layer *given, struct err *err)
{
    struct shard_role all[SHARD_ROLES], role[SHARD_ROLES];
    const struct fault_place *place = s->call->place;
    int n = 0, count = shard_roles(&s->shard, s->whole, given->moe, all);
    for (int i = 0; i < count; i++) {
        const struct matrix *m = (const struct matrix *)((const char *)given + all[i].at);
        if (m->out > 0) role[n++] = all[i];
    }
    return shard_cut_roles(&s->shard, place->layer, role, n, given, &s->own, err);
}

static enum err_code part_of_output(struct summed *s, struct err *err)
{
    struct mla_output op = *(const struct mla_output *)s->arg;
    const struct layer given = {.moe = s->call->place->model->layers[s->call->place->layer].moe,
                                .o = *op.o};
    int64_t V = s->whole->v_head, n = s->shard.heads.count * V, in = op.o->in;
    if (cut_layer(s, &given, err) != ERR_OK) return err->code;
    double *x = arena_alloc(s->run->arena, op.T * n, sizeof *x, "a rank's heads", err);
    if (!x) return err->code;
    for (int64_t t = 0; t < op.T; t++)
        memcpy(x + t * n, op.x + t * in + s->shard.heads.first * V, (size_t)n * sizeof *x);
    op.x = x;
    op.o = &s->own.o;
    op.y = s->part;
    op.partial = true;
    return fault_next(s->call, &op, s->run, err);
}

static enum err_code part_of_mlp(struct summed *s, struct err *err)
{
    struct mlp op = *(const struct mlp *)s->arg;
    const struct layer given = {.moe = strcmp(s->call->place->op, "moe.shared") == 0,
                                .gate = *op.gate,
                                .up = *op.up,
                                .down = *op.down};
    if (cut_layer(s, &given, err) != ERR_OK) return err->code;
    op.gate = &s->own.gate;
    op.up = &s->own.up;
    op.down = &s->own.down;
    op.y = s->part;
    op.partial = true;
    return fault_next(s->call, &op, s->run, err);
}

static enum err_code give_expert(const void *ctx, int64_t e, struct expert *out, struct err *err)
{
    const struct summed *s = ctx;
    const struct moe *op = s->arg;
    int64_t layer = s->call->place->layer;
    struct expert whole;
    if (op->expert(op->ctx, fault_shard_expert(&s->shard, layer, e), &whole, err) != ERR_OK)
        return err->code;
    return shard_expert(&s->shard, s->whole, layer, &whole, out, err);
}

static enum err_code part_of_moe(struct summed *s, struct err *err)
{
    struct moe op = *(const struct moe *)s->arg;
    const struct fault_place *place = s->call->place;
    int64_t n = op.T * op.top_k;
    int32_t *ids = arena_alloc(s->run->arena, n, sizeof *ids, "a rank's experts", err);
    if (!ids) return err->code;
    memcpy(ids, op.ids, (size_t)n * sizeof *ids);
    shard_route(&s->shard, place->layer, place->step->rows, op.top_k, ids);
    memset(s->part, 0, (size_t)(s->rows * s->width) * sizeof *s->part);
    if (s->shard.moe.count == 0) return ERR_OK;
    op.I = s->shard.moe.count;
    op.ids = ids;
    op.expert = give_expert;
    op.ctx = s;
    op.y = s->part;
    op.partial = true;
    op.cut = s->shard.plan.tp > 1;
    return fault_next(s->call, &op, s->run, err);
}

static const struct {
    const char *op;
    enum err_code (*part)(struct summed *s, struct err *err);
} kinds[] = {{"mla.output", part_of_output},
             {"mlp", part_of_mlp},
             {"moe.shared", part_of_mlp},
             {"moe", part_of_moe}};
enum { KINDS = sizeof kinds / sizeof kinds[0], MOE = KINDS - 1 };

/* ---- the sum ---- */

static void add(double *sum, const double *part, int64_t n, enum dtype dtype)
{
    for (int64_t i = 0; i < n; i++)
        sum[i] = dtype_round(dtype, sum[i] + dtype_round(dtype, part[i]));
}

/* As collective_all_reduce_sum() over `ranks` ranks, `times` times; the edits say how often. */
static enum err_code sum_up(struct summed *s, int kind, int ranks, struct err *err)
{
    const struct shard_plan *plan = s->call->faults->plan;
    const struct shard_site at = {
        .op = kinds[kind].op, .layer = s->call->place->layer, .T = s->rows, .width = s->width};
    enum dtype dtype = s->run->precision == PRECISION_F64 ? DT_F64 : plan->reduce;
    int64_t n = s->rows * s->width;
    int times = 1;
    memset(s->sum, 0, (size_t)n * sizeof *s->sum);
    for (int r = 0; r < ranks; r++) {
        struct arena_block *mark = arena_mark(s->run->arena);
        shard_of(plan, s->whole, r, &s->shard);
        s->shard.fault = &s->fault;
        if (kinds[kind].part(s, err) == ERR_OK) {
            times = fault_shard_sum(&s->shard, &at, s->part, &dtype);
            add(s->sum, s->part, n, dtype);
        }
        arena_release(s->run->arena, mark);
        if (err->code != ERR_OK) return err->code;
    }
    for (int i = 1; i < times; i++) { /* every rank holds the sum by now */
        memcpy(s->part, s->sum, (size_t)n * sizeof *s->sum);
        for (int r = 1; r < ranks; r++) add(s->sum, s->part, n, dtype);
    }
    return ERR_OK;
}

enum err_code fault_ranks_wrap(struct fault_call *c, const void *arg, struct run *run,
                               struct err *err)
{
    const struct shard_plan *plan = c->faults->plan;
    struct fault_output out[2];
    int kind = 0;
    while (kind < KINDS && strcmp(kinds[kind].op, c->place->op) != 0) kind++;
    int ranks = kind == MOE ? shard_world(plan) : plan->tp;
    if (kind == KINDS || ranks < 2) return fault_next(c, arg, run, err);
    (void)fault_outputs(c->place->op, arg, out);
    int64_t n = out[0].rows * out[0].cols;
    struct arena_block *mark = arena_mark(run->arena);
    struct summed s = {.call = c,
                       .arg = arg,
                       .run = run,
                       .whole = c->place->model->config,
                       .fault = {.use = *c->use},
                       .part = arena_alloc(run->arena, n, sizeof(double), "a rank's part", err),
                       .sum = arena_alloc(run->arena, n, sizeof(double), "sum over ranks", err),
                       .rows = out[0].rows,
                       .width = out[0].cols};
    if (err->code == ERR_OK && sum_up(&s, kind, ranks, err) == ERR_OK) {
        memcpy(out[0].data, s.sum, (size_t)n * sizeof *s.sum);
        if (kind == MOE)
            moe_round(run, ((const struct moe *)arg)->sum_scale, n, out[0].data);
        else
            run_round(run, RP_LINEAR, out[0].data, n);
    }
    arena_release(run->arena, mark);
    return err->code;
}
