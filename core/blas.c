/* blas.c: see blas.h. */
#include "core/blas.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

static struct blas library;
static char failure[160];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* A function pointer out of a symbol: the copy that POSIX asks for. */
static bool find(void *handle, const char *name, void *out)
{
    void *symbol = dlsym(handle, name);
    if (symbol) memcpy(out, &symbol, sizeof symbol);
    return symbol != NULL;
}

static void open_library(void)
{
    char *(*get_config)(void), *(*get_core)(void);
    void (*set_threads)(int);
    void *h = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!h) {
        const char *why = dlerror();
        strncpy(failure, why ? why : "it cannot be opened", sizeof failure - 1);
        return;
    }
    if (!find(h, "cblas_sgemm", &library.sgemm) || !find(h, "cblas_dgemm", &library.dgemm) ||
        !find(h, "openblas_get_config", &get_config) ||
        !find(h, "openblas_get_corename", &get_core) ||
        !find(h, "openblas_set_num_threads", &set_threads)) {
        strncpy(failure, "a function of it is missing", sizeof failure - 1);
        return;
    }
    library.config = get_config();
    library.core = get_core();
    if (strstr(library.config, "USE64BITINT")) {
        strncpy(failure, "it takes 64-bit integers", sizeof failure - 1);
        return;
    }
    set_threads(1); /* the panels are what runs in parallel */
}

enum err_code blas_open(const struct blas **out, struct err *err)
{
    pthread_once(&once, open_library);
    *out = &library;
    if (failure[0])
        return err_set(err, ERR_DEVICE,
                       "open OpenBLAS|libopenblas.so.0|%s|OpenBLAS, or --linear own", failure);
    return ERR_OK;
}
