/* comm.cuh: one NCCL communicator of some ranks, made so that nothing ever blocks in it: every call
 * comes back at once and is looked after until it is done, failed, or too late. Private to gpu/. */
#ifndef ASSAY_GPU_COMM_CUH
#define ASSAY_GPU_COMM_CUH

#include "core/collective.h"
#include "gpu/nccl_library.cuh"

#include <stdbool.h>

struct gpu_comm {
    const struct nccl *nccl; /* NULL: not open */
    struct nccl_comm *comm;
    struct collective *host; /* the same ranks in the same order; its deadline is each call's */
};

/* With every rank of `host` at once: an id from its first rank over `host`, then the communicator
 * on the current device. ERR_PROCESS: not made in time, or a rank failed meanwhile. */
enum err_code gpu_comm_open(struct gpu_comm *c, const struct nccl *nccl, struct collective *host,
                            struct err *err) ERR_USED;
/* What a call of NCCL gave, once it is done on the host's side. `doing`: "ncclAllGather". */
enum err_code gpu_comm_call(struct gpu_comm *c, int code, const char *doing,
                            struct err *err) ERR_USED;
/* One look: whether the communicator has failed since. */
enum err_code gpu_comm_look(struct gpu_comm *c, const char *doing, struct err *err) ERR_USED;
/* What runs in it on the device ends, on this rank. Waits for that half a second at most: NCCL 2.28
 * takes seconds for it when a peer is gone. */
void gpu_comm_abort(struct gpu_comm *c);
/* When nothing runs in it any more. Safe on one that is all zero. */
void gpu_comm_close(struct gpu_comm *c);

/* Seconds of a clock that only goes forward. */
double gpu_clock(void);

#endif
