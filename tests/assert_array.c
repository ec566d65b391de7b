/* assert_array.c: see assert_array.h. One loop compares; the kind of value and of bound are data.
 */
#include "tests/assert_array.h"

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum kind { KIND_F64, KIND_F32, KIND_I64, KIND_I32 };
enum rule { RULE_NEAR, RULE_ULPS, RULE_BITS };

struct job {
    enum kind kind;
    enum rule rule;
    const void *got, *want;
    int64_t rows, cols;
    double absolute, relative;
    int64_t ulps;
};

/* Maps a float's bits to an integer line on which neighbours differ by one; both zeros map to 0. */
static int64_t line_f64(double x)
{
    int64_t i;
    memcpy(&i, &x, sizeof i);
    return i < 0 ? INT64_MIN - i : i;
}

static int64_t line_f32(float x)
{
    int32_t i;
    memcpy(&i, &x, sizeof i);
    return i < 0 ? (int64_t)INT32_MIN - i : i;
}

int64_t ulps_f64(double a, double b)
{
    if (isnan(a) || isnan(b)) return INT64_MAX;
    int64_t i = line_f64(a), j = line_f64(b), d;
    if (__builtin_sub_overflow(i > j ? i : j, i > j ? j : i, &d)) return INT64_MAX;
    return d;
}

int64_t ulps_f32(float a, float b)
{
    if (isnan(a) || isnan(b)) return INT64_MAX;
    int64_t i = line_f32(a), j = line_f32(b);
    return i > j ? i - j : j - i;
}

static double value_at(const struct job *j, const void *p, int64_t i)
{
    return j->kind == KIND_F64 ? ((const double *)p)[i] : (double)((const float *)p)[i];
}

static int64_t int_at(const struct job *j, const void *p, int64_t i)
{
    return j->kind == KIND_I64 ? ((const int64_t *)p)[i] : ((const int32_t *)p)[i];
}

static int64_t ulps_at(const struct job *j, int64_t i)
{
    if (j->kind == KIND_F64)
        return ulps_f64(((const double *)j->got)[i], ((const double *)j->want)[i]);
    return ulps_f32(((const float *)j->got)[i], ((const float *)j->want)[i]);
}

static size_t size_of(enum kind kind)
{
    return kind == KIND_F64 || kind == KIND_I64 ? 8 : 4;
}

static bool cell_fails(const struct job *j, int64_t i)
{
    if (j->kind == KIND_I64 || j->kind == KIND_I32)
        return int_at(j, j->got, i) != int_at(j, j->want, i);
    if (j->rule == RULE_BITS) {
        size_t n = size_of(j->kind);
        return memcmp((const char *)j->got + (size_t)i * n, (const char *)j->want + (size_t)i * n,
                      n) != 0;
    }
    double got = value_at(j, j->got, i), want = value_at(j, j->want, i);
    if (isnan(got) || isnan(want)) return true;
    if (isinf(got) || isinf(want)) return got != want;
    if (j->rule == RULE_ULPS) return !(ulps_at(j, i) <= j->ulps);
    return !(fabs(got - want) <= j->absolute + j->relative * fabs(want));
}

static bool bound_is_void(const struct job *j)
{
    if (j->rule == RULE_NEAR) return !(j->absolute >= 0 && j->relative >= 0);
    return j->rule == RULE_ULPS && j->ulps < 0;
}

static void describe(const struct job *j, int64_t i, int64_t failures, char text[ARRAY_TEXT])
{
    int64_t row = i / j->cols, col = i % j->cols, all = j->rows * j->cols;
    int n = snprintf(text, ARRAY_TEXT, "row %" PRId64 ", column %" PRId64 ": ", row, col);
    if (j->kind == KIND_I64 || j->kind == KIND_I32) {
        snprintf(text + n, (size_t)(ARRAY_TEXT - n),
                 "got %" PRId64 ", want %" PRId64 "; %" PRId64 " of %" PRId64 " cells fail",
                 int_at(j, j->got, i), int_at(j, j->want, i), failures, all);
        return;
    }
    double got = value_at(j, j->got, i), want = value_at(j, j->want, i);
    int64_t ulps = ulps_at(j, i);
    char distance[32], bound[64] = "the same bits";
    snprintf(distance, sizeof distance, "%" PRId64, ulps);
    if (ulps == INT64_MAX) snprintf(distance, sizeof distance, "no number of");
    if (j->rule == RULE_ULPS) snprintf(bound, sizeof bound, "%" PRId64 " ulp", j->ulps);
    if (j->rule == RULE_NEAR)
        snprintf(bound, sizeof bound, "%.3g + %.3g |want|", j->absolute, j->relative);
    snprintf(text + n, (size_t)(ARRAY_TEXT - n),
             "got %.17g (%a), want %.17g (%a), difference %.3g, %s ulp apart, bound %s; %" PRId64
             " of %" PRId64 " cells fail",
             got, got, want, want, got - want, distance, bound, failures, all);
}

