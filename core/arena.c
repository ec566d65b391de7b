/* arena.c: see arena.h. Each block is one malloc; ops allocate a handful of panels, not many small
 * things. */
#include "core/arena.h"

#include "core/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64 };
#ifdef ASSAY_GUARD
enum { GUARD = 64 };
#else
enum { GUARD = 0 };
#endif
#define GUARD_BYTE 0xA5

/* Layout: [header 64][guard][user bytes, rounded up to 64][guard] */
struct arena_block {
    struct arena_block *below;
    size_t bytes; /* user bytes, rounded up */
    const char *what;
};
_Static_assert(sizeof(struct arena_block) <= ALIGN,
               "the header must fit in front of the first aligned byte");

static unsigned char *user_bytes(struct arena_block *b)
{
    return (unsigned char *)b + ALIGN + GUARD;
}

void *arena_alloc(struct arena *a, int64_t count, size_t size, const char *what, struct err *err)
{
    CHECK(a && count >= 0 && size > 0 && what);
    size_t n = (size_t)count;
    bool overflow = n > (SIZE_MAX / 2 - 4 * ALIGN - 2 * GUARD) / size;
    size_t bytes = overflow ? 0 : (n * size + ALIGN - 1) / ALIGN * ALIGN;
    bool over_limit =
        a->bytes_max && bytes > a->bytes_max - (a->bytes < a->bytes_max ? a->bytes : a->bytes_max);
    struct arena_block *b = NULL;
    if (!overflow && !over_limit) b = aligned_alloc(ALIGN, ALIGN + bytes + 2 * GUARD);
    if (!b) {
        err_set(err, ERR_MEMORY,
                "allocate memory|%s|%zu x %zu bytes refused with %zu bytes live|%s", what, n, size,
                a->bytes, over_limit ? "within the arena's limit" : "enough memory");
        return NULL;
    }
    *b = (struct arena_block){.below = a->top, .bytes = bytes, .what = what};
    a->top = b;
    a->bytes += bytes;
    if (a->bytes > a->bytes_peak) a->bytes_peak = a->bytes;
#ifdef ASSAY_GUARD
    memset(user_bytes(b) - GUARD, GUARD_BYTE, GUARD);
    memset(user_bytes(b), 0xFF, bytes);
    memset(user_bytes(b) + bytes, GUARD_BYTE, GUARD);
#endif
    return user_bytes(b);
}

struct arena_block *arena_mark(const struct arena *a)
{
    return a->top;
}

static void check_guards(struct arena_block *b)
{
#ifdef ASSAY_GUARD
    for (int i = 0; i < GUARD; i++) {
        bool low = user_bytes(b)[i - GUARD] == GUARD_BYTE,
             high = user_bytes(b)[b->bytes + (size_t)i] == GUARD_BYTE;
        if (low && high) continue;
        fprintf(stderr,
                "assay: internal error: block '%s' of %zu bytes was written %s its bounds\n",
                b->what, b->bytes, low ? "past" : "before");
        abort();
    }
#else
    (void)b;
#endif
}

void arena_release(struct arena *a, struct arena_block *mark)
{
    while (a->top && a->top != mark) {
        struct arena_block *b = a->top;
        check_guards(b);
        a->top = b->below;
        a->bytes -= b->bytes;
        free(b);
    }
    CHECK(a->top == mark);
}
