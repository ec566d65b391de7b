/* arena.h: scratch memory of one run. A stack of blocks: allocate, remember a mark, release back to
 * it.
 *
 * Every block is 64-byte aligned. In debug builds (ASSAY_GUARD) each has guard bands on both sides
 * that are checked at release, and its bytes start as 0xFF (NaN in every float format), so that
 * what is read before it is written shows. Not for use by two threads at once. Test:
 * tests/test_arena.c */
#ifndef ASSAY_CORE_ARENA_H
#define ASSAY_CORE_ARENA_H

#include "core/error.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct arena_block;

struct arena {
    struct arena_block *top;
    size_t bytes;      /* live now, without guard bands */
    size_t bytes_peak; /* most that ever lived at once */
    size_t bytes_max;  /* 0: no limit; else an allocation past it fails as if memory were short */
};

#define ARENA_INIT                                                                                 \
    {                                                                                              \
        0                                                                                          \
    }

/* count * size bytes (a zero product gives a valid pointer). NULL with `err` set (ERR_MEMORY: what,
 * wanted bytes, live bytes) when memory is short or the product overflows. */
void *arena_alloc(struct arena *a, int64_t count, size_t size, const char *what, struct err *err);

/* The state to come back to. */
struct arena_block *arena_mark(const struct arena *a);
/* Frees everything allocated after `mark` (NULL: all). A broken guard band aborts with the block's
 * name. */
void arena_release(struct arena *a, struct arena_block *mark);

#ifdef __cplusplus
}
#endif
#endif
