/* table.cu: the CUDA path's ops by name. An op that is not here is NOT IMPLEMENTED and red; nothing
 * falls back to the reference. Twin: gpu/none.c. Test: tests/test_ops.c */
#include "core/ops.h"
#include "gpu/device.cuh"

#include <pthread.h>
#include <stdio.h>

static const struct op_entry entries[] = {{NULL, NULL}};

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
        snprintf(why_not, sizeof why_not,
                 "none of the %d CUDA devices here has compute capability %d.0 or newer", count,
                 DEVICE_MAJOR_MIN);
    }
    side.about = side.available ? "CUDA" : "built in, but not usable here";
}

extern "C" const struct op_side *gpu_side(void)
{
    pthread_once(&once, look_for_device);
    return &side;
}
