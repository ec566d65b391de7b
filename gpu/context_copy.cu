/* context_copy.cu: between host and device through pinned buffers, and the host's doubles to and
 * from the device's types; see context.cuh. */
#include "gpu/context.cuh"

#include "core/check.h"

#include <stdio.h>
#include <string.h>

/* `bytes` of the ring, at most GPU_STAGE_BYTES; who copies out of them does so in stream order. */
static char *stage_take(struct gpu *g, size_t bytes, const char *what, struct err *err)
{
    CHECK(bytes <= GPU_STAGE_BYTES);
    struct gpu_stage *s = &g->stage[g->staging];
    if (g->capturing) {
        (void)!err_set(err, ERR_DEVICE, "copy %s|op %s|a graph is being captured|no host data",
                       what, g->op ? g->op : "(none)");
        return NULL;
    }
    if (GPU_STAGE_BYTES - s->used < bytes) {
        if (gpu_call(g, cudaEventRecord(s->free, g->stream), "record an event", err) != ERR_OK)
            return NULL;
        g->staging = (g->staging + 1) % GPU_STAGES;
        s = &g->stage[g->staging];
        cudaError_t code;
        if (gpu_poll(g, s->free, &code, err) != ERR_OK ||
            gpu_call(g, code, "wait for a copy", err) != ERR_OK)
            return NULL;
        s->used = 0;
    }
    char *at = s->data + s->used;
    s->used += (bytes + 63) / 64 * 64;
    if (s->used > GPU_STAGE_BYTES) s->used = GPU_STAGE_BYTES;
    return at;
}

/* Between pinned memory and the device, in stream order. */
static enum err_code copy_piece(struct gpu *g, void *to, const void *from, size_t n,
                                cudaMemcpyKind kind, const char *what, struct err *err)
{
    char doing[ERR_PART];
    snprintf(doing, sizeof doing, "copy %s %s the device", what,
             kind == cudaMemcpyHostToDevice ? "to" : "from");
    return gpu_call(g, cudaMemcpyAsync(to, from, n, kind, g->stream), doing, err);
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

enum err_code gpu_send(struct gpu *g, void *device, const void *host, size_t bytes,
                       const char *what, struct err *err)
{
    for (size_t at = 0; at < bytes;) {
        size_t n = bytes - at < GPU_STAGE_BYTES ? bytes - at : GPU_STAGE_BYTES;
        char *stage = stage_take(g, n, what, err);
        if (!stage) return err->code;
        memcpy(stage, (const char *)host + at, n);
        if (copy_piece(g, (char *)device + at, stage, n, cudaMemcpyHostToDevice, what, err) !=
            ERR_OK)
            return err->code;
        at += n;
    }
    return ERR_OK;
}

/* One piece into pinned memory, waited for. */
static const char *fetch_piece(struct gpu *g, const void *device, size_t n, const char *what,
                               struct err *err)
{
    char *stage = stage_take(g, n, what, err);
    if (!stage || copy_piece(g, stage, device, n, cudaMemcpyDeviceToHost, what, err) != ERR_OK ||
        gpu_wait(g, err) != ERR_OK)
        return NULL;
    return stage;
}

enum err_code gpu_fetch(struct gpu *g, void *host, const void *device, size_t bytes,
                        const char *what, struct err *err)
{
    if (bytes == 0) return gpu_wait(g, err);
    for (size_t at = 0; at < bytes;) {
        size_t n = bytes - at < GPU_STAGE_BYTES ? bytes - at : GPU_STAGE_BYTES;
        const char *stage = fetch_piece(g, (const char *)device + at, n, what, err);
        if (!stage) return err->code;
        memcpy((char *)host + at, stage, n);
        at += n;
    }
    return ERR_OK;
}

/* ---- doubles ---- */

/* Writes x as `type` (bf16 or float32) to out; returns the first index of a value that is not exact
 * in it, or n. `rounds`: what is not exact is rounded. */
static int64_t narrow(enum dtype type, bool rounds, const double *x, int64_t n, void *out)
{
    for (int64_t i = 0; i < n; i++) {
        float f = (float)x[i];
        uint32_t bits = f32_bits(f);
        bool nan = x[i] != x[i];
        if (!nan && !rounds && (double)f != x[i]) return i;
        if (type == DT_F32) {
            ((float *)out)[i] = f;
        } else {
            if (!nan && !rounds && (bits & 0xffff)) return i;
            ((uint16_t *)out)[i] = bf16_from_f32(f);
        }
    }
    return n;
}

static enum err_code say_inexact(enum dtype type, const double *x, int64_t cols, int64_t i,
                                 const char *what, struct err *err)
{
    return err_set(err, ERR_USAGE,
                   "%s for the gpu|row %lld, column %lld|%.17g|a value that is exact in %s: the "
                   "CUDA path rounds no input",
                   what, (long long)(i / cols), (long long)(i % cols), x[i], dtype_name(type));
}

/* Scratch holding x as `type`. */
static void *send_as(struct gpu *g, enum dtype type, const double *x, int64_t n, int64_t cols,
                     const char *what, struct err *err)
{
    int64_t size = dtype_size(type), piece = (int64_t)GPU_STAGE_BYTES / size;
    char *device = (char *)gpu_alloc(g, n, (size_t)size, what, err);
    for (int64_t at = 0; device && at < n; at += piece) {
        int64_t m = smaller(n - at, piece);
        char *stage = stage_take(g, (size_t)(m * size), what, err);
        if (!stage) return NULL;
        int64_t bad = narrow(type, g->rounds_inputs, x + at, m, stage);
        if (bad < m) {
            (void)!say_inexact(type, x, cols, at + bad, what, err);
            return NULL;
        }
        if (copy_piece(g, device + at * size, stage, (size_t)(m * size), cudaMemcpyHostToDevice,
                       what, err) != ERR_OK)
            return NULL;
    }
    return device;
}

bf16 *gpu_send_act(struct gpu *g, const double *x, int64_t rows, int64_t cols, const char *what,
                   struct err *err)
{
    return (bf16 *)send_as(g, DT_BF16, x, rows * cols, cols, what, err);
}

float *gpu_send_f32(struct gpu *g, const double *x, int64_t n, const char *what, struct err *err)
{
    return (float *)send_as(g, DT_F32, x, n, n ? n : 1, what, err);
}

enum err_code gpu_fetch_as(struct gpu *g, double *x, enum dtype type, const void *device, int64_t n,
                           const char *what, struct err *err)
{
    int64_t size = dtype_size(type), piece = (int64_t)GPU_STAGE_BYTES / size;
    if (n == 0) return gpu_wait(g, err);
    for (int64_t at = 0; at < n; at += piece) {
        int64_t m = smaller(n - at, piece);
        const char *stage =
            fetch_piece(g, (const char *)device + at * size, (size_t)(m * size), what, err);
        if (!stage) return err->code;
        dtype_to_f64(type, stage, m, x + at);
    }
    return ERR_OK;
}

enum err_code gpu_fetch_act(struct gpu *g, double *x, const bf16 *device, int64_t n,
                            const char *what, struct err *err)
{
    return gpu_fetch_as(g, x, DT_BF16, device, n, what, err);
}

enum err_code gpu_fetch_f32(struct gpu *g, double *x, const float *device, int64_t n,
                            const char *what, struct err *err)
{
    return gpu_fetch_as(g, x, DT_F32, device, n, what, err);
}
