/* segment.h: memory that two processes share, without a name: it goes with its last holder, so a
 * process that is killed leaves nothing behind. Passed as a file descriptor. Test:
 * tests/test_wire.c */
#ifndef ASSAY_HARNESS_SEGMENT_H
#define ASSAY_HARNESS_SEGMENT_H

#include "core/error.h"

#include <stdint.h>

struct segment {
    unsigned char *data; /* mapped, readable and writable by every holder */
    int64_t bytes;       /* in use */
    int64_t room;        /* mapped: at least `bytes` */
    int fd;              /* -1: none */
};

#define SEGMENT_INIT                                                                               \
    {                                                                                              \
        .fd = -1                                                                                   \
    }

/* Room for `bytes` (at least 1) in *s, which keeps its memory where that is large enough: pages
 * that were touched once cost nothing the second time. New memory is zero. `name` shows in
 * /proc/PID/maps. Errors: ERR_MEMORY. */
enum err_code segment_reserve(struct segment *s, const char *name, int64_t bytes,
                              struct err *err) ERR_USED;
/* The same for memory that is written at once, all of it: new pages are made in one call, at less
 * than half the price of a fault each. */
enum err_code segment_reserve_pages(struct segment *s, const char *name, int64_t bytes,
                                    struct err *err) ERR_USED;
/* Maps what another process made: takes `fd` (closed on an error too) and checks that it holds
 * `bytes`, and that nobody can shrink it under us. ERR_PROCESS. */
enum err_code segment_attach(struct segment *s, int fd, int64_t bytes, struct err *err) ERR_USED;
/* Unmaps and closes; *s is empty again. Safe on an empty one. */
void segment_free(struct segment *s);

#endif
