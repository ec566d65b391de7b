/* foreign_layout.h: a tensor of any layout as a matrix [rows, columns] in the layout of taps, by
 * the words of a map's rule; private to foreign.c. Test: tests/test_foreign.c */
#ifndef ASSAY_HARNESS_FOREIGN_LAYOUT_H
#define ASSAY_HARNESS_FOREIGN_LAYOUT_H

#include "core/dtype.h"
#include "core/safetensors.h"
#include "harness/map.h"

struct matrix_view {
    enum dtype dtype;
    int64_t rows, cols;
    const void *data;
};

/* Slice i along an axis, which falls away; copied into the arena where it is not contiguous. */
enum err_code layout_slice(const struct st_tensor *t, int axis, int64_t i, struct arena *a,
                           struct st_tensor *out, struct err *err) ERR_USED;
/* The whole tensor; copied where its elements move. Errors: axes that are not those of the tensor,
 * a width that is no multiple of the head's. */
enum err_code layout_matrix(const struct st_tensor *t, const struct map_rule *rule, struct arena *a,
                            struct matrix_view *out, struct err *err) ERR_USED;

#endif
