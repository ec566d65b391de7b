/* quote_file.h: the safer way through many shells: the command as a file, carried over the standard
 * input, proved by its SHA-256, then run. Test: tests/test_verb_quote.c */
#ifndef ASSAY_HARNESS_QUOTE_FILE_H
#define ASSAY_HARNESS_QUOTE_FILE_H

#include "compat/hops.h"

#include <jansson.h>

/* Makes the script and its steps; prints them where `print`. Fields of `result`: file, sha256,
 * steps. */
enum err_code quote_file(const struct hops *h, const char *const *argv, int n, struct pool *pool,
                         bool print, json_t *result, struct err *err) ERR_USED;

#endif
