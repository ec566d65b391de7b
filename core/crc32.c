/* crc32.c: see crc32.h. */
#include "core/crc32.h"

void crc32_init(struct crc32 *c)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t x = b;
        for (int bit = 0; bit < 8; bit++) x = x & 1 ? x >> 1 ^ 0xEDB88320u : x >> 1;
        c->table[0][b] = x;
    }
    for (int k = 1; k < 8; k++) {
        for (int b = 0; b < 256; b++) {
            uint32_t x = c->table[k - 1][b];
            c->table[k][b] = x >> 8 ^ c->table[0][x & 255];
        }
    }
}

uint32_t crc32_of(const struct crc32 *c, uint32_t before, const void *data, int64_t size)
{
    const unsigned char *p = data;
    uint32_t x = ~before;
    for (; size >= 8; size -= 8, p += 8) {
        x ^= (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        x = c->table[7][x & 255] ^ c->table[6][x >> 8 & 255] ^ c->table[5][x >> 16 & 255] ^
            c->table[4][x >> 24] ^ c->table[3][p[4]] ^ c->table[2][p[5]] ^ c->table[1][p[6]] ^
            c->table[0][p[7]];
    }
    for (; size > 0; size--, p++) x = x >> 8 ^ c->table[0][(x ^ *p) & 255];
    return ~x;
}
