/* crc32.h: the checksum of zip and gzip (polynomial 0xEDB88320, reflected), eight bytes a step.
 * libzip keeps its own to itself. Test: tests/test_archive.c */
#ifndef ASSAY_CORE_CRC32_H
#define ASSAY_CORE_CRC32_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* table[k][b]: the remainder of byte b followed by k zero bytes. */
struct crc32 {
    uint32_t table[8][256];
};

void crc32_init(struct crc32 *c);
/* The checksum of what `before` is the checksum of (0: of nothing) followed by `size` bytes. */
uint32_t crc32_of(const struct crc32 *c, uint32_t before, const void *data, int64_t size);

#ifdef __cplusplus
}
#endif
#endif
