/* nccl_library.cuh: NCCL, opened when ranks on several devices first ask for it: a run of one
 * process needs none, and no header of it is needed to build. What is called of it, and the types
 * of that, as its C interface has had them since 2.18. Private to gpu/. */
#ifndef ASSAY_GPU_NCCL_LIBRARY_CUH
#define ASSAY_GPU_NCCL_LIBRARY_CUH

#include "core/error.h"

#include <cuda_runtime.h>
#include <stddef.h>

struct nccl_comm;

struct nccl_id {
    char bytes[128];
};

/* What a call returns. */
enum { NCCL_OK = 0, NCCL_REMOTE = 6, NCCL_IN_PROGRESS = 7 };
enum nccl_type { NCCL_BYTE = 0, NCCL_F32 = 7, NCCL_BF16 = 9 };
enum { NCCL_SUM = 0 };

/* How a communicator is made; fields that stay NCCL_UNSET are the library's to choose. */
struct nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking, cluster, ctas_min, ctas_max;
    const char *net;
    int share;
};

struct nccl {
    int version; /* 22809: 2.28.9 */
    int (*ncclGetVersion)(int *version);
    int (*ncclGetUniqueId)(struct nccl_id *id);
    int (*ncclCommInitRankConfig)(struct nccl_comm **out, int ranks, struct nccl_id id, int rank,
                                  struct nccl_config *config);
    int (*ncclCommGetAsyncError)(struct nccl_comm *comm, int *state);
    int (*ncclCommAbort)(struct nccl_comm *comm);
    int (*ncclCommFinalize)(struct nccl_comm *comm);
    int (*ncclCommDestroy)(struct nccl_comm *comm);
    const char *(*ncclGetErrorString)(int code);
    const char *(*ncclGetLastError)(struct nccl_comm *comm);
    int (*ncclGroupStart)(void);
    int (*ncclGroupEnd)(void);
    int (*ncclAllGather)(const void *x, void *y, size_t n, int type, struct nccl_comm *comm,
                         cudaStream_t stream);
    int (*ncclAllReduce)(const void *x, void *y, size_t n, int type, int op, struct nccl_comm *comm,
                         cudaStream_t stream);
    int (*ncclSend)(const void *x, size_t n, int type, int peer, struct nccl_comm *comm,
                    cudaStream_t stream);
    int (*ncclRecv)(void *y, size_t n, int type, int peer, struct nccl_comm *comm,
                    cudaStream_t stream);
};

/* Opens it, once; NVLink multicast is switched off before. NULL with ERR_DEVICE: it is not to be
 * had, too old, or lacks a function. */
const struct nccl *nccl_open(struct err *err);
/* The non-blocking way to make a communicator, which is the only one used here. */
struct nccl_config nccl_config_here(void);

#endif
