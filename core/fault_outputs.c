/* fault_outputs.c: what an op writes, for edits of it and for comparing bits; see fault.h. */
#include "core/eagle.h"
#include "core/embed.h"
#include "core/fault_edits.h"
#include "core/int4.h"
#include "core/linear.h"
#include "core/logits.h"
#include "core/mla.h"
#include "core/mlp.h"
#include "core/norm.h"
#include "core/router.h"

#include <string.h>

typedef int outputs_of(const void *arg, struct fault_output out[2]);

static int one(struct fault_output out[2], double *y, int64_t rows, int64_t cols)
{
    out[0] = (struct fault_output){y, rows, cols};
    return 1;
}

static int of_embed(const void *arg, struct fault_output out[2])
{
    const struct embed *op = arg;
    return one(out, op->y, op->T, op->H);
}

static int of_norm(const void *arg, struct fault_output out[2])
{
    const struct norm *op = arg;
    return one(out, op->y, op->T, op->H);
}

static int of_rope(const void *arg, struct fault_output out[2])
{
    const struct rope *op = arg;
    return one(out, op->x, op->T, op->heads * op->stride);
}

static int of_linear(const void *arg, struct fault_output out[2])
{
    const struct linear *op = arg;
    return one(out, op->y, op->T, op->w->out);
}

static int of_q(const void *arg, struct fault_output out[2])
{
    const struct mla_q *op = arg;
    return one(out, op->q, op->T, op->b->out);
}

static int of_kv(const void *arg, struct fault_output out[2])
{
    const struct mla_kv *op = arg;
    out[1] = (struct fault_output){op->k_rope, op->T, op->R};
    return 1 + one(out, op->latent, op->T, op->L);
}

static int of_core(const void *arg, struct fault_output out[2])
{
    const struct mla_core *op = arg;
    return one(out, op->y, op->rows->count, op->heads * op->V);
}

static int of_output(const void *arg, struct fault_output out[2])
{
    const struct mla_output *op = arg;
    return one(out, op->y, op->T, op->o->out);
}

static int of_router(const void *arg, struct fault_output out[2])
{
    const struct router *op = arg;
    out[1] = (struct fault_output){op->weights, op->T, op->top_k};
    return 1 + one(out, op->logits, op->T, op->E);
}

static int of_int4(const void *arg, struct fault_output out[2])
{
    const struct int4 *op = arg;
    return one(out, op->y, op->n, op->w->in);
}

static int of_moe(const void *arg, struct fault_output out[2])
{
    const struct moe *op = arg;
    return one(out, op->y, op->T, op->H);
}

static int of_mlp(const void *arg, struct fault_output out[2])
{
    const struct mlp *op = arg;
    return one(out, op->y, op->T, op->down->out);
}

static int of_logits(const void *arg, struct fault_output out[2])
{
    const struct logits *op = arg;
    return one(out, op->y, op->T, op->head->out);
}

static int of_fc(const void *arg, struct fault_output out[2])
{
    const struct eagle_fc *op = arg;
    return one(out, op->y, op->T, op->head->config.base.hidden);
}

static int of_draft_layer(const void *arg, struct fault_output out[2])
{
    const struct eagle_layer *op = arg;
    int64_t rows = op->rows->count, H = op->head->config.base.hidden;
    out[1] = (struct fault_output){op->y_sum, rows, H};
    return one(out, op->y, rows, H) + (op->y_sum != NULL);
}

static const struct {
    const char *op;
    outputs_of *outputs;
} table[] = {
    {"embed", of_embed},   {"norm", of_norm},
    {"rope", of_rope},     {"linear", of_linear},
    {"mla.q", of_q},       {"mla.kv", of_kv},
    {"mla.core", of_core}, {"mla.output", of_output},
    {"router", of_router}, {"int4", of_int4},
    {"moe", of_moe},       {"moe.shared", of_mlp},
    {"mlp", of_mlp},       {"logits", of_logits},
    {"eagle.fc", of_fc},   {"eagle.layer", of_draft_layer},
};

int fault_outputs(const char *op, const void *arg, struct fault_output out[2])
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (strcmp(table[i].op, op) == 0) return table[i].outputs(arg, out);
    }
    return 0;
}

/* ---- bits ---- */

static void add_part(struct fault_bits *b, void *data, int64_t n, size_t size)
{
    if (!data) return;
    b->part[b->count].data = data;
    b->part[b->count++].bytes = (size_t)n * size;
}

static void find_parts(struct fault_bits *b, const char *op, const void *arg)
{
    struct fault_output out[2];
    int n = fault_outputs(op, arg, out);
    for (int i = 0; i < n; i++) add_part(b, out[i].data, out[i].rows * out[i].cols, sizeof(double));
    if (strcmp(op, "router") == 0) {
        const struct router *r = arg;
        add_part(b, r->ids, r->T * r->top_k, sizeof *r->ids);
    }
    if (strcmp(op, "eagle.verify") == 0) {
        const struct eagle_verify *v = arg;
        add_part(b, v->path, v->nodes, sizeof *v->path);
        add_part(b, v->accepted, 1, sizeof *v->accepted);
        add_part(b, v->next, 1, sizeof *v->next);
    }
    if (strcmp(op, "int4") == 0) {
        const struct int4 *q = arg;
        add_part(b, q->q, q->n * q->w->in, sizeof *q->q);
    }
}

enum err_code fault_bits_clean(struct fault_bits *b, struct fault_call *c, const void *arg,
                               struct run *run, struct err *err)
{
    *b = (struct fault_bits){0};
    find_parts(b, c->place->op, arg);
    for (int i = 0; i < b->count; i++) {
        b->part[i].clean =
            arena_alloc(run->arena, (int64_t)b->part[i].bytes, 1, "clean outputs", err);
        if (!b->part[i].clean) return err->code;
        memcpy(b->part[i].clean, b->part[i].data, b->part[i].bytes);
    }
    enum err_code rc = fault_other(c, c->place->op, arg, run, err);
    for (int i = 0; i < b->count; i++) { /* exchanged: the buffers as they were, the result kept */
        char *data = b->part[i].data, *kept = b->part[i].clean;
        for (size_t k = 0; k < b->part[i].bytes; k++) {
            char t = data[k];
            data[k] = kept[k];
            kept[k] = t;
        }
    }
    return rc;
}

bool fault_bits_differ(const struct fault_bits *b)
{
    for (int i = 0; i < b->count; i++) {
        if (memcmp(b->part[i].data, b->part[i].clean, b->part[i].bytes) != 0) return true;
    }
    return false;
}

double *fault_copy(struct run *run, const double *x, int64_t n, struct err *err)
{
    double *copy = arena_alloc(run->arena, n, sizeof *copy, "a fault's copy", err);
    if (copy) memcpy(copy, x, (size_t)n * sizeof *copy);
    return copy;
}
