/* sample_files.h: torch files that a test builds key by key, right or wrong. */
#ifndef ASSAY_TESTS_SAMPLE_FILES_H
#define ASSAY_TESTS_SAMPLE_FILES_H

#include "core/pt.h"

/* A tensor of zeros, its memory kept until sample_files_free(). */
struct pt_value zeros(enum dtype dtype, int dims, const int64_t *shape);
/* Ids 0, 1, 2, ... */
struct pt_value counting(int64_t count);
void sample_files_free(void);

/* Up to 8 keys and values. */
struct dict {
    struct pt_value keys[8], items[8];
    int64_t count;
};
void dict_add(struct dict *d, const char *key, struct pt_value value);
/* Changes the value of a key; `value` NULL: removes it. */
void pt_dict_set(struct dict *d, const char *key, const struct pt_value *value);
void dict_write(const struct dict *d, const char *path);

#endif
