/* bound.h: how far two correct implementations of an op may lie apart, element by element, derived
 * and not tuned.
 *
 * Forward error analysis: the op's formula is evaluated once more on pairs (value, largest error),
 * where every step adds what that step may lose: a sum of n terms gamma_n = n u / (1 - n u) of the
 * sum of magnitudes, or 9 sqrt(n) u where that is less (Higham and Mary 2019: wrong with a
 * probability below 2n exp(-40)), a rounding point its unit roundoff. The longest chain of a sum in
 * 16 lanes is n/16 + 4. Products of float32 inputs that are rounded on the way in add two units.
 * Two sides may differ by the sum of their errors.
 *
 * Not for judging: nothing here is compared with an output, so a mistake makes a bound wrong and no
 * value right. Test: tests/test_bound.c, and the sweep (a bound too small goes red there). */
#ifndef ASSAY_HARNESS_BOUND_H
#define ASSAY_HARNESS_BOUND_H

#include "core/run.h"
#include "harness/case.h"

enum { BOUND_FROM = 256 };

/* What one side loses at each step. */
struct bound_model {
    double unit_sum;  /* of the arithmetic that products are summed in */
    double unit_step; /* of everything else between two rounding points */
    double unit_out;  /* of what an op writes */
    double unit_act;  /* of the profile's rounding points */
    double smallest;  /* half of the smallest subnormal: what a rounding loses near 0 */
    double smallest_act;
    int lanes;     /* partial sums; 1: any order */
    bool expanded; /* computes the expanded form of MLA whatever is asked for */
    struct profile profile;
};

struct bound {
    double *abs;           /* [rows, cols] of the output; NULL: exact */
    double *key;           /* router ids: [rows], the largest error of a selection key; else NULL */
    char from[BOUND_FROM]; /* what it was derived from */
};

/* The model of side `name` ("ref", "naive", "gpu") in this run. */
struct bound_model bound_model_of(const char *name, const struct run *run);

/* gamma_n or 9 sqrt(n) u, the smaller. */
double bound_chain(double n, double unit);

/* Bounds of every output of the case for one side. `fresh` holds untouched inputs (ops may write
 * over theirs); `truth` the outputs of the first side: a router's weights are bounded for its
 * choice. */
enum err_code bound_make(const struct op_case *c, const struct case_data *fresh,
                         const struct case_data *truth, const struct bound_model *m,
                         struct arena *a, struct bound out[CASE_OUTPUTS], struct err *err) ERR_USED;

/* ---- for bound_OP.c ---- */

/* Values with their largest errors. */
struct pairs {
    double *v, *e;
};

struct bound_work {
    const struct bound_model *m;
    struct arena *arena;
    struct err *err;
    bool failed; /* memory was short; checked once at the end */
};

struct matrix;
struct tensor;
struct rope_table;

struct pairs pairs_new(struct bound_work *w, int64_t n);
/* Exact inputs. */
struct pairs pairs_of(struct bound_work *w, const double *x, int64_t n);
void pairs_round(const struct bound_work *w, enum round_point p, struct pairs x, int64_t n);
/* y [T, out] = x [T, in] W^T, not rounded. */
void pairs_product(struct bound_work *w, const struct matrix *weight, int64_t T, struct pairs x,
                   struct pairs y);
void pairs_norm(struct bound_work *w, const struct tensor *weight, double eps, int64_t T, int64_t H,
                struct pairs x);
/* Rotates columns [offset, offset + R) of [T, heads, stride]. */
void pairs_rope(struct bound_work *w, const struct rope_table *table, bool interleaved,
                const int64_t *position, int64_t T, int64_t heads, int64_t stride, int64_t offset,
                struct pairs x);

/* Softmax of n scores in place: p with the errors that the scores' errors and the arithmetic can
 * make of it. */
void pairs_softmax(const struct bound_work *w, struct pairs p, int64_t n);
/* sum over i < n of x[i] y[i * step], with errors, in a chain of arithmetic `unit`. */
void pairs_dot(struct pairs x, struct pairs y, int64_t step, int64_t n, double unit, double *v,
               double *e);
/* y [T, H] = down(silu(gate x) * up x), rounded as an mlp is. */
struct pairs pairs_mlp(struct bound_work *w, const struct matrix *gate, const struct matrix *up,
                       const struct matrix *down, int64_t T, struct pairs x);
/* From element i on. */
static inline struct pairs pairs_at(struct pairs p, int64_t i)
{
    return (struct pairs){p.v + i, p.e + i};
}

void bound_mla_q(struct bound_work *w, const void *op, struct bound *out);
void bound_mla_kv(struct bound_work *w, const void *op, struct bound *out);
void bound_mla_core(struct bound_work *w, const void *op, struct bound *out);
void bound_mlp(struct bound_work *w, const void *op, struct bound *out);
void bound_eagle_fc(struct bound_work *w, const void *op, struct bound *out);
void bound_eagle_layer(struct bound_work *w, const void *op, struct bound *out);
void bound_moe(struct bound_work *w, const void *op, struct bound *out);
void bound_router(struct bound_work *w, const void *op, const struct case_data *truth,
                  struct bound *out);

#endif
