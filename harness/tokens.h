/* tokens.h: token lists from the command line.
 *
 * T is "1,5,9", or a file: a JSON array (or array of arrays: a batch), JSONL with `input_ids` a
 * line, or safetensors with a tensor `input_ids` ([T] or [B, T]); "@golden.json" takes the field
 * `tokens` of that file. Test: tests/test_tokens.c */
#ifndef ASSAY_HARNESS_TOKENS_H
#define ASSAY_HARNESS_TOKENS_H

#include "core/error.h"

#include <stdint.h>

struct tokens {
    int64_t *id; /* [count], the concatenated batch */
    int64_t count;
    int64_t *length; /* [sequences] */
    int64_t sequences;
};

/* Refused: no tokens, an empty sequence, what is no whole number of 0 or more. */
enum err_code tokens_read(const char *spec, struct tokens *out, struct err *err) ERR_USED;
/* The text of a JSON file: an array, an array of arrays, or an object with `tokens` or `input_ids`.
 */
enum err_code tokens_parse_json(const char *text, int64_t size, const char *where,
                                struct tokens *out, struct err *err) ERR_USED;
/* One sequence of n ids. */
enum err_code tokens_copy(const int64_t *id, int64_t n, const int64_t *length, int64_t sequences,
                          struct tokens *out, struct err *err) ERR_USED;
/* Every id lies in [0, vocab), or an error names the place. */
enum err_code tokens_check(const struct tokens *t, int64_t vocab, struct err *err) ERR_USED;
void tokens_free(struct tokens *t);

#endif
