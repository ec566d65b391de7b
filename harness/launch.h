/* launch.h: which rank this process is when somebody else has started the ranks: mpirun, srun,
 * torchrun, or our own variables. All that is read is the environment.
 *
 * Launchers, in the order in which they are asked: our own (ASSAY_RANK, ASSAY_WORLD), torchrun
 * (RANK, WORLD_SIZE), Open MPI's mpirun (OMPI_COMM_WORLD_RANK), MPICH's and Intel's (PMI_RANK),
 * srun (SLURM_PROCID, inside a step). More than one may be there, mpirun under srun for one: then
 * they must agree, or it is an error that names both. A launcher that has set half of its variables
 * is an error too; no launcher is a run of one process, which starts its ranks itself (workers.h).
 * srun's variables say the address of the host that it was called on, which need not be rank 0's:
 * only MASTER_ADDR and MASTER_PORT, where somebody has set them, are taken for that.
 * Test: tests/test_launch.c */
#ifndef ASSAY_HARNESS_LAUNCH_H
#define ASSAY_HARNESS_LAUNCH_H

#include "core/error.h"

#include <stdbool.h>

enum { LAUNCH_HOST = 256, LAUNCH_PORT_MOST = 65535 };

struct launch {
    const char *by;              /* "torchrun"; NULL: nobody, this is the only process */
    int rank, world;             /* 0 and 1 where nobody launched */
    int local_rank, local_world; /* among the ranks of this host; -1: not said */
    char host[LAUNCH_HOST];      /* where rank 0 can be reached; "" : not said */
    int port;                    /* 0: not said */
    int hosts;                   /* of all ranks; -1: not said */
    char nodes[LAUNCH_HOST];     /* their names as the launcher writes them: "node[1-2]"; "" */
};

/* ERR_INPUT: a variable that is no number or out of range, one that is missing, launchers that
 * disagree. */
enum err_code launch_read(struct launch *l, struct err *err) ERR_USED;
/* The text of an environment variable, or NULL; tests give others. */
typedef const char *launch_variable(const char *name);
enum err_code launch_read_from(struct launch *l, launch_variable *get, struct err *err) ERR_USED;

/* ERR_USAGE: the ranks are on several hosts, by what the launcher says of itself; names this host
 * and those. Our ranks share memory, so a run of several hosts is refused before anything waits. */
enum err_code launch_check_hosts(const struct launch *l, struct err *err) ERR_USED;

#endif
