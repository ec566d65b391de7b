/* bench.cu: the device's side of `assay bench`; contract core/bench.h. Shapes are those of
 * Kimi-K2.5 (7168 wide, 64 heads, 384 experts of 2048, 8 chosen; "tp8" a shard of 256).
 *
 * Operands are hash-random and rotate: as many disjoint sets as it takes to exceed the second-level
 * cache four times, so every call finds it cold. Decode ops are replayed from a graph, the way a
 * decode step runs them; what reads lengths on the host (prefill) is launched as it is. Times are
 * device events around all sets, by the number of sets. "layer" and "step" are many ops in a row.
 */
#include "core/bench.h"
#include "gpu/bench_work.cuh"
#include "gpu/graph.cuh"
#include "gpu/kernel_times.cuh"

#include <cuda_profiler_api.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 21, WARM = 3, QUEUED = 4 };

static const struct bench_case cases[] = {
    {"norm", "add + norm, T=64", bench_norm, {64, 7168, 0, 0, 0, false}},
    {"norm", "add + norm, T=4096", bench_norm, {4096, 7168, 0, 0, 0, false}},
    {"rope", "T=4096, 64 heads", bench_rope, {4096, 0, 0, 64, 0, false}},
    {"linear", "o_proj 8192 -> 7168, T=1", bench_linear, {1, 8192, 7168, 0, 0, false}},
    {"linear", "o_proj 8192 -> 7168, T=64", bench_linear, {64, 8192, 7168, 0, 0, false}},
    {"linear", "o_proj 8192 -> 7168, T=4096", bench_linear, {4096, 8192, 7168, 0, 0, false}},
    {"linear", "q_a + kv_a 7168 -> 2112, T=1", bench_linear, {1, 7168, 2112, 0, 0, false}},
    {"mlp", "shared expert 2048, T=1", bench_mlp, {1, 7168, 2048, 0, 0, false}},
    {"mlp", "shared expert 2048, T=64", bench_mlp, {64, 7168, 2048, 0, 0, false}},
    {"router", "384 experts, 8 chosen, T=1", bench_router, {1, 0, 0, 0, 0, false}},
    {"router", "384 experts, 8 chosen, T=64", bench_router, {64, 0, 0, 0, 0, false}},
    {"router", "384 experts, 8 chosen, T=4096", bench_router, {4096, 0, 0, 0, 0, false}},
    {"mla.core", "decode, 64 heads, 1 x 4096", bench_decode, {1, 0, 0, 64, 4096, false}},
    {"mla.core", "decode, 64 heads, 32 x 4096", bench_decode, {32, 0, 0, 64, 4096, false}},
    {"mla.core", "decode, 64 heads, 128 x 8192", bench_decode, {128, 0, 0, 64, 8192, false}},
    {"mla.core", "decode, 128 heads, 128 x 8192", bench_decode, {128, 0, 0, 128, 8192, false}},
    {"mla.core", "decode, 16 heads, 1 x 4096", bench_decode, {1, 0, 0, 16, 4096, false}},
    {"mla.core", "decode, 16 heads, 32 x 4096", bench_decode, {32, 0, 0, 16, 4096, false}},
    {"mla.core", "decode, 64 heads, 1 x 131072", bench_decode, {1, 0, 0, 64, 131072, false}},
    {"mla.core", "attention alone, 64 heads, 1 x 4096", bench_attend, {1, 0, 0, 64, 4096, false}},
    {"mla.core", "attention alone, 64 heads, 32 x 4096", bench_attend, {32, 0, 0, 64, 4096, false}},
    {"mla.core",
     "attention alone, 64 heads, 128 x 8192",
     bench_attend,
     {128, 0, 0, 64, 8192, false}},
    {"mla.core",
     "attention alone, 128 heads, 128 x 8192",
     bench_attend,
     {128, 0, 0, 128, 8192, false}},
    {"mla.core", "attention alone, 16 heads, 1 x 4096", bench_attend, {1, 0, 0, 16, 4096, false}},
    {"mla.core", "prefill, 64 heads, 4096", bench_prefill, {4096, 0, 0, 64, 0, false}},
    {"mla.core", "prefill, 128 heads, 4096", bench_prefill, {4096, 0, 0, 128, 0, false}},
    {"mla.core", "prefill, 128 heads, 16384", bench_prefill, {16384, 0, 0, 128, 0, false}},
    {"moe", "INT4, T=1", bench_moe, {1, 0, 2048, 0, 0, false}},
    {"moe", "INT4, T=16", bench_moe, {16, 0, 2048, 0, 0, false}},
    {"moe", "INT4, T=64", bench_moe, {64, 0, 2048, 0, 0, false}},
    {"moe", "INT4, T=256", bench_moe, {256, 0, 2048, 0, 0, false}},
    {"moe", "INT4, T=4096", bench_moe, {4096, 0, 2048, 0, 0, false}},
    {"moe", "INT4, tp8, T=1", bench_moe, {1, 0, 256, 0, 0, false}},
    {"moe", "INT4, tp8, T=64", bench_moe, {64, 0, 256, 0, 0, false}},
    {"moe", "INT4, tp8, T=4096", bench_moe, {4096, 0, 256, 0, 0, false}},
    {"step",
     "decode, 61 layers of tp8, B=1, context 4096",
     bench_step,
     {1, 61, 256, 8, 4096, false}},
    {"step",
     "decode, 61 layers of tp8, B=64, context 4096",
     bench_step,
     {64, 61, 256, 8, 4096, false}},
    {"logits", "163840 rows, T=1", bench_linear, {1, 7168, 163840, 0, 0, true}},
    {"logits", "163840 rows, T=64", bench_linear, {64, 7168, 163840, 0, 0, true}},
};

