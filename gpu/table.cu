/* table.cu: the CUDA path's ops by name. An op that is not here is NOT IMPLEMENTED and red; nothing
 * falls back to the reference. Twin: gpu/none.c. Test: tests/test_ops.c */
#include "core/ops.h"
#include "gpu/device.cuh"
#include "gpu/ops.h"

#include <pthread.h>
#include <stdio.h>

/* A thunk of the table's type for each op: functions are never called through a cast type. */
#define THUNK(type, stem)                                                                          \
    static enum err_code run_##stem(const void *op, struct run *run, struct err *err)              \
    {                                                                                              \
        return stem##_gpu((const struct type *)op, run, err);                                      \
    }

THUNK(embed, embed)
THUNK(norm, norm)
THUNK(rope, rope)
THUNK(linear, linear)
THUNK(mla_q, mla_q)
THUNK(mla_kv, mla_kv)
THUNK(mla_core, mla_core)
THUNK(mla_output, mla_output)
THUNK(router, router)
THUNK(int4_op, int4)
THUNK(moe, moe)
THUNK(mlp, moe_shared)
THUNK(mlp, mlp)
THUNK(logits, logits)
THUNK(eagle_fc, eagle_fc)
THUNK(eagle_layer, eagle_layer)
THUNK(eagle_verify, eagle_verify)

static const struct op_entry entries[] = {
    {"embed", run_embed},
    {"norm", run_norm},
    {"rope", run_rope},
    {"linear", run_linear},
    {"mla.q", run_mla_q},
    {"mla.kv", run_mla_kv},
    {"mla.core", run_mla_core},
    {"mla.output", run_mla_output},
    {"router", run_router},
    {"int4", run_int4},
    {"moe", run_moe},
    {"moe.shared", run_moe_shared},
    {"mlp", run_mlp},
    {"logits", run_logits},
    {"eagle.fc", run_eagle_fc},
    {"eagle.layer", run_eagle_layer},
    {"eagle.verify", run_eagle_verify},
    {NULL, NULL}, /* the last row */
};

static char why_not[DEVICE_WHY];
static struct op_side side = {"gpu", "CUDA", false, why_not, entries};
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void look_for_device(void)
{
    int count = device_count(why_not, sizeof why_not);
    for (int i = 0; i < count; i++) {
        side.available = side.available || device_usable(i);
    }
    if (count > 0 && !side.available) {
        snprintf(
            why_not, sizeof why_not,
            "none of the %d CUDA devices here has compute capability %d.0 or newer and code in "
            "this build, which has it for " ASSAY_CUDA_ARCHITECTURES,
            count, DEVICE_MAJOR_MIN);
    }
    side.about = side.available ? "CUDA" : "built in, but not usable here";
}

extern "C" const struct op_side *gpu_side(void)
{
    pthread_once(&once, look_for_device);
    return &side;
}
