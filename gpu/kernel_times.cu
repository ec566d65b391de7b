/* kernel_times.cu: see kernel_times.cuh. */
#include "gpu/kernel_times.cuh"

#if __has_include(<cupti.h>)
#include "core/library.h"

#include <cupti.h>
#include <cxxabi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFER = 8 << 20 };

/* As the system finds libraries, then where the toolkit puts it. */
static const char *const names[] = {"libcupti.so.13", "/usr/local/cuda/lib64/libcupti.so.13",
                                    "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.13", NULL};

/* Every function that is called, in one list. */
#define FUNCTIONS(F)                                                                               \
    F(cuptiActivityRegisterCallbacks)                                                              \
    F(cuptiActivityEnable)                                                                         \
    F(cuptiActivityDisable)                                                                        \
    F(cuptiActivityFlushAll)                                                                       \
    F(cuptiActivityGetNextRecord)

#define MEMBER(name) decltype(&name) name##_;
static struct {
    FUNCTIONS(MEMBER)
} library;
#undef MEMBER

static const CUpti_ActivityKind kinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                           CUPTI_ACTIVITY_KIND_MEMSET, CUPTI_ACTIVITY_KIND_MEMCPY};

/* One thing that ran, in nanoseconds. */
struct stretch {
    uint64_t begin, end;
    char name[BENCH_KERNEL];
};

/* Filled by the library's callbacks, on a thread of its own, until it is flushed. */
static struct {
    struct stretch *at;
    int64_t count, room;
    bool lost; /* no memory for one of them */
} seen;

static bool find_all(void *handle)
{
#define ENTRY(name) {#name, &library.name##_},
    const struct library_function list[] = {FUNCTIONS(ENTRY)};
#undef ENTRY
    return !library_find_all(handle, list, sizeof list / sizeof list[0]);
}

static bool open_library(void)
{
    static int there; /* 0: not tried */
    char why[160];
    if (there) return there > 0;
    void *handle = library_open(names, why, sizeof why);
    there = handle && find_all(handle) ? 1 : -1;
    return there > 0;
}

/* ---- records ---- */

/* "prefill_wgmma" of a mangled "void prefill_wgmma<true>(struct job)". */
static void short_name(const char *mangled, char out[BENCH_KERNEL])
{
    int status = 0;
    char *whole = abi::__cxa_demangle(mangled, NULL, NULL, &status);
    const char *from = status == 0 && whole ? whole : mangled;
    size_t n = strcspn(from, "<(");
    for (size_t i = n; i > 0; i--) {
        if (from[i - 1] != ' ' && from[i - 1] != ':') continue;
        from += i;
        n -= i;
        break;
    }
    snprintf(out, BENCH_KERNEL, "%.*s", (int)n, from);
    free(whole);
}

static void keep(uint64_t begin, uint64_t end, const char *name)
{
    if (seen.count == seen.room) {
        int64_t room = seen.room ? 2 * seen.room : 4096;
        void *more = realloc(seen.at, (size_t)room * sizeof *seen.at);
        if (!more) {
            seen.lost = true;
            return;
        }
        seen.at = (struct stretch *)more;
        seen.room = room;
    }
    struct stretch *s = &seen.at[seen.count++];
    s->begin = begin;
    s->end = end;
    short_name(name, s->name);
}

static void take(const CUpti_Activity *record)
{
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
        const CUpti_ActivityKernel10 *k = (const CUpti_ActivityKernel10 *)record;
        keep(k->start, k->end, k->name);
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
        const CUpti_ActivityMemset4 *k = (const CUpti_ActivityMemset4 *)record;
        keep(k->start, k->end, "fill");
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
        const CUpti_ActivityMemcpy6 *k = (const CUpti_ActivityMemcpy6 *)record;
        keep(k->start, k->end, "copy");
    }
}

