/* rope.c: each pair turned by position times frequency, from rope.h; see naive.h. */
#include "tests/naive/naive.h"

#include <math.h>

enum err_code rope_naive(const struct rope *op, struct run *run, struct err *err)
{
    if (naive_begin(run, "rope", err) != ERR_OK || rope_check(op, err) != ERR_OK) return err->code;
    int64_t half = op->table->R / 2;
    for (int64_t t = 0; t < op->T; t++) {
        for (int64_t h = 0; h < op->heads; h++) {
            double *x = op->x + (t * op->heads + h) * op->stride + op->offset;
            for (int64_t i = 0; i < half; i++) {
                float angle = (float)op->position[t] * op->table->frequency[i];
                double c = op->table->factor * cos((double)angle),
                       s = op->table->factor * sin((double)angle);
                double *first = op->interleaved ? &x[2 * i] : &x[i];
                double *second = op->interleaved ? &x[2 * i + 1] : &x[i + half];
                double a = *first, b = *second;
                *first = a * c - b * s;
                *second = b * c + a * s;
            }
        }
    }
    return ERR_OK;
}
