/* collective_shm.h: the collectives of core/collective.h for ranks of one host, over shared memory:
 * plain and slow, and correct. Every rank copies its part into a window of its own, all wait, every
 * rank reads all windows in the group's order; large calls go window by window. So every rank adds
 * the same numbers in the same order and holds the same bits.
 *
 * Windows and descriptors are there twice and used in turn: a rank that writes its next part has
 * seen everybody arrive at the last wait, so everybody is done with what it overwrites.
 *
 * Whoever started the ranks also holds the memory. What a call of the workers left behind is over
 * with the next one, which each rank joins; whoever started them stops one when a rank has failed:
 * the others then leave it at once, with an error that names that rank. Ranks of several hosts that
 * exchange their windows otherwise (collective_tcp.h) are stopped by this memory too, of which each
 * host then has its own. Test: tests/test_collective.c */
#ifndef ASSAY_HARNESS_COLLECTIVE_SHM_H
#define ASSAY_HARNESS_COLLECTIVE_SHM_H

#include "core/collective.h"
#include "harness/segment.h"

#include <stdbool.h>

struct collective_shm {
    struct segment segment;
    int rank, world;
    int64_t window; /* bytes of one window of one rank */
    int64_t call;   /* of the workers, that this rank has joined; -1: none yet */
    /* Called while a rank waits: a sign of life, and in which call; with NULL once all have come.
     * NULL: nobody asks. */
    void (*waiting)(void *ctx, const char *what);
    /* What another rank is doing, for a message, into text[size]. NULL: not known. */
    void (*doing)(void *ctx, int rank, char *text, size_t size);
    void *ctx;
};

/* Bytes of a window as they are made: whole pages, one at least. */
int64_t collective_shm_window(int64_t window);

/* Shared memory for `world` ranks, `window` bytes each (rounded up to a page). */
enum err_code collective_shm_make(struct collective_shm *s, int world, int64_t window,
                                  struct err *err) ERR_USED;
/* The memory that another process made, for rank `rank`; takes the descriptor. */
enum err_code collective_shm_attach(struct collective_shm *s, int fd, int rank, int world,
                                    int64_t window, struct err *err) ERR_USED;
void collective_shm_free(struct collective_shm *s);

/* The collective of all ranks over `s`, which must outlive it and those made of it. */
void collective_shm_open(struct collective *c, struct collective_shm *s, double deadline_s);

/* Each rank, before its first collective in call `call` of the workers. */
void collective_shm_join(struct collective_shm *s, int64_t call);
/* The starter: rank `by` has failed, nobody shall wait for it in that call. The first one counts.
 */
void collective_shm_stop(struct collective_shm *s, int64_t call, int by);
/* Whose failure has stopped the call that this rank has joined; -1: none has. */
int collective_shm_stopped(const struct collective_shm *s);
/* collective_watch() by this memory. */
enum err_code collective_shm_watch(const struct collective *c, const struct collective_shm *s,
                                   const char *what, struct err *err) ERR_USED;

#endif
