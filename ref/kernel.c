/* kernel.c: see kernel.h. Plain C; the vectors are the compiler's, from gcc's vector types. */
#include "ref/kernel.h"

#include "core/check.h"

#include <math.h>
#include <string.h>

/* Bytes of one vector register, and the register tile that fits: rows and outputs. Sixteen lanes of
 * float32 are PARTS vectors, of float64 twice that; the lanes and their order are the same whatever
 * the width. */
#ifndef KERNEL_VECTOR
#define KERNEL_VECTOR 16
#define KERNEL_ROWS 2
#define KERNEL_OUTS 2
#endif

enum {
    ROWS = KERNEL_ROWS,
    OUTS = KERNEL_OUTS,
    ROWS64 = ROWS / 2 ? ROWS / 2 : 1,
    N32 = KERNEL_VECTOR / 4,
    N64 = KERNEL_VECTOR / 8,
    PARTS = 16 / N32,
    PARTS64 = 16 / N64,
};

typedef float vec_f32 __attribute__((vector_size(KERNEL_VECTOR), aligned(4), may_alias));
typedef double vec_f64 __attribute__((vector_size(KERNEL_VECTOR), aligned(8), may_alias));
#define INLINE static inline __attribute__((always_inline))

INLINE vec_f32 fma_f32(vec_f32 a, vec_f32 b, vec_f32 c)
{
    vec_f32 r;
    for (int i = 0; i < N32; i++) r[i] = __builtin_fmaf(a[i], b[i], c[i]);
    return r;
}

INLINE vec_f64 fma_f64(vec_f64 a, vec_f64 b, vec_f64 c)
{
    vec_f64 r;
    for (int i = 0; i < N64; i++) r[i] = __builtin_fma(a[i], b[i], c[i]);
    return r;
}

/* Lanes j and j+8, then j+4, j+2, j+1. */
INLINE double fold_f32(vec_f32 v[PARTS])
{
    float t[16];
    memcpy(t, v, sizeof t);
    for (int h = 8; h; h /= 2) {
        for (int i = 0; i < h; i++) t[i] += t[i + h];
    }
    return (double)t[0];
}

INLINE double fold_f64(vec_f64 v[PARTS64])
{
    double t[16];
    memcpy(t, v, sizeof t);
    for (int h = 8; h; h /= 2) {
        for (int i = 0; i < h; i++) t[i] += t[i + h];
    }
    return t[0];
}

