/* logits.c: argument checks and the greedy choice of logits.h. */
#include "core/logits.h"

#include "core/matrix.h"

#include <math.h>

enum err_code logits_check(const struct logits *op, struct err *err)
{
    if (op->T < 0 || !op->head)
        return err_set(err, ERR_INPUT, "logits||T = %lld%s|0 or more rows, and a head",
                       (long long)op->T, op->head ? "" : ", no head");
    return matrix_check(op->head, err);
}

int64_t logits_argmax(const double *row, int64_t V, double *margin)
{
    int64_t best = -1;
    double second = -INFINITY;
    for (int64_t i = 0; i < V; i++) {
        if (isnan(row[i])) {
            *margin = NAN;
            return -1;
        }
        if (best < 0 || row[i] > row[best]) {
            if (best >= 0) second = row[best];
            best = i;
        } else if (row[i] > second) {
            second = row[i];
        }
    }
    *margin = best < 0 ? NAN : row[best] - second;
    return best;
}
