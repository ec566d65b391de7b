/* context.cuh: one device as the CUDA path uses it: a stream, cuBLASLt, memory, and the checking of
 * every launch and call. Private to gpu/.
 *
 * Errors. A launch goes through GPU_LAUNCH, an API call through gpu_call(). Both know the op and
 * layer at hand (gpu_at), so a failure says op, layer, kernel and the number of the launch. Kernels
 * run asynchronously: what one does wrong shows later. Under `sync` (ASSAY_GPU_SYNC=1) every launch
 * is waited for, and the message names the culprit; without, it names the launches since the last
 * wait and says how to learn which. ASSAY_GPU_FAIL_AT=N makes the N-th launch or call of the
 * process fail (from 1), for tests of these paths. After an asynchronous error the device is lost:
 * the context stays failed and every further use says the first cause.
 *
 * Memory. Scratch comes from a stack of device chunks (gpu_alloc, gpu_mark, gpu_release): after the
 * first pass of a loop nothing is allocated any more, so a pass can be captured in a graph. Chunks
 * are never given back, so what a graph holds stays valid. Under `sync` scratch starts as NaN
 * (bytes 0xFF). Weights and caches are gpu_keep()'s.
 *
 * Host data goes through a ring of pinned buffers, whatever its size. */
#ifndef ASSAY_GPU_CONTEXT_CUH
#define ASSAY_GPU_CONTEXT_CUH

#include "core/error.h"
#include "core/kernels.h"
#include "core/run.h"

#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <stdbool.h>
#include <stdint.h>

typedef __nv_bfloat16 bf16;

#ifdef __CUDACC__
__device__ static inline float round_bf16(float x)
{
    return __bfloat162float(__float2bfloat16_rn(x));
}
#endif

enum { GPU_CHUNKS = 64, GPU_STAGES = 4 };
static const size_t GPU_STAGE_BYTES = (size_t)4 << 20;

struct gpu_chunk {
    char *data;
    size_t size, used;
};

/* A pinned buffer of the ring; `free` is recorded behind the last copy out of it. */
struct gpu_stage {
    char *data;
    size_t used;
    cudaEvent_t free;
};

/* One launch or call, for messages. */
struct gpu_step {
    const char *kernel, *op; /* static text; kernel NULL: none yet */
    int64_t layer, number;
};

/* Who looks on while the host waits for the device: ranks that work together there. */
struct gpu_watch {
    /* Every so often, and once with `over` when the wait is done. An error ends the wait: the
     * context is lost then. NULL: nobody. */
    enum err_code (*look)(void *ctx, bool over, struct err *err);
    void *ctx;
};

/* An allocation of gpu_keep(). */
struct gpu_kept {
    void *data;
    size_t size;
};

struct gpu {
    int device;
    int sms;           /* multiprocessors */
    int major, minor;  /* compute capability */
    size_t shared_max; /* dynamic shared memory that a block may ask for */
    size_t l2;         /* bytes */
    bool mps;          /* other processes run on it at the same time, under MPS */
    char name[64];
    cudaStream_t stream;
    cublasLtHandle_t lt;
    void *lt_workspace; /* device */
    size_t lt_workspace_size;

    struct gpu_chunk chunk[GPU_CHUNKS];
    int chunks, top;       /* chunk[0..chunks) exist; chunk[top] is being filled */
    int64_t mallocs;       /* calls of cudaMalloc so far */
    size_t kept;           /* bytes of gpu_keep() alive */
    struct gpu_kept *keep; /* those allocations, for gpu_drop() */
    int64_t keeps, keeps_room;
    struct gpu_stage stage[GPU_STAGES];
    int staging; /* the stage being filled */

    const char *op;            /* where we are; static text */
    int64_t layer;             /* -1: none */
    struct kernel_log *log;    /* NULL, or where launches are counted */
    struct kernel_row *logged; /* there, the last one; NULL: none */
    bool sync;
    bool capturing;              /* a graph is being captured: no waits, no allocation */
    int64_t launches;            /* launches and calls so far */
    int64_t waited;              /* of them, those before the last successful wait */
    struct gpu_step first, last; /* launches since the last wait */
    int64_t fail_at;             /* 0, or the launch that is made to fail */
    bool prefill; /* ASSAY_GPU_PREFILL=1: what the copy engine is to store is NaN before */
    /* ASSAY_GPU_EVERY_LANE=1, for the race checker: it does not see that a warp's barrier orders
     * the reads of all its lanes before the one lane that tells the loader. */
    bool every_lane;
    struct gpu_watch watch;
    bool rounds_inputs; /* of adapters: a fault edits inputs to what is exact in no type */
    /* Weights were written by the last launch: what comes next may read them before it waits for
     * that launch (gpu/launch.cuh), so it begins when it has ended. */
    bool fresh;
    struct err lost;         /* the first asynchronous error, kept */
    struct gpu_graph *graph; /* being captured (gpu/graph.cuh), or NULL */
};

/* The process' device (gpu_select(), else the first usable one), opened at the first use. NULL with
 * ERR_DEVICE: no device, driver too old, no code for its compute capability; a failure is final.
 * Not for use by two threads at once. */
struct gpu *gpu_get(struct err *err);
/* Which device gpu_get() opens; before its first call. */
void gpu_select(int device);

/* Everything from here on belongs to this op and layer. `op` must be static text. */
void gpu_at(struct gpu *g, const char *op, int64_t layer);

/* ---- calls and launches ---- */

