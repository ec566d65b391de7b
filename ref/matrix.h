/* matrix.h: rows of a stored matrix as float32, and products with them; private to ref/. */
#ifndef ASSAY_REF_MATRIX_H
#define ASSAY_REF_MATRIX_H

#include "core/run.h"
#include "core/weights.h"

/* K rounded up to KERNEL_LANES: the length of a padded row. */
int64_t matrix_pad(int64_t K);

/* Bytes of scratch that matrix_rows() needs for n rows of m. */
int64_t matrix_scratch(const struct matrix *m, int64_t n);

/* out[i * matrix_pad(in) + c] = W[row + i][c], exact in float32; columns past `in` are zero. `q`,
 * where not NULL, receives the codes of a packed matrix, [n, in], before zero points. */
void matrix_rows(const struct matrix *m, int64_t row, int64_t n, void *scratch, float *out,
                 int8_t *q);

/* x [T, K] as the run multiplies it: float32 or float64, rows padded with zeros. `out` has
 * matrix_packed_bytes(). */
int64_t matrix_packed_bytes(const struct run *run, int64_t T, int64_t K);
void matrix_pack(const struct run *run, int64_t T, int64_t K, const double *x, void *out);

/* Room for one worker's panel of a matrix. */
struct panel {
    int64_t rows; /* outputs a panel */
    float *w;
    double *wide; /* linear blas in float64 */
    void *scratch;
    const struct blas *blas; /* linear blas */
};

/* Panels for `count` workers, big enough for each of the n matrices. */
struct panel *matrix_panels(const struct run *run, int count, const struct matrix *const *m, int n,
                            struct err *err);

/* y[t * ldy + (o - row)] = sum_k x[t][k] W[o][k] for o in [row, row + n), n <= panel rows; x
 * packed. Not rounded. */
void matrix_product(const struct run *run, const struct matrix *m, int64_t row, int64_t n,
                    int64_t T, const void *x, struct panel *p, double *y, int64_t ldy);

/* The whole product on all threads: y [T, out], rounded at `point`. x packed. */
enum err_code matrix_multiply(struct run *run, const struct matrix *m, int64_t T, const void *x,
                              double *y, enum round_point point, struct err *err) ERR_USED;

#endif
