/* collective.cuh: what the ranks of a sharded model do together on their devices, one process a
 * device: sums of partial rows, gatherings of columns. Private to gpu/.
 *
 * Two transports, one result:
 *   nccl   parts travel between the devices; a kernel of ours adds them, in rank order, each step
 *          rounded as plan.reduce says: core/collective.h's sum, bit for bit, on every rank and in
 *          every group alike, whatever NCCL would choose for a size. Small sums gather all parts on
 *          every rank; large ones add a slice a rank and gather the slices, rounded already
 *   host   parts go over the host and its collectives (shard_reduce), where ranks share a device,
 *          which NCCL refuses, or have no NCCL, or an edit is asked for (shard->fault)
 * Only the first can be captured in a graph.
 *
 * plan.reduce DT_BF16: partial rows are bf16. DT_F32 and DT_F64: float32, the widest there is here.
 *
 * No wait is without end: while the host waits for the device it looks after the communicators and
 * asks whether all ranks still live (gpu/comm.cuh). A rank that failed, an error of NCCL's, or
 * shard->all's deadline end the communicators, and the error names the collective that was not
 * done. Environment: ASSAY_GPU_TRANSPORT=nccl|host, ASSAY_GPU_AGREE=1 (see gpu_agree). */
#ifndef ASSAY_GPU_COLLECTIVE_CUH
#define ASSAY_GPU_COLLECTIVE_CUH

#include "core/shard.h"
#include "gpu/comm.cuh"
#include "gpu/context.cuh"
#include "gpu/transport.h"

enum { RANKS_CALLS = 1024, RANKS_TEXT = 160 };

/* One collective of a step, for messages. */
struct ranks_call {
    const char *what, *op; /* static text */
    int64_t layer;
};

/* The collectives of a step in their order: number n (from 1) is call[n - 1]. */
struct ranks_calls {
    struct ranks_call call[RANKS_CALLS];
    uint32_t count;
};

struct gpu_ranks {
    struct gpu *g;
    struct shard shard; /* a copy; its collectives are the caller's */
    struct transport transport;
    bool agrees;                 /* ASSAY_GPU_AGREE=1 */
    struct gpu_comm all, tensor; /* tensor: not open where tp or ep is 1 */
    int32_t *number;       /* host [2][E]: of even and odd rows, an expert's local number where this
                              rank computes it, else -1 */
    int32_t *number_there; /* the same on the device */

    struct ranks_calls eager, captured; /* of the steps by launches, and of all graphs */
    struct ranks_calls *now;
    volatile uint32_t *done;  /* pinned: the number of the last collective that is done */
    double wait_from, looked; /* of the wait at hand; 0: none */
};

/* Before gpu_get(): selects the device of this rank, its place among the ranks of its host modulo
 * the devices there. With every rank at once. */
enum err_code gpu_ranks_select(const struct shard *s, struct err *err) ERR_USED;
/* Transport and communicators, with every rank at once; *out stays put until gpu_ranks_close().
 * Errors: ranks that ask for different transports, or have different versions of NCCL (ERR_DEVICE,
 * with both); NCCL asked for where it cannot be. */
enum err_code gpu_ranks_open(struct gpu *g, const struct shard *s, struct gpu_ranks **out,
                             struct err *err) ERR_USED;
/* Graphs that hold its collectives are dropped before. Safe on NULL. */
void gpu_ranks_close(struct gpu_ranks *r);

/* How many experts of a layer a rank holds. They are numbered by ascending id. */
int64_t gpu_ranks_held(const struct shard *s);
/* The type of partial rows. */
enum dtype gpu_partial_type(const struct gpu_ranks *r);
/* A step begins: its collectives are counted from here, those of a graph that is captured or
 * replayed apart. */
void gpu_ranks_begin(struct gpu_ranks *r, bool graph);

/* y [T, width] bf16 = the sum of the ranks' x [T, width] of gpu_partial_type(), added as
 * shard_reduce() adds them and rounded to bf16. `at` says where we are and between whom. x and y
 * may be one where both are bf16. */
enum err_code gpu_reduce(struct gpu_ranks *r, const struct shard_site *at, const void *x, bf16 *y,
                         struct err *err) ERR_USED;
/* x [T, width] bf16 of op embed, in place: one rank has the row and the others zeros. */
enum err_code gpu_reduce_rows(struct gpu_ranks *r, const struct shard_site *at, bf16 *x,
                              struct err *err) ERR_USED;
/* y [T, tp * width] = the columns that each t holds; elements of `type`, DT_BF16 or DT_F32. */
enum err_code gpu_gather_columns(struct gpu_ranks *r, const struct shard_site *at, enum dtype type,
                                 const void *part, void *y, struct err *err) ERR_USED;
/* Piece p of y is what rank p has as this rank's piece of x: `bytes` each, of all ranks, by NCCL
 * alone. */
enum err_code gpu_all_to_all(struct gpu_ranks *r, const void *x, int64_t bytes, void *y,
                             struct err *err) ERR_USED;
/* What this rank's experts compute: own[i] is the local number (gpu_ranks_held) of expert ids[i]
 * where its e computes it for that row, else -1. Device, [rows, top_k]. */
enum err_code gpu_route(struct gpu_ranks *r, int64_t layer, const struct rows *rows, int64_t top_k,
                        const int32_t *ids, int32_t *own, struct err *err) ERR_USED;
/* Under ASSAY_GPU_AGREE=1: whether all ranks hold the same bytes here (ERR_DIFF). */
enum err_code gpu_agree(struct gpu_ranks *r, const char *op, int64_t layer, const void *device,
                        size_t bytes, struct err *err) ERR_USED;

/* ---- for gpu/collective*.cu ---- */

/* A collective has failed: both communicators end, and nothing waits for the device any more. */
void gpu_ranks_fail(struct gpu_ranks *r, const struct err *err);

#endif
