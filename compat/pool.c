/* pool.c: see pool.h. */
#include "compat/pool.h"

#include "core/check.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { ALIGN = 16 };

void *pool_take(struct pool *p, size_t count, size_t size, struct err *err)
{
    CHECK(p && p->arena && size > 0);
    if (count > (SIZE_MAX / 2) / size) {
        err_set(err, ERR_MEMORY, "allocate memory|pool|%zu x %zu bytes|enough memory", count, size);
        return NULL;
    }
    size_t bytes = (count * size + ALIGN - 1) / ALIGN * ALIGN;
    if (!p->at || (size_t)(p->end - p->at) < bytes) {
        size_t block = bytes > POOL_BLOCK / 4 ? bytes : POOL_BLOCK;
        unsigned char *fresh = arena_alloc(p->arena, (int64_t)block, 1, "pool", err);
        if (!fresh) return NULL;
        if (block != POOL_BLOCK) return memset(fresh, 0, bytes);
        p->at = fresh;
        p->end = fresh + block;
    }
    void *taken = p->at;
    p->at += bytes;
    return memset(taken, 0, bytes);
}

char *pool_text(struct pool *p, const char *text, size_t n, struct err *err)
{
    char *copy = pool_take(p, n + 1, 1, err);
    if (copy) memcpy(copy, text, n);
    return copy;
}

char *pool_format(struct pool *p, struct err *err, const char *format, ...)
{
    va_list list, again;
    va_start(list, format);
    va_copy(again, list);
    int n = vsnprintf(NULL, 0, format, list);
    va_end(list);
    CHECK(n >= 0);
    char *text = pool_take(p, (size_t)n + 1, 1, err);
    if (text) vsnprintf(text, (size_t)n + 1, format, again);
    va_end(again);
    return text;
}
