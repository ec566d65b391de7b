/* nccl_library.cu: see nccl_library.cuh. */
#include "gpu/nccl_library.cuh"

#include "core/library.h"
#include "gpu/transport.h"

#include <limits.h>
#include <stdlib.h>

enum {
    VERSION_MIN = 21800, /* non-blocking communicators with these fields */
    UNSET = INT_MIN,
};
static const unsigned MAGIC = 0xcafebeef;

/* As the system finds libraries, then where the toolkit puts it. */
static const char *const names[] = {"libnccl.so.2", "/usr/local/cuda/lib64/libnccl.so.2", NULL};

static struct nccl library;
static struct err failure; /* final, as every failure to open */
static bool tried;

static enum err_code find_all(void *handle, struct err *err)
{
#define ENTRY(name)                                                                                \
    {                                                                                              \
#name, &library.name                                                                       \
    }
    const struct library_function list[] = {
        ENTRY(ncclGetVersion),        ENTRY(ncclGetUniqueId),    ENTRY(ncclCommInitRankConfig),
        ENTRY(ncclCommGetAsyncError), ENTRY(ncclCommAbort),      ENTRY(ncclCommFinalize),
        ENTRY(ncclCommDestroy),       ENTRY(ncclGetErrorString), ENTRY(ncclGetLastError),
        ENTRY(ncclGroupStart),        ENTRY(ncclGroupEnd),       ENTRY(ncclAllGather),
        ENTRY(ncclAllReduce),         ENTRY(ncclSend),           ENTRY(ncclRecv)};
#undef ENTRY
    const char *missing = library_find_all(handle, list, sizeof list / sizeof list[0]);
    if (!missing) return ERR_OK;
    return err_set(err, ERR_DEVICE, "open NCCL|%s|no function %s|NCCL 2.18 or newer", names[0],
                   missing);
}

static enum err_code open_library(struct err *err)
{
    char why[160], has[16];
    /* Multicast can put the GPUs of a host out of service: whatever the environment says. */
    setenv("NCCL_NVLS_ENABLE", "0", 1);
    void *handle = library_open(names, why, sizeof why);
    if (!handle)
        return err_set(err, ERR_DEVICE, "open NCCL|%s|%s|NCCL 2.18 or newer", names[0], why);
    if (find_all(handle, err) != ERR_OK) return err->code;
    if (library.ncclGetVersion(&library.version) == NCCL_OK && library.version >= VERSION_MIN)
        return ERR_OK;
    return err_set(err, ERR_DEVICE, "open NCCL|%s|version %s|2.18 or newer", names[0],
                   nccl_version_text(library.version, has));
}

const struct nccl *nccl_open(struct err *err)
{
    if (!tried) {
        tried = true;
        err_clear(&failure);
        (void)!open_library(&failure);
    }
    if (failure.code == ERR_OK) return &library;
    if (err->code == ERR_OK) *err = failure;
    return NULL;
}

struct nccl_config nccl_config_here(void)
{
    return {
        sizeof(struct nccl_config), MAGIC, VERSION_MIN + 1, 0, UNSET, UNSET, UNSET, NULL, UNSET};
}
