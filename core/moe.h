/* moe.h: the routed experts, op "moe". Model math 7.
 *     y[t] = sum over the chosen experts, in ascending id, of weight[t][j] * E_id(x[t])
 * x [T, H], ids and weights [T, k] (of op router), experts: E triples of matrices (gate, up [I, H],
 * down [H, I]), y [T, H]. The sum runs in float64 and rounds at RP_ROUTED; times sum_scale, where
 * that is not 1, it rounds again at RP_ROUTED_SCALED. Rounds inside: as mlp; RP_EXPERT_WEIGHT,
 * RP_EXPERT_TERM, and RP_EXPERT_SUM after each expert. Only experts that were chosen are read, one
 * panel at a time. With `partial`, id -1 is an expert of another rank and has no part. Errors: an
 * id outside [0, E) or twice in a row, shapes that do not chain, what reading an expert's matrix
 * says. */
#ifndef ASSAY_CORE_MOE_H
#define ASSAY_CORE_MOE_H

#include "core/run.h"
#include "core/weights.h"

#ifdef __cplusplus
extern "C" {
#endif

struct expert {
    struct matrix gate, up, down;
};

struct moe {
    int64_t T, H, I, E, top_k;
    const double *x;       /* [T, H] */
    const int32_t *ids;    /* [T, top_k] */
    const double *weights; /* [T, top_k] */
    /* Gives expert e; called for chosen ones only, possibly from several threads at once. */
    enum err_code (*expert)(const void *ctx, int64_t e, struct expert *out, struct err *err);
    const void *ctx;
    double sum_scale; /* routed_scaling_factor where the engine scales the sum, else 1 */
    double *y;        /* [T, H] */
    /* y is one rank's part of the sum over the experts: RP_ROUTED and sum_scale are the caller's,
     * when the sum is whole. */
    bool partial;
    /* The experts are one rank's part of their inner width: what such a part gives is no value of
     * its own, so that RP_LINEAR of W_down, RP_EXPERT_TERM and RP_EXPERT_SUM do not round it. */
    bool cut;
};

/* What is left to do with n values of a partial output when the sum over ranks is whole. */
void moe_round(const struct run *run, double sum_scale, int64_t n, double *y);

enum err_code moe_check(const struct moe *op, struct err *err) ERR_USED;
enum err_code moe_ref(const struct moe *op, struct run *run, struct err *err) ERR_USED;

#ifdef __cplusplus
}
#endif
#endif
