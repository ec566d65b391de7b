/* mla.h: multi-head latent attention, ops mla.q, mla.kv, mla.core, mla.output. Model math 3.
 *
 * mla.q       q = W_qb norm(W_qa x), or W_q x      x [T, H] -> q [T, heads, P + R], before RoPE
 * mla.kv      a = W_kva x; latent = norm(a[:L]); k_rope = rope(a[L:])
 *                                                  -> latent [T, L], k_rope [T, R]
 * mla.core    attention of roped q over the cache  -> y [T, heads, V]
 * mla.output  W_o y, a linear; `partial`: of some columns of W_o, not rounded
 *
 * mla.core, per row t of a sequence and head h, over the cached tokens s that it sees (cache.h;
 * s <= t in a plain step):
 *
 *   expanded   [k_nope | v][s] = W_kvb[h] c'[s]     rows h*(P+V) on: first P of the key, then V
 *              score[s] = scale * (q_nope . k_nope[s] + q_rope . k_pe[s])
 *              p = softmax(score);  y = sum_s p[s] v[s]
 *   absorbed   ql = U^T q_nope                      U: the P key rows of W_kvb[h]
 *              score[s] = scale * (ql . c'[s] + q_rope . k_pe[s])
 *              p = softmax(score);  y = G (sum_s p[s] c'[s])     G: its V value rows
 *
 * Equal in exact arithmetic. Scores and weighted sums run in float64 over columns and tokens in
 * ascending order; the expanded W_kvb c' is a linear (linear.h) and rounds like one. A row's bits
 * depend on its own sequence alone. The scale comes from P + R, never from L + R. Norm eps: 1e-6,
 * or rms_norm_eps by profile. */
#ifndef ASSAY_CORE_MLA_H
#define ASSAY_CORE_MLA_H

#include "core/cache.h"
#include "core/rope.h"
#include "core/run.h"
#include "core/weights.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The published code leaves the norms behind q_a and kv_a at their class default: model math 8.4.
 */
#define MLA_LATENT_EPS 1e-6

struct mla_q {
    int64_t T;
    const double *x;           /* [T, H] */
    const struct matrix *a;    /* [q_lora, H], or NULL */
    const struct tensor *norm; /* [q_lora]; with a */
    const struct matrix *b;    /* [heads*(P+R), q_lora], or [heads*(P+R), H] where a is NULL */
    double eps;
    double *q; /* [T, heads*(P+R)] */
};

struct mla_kv {
    int64_t T, L, R;
    const double *x;           /* [T, H] */
    const struct matrix *a;    /* [L + R, H] */
    const struct tensor *norm; /* [L] */
    double eps;
    const int64_t *position; /* [T] */
    const struct rope_table *table;
    bool interleaved;
    double *latent; /* [T, L] */
    double *k_rope; /* [T, R] */
};

enum mla_form { MLA_EXPANDED, MLA_ABSORBED };

struct mla_core {
    int64_t heads, P, R, V, L;
    double scale;
    enum mla_form form;
    const struct rows *rows;
    const double *q;           /* [rows, heads, P + R], roped */
    const struct matrix *kv_b; /* [heads*(P+V), L] */
    const struct cache *cache; /* holds these rows already */
    int64_t layer;
    double *y; /* [rows, heads*V] */
};

struct mla_output {
    int64_t T;
    const double *x;        /* [T, heads*V] */
    const struct matrix *o; /* [H, heads*V] */
    double *y;              /* [T, H] */
    bool partial;           /* y is one rank's part of the sum: not rounded, the caller does */
};

enum err_code mla_q_check(const struct mla_q *op, struct err *err) ERR_USED;
enum err_code mla_kv_check(const struct mla_kv *op, struct err *err) ERR_USED;
enum err_code mla_core_check(const struct mla_core *op, struct err *err) ERR_USED;
enum err_code mla_output_check(const struct mla_output *op, struct err *err) ERR_USED;
enum err_code mla_q_ref(const struct mla_q *op, struct run *run, struct err *err) ERR_USED;
enum err_code mla_kv_ref(const struct mla_kv *op, struct run *run, struct err *err) ERR_USED;
enum err_code mla_core_ref(const struct mla_core *op, struct run *run, struct err *err) ERR_USED;
enum err_code mla_output_ref(const struct mla_output *op, struct run *run,
                             struct err *err) ERR_USED;

#ifdef __cplusplus
}
#endif
#endif
