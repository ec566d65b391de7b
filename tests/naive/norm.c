/* norm.c: y = w x / sqrt(mean(x^2) + eps), from norm.h; see naive.h. */
#include "tests/naive/naive.h"

#include <math.h>

enum err_code norm_naive(const struct norm *op, struct run *run, struct err *err)
{
    if (naive_begin(run, "norm", err) != ERR_OK || norm_check(op, err) != ERR_OK) return err->code;
    for (int64_t t = 0; t < op->T; t++) {
        const double *x = op->x + t * op->H;
        double sum = 0;
        for (int64_t i = 0; i < op->H; i++) sum += x[i] * x[i];
        double root = sqrt(sum / (double)op->H + op->eps);
        for (int64_t i = 0; i < op->H; i++) {
            double w = op->w ? naive_element(op->w, i) : 1;
            op->y[t * op->H + i] = w * x[i] / root;
        }
    }
    return ERR_OK;
}
