/* none.c: the CUDA side of a build without CUDA: an empty table that says so. Nothing falls back to
 * the reference. Twin: gpu/table.cu and gpu/device.cu. Test: tests/test_ops.c */
#include "core/bench.h"
#include "core/device.h"
#include "core/engine.h"
#include "core/ops.h"

#include <stddef.h>

static const char why_not[] = "this build has no CUDA (configure with -DASSAY_CUDA=ON, needs nvcc)";

static const struct op_entry entries[] = {{NULL, NULL}};

static const struct op_side side = {
    .name = "gpu",
    .about = "not built in",
    .available = false,
    .why_not = why_not,
    .entries = entries,
};

const struct op_side *gpu_side(void)
{
    return &side;
}

/* engine_usable() refuses it, so nothing of it is ever called. */
const struct engine_kind *gpu_engine(void)
{
    static const struct engine_kind kind = {
        .name = "gpu", .about = "assay gpu", .profile = "gpu", .side = gpu_side};
    return &kind;
}

int gpu_devices(struct device_info *out, int max, struct err *err)
{
    (void)out;
    (void)max;
    err_set(err, ERR_DEVICE, "CUDA devices|gpu|%s|a build with CUDA", why_not);
    return -1;
}

enum err_code gpu_links(struct device_links *out, struct err *err)
{
    (void)out;
    return err_set(err, ERR_DEVICE, "CUDA devices|gpu|%s|a build with CUDA", why_not);
}

static const char *no_case(int i)
{
    (void)i;
    return NULL;
}

static enum err_code no_ceilings(struct bench_ceilings *out, struct err *err)
{
    (void)out;
    return err_set(err, ERR_DEVICE, "bench|gpu|%s|a build with CUDA", why_not);
}

static enum err_code no_measure(int i, struct bench_row *out, struct kernel_log *log,
                                struct err *err)
{
    struct bench_ceilings ignored;
    (void)i;
    (void)out;
    (void)log;
    return no_ceilings(&ignored, err);
}

const struct bench_side *gpu_bench(void)
{
    static const struct bench_side none = {"gpu", no_ceilings, no_case, no_measure};
    return &none;
}

static enum err_code no_group(const struct shard *s, void **self, struct err *err)
{
    struct bench_ceilings ignored;
    (void)s;
    (void)self;
    return no_ceilings(&ignored, err);
}

/* Past its open nothing of it is ever called. */
static const struct bench_group none_group = {.name = "gpu", .open = no_group};

const struct bench_group *gpu_bench_group(void)
{
    return &none_group;
}

const struct bench_group *gpu_bench_layers(void)
{
    return &none_group;
}
