/* fp8.h: rows of an FP8 matrix with block scales; private to ref/. Model math 6.5:
 *     w[r][c] = bf16(e4m3(code) * scale_inv[r / block0][c / block1])
 * The scale multiplies, despite its name. */
#ifndef ASSAY_REF_FP8_H
#define ASSAY_REF_FP8_H

#include "core/weights.h"

void fp8_rows(const struct matrix *m, int64_t row, int64_t n, void *scratch, float *out,
              int64_t ld);

#endif
