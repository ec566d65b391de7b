/* context.cu: opening the device, counting and checking launches and calls; see context.cuh.
 * Memory: context_memory.cu; copies: context_copy.cu. */
#include "gpu/context.cuh"

#include "core/text.h"
#include "gpu/device.cuh"
#include "gpu/lt_library.cuh"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LT_WORKSPACE = 32 << 20, PLACE = 160 };
enum { LOOKS_AWAKE = 2000, NAP_NS = 20000 }; /* a decode step is waited for without a nap */

static struct gpu the_gpu;
static bool opened;
static int selected = -1;

/* ---- what is said ---- */

/* "op mla.core, layer 3" of a step or of where we are. */
static const char *place_text(const char *op, int64_t layer, char buf[PLACE])
{
    if (layer >= 0)
        snprintf(buf, PLACE, "op %s, layer %lld", op ? op : "(none)", (long long)layer);
    else
        snprintf(buf, PLACE, "op %s", op ? op : "(none)");
    return buf;
}

/* The first cause, as it was said then. */
static enum err_code say_lost(const struct gpu *g, struct err *err)
{
    if (err->code != ERR_OK) return err->code;
    *err = g->lost;
    return err_note(err, "the device is lost since then");
}

static enum err_code say_injected(struct gpu *g, const char *doing, struct err *err)
{
    char place[PLACE];
    return err_set(err, ERR_DEVICE,
                   "%s|%s|a failure injected by ASSAY_GPU_FAIL_AT at launch or call %lld|success",
                   doing, place_text(g->op, g->layer, place), (long long)g->launches);
}

/* Launches since the last wait: one is to blame, and only a wait after each says which. */
static enum err_code say_asynchronous(struct gpu *g, cudaError_t code, struct err *err)
{
    char first[PLACE], last[PLACE];
    if (g->first.number == g->last.number)
        return err_set(err, ERR_DEVICE, "kernel %s|%s, launch %lld|%s (%s)|success",
                       g->last.kernel ? g->last.kernel : "(none)",
                       place_text(g->last.op, g->last.layer, last), (long long)g->last.number,
                       cudaGetErrorString(code), cudaGetErrorName(code));
    return err_set(err, ERR_DEVICE,
                   "launches %lld to %lld|from kernel %s (%s) to kernel %s (%s)|%s (%s) in one of "
                   "them|success; ASSAY_GPU_SYNC=1 says which",
                   (long long)g->first.number, (long long)g->last.number, g->first.kernel,
                   place_text(g->first.op, g->first.layer, first), g->last.kernel,
                   place_text(g->last.op, g->last.layer, last), cudaGetErrorString(code),
                   cudaGetErrorName(code));
}

static void waited(struct gpu *g)
{
    g->waited = g->launches;
    g->first = g->last = (struct gpu_step){NULL, NULL, 0, 0};
}

/* Whether an error stays: then every further use of the device gives it again. */
static bool is_lost(struct gpu *g)
{
    if (g->capturing || !g->stream) return false;
    cudaError_t now = cudaStreamQuery(g->stream);
    (void)cudaGetLastError();
    return now != cudaSuccess && now != cudaErrorNotReady;
}

/* ---- calls and launches ---- */

void gpu_at(struct gpu *g, const char *op, int64_t layer)
{
    g->op = op;
    g->layer = layer;
}

/* Counts one launch or call; false where it is the one that is to fail. */
static bool count_step(struct gpu *g)
{
    g->launches++;
    return g->fail_at == 0 || g->launches != g->fail_at;
}

enum err_code gpu_may_call(struct gpu *g, const char *doing, struct err *err)
{
    if (g->lost.code != ERR_OK) return say_lost(g, err);
    return count_step(g) ? ERR_OK : say_injected(g, doing, err);
}

