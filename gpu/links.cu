/* links.cu: how the devices of this host reach each other; contract core/device.h. Peers by the
 * runtime, NVLinks by the driver's management library, which is opened for it. Makes no context.
 * Twin: gpu/none.c */
#include "core/device.h"

#include "core/library.h"
#include "gpu/device.cuh"

#include <cuda_runtime.h>

enum { LINKS = 18, ACTIVE = 1, BUS = 32 };

/* Of nvml.h: calls that give 0 where they went well. */
struct nvml {
    int (*nvmlInit_v2)(void);
    int (*nvmlShutdown)(void);
    int (*nvmlDeviceGetHandleByPciBusId_v2)(const char *bus, void **device);
    int (*nvmlDeviceGetNvLinkState)(void *device, unsigned link, int *state);
};

static bool open_nvml(struct nvml *n)
{
    static const char *const names[] = {"libnvidia-ml.so.1", NULL};
    char why[160];
    void *library = library_open(names, why, sizeof why);
    const struct library_function list[] = {
        {"nvmlInit_v2", &n->nvmlInit_v2},
        {"nvmlShutdown", &n->nvmlShutdown},
        {"nvmlDeviceGetHandleByPciBusId_v2", &n->nvmlDeviceGetHandleByPciBusId_v2},
        {"nvmlDeviceGetNvLinkState", &n->nvmlDeviceGetNvLinkState}};
    return library && !library_find_all(library, list, sizeof list / sizeof list[0]);
}

/* Links of one device that are up; -1: not known. */
static int links_of(const struct nvml *n, int device)
{
    char bus[BUS];
    void *handle;
    int up = 0;
    if (cudaDeviceGetPCIBusId(bus, sizeof bus, device) != cudaSuccess ||
        n->nvmlDeviceGetHandleByPciBusId_v2(bus, &handle) != 0)
        return -1;
    for (unsigned link = 0; link < LINKS; link++) {
        int state = 0;
        if (n->nvmlDeviceGetNvLinkState(handle, link, &state) == 0) up += state == ACTIVE;
    }
    return up;
}

static int fewest_links(int devices)
{
    struct nvml n = {};
    int fewest = -1;
    if (!open_nvml(&n) || n.nvmlInit_v2() != 0) return -1;
    for (int i = 0; i < devices; i++) {
        int links = links_of(&n, i);
        if (links >= 0 && (fewest < 0 || links < fewest)) fewest = links;
    }
    (void)n.nvmlShutdown();
    return fewest;
}

extern "C" enum err_code gpu_links(struct device_links *out, struct err *err)
{
    char why[DEVICE_WHY];
    int count = device_count(why, sizeof why);
    *out = (struct device_links){};
    if (count < 0) return err_set(err, ERR_DEVICE, "CUDA devices|gpu|%s|a usable device", why);
    out->devices = count;
    for (int a = 0; a < count; a++) {
        for (int b = a + 1; b < count; b++) {
            int there = 0, back = 0;
            out->pairs++;
            out->peers += cudaDeviceCanAccessPeer(&there, a, b) == cudaSuccess &&
                          cudaDeviceCanAccessPeer(&back, b, a) == cudaSuccess && there && back;
        }
    }
    out->nvlinks = fewest_links(count);
    return ERR_OK;
}
