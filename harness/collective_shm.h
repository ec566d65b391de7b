/* collective_shm.h: the collectives of core/collective.h for ranks of one host, over shared memory:
 * plain and slow, and correct. Every rank copies its part into a window of its own, all wait, every
 * rank reads all windows in the group's order; large calls go window by window. So every rank adds
 * the same numbers in the same order and holds the same bits.
 *
 * Windows and descriptors are there twice and used in turn: a rank that writes its next part has
 * seen everybody arrive at the last wait, so everybody is done with what it overwrites.
 *
 * Whoever started the ranks also holds the memory. It begins a new `epoch` with every call of the
 * workers, and stops one when a rank has failed: the others then leave their calls at once, with an
 * error that names that rank. Test: tests/test_collective.c */
#ifndef ASSAY_HARNESS_COLLECTIVE_SHM_H
#define ASSAY_HARNESS_COLLECTIVE_SHM_H

#include "core/collective.h"
#include "harness/segment.h"

#include <stdbool.h>

struct collective_shm {
    struct segment segment;
    int rank, world;
    int64_t window; /* bytes of one window of one rank */
    /* Called while a rank waits: a sign of life, and in which call; with NULL once all have come.
     * NULL: nobody asks. */
    void (*waiting)(void *ctx, const char *what);
    /* What another rank is doing, for a message, into text[size]. NULL: not known. */
    void (*doing)(void *ctx, int rank, char *text, size_t size);
    void *ctx;
};

/* Shared memory for `world` ranks, `window` bytes each (rounded up to a page). */
enum err_code collective_shm_make(struct collective_shm *s, int world, int64_t window,
                                  struct err *err) ERR_USED;
/* The memory that another process made, for rank `rank`; takes the descriptor. */
enum err_code collective_shm_attach(struct collective_shm *s, int fd, int rank, int world,
                                    int64_t window, struct err *err) ERR_USED;
void collective_shm_free(struct collective_shm *s);

/* The collective of all ranks over `s`, which must outlive it and those made of it. */
void collective_shm_open(struct collective *c, struct collective_shm *s, double deadline_s);

/* The starter: calls before are over, whatever became of them. The ranks must be out of them. */
void collective_shm_begin(struct collective_shm *s);
/* Each rank, before its first collective of a new call. */
void collective_shm_join(struct collective_shm *s);
/* The starter: rank `by` has failed, nobody shall wait for it. The first one counts. */
void collective_shm_stop(struct collective_shm *s, int by);

#endif
