/* api_read.h: what the two halves of the contract's reader share. Functions give false with the
 * error set, at the place in the file. Test: tests/test_api_read.c */
#ifndef ASSAY_COMPAT_API_READ_H
#define ASSAY_COMPAT_API_READ_H

#include "compat/api.h"
#include "core/yaml.h"

enum { API_LINE_MAX = 1 << 28 };

struct api_reader {
    const char *path;
    struct pool pool;
    struct err *err;
    const struct yaml_node *lines; /* the section of line numbers */
};

bool api_read_bad(struct api_reader *r, const struct yaml_node *n, const char *what,
                  const char *found, const char *wanted);
bool api_read_bad_key(struct api_reader *r, const struct yaml_node *n, const char *what,
                      const char *found, const char *wanted);
bool api_read_text(struct api_reader *r, const struct yaml_node *n, const char **out);
bool api_read_texts(struct api_reader *r, const struct yaml_node *n, struct api_texts *out);
/* A list of words, each setting the flag of its index; the list of words ends with NULL. */
bool api_read_words(struct api_reader *r, const struct yaml_node *n, const char *const *words,
                    bool **flag);
bool api_read_map(struct api_reader *r, const struct yaml_node *n);
int api_read_count(const struct yaml_node *n);

/* Symbols, ascending by key, into the modules that are there already. */
bool api_read_symbols(struct api_reader *r, const struct yaml_node **node, int count,
                      struct api *out);
/* The line numbers, into a finished model: exactly as many as its parts. */
bool api_read_lines(struct api_reader *r, struct api *out);

#endif
