/* int4.h: rows of a packed matrix; private to ref/. Contract and formula: core/int4.h. */
#ifndef ASSAY_REF_INT4_H
#define ASSAY_REF_INT4_H

#include "core/weights.h"

int64_t int4_scratch(const struct matrix *m, int64_t n);
/* out[i * ld + c], q[i * in + c] as matrix_rows(). */
void int4_rows(const struct matrix *m, int64_t row, int64_t n, void *scratch, float *out,
               int64_t ld, int8_t *q);

#endif
