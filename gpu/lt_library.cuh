/* lt_library.cuh: cuBLASLt, opened when a device is, not when the program starts: half a gigabyte
 * that a run on the reference has no use for, and a library that a machine without a GPU need not
 * have. The functions of cublasLt.h that gpu/ calls are defined here and pass on to it. */
#ifndef ASSAY_GPU_LT_LIBRARY_CUH
#define ASSAY_GPU_LT_LIBRARY_CUH

#include "core/error.h"

/* Opens it, once. ERR_DEVICE: it is not to be had, or lacks a function. */
enum err_code lt_library_open(struct err *err) ERR_USED;

#endif
