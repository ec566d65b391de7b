/* kernel.c: see kernel.h. Plain C; the vectors are the compiler's, from gcc's vector types. */
#include "ref/kernel.h"

#include "core/check.h"

#include <math.h>
#include <string.h>

#ifndef KERNEL_ROWS /* rows and outputs of one register tile: what 32 vector registers hold */
#define KERNEL_ROWS 6
#define KERNEL_OUTS 4
#endif

typedef float vec_f32 __attribute__((vector_size(64), aligned(4), may_alias));
typedef double vec_f64 __attribute__((vector_size(64), aligned(8), may_alias));
#define INLINE static inline __attribute__((always_inline))

INLINE vec_f32 fma_f32(vec_f32 a, vec_f32 b, vec_f32 c)
{
    vec_f32 r;
    for (int i = 0; i < 16; i++) r[i] = __builtin_fmaf(a[i], b[i], c[i]);
    return r;
}

INLINE vec_f64 fma_f64(vec_f64 a, vec_f64 b, vec_f64 c)
{
    vec_f64 r;
    for (int i = 0; i < 8; i++) r[i] = __builtin_fma(a[i], b[i], c[i]);
    return r;
}

/* Lanes j and j+8, then j+4, j+2, j+1. */
INLINE double fold_f32(vec_f32 v)
{
    float t[16];
    memcpy(t, &v, sizeof t);
    for (int h = 8; h; h /= 2) {
        for (int i = 0; i < h; i++) t[i] += t[i + h];
    }
    return (double)t[0];
}

INLINE double fold_f64(vec_f64 low, vec_f64 high)
{
    double t[8];
    vec_f64 v = low + high;
    memcpy(t, &v, sizeof t);
    for (int h = 4; h; h /= 2) {
        for (int i = 0; i < h; i++) t[i] += t[i + h];
    }
    return t[0];
}

/* One tile of m rows and n outputs; m and n are constants where it is inlined. */
INLINE void tile_f32(int m, int n, int64_t K, const float *x, const float *w, double *y, int64_t ldy)
{
    vec_f32 acc[KERNEL_ROWS][KERNEL_OUTS];
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < n; j++) acc[i][j] = (vec_f32){0};
    }
    for (int64_t k = 0; k < K; k += 16) {
        vec_f32 wv[KERNEL_OUTS];
#pragma GCC unroll 8
        for (int j = 0; j < n; j++) wv[j] = *(const vec_f32 *)(w + j * K + k);
#pragma GCC unroll 8
        for (int i = 0; i < m; i++) {
            vec_f32 xv = *(const vec_f32 *)(x + i * K + k);
#pragma GCC unroll 8
            for (int j = 0; j < n; j++) acc[i][j] = fma_f32(xv, wv[j], acc[i][j]);
        }
    }
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < n; j++) y[i * ldy + j] = fold_f32(acc[i][j]);
    }
}

static void product_f32(int64_t T, int64_t n, int64_t K, const float *x, const float *w, double *y, int64_t ldy)
{
    int64_t t = 0;
    for (; t + KERNEL_ROWS <= T; t += KERNEL_ROWS) {
        int64_t o = 0;
        for (; o + KERNEL_OUTS <= n; o += KERNEL_OUTS)
            tile_f32(KERNEL_ROWS, KERNEL_OUTS, K, x + t * K, w + o * K, y + t * ldy + o, ldy);
        for (; o < n; o++) tile_f32(KERNEL_ROWS, 1, K, x + t * K, w + o * K, y + t * ldy + o, ldy);
    }
    for (; t + 2 <= T; t += 2) {
        int64_t o = 0;
        for (; o + KERNEL_OUTS <= n; o += KERNEL_OUTS)
            tile_f32(2, KERNEL_OUTS, K, x + t * K, w + o * K, y + t * ldy + o, ldy);
        for (; o < n; o++) tile_f32(2, 1, K, x + t * K, w + o * K, y + t * ldy + o, ldy);
    }
    for (; t < T; t++) {
        int64_t o = 0;
        for (; o + KERNEL_OUTS <= n; o += KERNEL_OUTS)
            tile_f32(1, KERNEL_OUTS, K, x + t * K, w + o * K, y + t * ldy + o, ldy);
        for (; o < n; o++) tile_f32(1, 1, K, x + t * K, w + o * K, y + t * ldy + o, ldy);
    }
}

