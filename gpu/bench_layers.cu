/* bench_layers.cu: the cases of `assay bench layer --on gpu --tp N --ep N`: a layer that several
 * ranks share, one a card by NCCL where there are as many. Contract: core/bench.h; the layer:
 * bench_layer.cu. Every case opens its own communicators and closes them. */
#include "core/bench.h"
#include "gpu/bench_work.cuh"
#include "gpu/collective.cuh"

#include <stdio.h>
#include <stdlib.h>

/* Of a prefill the sums alone would take minutes over the host: the cases before it. */
enum { CASES_HOST = 2 };

struct layers {
    struct gpu *g;
    struct shard shard;
    bool nccl;
    char transport[TRANSPORT_TEXT];
};

/* How these ranks will add up, known before the first case. */
static enum err_code ask_transport(struct layers *o, struct err *err)
{
    struct gpu_ranks *r = NULL;
    if (gpu_ranks_open(o->g, &o->shard, &r, err) == ERR_OK) {
        o->nccl = r->transport.nccl;
        snprintf(o->transport, sizeof o->transport, "%s", r->transport.text);
    }
    gpu_ranks_close(r);
    return err->code;
}

static enum err_code open_ranks(const struct shard *s, void **self, struct err *err)
{
    if (gpu_ranks_select(s, err) != ERR_OK) return err->code;
    struct layers *o = (struct layers *)calloc(1, sizeof *o);
    if (!o) return err_set(err, ERR_MEMORY, "bench||no memory");
    *self = o;
    o->shard = *s;
    o->g = gpu_get(err);
    return o->g ? ask_transport(o, err) : err->code;
}

static void close_ranks(void *self)
{
    free(self);
}

static const char *about(void *self)
{
    return ((struct layers *)self)->transport;
}

static const char *op_of(void *self, int i)
{
    const struct layers *o = (const struct layers *)self;
    const struct bench_case *c = o->nccl || i < CASES_HOST ? bench_layer_case(i) : NULL;
    return c ? c->op : NULL;
}

static enum err_code measure(void *self, int i, struct bench_row *out, struct kernel_log *log,
                             struct err *err)
{
    const struct layers *o = (const struct layers *)self;
    return bench_measure(o->g, bench_layer_case(i), &o->shard, 0, out, log, err);
}

extern "C" const struct bench_group *gpu_bench_layers(void)
{
    static const struct bench_group group = {"gpu", open_ranks, close_ranks, about, op_of, measure};
    return &group;
}
