/* pool.h: many small things in one arena: blocks of POOL_BLOCK bytes that are filled from below.
 * What is taken is zeroed and lives as long as the arena. Test: tests/test_uses.c */
#ifndef ASSAY_COMPAT_POOL_H
#define ASSAY_COMPAT_POOL_H

#include "core/arena.h"
#include "core/error.h"

#include <stddef.h>

enum { POOL_BLOCK = 1 << 16 };

struct pool {
    struct arena *arena;
    unsigned char *at, *end; /* of the block that is being filled */
};

/* NULL with `err` set (ERR_MEMORY) when memory is short. Aligned for any plain type. */
void *pool_take(struct pool *p, size_t count, size_t size, struct err *err);
/* A copy of n bytes and a NUL. */
char *pool_text(struct pool *p, const char *text, size_t n, struct err *err);
/* printf into the pool. */
char *pool_format(struct pool *p, struct err *err, const char *format, ...) ERR_PRINTF(3, 4);

#endif