INLINE vec_f64 widen(const float *w)
{
    vec_f64 r;
    for (int i = 0; i < 8; i++) r[i] = (double)w[i];
    return r;
}

INLINE void tile_f64(int m, int n, int64_t K, const double *x, const float *w, double *y, int64_t ldy)
{
    vec_f64 low[3][4], high[3][4];
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < n; j++) low[i][j] = high[i][j] = (vec_f64){0};
    }
    for (int64_t k = 0; k < K; k += 16) {
#pragma GCC unroll 4
        for (int j = 0; j < n; j++) {
            vec_f64 w0 = widen(w + j * K + k), w1 = widen(w + j * K + k + 8);
#pragma GCC unroll 4
            for (int i = 0; i < m; i++) {
                low[i][j] = fma_f64(*(const vec_f64 *)(x + i * K + k), w0, low[i][j]);
                high[i][j] = fma_f64(*(const vec_f64 *)(x + i * K + k + 8), w1, high[i][j]);
            }
        }
    }
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < n; j++) y[i * ldy + j] = fold_f64(low[i][j], high[i][j]);
    }
}

static void product_f64(int64_t T, int64_t n, int64_t K, const double *x, const float *w, double *y, int64_t ldy)
{
    int64_t t = 0;
    for (; t + 3 <= T; t += 3) {
        int64_t o = 0;
        for (; o + 4 <= n; o += 4) tile_f64(3, 4, K, x + t * K, w + o * K, y + t * ldy + o, ldy);
        for (; o < n; o++) tile_f64(3, 1, K, x + t * K, w + o * K, y + t * ldy + o, ldy);
    }
    for (; t < T; t++) {
        int64_t o = 0;
        for (; o + 4 <= n; o += 4) tile_f64(1, 4, K, x + t * K, w + o * K, y + t * ldy + o, ldy);
        for (; o < n; o++) tile_f64(1, 1, K, x + t * K, w + o * K, y + t * ldy + o, ldy);
    }
}

static void mix(int64_t terms, int64_t width, const double *a, const double *m, int64_t ld, double *out)
{
    int64_t j = 0;
    for (; j + 32 <= width; j += 32) {
        vec_f64 acc[4] = {{0}, {0}, {0}, {0}};
        for (int64_t i = 0; i < terms; i++) {
            vec_f64 av = (vec_f64){0} + a[i];
#pragma GCC unroll 4
            for (int v = 0; v < 4; v++) acc[v] = fma_f64(av, *(const vec_f64 *)(m + i * ld + j + 8 * v), acc[v]);
        }
        memcpy(out + j, acc, sizeof acc);
    }
    for (; j < width; j += 8) {
        vec_f64 acc = {0};
        for (int64_t i = 0; i < terms; i++)
            acc = fma_f64((vec_f64){0} + a[i], *(const vec_f64 *)(m + i * ld + j), acc);
        memcpy(out + j, &acc, sizeof acc);
    }
}

/* Round to nearest even by integer arithmetic; the values are finite unless the scale is not. */
INLINE float round_bf16(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    uint32_t r = (u + 0x7fff + ((u >> 16) & 1)) & 0xffff0000u;
    r = x != x ? u | 0x00400000u : r;
    memcpy(&x, &r, sizeof x);
    return x;
}

static void int4_bf16(int64_t words, const uint32_t *packed, int zero, float scale, float *y)
{
    for (int64_t k = 0; k < words; k++) {
        uint32_t word;
        memcpy(&word, packed + k, sizeof word); /* the file may lie at an odd address */
        for (int c = 0; c < 8; c++) {
            int q = (int)((word >> (4 * c)) & 15) - 8 - zero;
            y[8 * k + c] = round_bf16((float)q * scale);
        }
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
