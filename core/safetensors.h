/* safetensors.h: the tensor file format, read with zero copies and written all or nothing.
 *
 *   8 bytes      header length N, little-endian
 *   N bytes      JSON: {"name": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}, ...,
 *                "__metadata__": {"key": "text", ...}}, begins with '{', may end in spaces
 *   the rest     data; offsets count from byte 8 + N
 *
 * Refused: a header longer than the file or than 100 MB; a duplicate key; an unknown dtype; a shape
 * whose bytes are not end - begin; offsets outside the file, that overlap, or that leave a hole;
 * metadata that is not text. Data may lie at odd addresses: read it through dtype.h. Test:
 * tests/test_safetensors.c */
#ifndef ASSAY_CORE_SAFETENSORS_H
#define ASSAY_CORE_SAFETENSORS_H

#include "core/dtype.h"
#include "core/error.h"
#include "core/file.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { ST_DIMS = 8 };

struct st_tensor {
    const char *name; /* borrowed from the file */
    enum dtype dtype;
    int dims;
    int64_t shape[ST_DIMS];
    int64_t count;  /* elements */
    int64_t offset; /* of the first byte, from the start of the data */
    int64_t bytes;
    const void *data;
};

struct st_meta {
    const char *key, *value;
};

struct st_file {
    char path[FILE_PATH];
    struct file_map map;
    bool mapped;               /* the map is ours to undo */
    struct st_tensor *tensors; /* by name, ascending bytes */
    int64_t count;
    struct st_meta *meta;
    int64_t metas;
    void *header; /* owns the names */
};

/* Maps and checks a file. st_close() frees it, also after an error. */
enum err_code st_open(struct st_file *f, const char *path, struct err *err) ERR_USED;
/* The same on `size` bytes in memory that outlive f; `path` is used in messages. */
enum err_code st_open_memory(struct st_file *f, const char *path, const void *data, int64_t size,
                             struct err *err) ERR_USED;
void st_close(struct st_file *f);

/* NULL when there is none. */
const struct st_tensor *st_find(const struct st_file *f, const char *name);
const char *st_meta(const struct st_file *f, const char *key);

/* "[2, 3]" for messages; returns buf. */
const char *st_shape_text(int dims, const int64_t *shape, char *buf, size_t size);

/* What a file to be written will hold. Offsets are filled in by st_plan(). */
struct st_entry {
    const char *name;
    enum dtype dtype;
    int dims;
    int64_t shape[ST_DIMS];
    int64_t offset; /* from the start of the data */
    int64_t bytes;
};

/* Lays the entries out in their order and returns the header, 8 length bytes included and padded so
 * that data starts at a multiple of 64, in *out (free()) and *size. Errors: more dims than ST_DIMS,
 * overflow, memory. */
enum err_code st_plan(struct st_entry *entries, int64_t count, const struct st_meta *meta,
                      int64_t metas, char **out, int64_t *size, struct err *err) ERR_USED;

#ifdef __cplusplus
}
#endif
#endif
