/* collective_tcp.h: the collectives of core/collective.h for ranks of several hosts: a connection
 * between every two ranks (mesh.h), framed and checksummed as wire.h says. Plain and slow, and
 * correct: in every turn each member sends its window to each other member and waits for theirs, so
 * a sum of n ranks moves n * (n - 1) windows. Sums are those of collective_window.h, in the same
 * order: the bits are those of ranks that share memory.
 *
 * A frame says to which call of the workers, to which group and turn it belongs. What a call that
 * was stopped left on the way is known by its number and thrown away. A member whose connection
 * ends, or who sends what cannot be read, is an error at once that names it and its host.
 *
 * The stop of a call and the signs of life go by this host's own collective_shm.h (`lobby`), whose
 * windows are not used. Test: tests/test_collective.c, tests/test_collective_tcp.c */
#ifndef ASSAY_HARNESS_COLLECTIVE_TCP_H
#define ASSAY_HARNESS_COLLECTIVE_TCP_H

#include "harness/collective_shm.h"
#include "harness/collective_window.h"
#include "harness/wire.h"

struct collective_tcp {
    struct collective_shm *lobby;
    int64_t window;
    uint64_t turn[COLLECTIVE_CHANNELS]; /* of this call of the workers */
    struct wire peer[COLLECTIVE_RANKS]; /* its own closed */
    char host[COLLECTIVE_RANKS][COLLECTIVE_HOST];
    unsigned char *mine; /* a frame's payload: head, then the window */
    struct wire_message got[COLLECTIVE_RANKS];
};

/* Takes the connections fd[world] (-1: this rank's own), closes them on an error too. `lobby` (of
 * the same rank and world) must outlive it. `host`: [world] names, for messages. `window` as in
 * collective_shm_make(), alike on all ranks. */
enum err_code collective_tcp_make(struct collective_tcp *t, struct collective_shm *lobby,
                                  const int *fd, const char (*host)[COLLECTIVE_HOST],
                                  int64_t window, struct err *err) ERR_USED;
/* Safe on a zeroed one. */
void collective_tcp_free(struct collective_tcp *t);

/* Each rank, before its first collective in a call of the workers, after collective_shm_join(). */
void collective_tcp_join(struct collective_tcp *t);
/* The collective of all ranks over `t`, which must outlive it and those made of it. */
void collective_tcp_open(struct collective *c, struct collective_tcp *t, double deadline_s);

#endif
