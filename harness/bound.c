/* bound.c: the arithmetic of bound.h, and the bounds of embed, norm, rope, linear, int4, logits and
 * mla.output. */
#include "harness/bound.h"

#include "core/check.h"
#include "core/embed.h"
#include "core/linear.h"
#include "core/logits.h"
#include "core/mla.h"
#include "core/norm.h"
#include "harness/case_make.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct bound_model bound_model_of(const char *name, const struct run *run)
{
    bool single = run->precision == PRECISION_F32;
    struct bound_model m = {.unit_sum = 0x1p-53,
                            .unit_step = 0x1p-53,
                            .unit_out = 0x1p-53,
                            .lanes = 1,
                            .smallest = 0x1p-1074,
                            .profile = run->profile,
                            .unit_act = dtype_unit(run->act)};
    m.smallest_act = run->act == DT_F16 ? 0x1p-25 : 0x1p-134;
    if (strcmp(name, "naive") == 0) {
        m.expanded = true;
        return m;
    }
    if (strcmp(name, "ref") == 0) {
        m.lanes = run->linear == LINEAR_OWN ? 16 : 1;
        if (single) m.unit_sum = m.unit_out = 0x1p-24;
    } else { /* a device: float32 throughout, any order; tensor cores cut off instead of rounding:
                twice the unit */
        m.unit_sum = m.unit_step = 0x1p-23;
        m.unit_out = 0x1p-24;
    }
    if (m.unit_out > 0x1p-53) m.smallest = 0x1p-150;
    return m;
}

double bound_chain(double n, double unit)
{
    double nu = n * unit;
    double strict = nu < 1 ? nu / (1 - nu) : INFINITY;
    return fmin(strict, 9 * sqrt(n) * unit * (1 + 9 * sqrt(n) * unit));
}

struct pairs pairs_new(struct bound_work *w, int64_t n)
{
    struct pairs p = {arena_alloc(w->arena, n, sizeof(double), "bound", w->err), NULL};
    if (p.v) p.e = arena_alloc(w->arena, n, sizeof(double), "bound", w->err);
    if (!p.e) w->failed = true;
    for (int64_t i = 0; p.e && i < n; i++) p.v[i] = p.e[i] = 0;
    return p;
}

struct pairs pairs_of(struct bound_work *w, const double *x, int64_t n)
{
    struct pairs p = pairs_new(w, n);
    if (!w->failed) memcpy(p.v, x, (size_t)n * sizeof *x);
    return p;
}

void pairs_round(const struct bound_work *w, enum round_point p, struct pairs x, int64_t n)
{
    bool act = w->m->profile.rounds[p];
    double unit = w->m->unit_out + (act ? w->m->unit_act : 0);
    double smallest = w->m->smallest + (act ? w->m->smallest_act : 0);
    for (int64_t i = 0; !w->failed && i < n; i++)
        x.e[i] += unit * (fabs(x.v[i]) + x.e[i]) * (1 + unit) + smallest;
}

void pairs_product(struct bound_work *w, const struct matrix *weight, int64_t T, struct pairs x,
                   struct pairs y)
{
    int64_t in = weight->in, out = weight->out;
    double *row = w->failed ? NULL : arena_alloc(w->arena, in, sizeof *row, "bound row", w->err);
    if (!row) w->failed = true;
    double lanes = w->m->lanes;
    /* One lane's chain, the adding up of the lanes, and one unit each for x and W on their way in.
     */
    double chain = bound_chain(ceil((double)in / lanes) + log2(lanes) + 2, w->m->unit_sum);
    for (int64_t o = 0; !w->failed && o < out; o++) {
        case_matrix_row(weight, o, row);
        for (int64_t t = 0; t < T; t++) {
            double sum = 0, size = 0, error = 0;
            for (int64_t k = 0; k < in; k++) {
                sum += x.v[t * in + k] * row[k];
                size += fabs(x.v[t * in + k] * row[k]);
                error += x.e[t * in + k] * fabs(row[k]);
            }
            y.v[t * out + o] = sum;
            y.e[t * out + o] = error + chain * (size + error) + (double)in * w->m->smallest;
        }
    }
}

