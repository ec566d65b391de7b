/* int4.cuh: packed codes to values, op int4 on the device. Contract: core/int4.h */
#ifndef ASSAY_GPU_INT4_CUH
#define ASSAY_GPU_INT4_CUH

#include "gpu/weights.cuh"

/* Rows [row, row + n) of w: integers q [n, in] int8 (may be NULL) and values y [n, in] float32
 * (exact: round((q - zp) * scale) to the scale's type). */
enum err_code gpu_int4(struct gpu *g, const struct gpu_matrix *w, int64_t row, int64_t n, int8_t *q,
                       float *y, struct err *err) ERR_USED;

#endif
