/* npy.h: numpy's .npy, and .npz (a zip of them), read and written. Versions 1.0 to 3.0, C order and
 * Fortran order (turned into C order), little-endian; types bool, i1 to i8, u1, f2, f4, f8. Object
 * arrays (pickles), other types and big-endian are refused by name. Test: tests/test_npy.c,
 * tests/fuzz/fuzz_npy.c */
#ifndef ASSAY_CORE_NPY_H
#define ASSAY_CORE_NPY_H

#include "core/dtype.h"
#include "core/error.h"
#include "core/safetensors.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct npy_file {
    struct st_tensor *tensors; /* .npy: one, named ""; .npz: one a member, without ".npy" */
    int64_t count;
    void *owned;
};

/* By content: a .npy or a .npz. */
enum err_code npy_open(struct npy_file *f, const char *path, struct err *err) ERR_USED;
enum err_code npy_open_memory(struct npy_file *f, const char *path, const void *data, int64_t size,
                              struct err *err) ERR_USED;
void npy_close(struct npy_file *f);
/* Version 1.0, as numpy.save writes it; all or nothing. */
enum err_code npy_write(const char *path, const struct st_tensor *t, struct err *err) ERR_USED;

#ifdef __cplusplus
}
#endif
#endif