void pairs_norm(struct bound_work *w, const struct tensor *weight, double eps, int64_t T, int64_t H,
                struct pairs x)
{
    double chain = bound_chain((double)H + 4, w->m->unit_step), unit = w->m->unit_step;
    for (int64_t t = 0; !w->failed && t < T; t++) {
        struct pairs row = {x.v + t * H, x.e + t * H};
        double square = 0, error = 0;
        for (int64_t i = 0; i < H; i++) {
            square += row.v[i] * row.v[i];
            error += (2 * fabs(row.v[i]) + row.e[i]) * row.e[i];
        }
        double mean = square / (double)H + eps;
        double share =
            (error / (double)H + chain * mean) / mean; /* relative error under the root */
        double root = 1 / sqrt(mean), rel = share < 1 ? 1 / sqrt(1 - share) - 1 : INFINITY;
        for (int64_t i = 0; i < H; i++) {
            row.e[i] = root * (row.e[i] * (1 + rel) + fabs(row.v[i]) * (rel + 4 * unit));
            row.v[i] *= root;
        }
        pairs_round(w, RP_NORM_INNER, row, H);
        for (int64_t i = 0; i < H; i++) {
            double g = weight ? case_tensor_value(weight, i) : 1;
            row.v[i] *= g;
            row.e[i] = row.e[i] * fabs(g) + 2 * unit * fabs(row.v[i]);
        }
        pairs_round(w, RP_NORM, row, H);
    }
}

/* first * c - second * s, or first * c + second * s, through the rounding points of a rotation. */
static void rotate(const struct bound_work *w, double a, double ea, double b, double eb,
                   struct pairs cs, double *v, double *e)
{
    double value[2] = {a * cs.v[0], b * cs.v[1]};
    double error[2] = {ea * fabs(cs.v[0]) + (fabs(a) + ea) * cs.e[0],
                       eb * fabs(cs.v[1]) + (fabs(b) + eb) * cs.e[1]};
    for (int i = 0; i < 2; i++) error[i] += w->m->unit_step * fabs(value[i]);
    pairs_round(w, RP_ROPE_TERM, (struct pairs){value, error}, 2);
    *v = value[0] + value[1];
    *e = error[0] + error[1] + 2 * w->m->unit_step * (fabs(value[0]) + fabs(value[1]));
    pairs_round(w, RP_ROPE, (struct pairs){v, e}, 1);
}

void pairs_rope(struct bound_work *w, const struct rope_table *table, bool interleaved,
                const int64_t *position, int64_t T, int64_t heads, int64_t stride, int64_t offset,
                struct pairs x)
{
    int64_t half = table->R / 2;
    for (int64_t at = 0; !w->failed && at < T * heads * half; at++) {
        int64_t t = at / half / heads, i = at % half, base = at / half * stride + offset;
        int64_t first = base + (interleaved ? 2 * i : i),
                second = base + (interleaved ? 2 * i + 1 : i + half);
        double angle = (double)((float)position[t] * table->frequency[i]);
        double cs[2] = {table->factor * cos(angle), table->factor * sin(angle)}, e[2], minus[2];
        for (int k = 0; k < 2; k++)
            e[k] = 4 * w->m->unit_step * fabs(table->factor); /* cos, sin: within 2 ulp of 1 */
        pairs_round(w, RP_ROPE_TABLE, (struct pairs){cs, e}, 2);
        minus[0] = cs[0];
        minus[1] = -cs[1];
        double a = x.v[first], ea = x.e[first], b = x.v[second], eb = x.e[second];
        rotate(w, a, ea, b, eb, (struct pairs){minus, e}, &x.v[first], &x.e[first]);
        rotate(w, b, eb, a, ea, (struct pairs){cs, e}, &x.v[second], &x.e[second]);
    }
}

static void bound_embed(struct bound_work *w, const struct embed *op, struct bound *out)
{
    /* A copy: exact unless the profile rounds it; every stored type is exact in float32. */
    if (!w->m->profile.rounds[RP_EMBED]) return;
    struct pairs y = pairs_new(w, op->T * op->H);
    for (int64_t i = 0; !w->failed && i < op->T * op->H; i++)
        y.v[i] = case_tensor_value(op->table, op->id[i / op->H] * op->H + i % op->H);
    pairs_round(w, RP_EMBED, y, op->T * op->H);
    out->abs = y.e;
}

