/* device.cuh: which devices the CUDA path may use; private to gpu/. Facts for people:
 * core/device.h. */
#ifndef ASSAY_GPU_DEVICE_CUH
#define ASSAY_GPU_DEVICE_CUH

#include "core/device.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    DEVICE_WHY = 256,
    DEVICE_MAJOR_MIN = 8, /* bf16 and asynchronous copies: Ampere or newer */
};

/* Devices here, at least 1; or -1 with one clause of reason in `why`. */
int device_count(char *why, size_t size);
/* Of a compute capability that this build has code for. */
bool device_usable(int index);

#endif
