/* ranks_pack.c: see ranks_parts.h. */
#include "harness/ranks_parts.h"

#include <stdlib.h>
#include <string.h>

enum { STRIDE = 8 };

static int64_t padded(int64_t bytes)
{
    return (bytes + STRIDE - 1) / STRIDE * STRIDE;
}

void pack_begin(struct pack *p)
{
    p->bytes = 0;
    p->failed = false;
}

void pack_add(struct pack *p, const void *data, int64_t bytes)
{
    int64_t more = padded(bytes);
    if (p->bytes + more > p->room) {
        int64_t room = 2 * (p->bytes + more) + 1024;
        unsigned char *grown = realloc(p->data, (size_t)room);
        if (!grown) {
            p->failed = true;
            return;
        }
        p->data = grown;
        p->room = room;
    }
    memset(p->data + p->bytes, 0, (size_t)more);
    if (bytes > 0) memcpy(p->data + p->bytes, data, (size_t)bytes);
    p->bytes += more;
}

void pack_text(struct pack *p, const char *text)
{
    int64_t bytes = text ? (int64_t)strlen(text) + 1 : 0;
    pack_add(p, &bytes, sizeof bytes);
    pack_add(p, text, bytes);
}

const void *unpack_take(struct unpack *u, int64_t bytes)
{
    const unsigned char *at = u->data + u->at;
    if (u->failed || bytes < 0 || padded(bytes) > u->bytes - u->at) {
        u->failed = true;
        return NULL;
    }
    u->at += padded(bytes);
    return at;
}

bool unpack_copy(struct unpack *u, void *out, int64_t bytes)
{
    const void *at = unpack_take(u, bytes);
    if (at) memcpy(out, at, (size_t)bytes);
    return at != NULL;
}

const char *unpack_text(struct unpack *u)
{
    int64_t bytes;
    if (!unpack_copy(u, &bytes, sizeof bytes) || bytes == 0) return NULL;
    const char *text = unpack_take(u, bytes);
    if (!text || text[bytes - 1] == '\0') return text;
    u->failed = true;
    return NULL;
}
