/* int4.h: compressed-tensors "pack-quantized" codes to values, op "int4". Model math 6.1.
 *
 *     u = b-bit code c of row r, lowest bits of the word = lowest column; q = u - 2^(b-1)
 *     w[r][c] = round((q - zp[r][g]) * scale[r][g]) to the scale's type, g = c / group, or g_idx[c]
 *
 * One int32 word holds 32/b codes. Word k of a row, 4 bits, high bits first:
 *     | c=8k+7 | c=8k+6 | ... | c=8k+1 | c=8k |
 * Zero points are packed along rows: zp[r][g] = code (r mod 32/b) of zero[r / (32/b)][g], minus
 * 2^(b-1). Symmetric: no zero points. Channel strategy (group 0): one scale a row. A last word is
 * padded with zero codes. Errors: see int4_check(). */
#ifndef ASSAY_CORE_INT4_H
#define ASSAY_CORE_INT4_H

#include "core/run.h"
#include "core/weights.h"

#ifdef __cplusplus
extern "C" {
#endif

struct int4 {
    const struct matrix *w; /* MATRIX_PACKED, 4 or 8 bits */
    int64_t row, n;
    int8_t *q; /* [n, in] or NULL: the integers, zero points not subtracted */
    double *y; /* [n, in]: the values */
};

/* Bits 4 or 8; shapes of all four tensors; float scale of 16 or 32 bits; every group index in
 * range. */
enum err_code int4_check(const struct int4 *op, struct err *err) ERR_USED;
enum err_code int4_ref(const struct int4 *op, struct run *run, struct err *err) ERR_USED;

#ifdef __cplusplus
}
#endif
#endif
