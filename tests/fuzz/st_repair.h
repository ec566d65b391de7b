/* st_repair.h: mutations break the eight length bytes of a safetensors file before anything else.
 * Each input is therefore also tried with the length that ends at its last '}'. */
#ifndef ASSAY_TESTS_FUZZ_ST_REPAIR_H
#define ASSAY_TESTS_FUZZ_ST_REPAIR_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A copy with its length set, the caller's; NULL where there is no header to speak of. */
static inline uint8_t *st_repaired(const uint8_t *data, size_t size)
{
    size_t end = size;
    while (end > 8 && data[end - 1] != '}') end--;
    uint8_t *copy = end > 8 ? malloc(size) : NULL;
    if (!copy) return NULL;
    memcpy(copy, data, size);
    for (int i = 0; i < 8; i++) copy[i] = (uint8_t)((uint64_t)(end - 8) >> (8 * i));
    return copy;
}

#endif
