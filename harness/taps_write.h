/* taps_write.h: a dump written from taps that lie in memory, whatever their types. Test:
 * tests/test_assay.c */
#ifndef ASSAY_HARNESS_TAPS_WRITE_H
#define ASSAY_HARNESS_TAPS_WRITE_H

#include "core/safetensors.h"
#include "harness/assay.h"

/* All or nothing. Errors: sizes below 0, a type that is none, a name twice, what writing a file can
 * say. */
enum err_code taps_write(const char *path, const struct assay_tap *taps, int64_t count,
                         const struct st_meta *meta, int64_t metas, struct err *err) ERR_USED;

#endif
