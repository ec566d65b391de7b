/* device.h: the CUDA devices of this machine, as facts for people. Answered by gpu/device.cu, or by
 * gpu/none.c in a build without CUDA, which knows of none. It promises nothing about what a device
 * can compute: that is gpu_side() of ops.h. Shown by `assay doctor`. */
#ifndef ASSAY_CORE_DEVICE_H
#define ASSAY_CORE_DEVICE_H

#include "core/error.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct device_info {
    char name[256];
    int64_t memory;   /* bytes */
    int major, minor; /* compute capability */
    int driver;       /* newest CUDA that the driver knows: 1000 * major + 10 * minor */
    int runtime;      /* CUDA that this build was made with, the same way */
};

/* Fills out[0 .. min(n, max)) and returns n >= 1, the number of devices. Where there is none, or
 * none can be asked, returns -1 and sets `err` (ERR_DEVICE): not built in, no driver, driver too
 * old, no device. */
int gpu_devices(struct device_info *out, int max, struct err *err);

/* How the devices of this host reach each other. */
struct device_links {
    int devices, pairs, peers; /* pairs of devices, and those that read each other's memory */
    int nvlinks;               /* links up on each device, the fewest; -1: not known */
};

/* ERR_DEVICE as gpu_devices(). */
enum err_code gpu_links(struct device_links *out, struct err *err) ERR_USED;

#ifdef __cplusplus
}
#endif
#endif
