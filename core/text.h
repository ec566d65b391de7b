/* text.h: strict parsing of numbers, name patterns, and sizes for people. */
#ifndef ASSAY_CORE_TEXT_H
#define ASSAY_CORE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The whole text is one number, or false. Decimal integers without sign tricks; "12x", "", " 1" are
 * refused. */
bool text_int(const char *text, int64_t *out);
bool text_u64(const char *text, uint64_t *out);
/* A finite or infinite double; NaN is refused. */
bool text_double(const char *text, double *out);

/* Shell-like pattern: '*' any run (dots included), '?' one character. The whole name must match. */
bool text_glob(const char *pattern, const char *name);

/* "1.5 GB": powers of 1000. Returns buf. */
const char *text_bytes(double bytes, char *buf, size_t size);

/* Bytes of the UTF-8 sequence at s, of which `left` bytes (at least 1) may be read; 0 where there
 * is none: overlong forms, surrogates and what lies past U+10FFFF are none. */
size_t text_utf8(const char *s, size_t left);

bool text_starts(const char *text, const char *prefix);
bool text_ends(const char *text, const char *suffix);

#ifdef __cplusplus
}
#endif
#endif