#if KERNEL_VECTOR == 64
/* The sums of four vectors at once: y[j] = fold(v[j]). */
INLINE void fold4_f32(vec_f32 v[4][1], double *y)
{
    vec_f32 half[2];
    for (int i = 0; i < 2; i++) {
        vec_f32 a = v[2 * i][0], b = v[2 * i + 1][0];
        half[i] =
            __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
            __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30,
                                    31);
    }
    vec_f32 q = __builtin_shufflevector(half[0], half[1], 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19,
                                        24, 25, 26, 27) +
                __builtin_shufflevector(half[0], half[1], 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22,
                                        23, 28, 29, 30, 31);
    q += __builtin_shufflevector(q, q, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
    q += __builtin_shufflevector(q, q, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
    for (int j = 0; j < 4; j++) y[j] = (double)q[4 * j];
}
#define FOLD_ROW(acc, n, y)                                                                        \
    if ((n) == 4)                                                                                  \
        fold4_f32(acc, y);                                                                         \
    else                                                                                           \
        for (int j = 0; j < (n); j++) (y)[j] = fold_f32((acc)[j])
#else
#define FOLD_ROW(acc, n, y)                                                                        \
    for (int j = 0; j < (n); j++) (y)[j] = fold_f32((acc)[j])
#endif

/* One tile of m rows and n outputs; m and n are constants where it is inlined. */
INLINE void tile_f32(int m, int n, int64_t K, const float *x, const float *w, double *y,
                     int64_t ldy)
{
    vec_f32 acc[ROWS][OUTS][PARTS];
    memset(acc, 0, sizeof acc);
    for (int64_t k = 0; k < K; k += 16) {
#pragma GCC unroll 8
        for (int part = 0; part < PARTS; part++) {
            vec_f32 wv[OUTS];
#pragma GCC unroll 8
            for (int j = 0; j < n; j++) wv[j] = *(const vec_f32 *)(w + j * K + k + part * N32);
#pragma GCC unroll 8
            for (int i = 0; i < m; i++) {
                vec_f32 xv = *(const vec_f32 *)(x + i * K + k + part * N32);
#pragma GCC unroll 8
                for (int j = 0; j < n; j++) acc[i][j][part] = fma_f32(xv, wv[j], acc[i][j][part]);
            }
        }
    }
    for (int i = 0; i < m; i++) {
        FOLD_ROW(acc[i], n, y + i * ldy);
    }
}

/* m rows against n outputs in tiles of OUTS. */
INLINE void strip_f32(int m, int64_t n, int64_t K, const float *x, const float *w, double *y,
                      int64_t ldy)
{
    int64_t o = 0;
    for (; o + OUTS <= n; o += OUTS) tile_f32(m, OUTS, K, x, w + o * K, y + o, ldy);
    for (; o < n; o++) tile_f32(m, 1, K, x, w + o * K, y + o, ldy);
}

static void product_f32(int64_t T, int64_t n, int64_t K, const float *x, const float *w, double *y,
                        int64_t ldy)
{
    int64_t t = 0;
    for (; t + ROWS <= T; t += ROWS) strip_f32(ROWS, n, K, x + t * K, w, y + t * ldy, ldy);
    if (ROWS > 3) {
        for (; t + 2 <= T; t += 2) strip_f32(2, n, K, x + t * K, w, y + t * ldy, ldy);
    }
    for (; t < T; t++) strip_f32(1, n, K, x + t * K, w, y + t * ldy, ldy);
}

INLINE vec_f64 widen(const float *w)
{
    vec_f64 r;
    for (int i = 0; i < N64; i++) r[i] = (double)w[i];
    return r;
}

INLINE void tile_f64(int m, int n, int64_t K, const double *x, const float *w, double *y,
                     int64_t ldy)
{
    vec_f64 acc[ROWS64][OUTS][PARTS64];
    memset(acc, 0, sizeof acc);
    for (int64_t k = 0; k < K; k += 16) {
#pragma GCC unroll 8
        for (int part = 0; part < PARTS64; part++) {
#pragma GCC unroll 8
            for (int j = 0; j < n; j++) {
                vec_f64 wv = widen(w + j * K + k + part * N64);
#pragma GCC unroll 8
                for (int i = 0; i < m; i++)
                    acc[i][j][part] = fma_f64(*(const vec_f64 *)(x + i * K + k + part * N64), wv,
                                              acc[i][j][part]);
            }
        }
    }
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < n; j++) y[i * ldy + j] = fold_f64(acc[i][j]);
    }
}

INLINE void strip_f64(int m, int64_t n, int64_t K, const double *x, const float *w, double *y,
                      int64_t ldy)
{
    int64_t o = 0;
    for (; o + OUTS <= n; o += OUTS) tile_f64(m, OUTS, K, x, w + o * K, y + o, ldy);
    for (; o < n; o++) tile_f64(m, 1, K, x, w + o * K, y + o, ldy);
}

static void product_f64(int64_t T, int64_t n, int64_t K, const double *x, const float *w, double *y,
                        int64_t ldy)
{
    int64_t t = 0;
    for (; t + ROWS64 <= T; t += ROWS64) strip_f64(ROWS64, n, K, x + t * K, w, y + t * ldy, ldy);
    for (; t < T; t++) strip_f64(1, n, K, x + t * K, w, y + t * ldy, ldy);
}

