/* logits.h: op "logits".
 *     y = W_head x         a linear, rounded at RP_LOGITS; no scale, no cap: model math 8.5
 * x [T, H] (after the final norm), head [V, H], y [T, V]. Greedy choice: logits_argmax(), ties to
 * the lower id. */
#ifndef ASSAY_CORE_LOGITS_H
#define ASSAY_CORE_LOGITS_H

#include "core/run.h"
#include "core/weights.h"

#ifdef __cplusplus
extern "C" {
#endif

struct logits {
    int64_t T;
    const double *x;           /* [T, H] */
    const struct matrix *head; /* [V, H] */
    double *y;                 /* [T, V] */
};

/* The id of the largest of V values, the lowest on a tie; *margin = largest minus the largest of
 * the others. NaN anywhere: -1. */
int64_t logits_argmax(const double *row, int64_t V, double *margin);

enum err_code logits_check(const struct logits *op, struct err *err) ERR_USED;
enum err_code logits_ref(const struct logits *op, struct run *run, struct err *err) ERR_USED;

#ifdef __cplusplus
}
#endif
#endif
