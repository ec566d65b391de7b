/* bytes.h: whole numbers as little-endian bytes: what files and messages hold, on a machine of
 * either order. Test: tests/test_bytes.c */
#ifndef ASSAY_CORE_BYTES_H
#define ASSAY_CORE_BYTES_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The low `count` bytes of value, 0 to 8, at any address. */
void bytes_put(void *out, uint64_t value, int count);
/* `count` bytes, 0 to 8, at any address; what they do not reach is 0. */
uint64_t bytes_get(const void *from, int count);

#ifdef __cplusplus
}
#endif
#endif
