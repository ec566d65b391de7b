/* fault_norm.c: RMSNorm gone wrong. Test: tests/test_fault_simple.c */
#include "core/fault_edits.h"
#include "core/norm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static enum err_code no_weight(struct fault_call *c, const void *arg, struct run *run,
                               struct err *err)
{
    struct norm op = *(const struct norm *)arg;
    op.w = NULL;
    return fault_next(c, &op, run, err);
}

static enum err_code other_eps(struct fault_call *c, const void *arg, struct run *run,
                               struct err *err)
{
    struct norm op = *(const struct norm *)arg;
    op.eps = fault_eps(c->use, op.eps);
    return fault_next(c, &op, run, err);
}

/* ---- the input of the norm before ---- */

struct seen {
    int64_t now, before; /* doubles of the two inputs; -1: there was none */
    double *x[2];        /* this norm's input, the one before's */
};

static void forget(void *memory)
{
    struct seen *s = memory;
    free(s->x[0]);
    free(s->x[1]);
    free(s);
}

/* The first norm of a step has none before it. */
static bool begins_step(const struct fault_place *p)
{
    return !p->step || (p->tap == TAP_ATTN_NORM && p->layer == p->step->layer_first);
}

static void remember(struct fault_use *u, const struct fault_place *p, const void *arg, bool after)
{
    const struct norm *op = arg;
    struct seen *s = u->memory ? u->memory : calloc(1, sizeof *s);
    u->memory = s;
    if (!s || after) return;
    double *x = realloc(s->x[1], (size_t)(op->T * op->H + 1) * sizeof *x);
    s->before = -1;
    if (!x) return;
    if (!begins_step(p) && s->x[0]) s->before = s->now;
    s->x[1] = s->x[0];
    s->x[0] = x;
    s->now = op->T * op->H;
    memcpy(x, op->x, (size_t)s->now * sizeof *x);
}

static enum err_code residual_pre_add(struct fault_call *c, const void *arg, struct run *run,
                                      struct err *err)
{
    struct norm op = *(const struct norm *)arg;
    const struct seen *s = c->use->memory;
    if (s && s->before == op.T * op.H) op.x = s->x[1];
    return fault_next(c, &op, run, err);
}

/* ---- fp16 ---- */

/* A sum of squares past the largest half is infinite, and its reciprocal root is 0. */
static enum err_code fp16_overflow(struct fault_call *c, const void *arg, struct run *run,
                                   struct err *err)
{
    const struct norm *op = arg;
    const double most = 65504;
    struct arena_block *mark = arena_mark(run->arena);
    bool *over = arena_alloc(run->arena, op->T, sizeof *over, "rows that overflow", err);
    for (int64_t t = 0; over && t < op->T; t++) { /* y may be x */
        double sum = 0;
        for (int64_t h = 0; h < op->H; h++) sum += op->x[t * op->H + h] * op->x[t * op->H + h];
        over[t] = sum > most;
    }
    if (over && fault_next(c, op, run, err) == ERR_OK) {
        for (int64_t i = 0; i < op->T * op->H; i++) {
            if (over[i / op->H]) op->y[i] = 0;
        }
    }
    arena_release(run->arena, mark);
    return err->code;
}

const struct fault_row fault_rows_norm[] = {
    {.id = "norm.no_weight",
     .hosts = {"norm"},
     .keys = {KEY_LAYER},
     .wrap = no_weight,
     .edit = "the weight is left out",
     .source = "our own",
     .detector = "diff"},
    {.id = "norm.eps",
     .hosts = {"norm"},
     .keys = {KEY_LAYER, KEY_EPS},
     .wrap = other_eps,
     .edit = "another eps: 1e-5 for 1e-6, or 1e-6 for the rest",
     .source = "model math 11.33",
     .detector = "diff"},
    {.id = "norm.residual_pre_add",
     .hosts = {"norm"},
     .keys = {KEY_LAYER},
     .wrap = residual_pre_add,
     .watch = remember,
     .forget = forget,
     .edit = "the norm reads the residual stream before the last block was added",
     .source = "our own",
     .detector = "diff"},
    {.id = "norm.fp16_overflow",
     .hosts = {"norm"},
     .keys = {KEY_LAYER},
     .wrap = fp16_overflow,
     .edit = "a sum of squares past 65504 is infinite: the row becomes 0",
     .source = "our own",
     .detector = "diff"},
    {0},
};