static void bound_linear(struct bound_work *w, const struct matrix *weight, int64_t T,
                         const double *x, enum round_point point, struct bound *out)
{
    struct pairs in = pairs_of(w, x, T * weight->in), y = pairs_new(w, T * weight->out);
    pairs_product(w, weight, T, in, y);
    pairs_round(w, point, y, T * weight->out);
    out->abs = y.e;
}

static void bound_norm(struct bound_work *w, const struct norm *op, struct bound *out)
{
    struct pairs x = pairs_of(w, op->x, op->T * op->H);
    pairs_norm(w, op->w, op->eps, op->T, op->H, x);
    out->abs = x.e;
}

static void bound_rope(struct bound_work *w, const struct rope *op, struct bound *out)
{
    struct pairs x = pairs_of(w, op->x, op->T * op->heads * op->stride);
    pairs_rope(w, op->table, op->interleaved, op->position, op->T, op->heads, op->stride,
               op->offset, x);
    out->abs = x.e;
}

static void describe(const char *op, const struct bound_model *m, struct bound *b)
{
    char lanes[48] = "any order";
    if (m->lanes > 1) snprintf(lanes, sizeof lanes, "%d lanes", m->lanes);
    if (!b->abs && !b->key) {
        snprintf(b->from, sizeof b->from, "exact");
    } else if (strcmp(op, "embed") == 0 || strcmp(op, "norm") == 0 || strcmp(op, "rope") == 0) {
        snprintf(b->from, sizeof b->from, "forward error, steps 2^%.0f, output 2^%.0f, profile %s",
                 log2(m->unit_step), log2(m->unit_out), m->profile.name);
    } else {
        snprintf(b->from, sizeof b->from,
                 "forward error, sums in %s of 2^%.0f, steps 2^%.0f, output 2^%.0f, profile %s",
                 lanes, log2(m->unit_sum), log2(m->unit_step), log2(m->unit_out), m->profile.name);
    }
}

enum err_code bound_make(const struct op_case *c, const struct case_data *fresh,
                         const struct case_data *truth, const struct bound_model *m,
                         struct arena *a, struct bound out[CASE_OUTPUTS], struct err *err)
{
    const char *name = c->op->name;
    const void *op = fresh->op;
    struct bound_work w = {.m = m, .arena = a, .err = err};
    for (int i = 0; i < CASE_OUTPUTS; i++) out[i] = (struct bound){0};
    if (strcmp(name, "embed") == 0)
        bound_embed(&w, op, out);
    else if (strcmp(name, "norm") == 0)
        bound_norm(&w, op, out);
    else if (strcmp(name, "rope") == 0)
        bound_rope(&w, op, out);
    else if (strcmp(name, "linear") == 0)
        bound_linear(&w, ((const struct linear *)op)->w, ((const struct linear *)op)->T,
                     ((const struct linear *)op)->x, ((const struct linear *)op)->point, out);
    else if (strcmp(name, "logits") == 0)
        bound_linear(&w, ((const struct logits *)op)->head, ((const struct logits *)op)->T,
                     ((const struct logits *)op)->x, RP_LOGITS, out);
    else if (strcmp(name, "mla.output") == 0)
        bound_linear(&w, ((const struct mla_output *)op)->o, ((const struct mla_output *)op)->T,
                     ((const struct mla_output *)op)->x, RP_LINEAR, out);
    else if (strcmp(name, "mla.q") == 0)
        bound_mla_q(&w, op, out);
    else if (strcmp(name, "mla.kv") == 0)
        bound_mla_kv(&w, op, out);
    else if (strcmp(name, "mla.core") == 0)
        bound_mla_core(&w, op, out);
    else if (strcmp(name, "mlp") == 0 || strcmp(name, "moe.shared") == 0)
        bound_mlp(&w, op, out);
    else if (strcmp(name, "moe") == 0)
        bound_moe(&w, op, out);
    else if (strcmp(name, "router") == 0)
        bound_router(&w, op, truth, out);
    else if (strcmp(name, "eagle.fc") == 0)
        bound_eagle_fc(&w, op, out);
    else if (strcmp(name, "eagle.layer") == 0)
        bound_eagle_layer(&w, op, out);
    else /* codes, values and decisions are exact on every side */
        CHECK(strcmp(name, "int4") == 0 || strcmp(name, "eagle.verify") == 0);
    for (int i = 0; i < fresh->outputs; i++) describe(name, m, &out[i]);
    return w.failed ? err->code : ERR_OK;
}