static void CUPTIAPI give_buffer(uint8_t **buffer, size_t *size, size_t *records)
{
    *buffer = (uint8_t *)malloc(BUFFER);
    *size = *buffer ? BUFFER : 0;
    *records = 0; /* as many as it has room for */
}

static void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
                                 size_t valid)
{
    CUpti_Activity *record = NULL;
    (void)context;
    (void)stream;
    (void)size;
    while (library.cuptiActivityGetNextRecord_(buffer, valid, &record) == CUPTI_SUCCESS)
        take(record);
    free(buffer);
}

/* ---- from records to figures ---- */

static int by_begin(const void *a, const void *b)
{
    uint64_t x = ((const struct stretch *)a)->begin, y = ((const struct stretch *)b)->begin;
    return (x > y) - (x < y);
}

static void add_kernel(const struct stretch *s, struct bench_row *out)
{
    int i = 0;
    while (i < out->kernels && strcmp(out->kernel[i].name, s->name) != 0) i++;
    if (i == BENCH_KERNELS) i--; /* the last one stands for all that find no room */
    if (i == out->kernels) snprintf(out->kernel[out->kernels++].name, BENCH_KERNEL, "%s", s->name);
    out->kernel[i].calls++;
    out->kernel[i].seconds += (double)(s->end - s->begin) * 1e-9;
}

/* n > 0 stretches in the order of their begins; they may overlap. */
static void sum_up(const struct stretch *s, int64_t n, struct bench_row *out)
{
    uint64_t busy = 0, end = s[0].begin;
    for (int64_t i = 0; i < n; i++) {
        uint64_t from = s[i].begin > end ? s[i].begin : end;
        if (s[i].end > from) busy += s[i].end - from;
        if (s[i].end > end) end = s[i].end;
        add_kernel(&s[i], out);
    }
    out->busy = (double)busy * 1e-9;
    out->span = (double)(end - s[0].begin) * 1e-9;
}

enum err_code kernel_times_begin(struct gpu *g, bool *there, struct err *err)
{
    *there = open_library();
    if (!*there) return ERR_OK;
    seen.count = 0;
    seen.lost = false;
    bool good = library.cuptiActivityRegisterCallbacks_(give_buffer, take_buffer) == CUPTI_SUCCESS;
    for (CUpti_ActivityKind kind : kinds)
        good = good && library.cuptiActivityEnable_(kind) == CUPTI_SUCCESS;
    for (CUpti_ActivityKind kind : kinds)
        if (!good) (void)library.cuptiActivityDisable_(kind);
    *there = good; /* another profiler may be at work: then there are no figures, and no error */
    return gpu_wait(g, err);
}

enum err_code kernel_times_end(struct gpu *g, int parts, struct bench_row *out, struct err *err)
{
    (void)!gpu_wait(g, err);
    for (CUpti_ActivityKind kind : kinds) (void)library.cuptiActivityDisable_(kind);
    bool good = library.cuptiActivityFlushAll_(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) == CUPTI_SUCCESS;
    int64_t n = seen.count / parts;
    if (err->code != ERR_OK) return err->code;
    if (!good || seen.lost || n == 0 || seen.count % parts)
        return err_set(err, ERR_DEVICE,
                       "time kernels|CUPTI|%lld records of %d equal parts%s|as many of each",
                       (long long)seen.count, parts, seen.lost ? ", and no memory for more" : "");
    qsort(seen.at, (size_t)seen.count, sizeof *seen.at, by_begin);
    sum_up(seen.at + (parts - 1) * n, n, out);
    return ERR_OK;
}

#else

enum err_code kernel_times_begin(struct gpu *g, bool *there, struct err *err)
{
    (void)g;
    (void)err;
    *there = false;
    return ERR_OK;
}

enum err_code kernel_times_end(struct gpu *g, int parts, struct bench_row *out, struct err *err)
{
    (void)parts;
    (void)out;
    return gpu_wait(g, err);
}

#endif
