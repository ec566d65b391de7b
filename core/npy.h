/* npy.h: numpy's .npy, and .npz (a zip of them), read and written. Versions 1.0 to 3.0, C order and
 * Fortran order (turned into C order), either byte order (turned into little-endian); types bool,
 * i1 to i8, u1 to u8, f2, f4, f8. numpy has no bfloat16: such arrays are saved as void (V2) or as
 * uint16, and no file says what they hold, so npy_open_as() is told. Object arrays (pickles), other
 * types and void without a word of what it is are refused by name. Test: tests/test_npy.c,
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
                              enum dtype as, struct err *err) ERR_USED;
/* The same; arrays of void and of unsigned integers that are as wide as `as` hold it. DT_COUNT:
 * nothing is known of them, as npy_open(). */
enum err_code npy_open_as(struct npy_file *f, const char *path, enum dtype as,
                          struct err *err) ERR_USED;
void npy_close(struct npy_file *f);
/* Version 1.0, as numpy.save writes it; all or nothing. */
enum err_code npy_write(const char *path, const struct st_tensor *t, struct err *err) ERR_USED;

#ifdef __cplusplus
}
#endif
#endif
