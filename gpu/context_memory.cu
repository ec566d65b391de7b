/* context_memory.cu: scratch as a stack of chunks, and memory that is kept; see context.cuh. */
#include "gpu/context.cuh"

#include "core/check.h"
#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>

static const size_t ALIGN = 256;

static const size_t CHUNK_MIN = (size_t)32 << 20, CHUNK_MAX = (size_t)1 << 30;

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

int64_t gpu_free_bytes(struct gpu *g)
{
    size_t unused = 0, all = 0;
    (void)g;
    return cudaMemGetInfo(&unused, &all) == cudaSuccess ? (int64_t)unused : 0;
}

static enum err_code say_short(struct gpu *g, const char *what, double bytes, struct err *err)
{
    char needed[32], left[32];
    return err_set(err, ERR_MEMORY, "allocate %s|%s, op %s|%s free|%s", what, g->name,
                   g->op ? g->op : "(none)",
                   text_bytes((double)gpu_free_bytes(g), left, sizeof left),
                   text_bytes(bytes, needed, sizeof needed));
}

/* cudaMalloc, tried: NULL with `err` where the device is lost or a failure injected, NULL without
 * where memory is short. */
static void *device_malloc(struct gpu *g, size_t bytes, const char *what, struct err *err)
{
    void *data = NULL;
    char doing[ERR_PART];
    snprintf(doing, sizeof doing, "allocate %s", what);
    if (g->capturing) {
        (void)!err_set(err, ERR_DEVICE,
                       "%s|op %s|a graph is being captured|memory that the pass before it used",
                       doing, g->op ? g->op : "(none)");
        return NULL;
    }
    /* It may wait for the device by itself, and then nobody looks on. */
    if (g->watch.look && gpu_wait(g, err) != ERR_OK) return NULL;
    if (gpu_may_call(g, doing, err) != ERR_OK) return NULL;
    cudaError_t code = cudaMalloc(&data, bytes);
    if (code == cudaSuccess) {
        g->mallocs++;
        return data;
    }
    if (code == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        return NULL;
    }
    (void)!gpu_check(g, code, doing, err);
    return NULL;
}

/* ---- scratch ---- */

/* Chunks from `next` on are empty: the smallest that is big enough becomes the next one, so that a
 * pass which is repeated finds the chunks that it made. */
static bool take_chunk(struct gpu *g, size_t bytes, int next)
{
    int best = -1;
    for (int i = next; i < g->chunks; i++) {
        if (g->chunk[i].size < bytes) continue;
        if (best < 0 || g->chunk[i].size < g->chunk[best].size) best = i;
    }
    if (best < 0) return false;
    struct gpu_chunk found = g->chunk[best];
    g->chunk[best] = g->chunk[next];
    g->chunk[next] = found;
    return true;
}

static enum err_code add_chunk(struct gpu *g, size_t bytes, int next, const char *what,
                               struct err *err)
{
    if (g->chunks == GPU_CHUNKS)
        return err_set(err, ERR_MEMORY, "allocate %s|scratch|%d chunks are full|fewer", what,
                       GPU_CHUNKS);
    size_t usual = CHUNK_MIN;
    for (int i = 0; i < g->chunks && usual < CHUNK_MAX; i++) usual *= 2;
    size_t size = bytes > usual ? round_up(bytes, (size_t)2 << 20) : usual;
    void *data = device_malloc(g, size, what, err);
    if (!data && err->code == ERR_OK && size > bytes) {
        size = bytes;
        data = device_malloc(g, size, what, err);
    }
    if (!data) return err->code != ERR_OK ? err->code : say_short(g, what, (double)bytes, err);
    g->chunk[g->chunks] = g->chunk[next];
    g->chunk[next] = (struct gpu_chunk){(char *)data, size, 0};
    g->chunks++;
    return ERR_OK;
}

void *gpu_alloc(struct gpu *g, int64_t count, size_t size, const char *what, struct err *err)
{
    CHECK(count >= 0 && size > 0);
    if ((double)count * (double)size > 0x1p60) {
        (void)!say_short(g, what, (double)count * (double)size, err);
        return NULL;
    }
    size_t bytes = round_up((size_t)count * size, ALIGN);
    if (bytes == 0) bytes = ALIGN;
    const struct gpu_chunk *full = g->chunks ? &g->chunk[g->top] : NULL;
    if (!full || full->used == 0 || full->size - full->used < bytes) {
        int next = !full || full->used == 0 ? g->top : g->top + 1;
        if (!take_chunk(g, bytes, next) && add_chunk(g, bytes, next, what, err) != ERR_OK)
            return NULL;
        g->top = next;
    }
    struct gpu_chunk *c = &g->chunk[g->top];
    char *data = c->data + c->used;
    c->used += bytes;
    if (g->sync && !g->capturing &&
        gpu_call(g, cudaMemsetAsync(data, 0xFF, bytes, g->stream), "fill scratch", err) != ERR_OK)
        return NULL;
    return data;
}

struct gpu_mark gpu_mark(const struct gpu *g)
{
    struct gpu_mark m = {g->top, g->chunks ? g->chunk[g->top].used : 0};
    return m;
}

void gpu_release(struct gpu *g, struct gpu_mark m)
{
    for (int i = m.top + 1; i < g->chunks; i++) g->chunk[i].used = 0;
    g->top = m.top;
    if (g->chunks) g->chunk[m.top].used = m.used;
}

/* ---- kept ---- */

static enum err_code remember(struct gpu *g, void *data, size_t bytes, struct err *err)
{
    if (g->keeps == g->keeps_room) {
        int64_t room = g->keeps_room ? g->keeps_room * 2 : 256;
        void *more = realloc(g->keep, (size_t)room * sizeof *g->keep);
        if (!more) return err_set(err, ERR_MEMORY, "list device memory|host|no memory");
        g->keep = (struct gpu_kept *)more;
        g->keeps_room = room;
    }
    g->keep[g->keeps++] = (struct gpu_kept){data, bytes};
    g->kept += bytes;
    return ERR_OK;
}

void *gpu_keep(struct gpu *g, int64_t count, size_t size, const char *what, struct err *err)
{
    CHECK(count >= 0 && size > 0);
    double wanted = (double)count * (double)size;
    size_t bytes = wanted > 0x1p60 ? 0 : (size_t)count * size;
    void *data = wanted > 0x1p60 ? NULL : device_malloc(g, bytes ? bytes : ALIGN, what, err);
    if (!data) {
        if (err->code == ERR_OK) (void)!say_short(g, what, wanted, err);
        return NULL;
    }
    if (remember(g, data, bytes, err) == ERR_OK) return data;
    (void)cudaFree(data);
    return NULL;
}

/* The newest is looked for first: who drops in reverse order pays nothing. */
void gpu_drop(struct gpu *g, void *data)
{
    if (!data) return;
    int64_t i = g->keeps - 1;
    while (i >= 0 && g->keep[i].data != data) i--;
    CHECK(i >= 0);
    g->kept -= g->keep[i].size;
    g->keep[i] = g->keep[--g->keeps];
    if (g->lost.code == ERR_OK) (void)cudaFree(data);
}