enum err_code gpu_check(struct gpu *g, cudaError_t code, const char *doing, struct err *err)
{
    char place[PLACE];
    if (code == cudaSuccess) return ERR_OK;
    (void)cudaGetLastError();
    if (code == cudaErrorMemoryAllocation)
        return err_set(err, ERR_MEMORY, "%s|%s|%s|memory on the device or pinned on the host",
                       doing, place_text(g->op, g->layer, place), cudaGetErrorString(code));
    if (is_lost(g)) {
        (void)!say_asynchronous(g, code, &g->lost);
        return err_set(err, ERR_DEVICE,
                       "%s|%s|%s (%s) of launches %lld to %lld, last kernel "
                       "%s|success; ASSAY_GPU_SYNC=1 says which kernel",
                       doing, place_text(g->op, g->layer, place), cudaGetErrorString(code),
                       cudaGetErrorName(code), (long long)g->first.number,
                       (long long)g->last.number, g->last.kernel ? g->last.kernel : "(none)");
    }
    return err_set(err, ERR_DEVICE, "%s|%s|%s (%s), call %lld|success", doing,
                   place_text(g->op, g->layer, place), cudaGetErrorString(code),
                   cudaGetErrorName(code), (long long)g->launches);
}

enum err_code gpu_call(struct gpu *g, cudaError_t code, const char *doing, struct err *err)
{
    if (gpu_may_call(g, doing, err) != ERR_OK) return err->code;
    return gpu_check(g, code, doing, err);
}

enum err_code gpu_lt_call(struct gpu *g, cublasStatus_t code, const char *doing, struct err *err)
{
    char place[PLACE];
    if (gpu_may_call(g, doing, err) != ERR_OK) return err->code;
    if (code == CUBLAS_STATUS_SUCCESS) return ERR_OK;
    return err_set(err, ERR_DEVICE, "%s|%s|cuBLASLt: %s, call %lld|success", doing,
                   place_text(g->op, g->layer, place), cublasLtGetStatusString(code),
                   (long long)g->launches);
}

static void log_launch(struct gpu *g, const char *kernel, const char *tactic, dim3 grid, dim3 block,
                       size_t shared)
{
    struct kernel_row row = {};
    g->logged = NULL;
    if (!g->log) return;
    snprintf(row.op, sizeof row.op, "%s", g->op ? g->op : "");
    snprintf(row.kernel, sizeof row.kernel, "%s", kernel);
    snprintf(row.tactic, sizeof row.tactic, "%s", tactic ? tactic : "");
    const unsigned sizes[2][3] = {{grid.x, grid.y, grid.z}, {block.x, block.y, block.z}};
    memcpy(row.grid, sizes[0], sizeof row.grid);
    memcpy(row.block, sizes[1], sizeof row.block);
    row.shared = (int64_t)shared;
    g->logged = kernel_log_add(g->log, &row);
}

enum err_code gpu_before(struct gpu *g, const char *kernel, const char *tactic, dim3 grid,
                         dim3 block, size_t shared, struct err *err)
{
    char doing[PLACE];
    snprintf(doing, sizeof doing, "launch kernel %s", kernel);
    if (gpu_may_call(g, doing, err) != ERR_OK) return err->code;
    g->fresh = false;
    g->last = (struct gpu_step){kernel, g->op, g->layer, g->launches};
    if (!g->first.kernel) g->first = g->last;
    log_launch(g, kernel, tactic, grid, block, shared);
    return ERR_OK;
}

/* Under `sync`: what the kernel did is known before anything else runs. */
static enum err_code wait_after(struct gpu *g, struct err *err)
{
    cudaError_t code;
    if (gpu_poll(g, NULL, &code, err) != ERR_OK) return err->code;
    if (code == cudaSuccess) {
        waited(g);
        return ERR_OK;
    }
    g->first = g->last; /* every earlier one was waited for */
    (void)!say_asynchronous(g, code, &g->lost);
    return say_asynchronous(g, code, err);
}

enum err_code gpu_after(struct gpu *g, const char *kernel, struct err *err)
{
    char place[PLACE];
    cudaError_t code = cudaGetLastError();
    if (code != cudaSuccess && is_lost(g)) {
        (void)!say_asynchronous(g, code, &g->lost);
        return say_asynchronous(g, code, err);
    }
    if (code != cudaSuccess)
        return err_set(err, ERR_DEVICE, "launch kernel %s|%s|%s (%s), launch %lld|success", kernel,
                       place_text(g->op, g->layer, place), cudaGetErrorString(code),
                       cudaGetErrorName(code), (long long)g->launches);
    return g->sync && !g->capturing ? wait_after(g, err) : ERR_OK;
}

