/* rendezvous.h: ranks that somebody else has started find each other: rank 0 listens at an address
 * that all know, the others come to it, and bytes go from rank 0 to all (a communicator's id, a
 * plan) and from all to rank 0. What goes wrong is said on every rank that can still be told, with
 * the rank and its host: who did not come, who came twice, who is of another run, another size or
 * another build. Whoever knocks and is none of these is sent away and holds nobody up.
 *
 * Waits are on many at once and each has a deadline. Test: tests/test_rendezvous.c */
#ifndef ASSAY_HARNESS_RENDEZVOUS_H
#define ASSAY_HARNESS_RENDEZVOUS_H

#include "core/collective.h"
#include "harness/launch.h"
#include "harness/wire.h"

#include <stdbool.h>

enum { RENDEZVOUS_HOST = 64, RENDEZVOUS_BOOT = 40 };

/* What a rank says about itself. */
struct rendezvous_rank {
    char host[RENDEZVOUS_HOST];
    char boot[RENDEZVOUS_BOOT]; /* of the kernel that runs there: two hosts may have one name */
    int64_t pid;
};

struct rendezvous {
    int rank, world;
    struct wire peer[COLLECTIVE_RANKS]; /* rank 0: [world], its own closed; others: [0] to rank 0 */
    struct rendezvous_rank of[COLLECTIVE_RANKS]; /* rank 0: [world]; others: their own place */
};

/* Meets the other ranks at l->host, l->port within `wait_s`. ERR_INPUT: no address, too many ranks.
 * ERR_PROCESS: rank 0 cannot listen, or names the ranks that did not come and those that did, with
 * their hosts; another rank cannot reach rank 0, or was sent away, and why. */
enum err_code rendezvous_meet(struct rendezvous *r, const struct launch *l, double wait_s,
                              struct err *err) ERR_USED;
void rendezvous_close(struct rendezvous *r);

/* Rank 0: the first rank that is on another host than rank 0; -1: all are on one. */
int rendezvous_elsewhere(const struct rendezvous *r);

/* data[0..bytes) of rank 0 on every rank; `bytes` alike on all. The error names the rank. */
enum err_code rendezvous_share(struct rendezvous *r, void *data, int64_t bytes, double wait_s,
                               struct err *err) ERR_USED;
/* all[rank * bytes ..] on rank 0 = data of every rank. A rank that has `failed` (NULL, or no error:
 * it has not) hands over that instead: then rank 0 has the error, names the rank, and tells the
 * others with the next rendezvous_share(), which fails on all. */
enum err_code rendezvous_gather(struct rendezvous *r, const struct err *failed, const void *data,
                                int64_t bytes, void *all, double wait_s, struct err *err) ERR_USED;
/* Rank 0: the others hear of this error where they wait for bytes. */
void rendezvous_refuse(struct rendezvous *r, const struct err *why);

#endif
