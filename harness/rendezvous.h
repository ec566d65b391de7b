/* rendezvous.h: ranks that somebody else has started find each other: rank 0 listens at an address
 * that all know, the others come to it, and bytes of rank 0 (a communicator's id, a plan) go to
 * all. What goes wrong is said on every rank that can still be told: who did not come, who came
 * twice, who is of another run or another build. Test: tests/test_rendezvous.c */
#ifndef ASSAY_HARNESS_RENDEZVOUS_H
#define ASSAY_HARNESS_RENDEZVOUS_H

#include "core/collective.h"
#include "harness/launch.h"
#include "harness/wire.h"

enum { RENDEZVOUS_HOST = 64 };

struct rendezvous {
    int rank, world;
    struct wire peer[COLLECTIVE_RANKS]; /* rank 0: [world], its own closed; others: [0] to rank 0 */
    char host[COLLECTIVE_RANKS][RENDEZVOUS_HOST]; /* rank 0: where each said it runs */
};

/* Meets the other ranks at l->host, l->port within `wait_s`. ERR_INPUT: no address, too many ranks.
 * ERR_PROCESS: rank 0 cannot listen, or names the ranks that did not come and those that did, with
 * their hosts; another rank cannot reach rank 0, or was sent away, and why. */
enum err_code rendezvous_meet(struct rendezvous *r, const struct launch *l, double wait_s,
                              struct err *err) ERR_USED;
void rendezvous_close(struct rendezvous *r);

/* data[0..bytes) of rank 0 on every rank; `bytes` alike on all. The error names the rank. */
enum err_code rendezvous_share(struct rendezvous *r, void *data, int64_t bytes, double wait_s,
                               struct err *err) ERR_USED;

#endif
