/* bytes.c: see bytes.h. */
#include "core/bytes.h"

void bytes_put(void *out, uint64_t value, int count)
{
    unsigned char *p = out;
    for (int i = 0; i < count; i++) p[i] = (unsigned char)(value >> 8 * i);
}

uint64_t bytes_get(const void *from, int count)
{
    const unsigned char *p = from;
    uint64_t value = 0;
    for (int i = 0; i < count; i++) value |= (uint64_t)p[i] << 8 * i;
    return value;
}