/* Before a call that must not be made where it is to fail: counts it. */
enum err_code gpu_may_call(struct gpu *g, const char *doing, struct err *err) ERR_USED;
/* The message of a call that was counted. */
enum err_code gpu_check(struct gpu *g, cudaError_t code, const char *doing,
                        struct err *err) ERR_USED;
/* Both, for a cudaError_t of a call: ERR_OK, or the message. `doing`: "copy the router's logits".
 */
enum err_code gpu_call(struct gpu *g, cudaError_t code, const char *doing,
                       struct err *err) ERR_USED;
enum err_code gpu_lt_call(struct gpu *g, cublasStatus_t code, const char *doing,
                          struct err *err) ERR_USED;
/* Before a launch: counts, logs; an error where the context is lost or the launch is to fail. */
enum err_code gpu_before(struct gpu *g, const char *kernel, const char *tactic, dim3 grid,
                         dim3 block, size_t shared, struct err *err) ERR_USED;
/* After it: what the launch itself says; under `sync` also what the kernel did. */
enum err_code gpu_after(struct gpu *g, const char *kernel, struct err *err) ERR_USED;
/* Before a launch that is logged: what is known of the kernel, into its row. */
void gpu_facts(struct gpu *g, const void *kernel, dim3 block, size_t shared);
/* Waits for everything; the first error of any launch since the last wait comes out here. */
enum err_code gpu_wait(struct gpu *g, struct err *err) ERR_USED;
/* Waits for `event`, or with NULL for the stream, while g->watch looks on; *code is what CUDA says.
 * The one place where the host waits for the device. */
enum err_code gpu_poll(struct gpu *g, cudaEvent_t event, cudaError_t *code,
                       struct err *err) ERR_USED;

/* GPU_LAUNCH(g, err, "norm_rows", "", grid, block, shared, kernel, args...) -> enum err_code.
 * Dynamic shared memory above 48 KB: gpu_shared() once before. */
#define GPU_LAUNCH(g, err, label, tactic, grid, block, shared, kernel, ...)                        \
    (gpu_before(g, label, tactic, grid, block, shared, err) == ERR_OK                              \
         ? (gpu_facts(g, (const void *)(kernel), block, shared),                                   \
            kernel<<<(grid), (block), (shared), (g)->stream>>>(__VA_ARGS__),                       \
            gpu_after(g, label, err))                                                              \
         : (err)->code)

/* Lets `kernel` use `bytes` of dynamic shared memory; ERR_DEVICE where the card has less. */
enum err_code gpu_shared(struct gpu *g, const void *kernel, const char *label, size_t bytes,
                         struct err *err) ERR_USED;

/* ---- memory ---- */

struct gpu_mark {
    int top;
    size_t used;
};

/* Scratch of `bytes`, 256-byte aligned; NULL with ERR_MEMORY (what, wanted, free). */
void *gpu_alloc(struct gpu *g, int64_t count, size_t size, const char *what, struct err *err);
template <typename T>
static inline T *gpu_new(struct gpu *g, int64_t count, const char *what, struct err *err)
{
    return (T *)gpu_alloc(g, count, sizeof(T), what, err);
}
struct gpu_mark gpu_mark(const struct gpu *g);
/* Scratch after the mark is free for the next ones in stream order. */
void gpu_release(struct gpu *g, struct gpu_mark m);
/* Memory of its own, until gpu_drop(). Says needed and free where there is too little. */
void *gpu_keep(struct gpu *g, int64_t count, size_t size, const char *what, struct err *err);
void gpu_drop(struct gpu *g, void *data);
/* Bytes that cudaMalloc could still give. */
int64_t gpu_free_bytes(struct gpu *g);

/* ---- host and device ---- */

/* Copies, in stream order; the source may be reused at once. */
enum err_code gpu_send(struct gpu *g, void *device, const void *host, size_t bytes,
                       const char *what, struct err *err) ERR_USED;
/* Waits. */
enum err_code gpu_fetch(struct gpu *g, void *host, const void *device, size_t bytes,
                        const char *what, struct err *err) ERR_USED;
/* Scratch holding x[0..n) as bf16. ERR_USAGE where a value is not exact in bf16: the CUDA path
 * takes activations in its own type and rounds no input on the quiet, but under faults. NaN passes
 * as NaN. */
bf16 *gpu_send_act(struct gpu *g, const double *x, int64_t rows, int64_t cols, const char *what,
                   struct err *err);
/* The same as float32, exact in float32 (router weights, logits). */
float *gpu_send_f32(struct gpu *g, const double *x, int64_t n, const char *what, struct err *err);
enum err_code gpu_fetch_act(struct gpu *g, double *x, const bf16 *device, int64_t n,
                            const char *what, struct err *err) ERR_USED;
enum err_code gpu_fetch_f32(struct gpu *g, double *x, const float *device, int64_t n,
                            const char *what, struct err *err) ERR_USED;
/* Of `type`, DT_BF16 or DT_F32. */
enum err_code gpu_fetch_as(struct gpu *g, double *x, enum dtype type, const void *device, int64_t n,
                           const char *what, struct err *err) ERR_USED;

/* ---- entry of an op's adapter ---- */

/* What every `NAME_gpu(op, run, err)` begins with: the device, `op` as where we are, the run's
 * kernel log, and a check that the run asks for what this path computes: run->act bf16, a profile
 * that is "gpu" (rounding as the kernels round) or "math" (no imitation asked for). */
struct gpu *gpu_enter(const char *op, const struct run *run, struct err *err);
/* And ends with: scratch since the mark is released, the log detached. Returns err->code. */
enum err_code gpu_leave(struct gpu *g, struct gpu_mark m, struct err *err);

#endif
