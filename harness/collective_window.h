/* collective_window.h: the collectives of core/collective.h, a window at a time, over whatever
 * gives every member the windows of all: shared memory (collective_shm.h) or sockets
 * (collective_tcp.h). What a sum is, in which order and how it rounds, is written here once: so the
 * bits are the same whichever carries them. Test: tests/test_collective.c */
#ifndef ASSAY_HARNESS_COLLECTIVE_WINDOW_H
#define ASSAY_HARNESS_COLLECTIVE_WINDOW_H

#include "core/collective.h"

#include <stdbool.h>

enum { COLLECTIVE_HOST = 64 };

/* What a member says when it arrives: equal on all, or the call fails. */
struct collective_said {
    int64_t kind, dtype, root, n;
    uint64_t sizes;
    char name[COLLECTIVE_NAME];
};

/* What carries the windows. A member that begins its next window is done with those of all. */
struct collective_exchange {
    int64_t window; /* bytes of one, a multiple of 8 */
    /* Where this member writes its next one. */
    unsigned char *(*mine)(const struct collective *c);
    /* Hands over `bytes` of it and comes back when those of all members are there and all have said
     * the same. */
    enum err_code (*meet)(struct collective *c, const struct collective_call *call, int64_t bytes,
                          struct err *err);
    /* Member i's, until the next mine(). NULL: it is shorter than that. */
    const unsigned char *(*of)(const struct collective *c, int i, int64_t bytes);
};

/* The call itself. Errors: those of meet(). */
enum err_code collective_by_window(struct collective *c, const struct collective_call *call,
                                   const struct collective_exchange *x, struct err *err) ERR_USED;

void collective_say(const struct collective_call *call, int world, struct collective_said *out);
/* Whether all [c->world] have said the same; ERR_PROCESS names both calls, and err->rank is who
 * differs from the first member. */
enum err_code collective_compare(const struct collective *c,
                                 const struct collective_said *const *said,
                                 struct err *err) ERR_USED;

/* "all_reduce_sum layers.3.attn": what a rank does while it waits. */
void collective_describe(const struct collective_call *call, char *text, size_t size);

/* ERR_PROCESS: the members that have not come (came[c->world]) when the time is over. `doing`: what
 * the first of them does, or "". `host` [world of the run], or NULL where all are on one. */
enum err_code collective_not_come(const struct collective *c, const bool *came, const char *doing,
                                  const char (*host)[COLLECTIVE_HOST], struct err *err) ERR_USED;
/* ERR_PROCESS: rank `by` has failed. */
enum err_code collective_stopped(const struct collective *c, int by, struct err *err) ERR_USED;

#endif
