/* assert_array.h: the asserts for numbers. cmocka's own assert_float_equal passes NaN against 1 and
 * +inf against -inf, so it is never used on results.
 *
 * Each compares row-major [rows, cols] arrays and prints the first cell that fails, and the count
 * of all: row, column, both values in full and as bits, the ulp distance and the bound. A NaN on
 * either side fails, an infinity only equals itself, a bound that is NaN or negative fails, and so
 * does an empty comparison: zero checks are never green. Test: tests/test_assert_array.c */
#ifndef ASSAY_TESTS_ASSERT_ARRAY_H
#define ASSAY_TESTS_ASSERT_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* |got - want| <= absolute + relative * |want| in every cell. */
#define assert_f64_near(got, want, rows, cols, absolute, relative)                                 \
    array_assert_f64_near(got, want, rows, cols, absolute, relative, __FILE__, __LINE__)
#define assert_f32_near(got, want, rows, cols, absolute, relative)                                 \
    array_assert_f32_near(got, want, rows, cols, absolute, relative, __FILE__, __LINE__)

/* At most `ulps` representable values apart; -0 and +0 are zero apart. */
#define assert_f64_ulps(got, want, rows, cols, ulps)                                               \
    array_assert_f64_ulps(got, want, rows, cols, ulps, __FILE__, __LINE__)
#define assert_f32_ulps(got, want, rows, cols, ulps)                                               \
    array_assert_f32_ulps(got, want, rows, cols, ulps, __FILE__, __LINE__)

/* The same bits in every cell: tells -0 from +0, and is the one assert under which a NaN can equal
 * a NaN. */
#define assert_f64_bits(got, want, rows, cols)                                                     \
    array_assert_f64_bits(got, want, rows, cols, __FILE__, __LINE__)
#define assert_f32_bits(got, want, rows, cols)                                                     \
    array_assert_f32_bits(got, want, rows, cols, __FILE__, __LINE__)

#define assert_i32_equal(got, want, rows, cols)                                                    \
    array_assert_i32(got, want, rows, cols, __FILE__, __LINE__)
#define assert_i64_equal(got, want, rows, cols)                                                    \
    array_assert_i64(got, want, rows, cols, __FILE__, __LINE__)

/* One value each, for results that are no arrays. */
#define assert_f64_is(got, want)                                                                   \
    array_assert_f64_bits(&(const double){got}, &(const double){want}, 1, 1, __FILE__, __LINE__)
#define assert_f64_close(got, want, absolute, relative)                                            \
    array_assert_f64_near(&(const double){got}, &(const double){want}, 1, 1, absolute, relative,   \
                          __FILE__, __LINE__)

void array_assert_f64_near(const double *got, const double *want, int64_t rows, int64_t cols,
                           double absolute, double relative, const char *file, int line);
void array_assert_f32_near(const float *got, const float *want, int64_t rows, int64_t cols,
                           double absolute, double relative, const char *file, int line);
void array_assert_f64_ulps(const double *got, const double *want, int64_t rows, int64_t cols,
                           int64_t ulps, const char *file, int line);
void array_assert_f32_ulps(const float *got, const float *want, int64_t rows, int64_t cols,
                           int64_t ulps, const char *file, int line);
void array_assert_f64_bits(const double *got, const double *want, int64_t rows, int64_t cols,
                           const char *file, int line);
void array_assert_f32_bits(const float *got, const float *want, int64_t rows, int64_t cols,
                           const char *file, int line);
void array_assert_i32(const int32_t *got, const int32_t *want, int64_t rows, int64_t cols,
                      const char *file, int line);
void array_assert_i64(const int64_t *got, const int64_t *want, int64_t rows, int64_t cols,
                      const char *file, int line);

/* The measures behind them: true when the arrays differ, with the message in text. For tests of the
 * asserts. */
enum { ARRAY_TEXT = 512 };
bool array_far_f64(const double *got, const double *want, int64_t rows, int64_t cols,
                   double absolute, double relative, char text[ARRAY_TEXT]);
bool array_far_ulps_f64(const double *got, const double *want, int64_t rows, int64_t cols,
                        int64_t ulps, char text[ARRAY_TEXT]);
bool array_far_f32(const float *got, const float *want, int64_t rows, int64_t cols, double absolute,
                   double relative, char text[ARRAY_TEXT]);
bool array_far_ulps_f32(const float *got, const float *want, int64_t rows, int64_t cols,
                        int64_t ulps, char text[ARRAY_TEXT]);
bool array_differs_bits_f64(const double *got, const double *want, int64_t rows, int64_t cols,
                            char text[ARRAY_TEXT]);
bool array_differs_bits_f32(const float *got, const float *want, int64_t rows, int64_t cols,
                            char text[ARRAY_TEXT]);
bool array_differs_i64(const int64_t *got, const int64_t *want, int64_t rows, int64_t cols,
                       char text[ARRAY_TEXT]);
bool array_differs_i32(const int32_t *got, const int32_t *want, int64_t rows, int64_t cols,
                       char text[ARRAY_TEXT]);

/* Representable values between a and b; INT64_MAX where one is NaN. */
int64_t ulps_f64(double a, double b);
int64_t ulps_f32(float a, float b);

#endif
