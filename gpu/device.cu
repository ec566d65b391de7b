/* device.cu: what CUDA says about this machine, and whether the path can run here at all.
 *
 * The runtime reports a missing driver and one that is too old by the same number, so the driver's
 * version decides which of the two is said. Nothing here makes a context. Twin: gpu/none.c */
#include "gpu/device.cuh"

#include "gpu/architectures.h"

#include <cuda_runtime.h>
#include <stdio.h>
#include <string.h>

static void write_version(int version, char out[16])
{
    snprintf(out, 16, "%d.%d", version / 1000, version % 1000 / 10);
}

static void explain(cudaError_t code, int driver, char *why, size_t size)
{
    char needs[16], has[16];
    write_version(CUDART_VERSION, needs);
    write_version(driver, has);
    if (driver == 0) {
        snprintf(why, size, "no NVIDIA driver is installed here (this build needs one for CUDA %s)",
                 needs);
    } else if (code == cudaErrorInsufficientDriver) {
        snprintf(why, size, "the NVIDIA driver is too old: it knows CUDA %s, this build needs %s",
                 has, needs);
    } else if (code == cudaErrorNoDevice) {
        snprintf(why, size, "no CUDA device is visible here (CUDA_VISIBLE_DEVICES may hide it)");
    } else {
        snprintf(why, size, "CUDA cannot be asked: %s: %s", cudaGetErrorName(code),
                 cudaGetErrorString(code));
    }
}

int device_count(char *why, size_t size)
{
    int driver = 0, count = 0;
    cudaError_t code = cudaDriverGetVersion(&driver);
    if (code == cudaSuccess && driver != 0) {
        code = cudaGetDeviceCount(&count);
    }
    if (code == cudaSuccess && driver != 0 && count == 0) {
        code = cudaErrorNoDevice;
    }
    if (code != cudaSuccess || driver == 0) {
        explain(code, driver, why, size);
        return -1;
    }
    return count;
}

bool device_usable(int index)
{
    int major = 0, minor = 0;
    return cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index) ==
               cudaSuccess &&
           cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index) ==
               cudaSuccess &&
           major >= DEVICE_MAJOR_MIN && architectures_cover(ASSAY_CUDA_ARCHITECTURES, major, minor);
}

static enum err_code read_device(int index, struct device_info *out, struct err *err)
{
    cudaDeviceProp prop;
    cudaError_t code = cudaGetDeviceProperties(&prop, index);
    if (code != cudaSuccess) {
        return err_set(err, ERR_DEVICE, "CUDA devices|device %d|%s|its properties", index,
                       cudaGetErrorString(code));
    }
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "%s", prop.name);
    out->memory = (int64_t)prop.totalGlobalMem;
    out->major = prop.major;
    out->minor = prop.minor;
    out->runtime = CUDART_VERSION;
    code = cudaDriverGetVersion(&out->driver);
    if (code != cudaSuccess) {
        return err_set(err, ERR_DEVICE, "CUDA devices|device %d|%s|the driver's version", index,
                       cudaGetErrorString(code));
    }
    return ERR_OK;
}

extern "C" int gpu_devices(struct device_info *out, int max, struct err *err)
{
    char why[DEVICE_WHY];
    int count = device_count(why, sizeof why);
    if (count < 0) {
        err_set(err, ERR_DEVICE, "CUDA devices|gpu|%s|a usable device", why);
        return -1;
    }
    for (int i = 0; i < count && i < max; i++) {
        if (read_device(i, &out[i], err) != ERR_OK) {
            return -1;
        }
    }
    return count;
}
