/* dtype.c: see dtype.h. */
#include "core/dtype.h"

#include "core/check.h"
#include "core/clones.h"

#include <math.h>
#include <string.h>

/* Tensor data lies wherever a file's header ends, so every load must bear an odd address. */
typedef uint16_t u16_any __attribute__((aligned(1), may_alias));
typedef uint32_t u32_any __attribute__((aligned(1), may_alias));
typedef uint64_t u64_any __attribute__((aligned(1), may_alias));
typedef float f32_any __attribute__((aligned(1), may_alias));
typedef double f64_any __attribute__((aligned(1), may_alias));

static const struct {
    const char *name;
    int size;
    bool is_float, is_int;
    double unit;
} types[DT_COUNT] = {
    [DT_BOOL] = {"BOOL", 1, false, true, 0},
    [DT_U8] = {"U8", 1, false, true, 0},
    [DT_I8] = {"I8", 1, false, true, 0},
    [DT_F8_E4M3] = {"F8_E4M3", 1, true, false, 0x1p-4},
    [DT_F8_E5M2] = {"F8_E5M2", 1, true, false, 0x1p-3},
    [DT_F8_E8M0] = {"F8_E8M0", 1, true, false, 0.5},
    [DT_I16] = {"I16", 2, false, true, 0},
    [DT_U16] = {"U16", 2, false, true, 0},
    [DT_F16] = {"F16", 2, true, false, 0x1p-11},
    [DT_BF16] = {"BF16", 2, true, false, 0x1p-8},
    [DT_I32] = {"I32", 4, false, true, 0},
    [DT_U32] = {"U32", 4, false, true, 0},
    [DT_F32] = {"F32", 4, true, false, 0x1p-24},
    [DT_I64] = {"I64", 8, false, true, 0},
    [DT_U64] = {"U64", 8, false, true, 0},
    [DT_F64] = {"F64", 8, true, false, 0x1p-53},
    [DT_C64] = {"C64", 8, false, false, 0},
};

const char *dtype_name(enum dtype t)
{
    return (unsigned)t < DT_COUNT ? types[t].name : "?";
}

bool dtype_parse(const char *name, enum dtype *out)
{
    for (int i = 0; i < DT_COUNT; i++) {
        if (strcmp(types[i].name, name) == 0) {
            *out = (enum dtype)i;
            return true;
        }
    }
    return false;
}

int dtype_size(enum dtype t)
{
    CHECK((unsigned)t < DT_COUNT);
    return types[t].size;
}

bool dtype_is_float(enum dtype t)
{
    return (unsigned)t < DT_COUNT && types[t].is_float;
}

bool dtype_is_int(enum dtype t)
{
    return (unsigned)t < DT_COUNT && types[t].is_int;
}

double dtype_unit(enum dtype t)
{
    CHECK(dtype_is_float(t));
    return types[t].unit;
}

uint32_t f32_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