/* Without anybody to look on the host sleeps in the driver. */
static enum err_code poll(struct gpu *g, cudaEvent_t event, cudaError_t *code, struct err *err)
{
    const struct timespec nap = {0, NAP_NS};
    for (int64_t looks = 0;; looks++) {
        *code = event ? cudaEventQuery(event) : cudaStreamQuery(g->stream);
        if (*code != cudaErrorNotReady) return ERR_OK;
        (void)cudaGetLastError();
        if (g->watch.look(g->watch.ctx, false, err) != ERR_OK) return err->code;
        if (looks > LOOKS_AWAKE) nanosleep(&nap, NULL);
    }
}

enum err_code gpu_poll(struct gpu *g, cudaEvent_t event, cudaError_t *code, struct err *err)
{
    if (!g->watch.look) {
        *code = event ? cudaEventSynchronize(event) : cudaStreamSynchronize(g->stream);
        return ERR_OK;
    }
    if (poll(g, event, code, err) == ERR_OK) return g->watch.look(g->watch.ctx, true, err);
    g->lost = *err;
    return err->code;
}

enum err_code gpu_wait(struct gpu *g, struct err *err)
{
    cudaError_t code;
    if (gpu_may_call(g, "wait for the device", err) != ERR_OK ||
        gpu_poll(g, NULL, &code, err) != ERR_OK)
        return err->code;
    if (code == cudaSuccess) {
        waited(g);
        return ERR_OK;
    }
    (void)cudaGetLastError();
    if (!is_lost(g)) return gpu_check(g, code, "wait for the device", err);
    (void)!say_asynchronous(g, code, &g->lost);
    return say_asynchronous(g, code, err);
}

enum err_code gpu_shared(struct gpu *g, const void *kernel, const char *label, size_t bytes,
                         struct err *err)
{
    char place[PLACE];
    if (bytes > g->shared_max)
        return err_set(err, ERR_DEVICE,
                       "shared memory of kernel %s|%s|%zu bytes|at most %zu, on %s", label,
                       place_text(g->op, g->layer, place), bytes, g->shared_max, g->name);
    return gpu_call(
        g, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes),
        "set shared memory", err);
}

/* ---- opening ---- */

void gpu_select(int device)
{
    selected = device;
}

__global__ static void probe_code(void)
{
}

static enum err_code choose_device(struct gpu *g, struct err *err)
{
    char why[DEVICE_WHY];
    int count = device_count(why, sizeof why);
    if (count < 0) return err_set(err, ERR_DEVICE, "open the device|gpu|%s|a usable device", why);
    if (selected >= count)
        return err_set(err, ERR_DEVICE, "open the device|gpu|device %d|0 to %d", selected,
                       count - 1);
    g->device = selected;
    for (int i = 0; i < count && g->device < 0; i++) {
        if (device_usable(i)) g->device = i;
    }
    if (g->device < 0 || !device_usable(g->device))
        return err_set(err, ERR_DEVICE,
                       "open the device|gpu|device %d of %d is older|compute capability %d.0",
                       g->device < 0 ? 0 : g->device, count, DEVICE_MAJOR_MIN);
    return ERR_OK;
}

/* A driver that does not know the question has no answer that matters: no. */
static bool shared_by_mps(int device)
{
    int mps = 0;
    if (cudaDeviceGetAttribute(&mps, cudaDevAttrMpsEnabled, device) == cudaSuccess) return mps != 0;
    (void)cudaGetLastError();
    return false;
}

static enum err_code read_properties(struct gpu *g, struct err *err)
{
    cudaDeviceProp prop;
    cudaFuncAttributes has;
    if (gpu_call(g, cudaSetDevice(g->device), "open the device", err) != ERR_OK ||
        gpu_call(g, cudaGetDeviceProperties(&prop, g->device), "read the device", err) != ERR_OK)
        return err->code;
    snprintf(g->name, sizeof g->name, "%.63s", prop.name);
    g->sms = prop.multiProcessorCount;
    g->major = prop.major;
    g->minor = prop.minor;
    g->shared_max = prop.sharedMemPerBlockOptin;
    g->l2 = (size_t)prop.l2CacheSize;
    g->mps = shared_by_mps(g->device);
    cudaError_t code = cudaFuncGetAttributes(&has, probe_code);
    if (code == cudaSuccess) return ERR_OK;
    (void)cudaGetLastError();
    return err_set(err, ERR_DEVICE,
                   "open the device|%s|compute capability %d.%d: %s|one that this build has code "
                   "for: " ASSAY_CUDA_ARCHITECTURES,
                   g->name, g->major, g->minor, cudaGetErrorString(code));
}

