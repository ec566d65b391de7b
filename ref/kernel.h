/* kernel.h: the inner loops of the reference that deserve a vector unit; private to ref/.
 *
 * One source, compiled for several instruction sets (kernels.cmake); every variant gives the same
 * bits, because the order of summation is fixed in the source and each step is one fused
 * multiply-add. Test: tests/test_linear.c */
#ifndef ASSAY_REF_KERNEL_H
#define ASSAY_REF_KERNEL_H

#include <stdint.h>

enum {
    KERNEL_LANES = 16
}; /* partial sums of a product; rows of x and W are padded with zeros to a multiple */

struct kernel {
    const char *name;
    /* y[t * ldy + o] = sum over k of x[t * K + k] * w[o * K + k], t < T, o < n; K a multiple of
     * KERNEL_LANES. Order: linear.h. The double form takes float32 weights, exact as they are. */
    void (*product_f32)(int64_t T, int64_t n, int64_t K, const float *x, const float *w, double *y,
                        int64_t ldy);
    void (*product_f64)(int64_t T, int64_t n, int64_t K, const double *x, const float *w, double *y,
                        int64_t ldy);
    /* out[j] = sum over i < terms, ascending, of a[i] * m[i * ld + j], j < width; ld and width
     * multiples of 8. */
    void (*mix)(int64_t terms, int64_t width, const double *a, const double *m, int64_t ld,
                double *out);
    /* 4-bit codes of one row in groups of `words` words, 8 columns a word: y[c] = bf16((code[c] - 8
     * - zero) * scale), scales bf16, one a group; zeros NULL: none. */
    void (*int4_bf16)(int64_t groups, int64_t words, const uint32_t *packed, const uint16_t *scales,
                      const int *zeros, float *y);
    void (*bf16_to_f32)(int64_t n, const uint16_t *x, float *y);
};

extern const struct kernel kernel_portable, kernel_avx2, kernel_avx512;

/* The best variant that this CPU runs; ASSAY_KERNEL=portable|avx2|avx512 in the environment forces
 * one that this CPU has; any other value changes nothing. The variant that runs is in
 * ref_side()->about. */
const struct kernel *kernel_best(void);

#endif
