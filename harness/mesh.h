/* mesh.h: a connection between every two ranks of a run over several hosts, made by the processes
 * that a launcher has started, and one more from each rank to rank 0 for requests and replies. Each
 * rank listens at a port of its own; rank 0 tells all where (at the address that it sees a rank
 * come from) with a number that is this run's alone; then each goes to the ranks before it and lets
 * in those after it. Test: tests/test_mesh.c */
#ifndef ASSAY_HARNESS_MESH_H
#define ASSAY_HARNESS_MESH_H

#include "harness/rendezvous.h"

struct mesh {
    int peer[COLLECTIVE_RANKS]; /* [world] for collectives; its own -1 */
    int wire[COLLECTIVE_RANKS]; /* rank 0: [world] from each other rank; others: [0] to rank 0 */
    char host[COLLECTIVE_RANKS][RENDEZVOUS_HOST]; /* [world] on every rank */
};

/* An empty one: safe to close. */
void mesh_none(struct mesh *m);

/* After rendezvous_meet(), on every rank; comes back when all have all their connections, within
 * `wait_s` for each of its steps. ERR_PROCESS on every rank: which rank cannot reach which, on
 * which hosts, or who did not come. */
enum err_code mesh_open(struct mesh *m, struct rendezvous *r, double wait_s,
                        struct err *err) ERR_USED;
void mesh_close(struct mesh *m);

#endif
