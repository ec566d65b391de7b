/* blas.c: see blas.h. */
#include "core/blas.h"

#include "core/library.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static struct blas library;
static char failure[160];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_library(void)
{
    char *(*get_config)(void), *(*get_core)(void);
    void (*set_threads)(int);
    static const char *const names[] = {"libopenblas.so.0", NULL};
    void *h = library_open(names, failure, sizeof failure);
    if (!h) return;
    const struct library_function list[] = {{"cblas_sgemm", &library.sgemm},
                                            {"cblas_dgemm", &library.dgemm},
                                            {"openblas_get_config", &get_config},
                                            {"openblas_get_corename", &get_core},
                                            {"openblas_set_num_threads", &set_threads}};
    const char *missing = library_find_all(h, list, sizeof list / sizeof list[0]);
    if (missing) {
        snprintf(failure, sizeof failure, "no function %s", missing);
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
