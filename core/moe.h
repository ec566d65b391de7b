/* moe.h: the routed experts, op "moe". Model math 7.
 *     y[t] = sum over the chosen experts, in ascending id, of weight[t][j] * E_id(x[t])
 * x [T, H], ids and weights [T, k] (of op router), experts: E triples of matrices (gate, up [I, H],
 * down [H, I]), y [T, H]. The sum runs in float64 and rounds at RP_ROUTED; times sum_scale, where
 * that is not 1, it rounds again at RP_ROUTED_SCALED. Rounds inside: as mlp; RP_EXPERT_WEIGHT,
 * RP_EXPERT_TERM, and RP_EXPERT_SUM after each expert. Only experts that were chosen are read, one
 * panel at a time. Errors: an id outside [0, E) or twice in a row, shapes that do not chain, what
 * reading an expert's matrix says. */
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
};

enum err_code moe_check(const struct moe *op, struct err *err) ERR_USED;
enum err_code moe_ref(const struct moe *op, struct run *run, struct err *err) ERR_USED;

#ifdef __cplusplus
}
#endif
#endif