enum { CASES = sizeof cases / sizeof cases[0] };

/* Those of the layer come last. */
static const struct bench_case *case_of(int i)
{
    return i < CASES ? &cases[i] : bench_layer_case(i - CASES);
}

static const char *op_of(int i)
{
    const struct bench_case *c = i >= 0 ? case_of(i) : NULL;
    return c ? c->op : NULL;
}

/* All sets once, in stream order. */
static enum err_code launch_all(struct bench_work *w, struct err *err)
{
    for (int set = 0; err->code == ERR_OK && set < w->sets; set++) {
        struct gpu_mark m = gpu_mark(w->g);
        (void)!w->launch(w, set, err);
        gpu_release(w->g, m);
    }
    return err->code;
}

/* Tells who reads a profiler's list which case the launches behind it are of: its grid. */
__global__ static void bench_case(void)
{
}

/* The first set, for a profiler that waits to be told (harness/bench_counters.h); without one this
 * is one call more before the rounds. */
static enum err_code launch_counted(struct bench_work *w, int number, struct err *err)
{
    struct gpu_mark m = gpu_mark(w->g);
    (void)cudaProfilerStart(); /* no profiler, no harm */
    if (GPU_LAUNCH(w->g, err, "bench_case", "", dim3((unsigned)number), dim3(1), 0, bench_case) ==
            ERR_OK &&
        w->launch(w, 0, err) == ERR_OK)
        (void)!gpu_wait(w->g, err);
    (void)cudaProfilerStop();
    gpu_release(w->g, m);
    return err->code;
}

static enum err_code capture(struct bench_work *w, struct gpu_graph *out, struct err *err)
{
    if (gpu_graph_begin(w->g, out, err) == ERR_OK) (void)!launch_all(w, err);
    return gpu_graph_end(w->g, err);
}

/* Seconds of one round of all sets. */
static enum err_code one_round(struct bench_work *w, const struct gpu_graph *graph,
                               cudaEvent_t begin, cudaEvent_t end, double *seconds, struct err *err)
{
    struct gpu *g = w->g;
    float ms = 0;
    if (gpu_call(g, cudaEventRecord(begin, g->stream), "time", err) != ERR_OK) return err->code;
    if (graph)
        (void)!gpu_graph_launch(g, graph, err);
    else
        (void)!launch_all(w, err);
    if (err->code != ERR_OK ||
        gpu_call(g, cudaEventRecord(end, g->stream), "time", err) != ERR_OK ||
        gpu_wait(g, err) != ERR_OK ||
        gpu_call(g, cudaEventElapsedTime(&ms, begin, end), "time", err) != ERR_OK)
        return err->code;
    *seconds = (double)ms * 1e-3 / w->sets / (w->units ? w->units : 1);
    return ERR_OK;
}

