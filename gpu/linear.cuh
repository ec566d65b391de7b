/* linear.cuh: y = x W^T, op linear on the device. Contract: core/linear.h. Sums in float32, in an
 * order of the kernel's own that depends on the shape and never on other rows' values; one rounding
 * at the output. The kernels, and which of them serves what: gpu/linear_choose.h. */
#ifndef ASSAY_GPU_LINEAR_CUH
#define ASSAY_GPU_LINEAR_CUH

#include "gpu/linear_choose.h"
#include "gpu/weights.cuh"

enum { LINEAR_SAME = 2 };

/* x [T, in] bf16, y [T, out] of DT_BF16 or DT_F32, all on the device, contiguous. Every stored
 * format, except packed INT4 of the experts' own layout, which is moe.cuh's. Rows' bits do not
 * depend on the other rows, but may on T (another kernel; cuBLASLt picks by shape). --tactic
 * linear=NAME forces one kernel for this and everything below: ERR_USAGE where it cannot serve. */
enum err_code gpu_linear(struct gpu *g, int64_t T, const bf16 *x, const struct gpu_matrix *w,
                         void *y, enum dtype ytype, struct err *err) ERR_USED;
/* One of several products of the same x: y [T, w->out] of `type`, DT_BF16 or DT_F32. With `up`
 * (of w's shape) y = silu(x w^T) * (x up^T), each of the two rounded to bf16 first; only where
 * linear_joins(). */
struct gpu_product {
    const struct gpu_matrix *w, *up;
    void *y;
    enum dtype type;
};
/* n <= LINEAR_SAME of them, in one launch where that serves them all. Of up to LINEAR_FEW rows the
 * bits of each are those of gpu_linear(); of more the order of a sum depends on what is beside it.
 */
enum err_code gpu_linear_same(struct gpu *g, int64_t T, const bf16 *x,
                              const struct gpu_product *products, int n, struct err *err) ERR_USED;
/* Batched over heads with strides, for the absorbed form: y[h] [T, n] = x[h] [T, k] B[h], where
 * B[h] is a part of a stored dense bf16 matrix: w + h * w_step, rows ldw apart; `transpose`: B[h]
 * is [n, k] as stored (y = x B^T), else [k, n]. Steps and ld in elements. */
struct gpu_batched {
    int64_t heads, T, n, k;
    const bf16 *x;
    int64_t x_step, ldx;
    const bf16 *w;
    int64_t w_step, ldw;
    bool transpose;
    bf16 *y;
    int64_t y_step, ldy;
};
enum err_code gpu_linear_batched(struct gpu *g, const struct gpu_batched *b,
                                 struct err *err) ERR_USED;

/* By cuBLASLt, whatever is forced: what a card's products are measured by. *done is false, without
 * an error, where it has no algorithm for the shape. W dense bf16. */
enum err_code gpu_linear_lt(struct gpu *g, int64_t T, const bf16 *x, const struct gpu_matrix *w,
                            void *y, enum dtype ytype, bool *done, struct err *err) ERR_USED;

/* ---- the kernels; gpu_linear() chooses ---- */

/* How linear_few() makes this product in a launch of `blocks`; NULL: another kernel does, or none.
 */
const struct linear_variant *linear_few_variant(const struct gpu *g, int64_t T, const bf16 *x,
                                                const struct gpu_matrix *w, int64_t blocks);
/* Rows of few tokens; a row's bits depend on neither T nor what else is in the launch. All of one
 * `in`, each of which it serves. */
enum err_code linear_few(struct gpu *g, int64_t T, const bf16 *x,
                         const struct gpu_product *products, int n, struct err *err) ERR_USED;
/* The same of up to LINEAR_SOME rows, whose bits depend on T in nothing, but on the number of
 * outputs in the launch. */
enum err_code linear_cluster(struct gpu *g, int64_t T, const bf16 *x,
                             const struct gpu_product *products, int n, struct err *err) ERR_USED;
/* Whether this build and this card have it. */
bool linear_has_cluster(const struct gpu *g);
/* Whether one of these two makes the product, and others of the same x in the same launch. */
bool linear_joins(const struct gpu *g, int64_t T, const bf16 *x, const struct gpu_matrix *w);
enum err_code linear_joined(struct gpu *g, int64_t T, const bf16 *x,
                            const struct gpu_product *products, int n, struct err *err) ERR_USED;
/* One product or a batch of them, column-major as cuBLASLt sees it: c [m, n] = a b, b [k, n].
 * Numbers of one size alone, so that two compare as bytes. */
struct lt_shape {
    int64_t m, n, k, lda, ldb, ldc, batch, step_a, step_b, step_c;
    int64_t align_a, align_b, align_c; /* bytes that the addresses divide by, at most 16 */
    int64_t transpose;                 /* a is stored [k, m] */
    int64_t type;                      /* enum dtype of c */
};
/* *done is false, without an error, where cuBLASLt has no algorithm for the shape. */
enum err_code linear_lt(struct gpu *g, const struct lt_shape *s, const void *a, const void *b,
                        void *c, bool *done, struct err *err) ERR_USED;
enum err_code linear_any(struct gpu *g, int64_t T, const bf16 *x, const struct gpu_matrix *w,
                         void *y, enum dtype ytype, struct err *err) ERR_USED;
enum err_code linear_any_batched(struct gpu *g, const struct gpu_batched *b,
                                 struct err *err) ERR_USED;

/* ---- adapters ---- */

/* A linear on host data under the name of an op; `point` says whether y rounds to bf16. */
struct gpu_linear_op {
    const char *name;
    int64_t T;
    const double *x;        /* [T, in] */
    const struct matrix *w; /* [out, in] */
    double *y;              /* [T, out] */
    enum round_point point;
};
enum err_code gpu_linear_run(const struct gpu_linear_op *op, struct run *run,
                             struct err *err) ERR_USED;
/* Where y is not finite though x is: a stored value that is not finite is named, an overflow is
 * none. */
enum err_code gpu_linear_explain(const double *x, int64_t nx, const double *y, int64_t ny,
                                 const struct matrix *const *m, int count,
                                 struct err *err) ERR_USED;

#endif
