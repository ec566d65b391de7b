/* bench_ranks.cu: what ranks do together on their devices, timed on all of them at once: our sum in
 * rank order beside NCCL's own all-reduce of the same float32 message, and an all-to-all. Contract:
 * core/bench.h. Bus bytes as nccl-tests count them: of a message of S bytes on n ranks 2 S (n - 1)
 * / n for a sum, S (n - 1) / n for an all-to-all. */
#include "core/bench.h"
#include "gpu/bench_work.cuh"
#include "gpu/collective.cuh"

#include <stdio.h>
#include <stdlib.h>

/* Calls in a row, so that one's overhead is not the launch's. */
enum { CALLS_SMALL = 32, CALLS_LARGE = 4 };
static const int64_t LARGE = (int64_t)8 << 20;

struct group_work {
    struct gpu_ranks *ranks;
    void *x;
    bf16 *y;
};

static struct gpu_ranks *current; /* of the case at hand: the table's open() takes no more */

static int members(const struct gpu_ranks *r)
{
    return r->shard.world;
}

static enum err_code open_group(struct bench_work *w, double bus,
                                enum err_code (*launch)(struct bench_work *, int, struct err *),
                                struct err *err)
{
    struct group_work *o = (struct group_work *)calloc(1, sizeof *o);
    int64_t bytes = w->size.in;
    if (!o) return err_set(err, ERR_MEMORY, "bench||no memory");
    w->operands = o;
    o->ranks = current;
    o->x = bench_values(w, bytes / 2, 1, err);
    o->y = (bf16 *)bench_room(w, bytes, err);
    w->sets = bytes > LARGE ? CALLS_LARGE : CALLS_SMALL;
    w->graph = current->transport.nccl;
    w->bytes = (double)bytes;
    w->bus = (double)bytes * bus * (members(current) - 1) / members(current);
    w->launch = launch;
    return err->code;
}

static enum err_code launch_sum(struct bench_work *w, int set, struct err *err)
{
    struct group_work *o = (struct group_work *)w->operands;
    int64_t n = w->size.in / dtype_size(gpu_partial_type(o->ranks));
    const struct shard_site at = {"moe", set, 1, n};
    return gpu_reduce(o->ranks, &at, o->x, o->y, err);
}

static enum err_code bench_sum(struct bench_work *w, struct err *err)
{
    return open_group(w, 2, launch_sum, err);
}

static enum err_code launch_nccl_sum(struct bench_work *w, int set, struct err *err)
{
    struct group_work *o = (struct group_work *)w->operands;
    struct gpu_comm *c = &o->ranks->all;
    (void)set;
    int code = c->nccl->ncclAllReduce(o->x, o->y, (size_t)w->size.in / sizeof(float), NCCL_F32,
                                      NCCL_SUM, c->comm, w->g->stream);
    return gpu_comm_call(c, code, "ncclAllReduce", err);
}

static enum err_code bench_nccl_sum(struct bench_work *w, struct err *err)
{
    return open_group(w, 2, launch_nccl_sum, err);
}

static enum err_code launch_all_to_all(struct bench_work *w, int set, struct err *err)
{
    struct group_work *o = (struct group_work *)w->operands;
    (void)set;
    return gpu_all_to_all(o->ranks, o->x, w->size.in / members(o->ranks), o->y, err);
}

static enum err_code bench_all_to_all(struct bench_work *w, struct err *err)
{
    return open_group(w, 1, launch_all_to_all, err);
}

/* Those that NCCL alone makes come last. */
static const struct bench_case cases[] = {
    {"all_reduce", "sum in rank order, 14 KB a rank", bench_sum, {0, 14336, 0, 0, 0, false}},
    {"all_reduce", "sum in rank order, 1 MB a rank", bench_sum, {0, 1 << 20, 0, 0, 0, false}},
    {"all_reduce", "sum in rank order, 64 MB a rank", bench_sum, {0, 64 << 20, 0, 0, 0, false}},
    {"all_reduce", "ncclAllReduce, 14 KB a rank", bench_nccl_sum, {0, 14336, 0, 0, 0, false}},
    {"all_reduce", "ncclAllReduce, 1 MB a rank", bench_nccl_sum, {0, 1 << 20, 0, 0, 0, false}},
    {"all_reduce", "ncclAllReduce, 64 MB a rank", bench_nccl_sum, {0, 64 << 20, 0, 0, 0, false}},
    {"all_to_all", "14 KB a rank", bench_all_to_all, {0, 14336, 0, 0, 0, false}},
    {"all_to_all", "1 MB a rank", bench_all_to_all, {0, 1 << 20, 0, 0, 0, false}},
    {"all_to_all", "64 MB a rank", bench_all_to_all, {0, 64 << 20, 0, 0, 0, false}},
};
enum { CASES = sizeof cases / sizeof cases[0], CASES_HOST = 3 };

static enum err_code open_ranks(const struct shard *s, void **self, struct err *err)
{
    struct gpu_ranks *r = NULL;
    if (gpu_ranks_select(s, err) != ERR_OK) return err->code;
    struct gpu *g = gpu_get(err);
    if (g && gpu_ranks_open(g, s, &r, err) == ERR_OK)
        *self = r;
    else
        gpu_ranks_close(r);
    return err->code;
}

static void close_ranks(void *self)
{
    gpu_ranks_close((struct gpu_ranks *)self);
}

static const char *about(void *self)
{
    return ((struct gpu_ranks *)self)->transport.text;
}

static const char *op_of(void *self, int i)
{
    int count = ((struct gpu_ranks *)self)->transport.nccl ? CASES : CASES_HOST;
    return i >= 0 && i < count ? cases[i].op : NULL;
}

static enum err_code measure(void *self, int i, struct bench_row *out, struct kernel_log *log,
                             struct err *err)
{
    current = (struct gpu_ranks *)self;
    gpu_ranks_begin(current, false);
    return bench_measure(current->g, &cases[i], NULL, 0, out, log, err);
}

extern "C" const struct bench_group *gpu_bench_group(void)
{
    static const struct bench_group group = {"gpu", open_ranks, close_ranks, about, op_of, measure};
    return &group;
}