static enum err_code open_libraries(struct gpu *g, struct err *err)
{
    g->lt_workspace_size = LT_WORKSPACE;
    if (lt_library_open(err) != ERR_OK ||
        gpu_call(g, cudaStreamCreateWithFlags(&g->stream, cudaStreamNonBlocking), "make a stream",
                 err) != ERR_OK ||
        gpu_lt_call(g, cublasLtCreate(&g->lt), "open cuBLASLt", err) != ERR_OK)
        return err->code;
    for (int i = 0; i < GPU_STAGES; i++) {
        struct gpu_stage *s = &g->stage[i];
        if (gpu_call(g, cudaHostAlloc((void **)&s->data, GPU_STAGE_BYTES, cudaHostAllocDefault),
                     "pin host memory", err) != ERR_OK ||
            gpu_call(g, cudaEventCreateWithFlags(&s->free, cudaEventDisableTiming), "make an event",
                     err) != ERR_OK)
            return err->code;
    }
    g->lt_workspace = gpu_keep(g, LT_WORKSPACE, 1, "cuBLASLt workspace", err);
    return err->code;
}

static enum err_code read_environment(struct gpu *g, struct err *err)
{
    const char *sync = getenv("ASSAY_GPU_SYNC"), *fail = getenv("ASSAY_GPU_FAIL_AT"),
               *prefill = getenv("ASSAY_GPU_PREFILL"), *lanes = getenv("ASSAY_GPU_EVERY_LANE");
    g->every_lane = lanes && lanes[0] && strcmp(lanes, "0") != 0;
    g->prefill = prefill && prefill[0] && strcmp(prefill, "0") != 0;
    g->sync = sync && sync[0] && strcmp(sync, "0") != 0;
    if (!fail || !fail[0]) return ERR_OK;
    if (text_int(fail, &g->fail_at) && g->fail_at > 0) return ERR_OK;
    return err_set(err, ERR_USAGE, "ASSAY_GPU_FAIL_AT|environment|\"%s\"|a number of 1 or more",
                   fail);
}

/* A failure to open is final: it is kept, and said again at every use. */
struct gpu *gpu_get(struct err *err)
{
    struct gpu *g = &the_gpu;
    if (!opened) {
        opened = true;
        g->layer = -1;
        g->op = "open";
        struct err failed;
        err_clear(&failed);
        if (read_environment(g, &failed) == ERR_OK && choose_device(g, &failed) == ERR_OK &&
            read_properties(g, &failed) == ERR_OK)
            (void)!open_libraries(g, &failed);
        if (g->lost.code == ERR_OK) g->lost = failed;
        if (g->lost.code != ERR_OK) {
            if (err->code == ERR_OK) *err = g->lost;
            return NULL;
        }
    }
    if (g->lost.code == ERR_OK) return g;
    (void)!say_lost(g, err);
    return NULL;
}

/* ---- entry of an op's adapter ---- */

struct gpu *gpu_enter(const char *op, const struct run *run, struct err *err)
{
    const char *profile = run->profile.name;
    if (run->act != DT_BF16) {
        (void)!err_set(err, ERR_USAGE,
                       "op %s on gpu|activations|%s|BF16: the CUDA path has no other", op,
                       dtype_name(run->act));
        return NULL;
    }
    if (strcmp(profile, "gpu") != 0 && strcmp(profile, "math") != 0) {
        (void)!err_set(err, ERR_USAGE,
                       "op %s on gpu|profile|\"%s\"|gpu, which is how its kernels round, or math",
                       op, profile);
        return NULL;
    }
    struct gpu *g = gpu_get(err);
    if (!g) return NULL;
    gpu_at(g, op, -1);
    g->log = run->kernels;
    g->rounds_inputs = run->faults != NULL;
    return g;
}

enum err_code gpu_leave(struct gpu *g, struct gpu_mark m, struct err *err)
{
    gpu_release(g, m);
    g->rounds_inputs = false;
    g->log = NULL;
    gpu_at(g, NULL, -1);
    return err->code;
}