static void mix(int64_t terms, int64_t width, const double *a, const double *m, int64_t ld,
                double *out)
{
    enum { BLOCK = 4 * N64 };
    CHECK(width % 8 == 0);
    int64_t j = 0;
    for (; j + BLOCK <= width; j += BLOCK) {
        vec_f64 acc[4];
        memset(acc, 0, sizeof acc);
        for (int64_t i = 0; i < terms; i++) {
            vec_f64 av = (vec_f64){0} + a[i];
#pragma GCC unroll 4
            for (int v = 0; v < 4; v++)
                acc[v] = fma_f64(av, *(const vec_f64 *)(m + i * ld + j + N64 * v), acc[v]);
        }
        memcpy(out + j, acc, sizeof acc);
    }
    for (; j < width; j += N64) {
        vec_f64 acc = {0};
        for (int64_t i = 0; i < terms; i++)
            acc = fma_f64((vec_f64){0} + a[i], *(const vec_f64 *)(m + i * ld + j), acc);
        memcpy(out + j, &acc, sizeof acc);
    }
}

/* (code - offset) * scale of eight columns, rounded to bf16 by integer arithmetic: nearest, ties to
 * even. A scale's low half is zero, so that a NaN passes unharmed. */
INLINE void one_word(uint32_t word, float offset, float scale, float *y)
{
    for (int c = 0; c < 8; c++) {
        float v = ((float)(int32_t)((word >> (4 * c)) & 15) - offset) * scale;
        uint32_t u;
        memcpy(&u, &v, sizeof u);
        u = (u + 0x7fff + ((u >> 16) & 1)) & 0xffff0000u;
        memcpy(y + c, &u, sizeof u);
    }
}

#if KERNEL_VECTOR == 64
typedef uint32_t vec_u32 __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t vec_i32 __attribute__((vector_size(64), aligned(4), may_alias));

/* The same for the sixteen columns of two words. */
INLINE void two_words(const uint32_t *packed, float offset, float scale, float *y)
{
    uint32_t w[2];
    memcpy(w, packed, sizeof w);
    const vec_u32 shift = {0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28};
    vec_u32 word = {w[0], w[0], w[0], w[0], w[0], w[0], w[0], w[0],
                    w[1], w[1], w[1], w[1], w[1], w[1], w[1], w[1]};
    vec_i32 code = (vec_i32)((word >> shift) & 15);
    vec_u32 u = (vec_u32)((__builtin_convertvector(code, vec_f32) - offset) * scale);
    *(vec_u32 *)y = (u + 0x7fff + ((u >> 16) & 1)) & 0xffff0000u;
}
#else
INLINE void two_words(const uint32_t *packed, float offset, float scale, float *y)
{
    uint32_t w[2];
    memcpy(w, packed, sizeof w);
    one_word(w[0], offset, scale, y);
    one_word(w[1], offset, scale, y + 8);
}
#endif

static void int4_bf16(int64_t groups, int64_t words, const uint32_t *packed, const uint16_t *scales,
                      const int *zeros, float *y)
{
    for (int64_t g = 0; g < groups; g++, packed += words, y += 8 * words) {
        uint16_t half;
        memcpy(&half, scales + g, sizeof half); /* the file may lie at an odd address */
        uint32_t bits = (uint32_t)half << 16, last;
        float scale, offset = (float)(8 + (zeros ? zeros[g] : 0));
        memcpy(&scale, &bits, sizeof scale);
        int64_t k = 0;
        for (; k + 2 <= words; k += 2) two_words(packed + k, offset, scale, y + 8 * k);
        if (k == words) continue;
        memcpy(&last, packed + k, sizeof last);
        one_word(last, offset, scale, y + 8 * k);
    }
}

static void bf16_to_f32_row(int64_t n, const uint16_t *x, float *y)
{
    for (int64_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, x + i, sizeof h);
        uint32_t u = (uint32_t)h << 16;
        memcpy(y + i, &u, sizeof u);
    }
}

#define TEXT_OF(x) #x
#define NAME_OF(x) TEXT_OF(x)

const struct kernel KERNEL = {
    .name = NAME_OF(KERNEL),
    .product_f32 = product_f32,
    .product_f64 = product_f64,
    .mix = mix,
    .int4_bf16 = int4_bf16,
    .bf16_to_f32 = bf16_to_f32_row,
};
