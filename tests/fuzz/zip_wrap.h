/* zip_wrap.h: zip archives in memory, made by libzip, for tests and fuzz targets: what a broken or
 * hostile writer might put there, with checksums that hold. */
#ifndef ASSAY_TESTS_FUZZ_ZIP_WRAP_H
#define ASSAY_TESTS_FUZZ_ZIP_WRAP_H

#include "core/check.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>

struct zip_part {
    const char *name;
    const void *data;
    size_t size;
    int method; /* 0: stored; else ZIP_CM_DEFLATE, ... */
};

/* The archive's bytes, the caller's (free()). */
static inline unsigned char *zip_wrap(const struct zip_part *parts, int count, size_t *size)
{
    zip_error_t why;
    zip_stat_t st;
    zip_error_init(&why);
    zip_source_t *whole = zip_source_buffer_create(NULL, 0, 0, &why);
    CHECK(whole);
    zip_t *z = zip_open_from_source(whole, ZIP_TRUNCATE, &why);
    CHECK(z);
    zip_source_keep(whole);
    for (int i = 0; i < count; i++) {
        zip_source_t *part = zip_source_buffer(z, parts[i].data, parts[i].size, 0);
        zip_int64_t at = zip_file_add(z, parts[i].name, part, ZIP_FL_ENC_UTF_8);
        CHECK(part && at >= 0);
        CHECK(zip_set_file_compression(z, (zip_uint64_t)at, parts[i].method, 0) == 0);
    }
    CHECK(zip_close(z) == 0 && zip_source_stat(whole, &st) == 0);
    unsigned char *out = malloc(st.size + 1);
    CHECK(out && zip_source_open(whole) == 0);
    CHECK(zip_source_read(whole, out, st.size) == (zip_int64_t)st.size);
    zip_source_close(whole);
    zip_source_free(whole);
    zip_error_fini(&why);
    *size = st.size;
    return out;
}

#endif
