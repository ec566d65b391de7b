/* matrix_part.h: some rows and columns of a stored matrix, as a matrix of its own: what a rank
 * holds of a weight that is cut over ranks. Nothing is copied: the tensors of the part are views
 * into those of the whole (weights.h), mapped or made by rule. Formats: weights.h, model math 6.
 *
 * What can be cut where:
 *   dense       anywhere
 *   packed      columns in whole words of 32 / bits, and in whole groups or inside one; rows
 *               anywhere, with zero points in whole words of 32 / bits. A group index that is in
 *               use spreads a group over all columns: no cut of columns
 *   FP8 blocks  each side begins at a block, or lies inside one
 * Test: tests/test_matrix_part.c */
#ifndef ASSAY_CORE_MATRIX_PART_H
#define ASSAY_CORE_MATRIX_PART_H

#include "core/weights.h"

#ifdef __cplusplus
extern "C" {
#endif

/* [first, first + count) */
struct extent {
    int64_t first, count;
};

/* Rows and columns of m, which is as matrix_check() wants it; every value of the part is that of
 * the whole at (rows.first + r, columns.first + c). ERR_INPUT, with the matrix's name: a span that
 * is empty or does not lie in m, or that the format does not let be cut there. `m` may itself be a
 * part. */
enum err_code matrix_part(const struct matrix *m, struct extent rows, struct extent columns,
                          struct matrix *out, struct err *err) ERR_USED;

/* Rows of a table [n, columns] (or elements of a vector), as a tensor of its own. */
enum err_code tensor_rows_part(const struct tensor *t, struct extent rows, struct tensor *out,
                               struct err *err) ERR_USED;

#ifdef __cplusplus
}
#endif
#endif
