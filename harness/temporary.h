/* temporary.h: names for dumps that a comparison makes for itself. Test: tests/test_foreign.c,
 * tests/test_diff.c */
#ifndef ASSAY_HARNESS_TEMPORARY_H
#define ASSAY_HARNESS_TEMPORARY_H

#include "core/error.h"
#include "core/file.h"

/* A name of this process that was not given before, in TMPDIR, else /tmp; out has FILE_PATH bytes.
 */
enum err_code temporary_dump(char *out, struct err *err) ERR_USED;

#endif