/* Behind a first one, so that no launch waits for the host. */
static enum err_code time_queued(struct bench_work *w, const struct gpu_graph *graph,
                                 cudaEvent_t begin, cudaEvent_t end, struct bench_row *out,
                                 struct err *err)
{
    struct gpu *g = w->g;
    struct timespec from, to;
    float ms = 0;
    for (int i = 0; err->code == ERR_OK && i <= QUEUED; i++) {
        clock_gettime(CLOCK_MONOTONIC, &from);
        if (gpu_graph_launch(g, graph, err) != ERR_OK) break;
        clock_gettime(CLOCK_MONOTONIC, &to);
        if (i == 0) (void)!gpu_call(g, cudaEventRecord(begin, g->stream), "time", err);
    }
    if (err->code != ERR_OK ||
        gpu_call(g, cudaEventRecord(end, g->stream), "time", err) != ERR_OK ||
        gpu_wait(g, err) != ERR_OK ||
        gpu_call(g, cudaEventElapsedTime(&ms, begin, end), "time", err) != ERR_OK)
        return err->code;
    out->queued = (double)ms * 1e-3 / QUEUED;
    out->submit = (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) * 1e-9;
    return ERR_OK;
}

/* What the kernels of all sets take of their time: recorded, so apart from the rounds that count.
 */
static enum err_code time_kernels(struct bench_work *w, const struct gpu_graph *graph,
                                  struct bench_row *out, struct err *err)
{
    bool there;
    if (kernel_times_begin(w->g, &there, err) != ERR_OK || !there) return err->code;
    for (int i = 0; err->code == ERR_OK && i < WARM; i++) {
        if ((graph ? gpu_graph_launch(w->g, graph, err) : launch_all(w, err)) == ERR_OK)
            (void)!gpu_wait(w->g, err);
    }
    struct err ended;
    err_clear(&ended);
    (void)!kernel_times_end(w->g, WARM, out, &ended);
    if (err->code == ERR_OK) *err = ended;
    out->whole = out->seconds * w->sets * (w->units ? w->units : 1);
    return err->code;
}

static enum err_code time_work(struct bench_work *w, struct bench_row *out, struct kernel_log *log,
                               struct err *err)
{
    struct gpu_graph made = {};
    const struct gpu_graph *graph = w->graph ? &made : NULL;
    cudaEvent_t begin = NULL, end = NULL;
    double seconds[ROUNDS];
    w->g->log = log;
    (void)!launch_all(w, err); /* loads the kernels and grows the scratch */
    w->g->log = NULL;
    if (err->code == ERR_OK && w->number) (void)!launch_counted(w, w->number, err);
    if (err->code == ERR_OK && gpu_wait(w->g, err) == ERR_OK && w->graph)
        (void)!capture(w, &made, err);
    if (err->code == ERR_OK && gpu_call(w->g, cudaEventCreate(&begin), "time", err) == ERR_OK)
        (void)!gpu_call(w->g, cudaEventCreate(&end), "time", err);
    for (int i = -WARM; err->code == ERR_OK && i < ROUNDS; i++)
        (void)!one_round(w, graph, begin, end, &seconds[i < 0 ? 0 : i], err);
    if (err->code == ERR_OK) bench_median(seconds, ROUNDS, out);
    if (err->code == ERR_OK && w->kernels && graph)
        (void)!time_queued(w, graph, begin, end, out, err);
    if (err->code == ERR_OK && w->kernels) (void)!time_kernels(w, graph, out, err);
    if (begin) cudaEventDestroy(begin);
    if (end) cudaEventDestroy(end);
    gpu_graph_drop(&made);
    return err->code;
}

enum err_code bench_measure(struct gpu *g, const struct bench_case *c, const struct shard *shard,
                            int number, struct bench_row *out, struct kernel_log *log,
                            struct err *err)
{
    struct bench_work w = {};
    struct gpu_mark m = gpu_mark(g);
    gpu_at(g, c->op, -1);
    w.g = g;
    w.shard = shard;
    w.size = c->size;
    w.number = number;
    *out = (struct bench_row){};
    if (c->open(&w, err) == ERR_OK) (void)!time_work(&w, out, log, err);
    snprintf(out->text, sizeof out->text, "%s; %s, %d set%s", c->text,
             w.graph ? "graph" : "launches", w.sets, w.sets == 1 ? "" : "s");
    out->bytes = w.bytes;
    out->flops = w.flops;
    out->bus = w.bus;
    bench_close(&w);
    gpu_release(g, m);
    return err->code;
}

static enum err_code measure(int i, struct bench_row *out, struct kernel_log *log, struct err *err)
{
    struct gpu *g = gpu_get(err);
    return g ? bench_measure(g, case_of(i), NULL, i + 1, out, log, err) : err->code;
}

extern "C" const struct bench_side *gpu_bench(void)
{
    static const struct bench_side side = {"gpu", bench_ceilings_gpu, op_of, measure};
    return &side;
}
