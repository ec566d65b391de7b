/* naive.h: the oracle of the sweep: every op as a textbook loop in double, side "naive".
 *
 * Written from the contract headers alone, and it shares no arithmetic with either engine: stored
 * formats are decoded here bit by bit, sums run left to right, nothing is blocked or threaded. It
 * knows no rounding: a profile that rounds is an error. Slow by design; argument checks are the
 * contract's own (core/OP.h). Test: tests/test_sweep.c holds it against the reference. */
#ifndef ASSAY_TESTS_NAIVE_H
#define ASSAY_TESTS_NAIVE_H

#include "core/eagle.h"
#include "core/embed.h"
#include "core/int4.h"
#include "core/linear.h"
#include "core/logits.h"
#include "core/mla.h"
#include "core/mlp.h"
#include "core/moe.h"
#include "core/norm.h"
#include "core/ops.h"
#include "core/rope.h"
#include "core/router.h"

enum err_code embed_naive(const struct embed *op, struct run *run, struct err *err) ERR_USED;
enum err_code norm_naive(const struct norm *op, struct run *run, struct err *err) ERR_USED;
enum err_code rope_naive(const struct rope *op, struct run *run, struct err *err) ERR_USED;
enum err_code linear_naive(const struct linear *op, struct run *run, struct err *err) ERR_USED;
enum err_code int4_naive(const struct int4 *op, struct run *run, struct err *err) ERR_USED;
enum err_code mla_q_naive(const struct mla_q *op, struct run *run, struct err *err) ERR_USED;
enum err_code mla_kv_naive(const struct mla_kv *op, struct run *run, struct err *err) ERR_USED;
enum err_code mla_core_naive(const struct mla_core *op, struct run *run, struct err *err) ERR_USED;
enum err_code mla_output_naive(const struct mla_output *op, struct run *run,
                               struct err *err) ERR_USED;
enum err_code router_naive(const struct router *op, struct run *run, struct err *err) ERR_USED;
enum err_code mlp_naive(const struct mlp *op, struct run *run, struct err *err) ERR_USED;
enum err_code moe_naive(const struct moe *op, struct run *run, struct err *err) ERR_USED;
enum err_code logits_naive(const struct logits *op, struct run *run, struct err *err) ERR_USED;

enum err_code eagle_fc_naive(const struct eagle_fc *op, struct run *run, struct err *err) ERR_USED;
enum err_code eagle_layer_naive(const struct eagle_layer *op, struct run *run,
                                struct err *err) ERR_USED;
enum err_code eagle_verify_naive(const struct eagle_verify *op, struct run *run,
                                 struct err *err) ERR_USED;

/* Refuses a profile that rounds anywhere. */
enum err_code naive_begin(const struct run *run, const char *op, struct err *err) ERR_USED;

/* Element i of a float tensor. */
double naive_element(const struct tensor *t, int64_t i);
/* The integer in the code of row r, column c, offset taken off, zero point not subtracted. */
int64_t naive_code(const struct matrix *w, int64_t r, int64_t c);
/* The value of row r, column c. `ordered`: of naive_ordered(). */
double naive_value(const struct matrix *w, int64_t r, int64_t c, bool ordered);
/* The matrix has a g_idx that is in use. */
bool naive_ordered(const struct matrix *w);
/* All values, [out, in], in the run's arena; NULL with the error set. */
double *naive_matrix(const struct matrix *w, struct run *run, struct err *err);
/* y [T, out] = x [T, in] W^T. */
enum err_code naive_product(const struct matrix *w, int64_t T, const double *x, double *y,
                            struct run *run, struct err *err) ERR_USED;
double naive_silu(double a);

#endif
