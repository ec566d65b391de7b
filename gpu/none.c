/* none.c: the CUDA side of a build without CUDA: an empty table that says so. Nothing falls back to
 * the reference. Twin: gpu/table.cu and gpu/device.cu. Test: tests/test_ops.c */
#include "core/device.h"
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

int gpu_devices(struct device_info *out, int max, struct err *err)
{
    (void)out;
    (void)max;
    err_set(err, ERR_DEVICE, "CUDA devices|gpu|%s|a build with CUDA", why_not);
    return -1;
}
