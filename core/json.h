/* json.h: JSON through jansson, with errors that say where. Duplicate keys and NUL bytes are
 * refused. Getters take `where` (a file or object name) for the message. Test: tests/test_json.c */
#ifndef ASSAY_CORE_JSON_H
#define ASSAY_CORE_JSON_H

#include "core/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Parses `size` bytes; *out is the caller's (json_decref). Error: line and column, in `where`. */
enum err_code json_parse(const char *text, int64_t size, const char *where, json_t **out,
                         struct err *err) ERR_USED;
enum err_code json_read(const char *path, json_t **out, struct err *err) ERR_USED;

/* A needed key of an object. Wrong type, missing key and (int) value outside [min, max] are errors.
 */
enum err_code json_int(const json_t *obj, const char *key, int64_t min, int64_t max,
                       const char *where, int64_t *out, struct err *err) ERR_USED;
enum err_code json_double(const json_t *obj, const char *key, const char *where, double *out,
                          struct err *err) ERR_USED;

/* As above, but an absent key or null gives the default. */
enum err_code json_int_or(const json_t *obj, const char *key, int64_t min, int64_t max,
                          int64_t dflt, const char *where, int64_t *out, struct err *err) ERR_USED;
enum err_code json_double_or(const json_t *obj, const char *key, double dflt, const char *where,
                             double *out, struct err *err) ERR_USED;
enum err_code json_bool_or(const json_t *obj, const char *key, bool dflt, const char *where,
                           bool *out, struct err *err) ERR_USED;
/* *out is borrowed from obj. */
enum err_code json_text_or(const json_t *obj, const char *key, const char *dflt, const char *where,
                           const char **out, struct err *err) ERR_USED;

/* A text that another program gave, which may be no UTF-8, and is NULL for "": then each byte from
 * 0x80 on stands as \xNN. Whole, whatever its length. NULL: no memory. The caller's. */
json_t *json_any_text(const char *text);

/* What --json says of an error: {what, where, found, wanted, chain: [...]}. The caller's. */
json_t *json_err(const struct err *err);

/* The key exists and is not null. */
bool json_has(const json_t *obj, const char *key);
/* "an object", "an integer": for messages. */
const char *json_kind(const json_t *v);

#endif
