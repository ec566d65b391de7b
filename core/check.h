/* check.h: assertions that only our own code can break. Always on, in every build; data, files,
 * devices and flags never reach them (those are `struct err`). CHECK is an expression, so it is
 * safe before `else`. */
#ifndef ASSAY_CORE_CHECK_H
#define ASSAY_CORE_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "assay must not be built with fast-math: NaN would pass every comparison"
#endif

/* Prints file, line, text and aborts. */
#if defined(__GNUC__)
__attribute__((noreturn))
#endif
void check_failed(const char *file, int line, const char *text);

#define CHECK(cond) ((cond) ? (void)0 : check_failed(__FILE__, __LINE__, #cond))

#ifdef __cplusplus
}
#endif
#endif
