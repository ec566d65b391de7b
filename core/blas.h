/* blas.h: OpenBLAS, opened when it is first asked for.
 *
 * Linking it would start its threads in every run, and they spin beside ours: 25 ms of a core on a
 * short one. It is the cross-check of `--linear blas`; the default order of summation does not need
 * it. Test: tests/test_linear.c */
#ifndef ASSAY_CORE_BLAS_H
#define ASSAY_CORE_BLAS_H

#include "core/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Row-major y [m, n] = x [m, k] w[n, k]^T, one thread. */
struct blas {
    void (*sgemm)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                  const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);
    void (*dgemm)(int order, int trans_a, int trans_b, int m, int n, int k, double alpha,
                  const double *a, int lda, const double *b, int ldb, double beta, double *c,
                  int ldc);
    const char *config; /* what the library says of itself */
    const char *core;   /* the kernel it chose */
};

/* The values of CBLAS's enums. */
enum { BLAS_ROW_MAJOR = 101, BLAS_PLAIN = 111, BLAS_TRANSPOSED = 112 };

/* Opens libopenblas.so.0 once; *out lives as long as the program. ERR_DEVICE when it is not to be
 * had or was built with 64-bit integers. */
enum err_code blas_open(const struct blas **out, struct err *err) ERR_USED;

#ifdef __cplusplus
}
#endif
#endif