float f32_from_bits(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

uint16_t bf16_from_f32(float x)
{
    uint32_t u = f32_bits(x);
    if (x != x)
        return (uint16_t)((u >> 16) | 0x40); /* rounding must not turn a NaN into an infinity */
    return (uint16_t)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

float bf16_to_f32(uint16_t h)
{
    return f32_from_bits((uint32_t)h << 16);
}

uint16_t f16_from_f32(float x)
{
    uint32_t u = f32_bits(x);
    uint16_t sign = (uint16_t)((u >> 16) & 0x8000);
    float a = fabsf(x);
    if (x != x) return (uint16_t)(sign | 0x7e00);
    if (a >= 65520.0f) return (uint16_t)(sign | 0x7c00);
    if (a < 0x1p-14f)
        return (uint16_t)(sign | (uint16_t)lrintf(a * 0x1p24f)); /* subnormal: units of 2^-24 */
    uint32_t m = (u & 0x7fffffff) + 0xfff + ((u >> 13) & 1);
    return (uint16_t)(sign | (uint16_t)((m - 0x38000000) >> 13));
}

float f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = (h >> 10) & 31, m = h & 1023;
    if (e == 31) return f32_from_bits(sign | 0x7f800000 | (m << 13));
    if (e == 0) {
        float v = (float)m * 0x1p-24f;
        return sign ? -v : v;
    }
    return f32_from_bits(sign | ((e + 112) << 23) | (m << 13));
}

/* A small float of `ebits` and `mbits` without special values. */
static float small_float(uint8_t b, int mbits, int bias)
{
    int e = (b & 0x7f) >> mbits, m = b & ((1 << mbits) - 1);
    float v = e ? ldexpf((float)(m + (1 << mbits)), e - bias - mbits)
                : ldexpf((float)m, 1 - bias - mbits);
    return b & 0x80 ? -v : v;
}

float e4m3_to_f32(uint8_t b)
{
    return (b & 0x7f) == 0x7f ? NAN : small_float(b, 3, 7);
}

float e5m2_to_f32(uint8_t b)
{
    if ((b & 0x7c) == 0x7c) return b & 3 ? NAN : b & 0x80 ? -INFINITY : INFINITY;
    return small_float(b, 2, 15);
}

float e8m0_to_f32(uint8_t b)
{
    return b == 0xff ? NAN : ldexpf(1.0f, (int)b - 127);
}

double dtype_round(enum dtype t, double x)
{
    switch (t) {
    case DT_F64:
        return x;
    case DT_F32:
        return (double)(float)x;
    case DT_BF16:
        return (double)bf16_to_f32(bf16_from_f32((float)x));
    case DT_F16:
        return (double)f16_to_f32(f16_from_f32((float)x));
    default:
        CHECK(false); /* dtype_round: a float type of 16 bits or more */
        return x;
    }
}

int64_t dtype_int_at(enum dtype t, const void *src, int64_t i)
{
    switch (t) {
    case DT_BOOL:
    case DT_U8:
        return ((const uint8_t *)src)[i];
    case DT_I8:
        return ((const int8_t *)src)[i];
    case DT_I16:
        return (int16_t)((const u16_any *)src)[i];
    case DT_U16:
        return ((const u16_any *)src)[i];
    case DT_I32:
        return (int32_t)((const u32_any *)src)[i];
    case DT_U32:
        return ((const u32_any *)src)[i];
    case DT_I64:
        return (int64_t)((const u64_any *)src)[i];
    case DT_U64:
        return (int64_t)((const u64_any *)src)[i];
    default:
        CHECK(false); /* dtype_int_at: an integer type */
        return 0;
    }
}

/* One element as float32; float64 and 64-bit integers do not pass here. */
static float element_f32(enum dtype t, const void *src, int64_t i)
{
    switch (t) {
    case DT_F32:
        return ((const f32_any *)src)[i];
    case DT_BF16:
        return bf16_to_f32(((const u16_any *)src)[i]);
    case DT_F16:
        return f16_to_f32(((const u16_any *)src)[i]);
    case DT_F8_E4M3:
        return e4m3_to_f32(((const uint8_t *)src)[i]);
    case DT_F8_E5M2:
        return e5m2_to_f32(((const uint8_t *)src)[i]);
    case DT_F8_E8M0:
        return e8m0_to_f32(((const uint8_t *)src)[i]);
    default:
        CHECK(false); /* element_f32: a float type of 32 bits or fewer */
        return 0;
    }
}

/* The widenings that most of a dump goes through, for every vector unit. f16: the exponent is moved
 * by a multiplication, which is exact and right for subnormals too; infinities and NaN come out at
 * or above 65536 and get their exponent back. */
#define WIDE CLONES __attribute__((optimize("O3")))

WIDE static void f32_widen(const void *src, int64_t n, double *out)
{
    for (int64_t i = 0; i < n; i++) out[i] = (double)((const f32_any *)src)[i];
}

WIDE static void bf16_widen(const void *src, int64_t n, double *out)
{
    for (int64_t i = 0; i < n; i++) {
        union {
            uint32_t bits;
            float x;
        } f = {.bits = (uint32_t)((const u16_any *)src)[i] << 16};
        out[i] = (double)f.x;
    }
}

WIDE static void f16_widen(const void *src, int64_t n, double *out)
{
    for (int64_t i = 0; i < n; i++) {
        union {
            uint32_t bits;
            float x;
        } f = {.bits = (uint32_t)(((const u16_any *)src)[i] & 0x7fff) << 13};
        f.x *= 0x1p112f;
        f.bits |= f.x >= 65536.0f ? 0x7f800000u : 0u;
        f.bits |= (uint32_t)(((const u16_any *)src)[i] & 0x8000) << 16;
        out[i] = (double)f.x;
    }
}

void dtype_to_f64(enum dtype t, const void *src, int64_t n, double *out)
{
    CHECK(n == 0 || (src && out));
    if (t == DT_F64) {
        memcpy(out, src, (size_t)n * sizeof *out);
    } else if (dtype_is_int(t)) {
        for (int64_t i = 0; i < n; i++) out[i] = (double)dtype_int_at(t, src, i);
    } else if (t == DT_F32) {
        f32_widen(src, n, out);
    } else if (t == DT_BF16) {
        bf16_widen(src, n, out);
    } else if (t == DT_F16) {
        f16_widen(src, n, out);
    } else {
        for (int64_t i = 0; i < n; i++) out[i] = (double)element_f32(t, src, i);
    }
}

void dtype_to_f32(enum dtype t, const void *src, int64_t n, float *out)
{
    CHECK(n == 0 || (src && out));
    if (t == DT_F32) {
        memcpy(out, src, (size_t)n * sizeof *out);
    } else if (t == DT_BF16) { /* a loop of its own: it vectorises, and most weights pass here */
        for (int64_t i = 0; i < n; i++) out[i] = bf16_to_f32(((const u16_any *)src)[i]);
    } else if (t == DT_F64) {
        for (int64_t i = 0; i < n; i++) out[i] = (float)((const f64_any *)src)[i];
    } else if (dtype_is_int(t)) {
        for (int64_t i = 0; i < n; i++) out[i] = (float)dtype_int_at(t, src, i);
    } else {
        for (int64_t i = 0; i < n; i++) out[i] = element_f32(t, src, i);
    }
}

void dtype_from_f64(enum dtype t, const double *src, int64_t n, void *dst)
{
    CHECK(n == 0 || (src && dst));
    for (int64_t i = 0; i < n; i++) {
        switch (t) {
        case DT_F64:
            ((double *)dst)[i] = src[i];
            break;
        case DT_F32:
            ((float *)dst)[i] = (float)src[i];
            break;
        case DT_BF16:
            ((uint16_t *)dst)[i] = bf16_from_f32((float)src[i]);
            break;
        case DT_F16:
            ((uint16_t *)dst)[i] = f16_from_f32((float)src[i]);
            break;
        default:
            CHECK(false); /* dtype_from_f64: a float type of 16 bits or more */
        }
    }
}
