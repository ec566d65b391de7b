/* matrix.h: checks of struct matrix (weights.h), shared by every op that takes one. */
#ifndef ASSAY_CORE_MATRIX_H
#define ASSAY_CORE_MATRIX_H

#include "core/weights.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Format, bits, group and the shapes and types of all tensors fit each other; otherwise the tensor
 * is named, with its shape and the wanted one. Group indices must lie in range. */
enum err_code matrix_check(const struct matrix *m, struct err *err) ERR_USED;

/* A matrix with these dimensions, or an error that says whose. */
enum err_code matrix_want(const struct matrix *m, const char *what, int64_t out, int64_t in,
                          struct err *err) ERR_USED;

/* Looks for a stored value that is not finite (a weight of a dense matrix, a scale of a packed
 * one): an error that names tensor, row and column. Called when a product of finite inputs was not
 * finite. */
enum err_code matrix_find_bad(const struct matrix *m, struct err *err) ERR_USED;

/* The same for one vector or table of a float type, rows of `cols`. */
enum err_code tensor_find_bad(const struct tensor *t, int64_t first, int64_t n,
                              struct err *err) ERR_USED;

#ifdef __cplusplus
}
#endif
#endif
