/* digest.h: SHA-256 of bytes in memory, as text. Test: tests/test_digest.c */
#ifndef ASSAY_CORE_DIGEST_H
#define ASSAY_CORE_DIGEST_H

#include "core/error.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { DIGEST_TEXT = 65 };

/* 64 lower-case hex digits and a NUL; `where` names the data in a message. */
enum err_code digest_sha256(const void *data, int64_t size, const char *where,
                            char hex[DIGEST_TEXT], struct err *err) ERR_USED;
/* The same of a whole file. */
enum err_code digest_file(const char *path, char hex[DIGEST_TEXT], struct err *err) ERR_USED;

#ifdef __cplusplus
}
#endif
#endif
