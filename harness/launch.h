/* launch.h: which rank this process is when somebody else has started the ranks: mpirun, srun,
 * torchrun, or our own variables. All that is read is the environment.
 *
 * Launchers, in the order in which they are asked: our own (ASSAY_RANK, ASSAY_WORLD), torchrun
 * (RANK, WORLD_SIZE), Open MPI's mpirun (OMPI_COMM_WORLD_RANK), MPICH's and Intel's (PMI_RANK),
 * srun (SLURM_PROCID, inside a step). More than one may be there, mpirun under srun for one: then
 * they must agree, or it is an error that names both. A launcher that has set half of its variables
 * is an error too; no launcher is a run of one process, which starts its ranks itself (workers.h).
 *
 * Where rank 0 can be reached: ASSAY_RENDEZVOUS="HOST:PORT" ("[::1]:29500"), else the launcher's
 * own variables, MASTER_ADDR and MASTER_PORT. srun's say the address of the host that it was called
 * on, which need not be rank 0's. torchrun's agent may listen at MASTER_PORT itself and says so
 * (TORCHELASTIC_USE_AGENT_STORE): then it is the port after it.
 *
 * ASSAY_RUN, else the job as the launcher numbers it, tells a run's ranks from another's.
 * ASSAY_TRANSPORT=shm|tcp insists on how the ranks exchange what they compute (workers.h).
 * Test: tests/test_launch.c */
#ifndef ASSAY_HARNESS_LAUNCH_H
#define ASSAY_HARNESS_LAUNCH_H

#include "core/error.h"

#include <stdbool.h>

enum { LAUNCH_HOST = 256, LAUNCH_PORT_MOST = 65535, LAUNCH_RUN = 64 };

/* What ASSAY_TRANSPORT asks for. */
enum launch_transport { LAUNCH_ANY, LAUNCH_SHM, LAUNCH_TCP };

struct launch {
    const char *by;              /* "torchrun"; NULL: nobody, this is the only process */
    int rank, world;             /* 0 and 1 where nobody launched */
    int local_rank, local_world; /* among the ranks of this host; -1: not said */
    char host[LAUNCH_HOST];      /* where rank 0 can be reached; "" : not said */
    int port;                    /* 0: not said */
    char run[LAUNCH_RUN];        /* of the job: "4711.0"; no spaces; "": not said */
    enum launch_transport transport;
    int hosts;               /* of all ranks; -1: not said */
    char nodes[LAUNCH_HOST]; /* their names as the launcher writes them: "node[1-2]"; "" */
};

/* ERR_INPUT: a variable that is no number or out of range, one that is missing, launchers that
 * disagree, an ASSAY_RENDEZVOUS that is no address; ERR_USAGE: another ASSAY_TRANSPORT. */
enum err_code launch_read(struct launch *l, struct err *err) ERR_USED;
/* The text of an environment variable, or NULL; tests give others. */
typedef const char *launch_variable(const char *name);
enum err_code launch_read_from(struct launch *l, launch_variable *get, struct err *err) ERR_USED;

/* Whether the ranks are on several hosts, by what the launcher says of itself. */
bool launch_apart(const struct launch *l);
/* ERR_USAGE: they are, and ASSAY_TRANSPORT=shm wants them to share memory, or nobody says where
 * rank 0 can be reached. Names this host and those: so a run is refused by every rank, before any
 * waits.
 */
enum err_code launch_check_hosts(const struct launch *l, struct err *err) ERR_USED;

#endif