static bool differs(const struct job *j, char text[ARRAY_TEXT])
{
    text[0] = '\0';
    if (j->rows <= 0 || j->cols <= 0) {
        snprintf(text, ARRAY_TEXT, "nothing to compare: %" PRId64 " rows of %" PRId64, j->rows,
                 j->cols);
        return true;
    }
    if (bound_is_void(j)) {
        snprintf(text, ARRAY_TEXT, "no usable bound: %g + %g |want|, %" PRId64 " ulp", j->absolute,
                 j->relative, j->ulps);
        return true;
    }
    int64_t first = -1, failures = 0;
    for (int64_t i = 0; i < j->rows * j->cols; i++) {
        if (!cell_fails(j, i)) continue;
        if (first < 0) first = i;
        failures++;
    }
    if (first >= 0) describe(j, first, failures, text);
    return first >= 0;
}

static void must_agree(const struct job *j, const char *file, int line)
{
    char text[ARRAY_TEXT];
    if (!differs(j, text)) return;
    print_error("%s\n", text);
    _fail(file, line);
}

bool array_far_f64(const double *got, const double *want, int64_t rows, int64_t cols,
                   double absolute, double relative, char text[ARRAY_TEXT])
{
    return differs(&(struct job){KIND_F64, RULE_NEAR, got, want, rows, cols, absolute, relative, 0},
                   text);
}

bool array_far_f32(const float *got, const float *want, int64_t rows, int64_t cols, double absolute,
                   double relative, char text[ARRAY_TEXT])
{
    return differs(&(struct job){KIND_F32, RULE_NEAR, got, want, rows, cols, absolute, relative, 0},
                   text);
}

bool array_far_ulps_f64(const double *got, const double *want, int64_t rows, int64_t cols,
                        int64_t ulps, char text[ARRAY_TEXT])
{
    return differs(&(struct job){KIND_F64, RULE_ULPS, got, want, rows, cols, 0, 0, ulps}, text);
}

bool array_far_ulps_f32(const float *got, const float *want, int64_t rows, int64_t cols,
                        int64_t ulps, char text[ARRAY_TEXT])
{
    return differs(&(struct job){KIND_F32, RULE_ULPS, got, want, rows, cols, 0, 0, ulps}, text);
}

bool array_differs_bits_f64(const double *got, const double *want, int64_t rows, int64_t cols,
                            char text[ARRAY_TEXT])
{
    return differs(&(struct job){KIND_F64, RULE_BITS, got, want, rows, cols, 0, 0, 0}, text);
}

bool array_differs_bits_f32(const float *got, const float *want, int64_t rows, int64_t cols,
                            char text[ARRAY_TEXT])
{
    return differs(&(struct job){KIND_F32, RULE_BITS, got, want, rows, cols, 0, 0, 0}, text);
}

bool array_differs_i64(const int64_t *got, const int64_t *want, int64_t rows, int64_t cols,
                       char text[ARRAY_TEXT])
{
    return differs(&(struct job){KIND_I64, RULE_BITS, got, want, rows, cols, 0, 0, 0}, text);
}

bool array_differs_i32(const int32_t *got, const int32_t *want, int64_t rows, int64_t cols,
                       char text[ARRAY_TEXT])
{
    return differs(&(struct job){KIND_I32, RULE_BITS, got, want, rows, cols, 0, 0, 0}, text);
}

void array_assert_f64_near(const double *got, const double *want, int64_t rows, int64_t cols,
                           double absolute, double relative, const char *file, int line)
{
    must_agree(&(struct job){KIND_F64, RULE_NEAR, got, want, rows, cols, absolute, relative, 0},
               file, line);
}

void array_assert_f32_near(const float *got, const float *want, int64_t rows, int64_t cols,
                           double absolute, double relative, const char *file, int line)
{
    must_agree(&(struct job){KIND_F32, RULE_NEAR, got, want, rows, cols, absolute, relative, 0},
               file, line);
}

void array_assert_f64_ulps(const double *got, const double *want, int64_t rows, int64_t cols,
                           int64_t ulps, const char *file, int line)
{
    must_agree(&(struct job){KIND_F64, RULE_ULPS, got, want, rows, cols, 0, 0, ulps}, file, line);
}

void array_assert_f32_ulps(const float *got, const float *want, int64_t rows, int64_t cols,
                           int64_t ulps, const char *file, int line)
{
    must_agree(&(struct job){KIND_F32, RULE_ULPS, got, want, rows, cols, 0, 0, ulps}, file, line);
}

void array_assert_f64_bits(const double *got, const double *want, int64_t rows, int64_t cols,
                           const char *file, int line)
{
    must_agree(&(struct job){KIND_F64, RULE_BITS, got, want, rows, cols, 0, 0, 0}, file, line);
}

void array_assert_f32_bits(const float *got, const float *want, int64_t rows, int64_t cols,
                           const char *file, int line)
{
    must_agree(&(struct job){KIND_F32, RULE_BITS, got, want, rows, cols, 0, 0, 0}, file, line);
}

void array_assert_i32(const int32_t *got, const int32_t *want, int64_t rows, int64_t cols,
                      const char *file, int line)
{
    must_agree(&(struct job){KIND_I32, RULE_BITS, got, want, rows, cols, 0, 0, 0}, file, line);
}

void array_assert_i64(const int64_t *got, const int64_t *want, int64_t rows, int64_t cols,
                      const char *file, int line)
{
    must_agree(&(struct job){KIND_I64, RULE_BITS, got, want, rows, cols, 0, 0, 0}, file, line);
}
