/* tensor.h: a view of stored or made elements: a tensor is mapped (data is set) or made on request
 * (rule), all of it or some rows and columns (matrix_part.h). Nothing is loaded. Test:
 * tests/test_weights.c */
#ifndef ASSAY_CORE_TENSOR_H
#define ASSAY_CORE_TENSOR_H

#include "core/dtype.h"
#include "core/safetensors.h"
#include "core/synth.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { NAME_MAX_BYTES = 192 };

struct tensor {
    char name[NAME_MAX_BYTES];
    enum dtype dtype;
    int dims;
    int64_t shape[ST_DIMS];
    const void *data; /* mapped; NULL: made by rule */
    struct synth_rule rule;
    /* A part of a larger tensor, to which data and rule lead: the element where it begins there,
     * and elements between its rows (0: as many as it has columns). Zeros: all of it. */
    int64_t offset, pitch;
};

/* Elements [first, first + n) of those that the shape counts: a pointer into the mapping, or into
 * `buf` (n elements) after making them there. `buf` may be NULL for mapped elements that lie side
 * by side: tensor_is_contiguous(), or within one row. */
const void *tensor_elements(const struct tensor *t, int64_t first, int64_t n, void *buf);
/* Whether all elements lie side by side in the larger tensor. */
bool tensor_is_contiguous(const struct tensor *t);
/* Where in the larger tensor element i lies. */
int64_t tensor_place(const struct tensor *t, int64_t i);
/* From here on the elements are those of `data`, all of them, side by side. */
void tensor_hold(struct tensor *t, const void *data);
/* `reader` is told of every view into a mapping that holds the first byte of a 4 KiB page, by the
 * thread that is about to read it: how far a load has come and what it waits for. Smaller views
 * inside a page are passed over, so that rows of a few bytes cost nothing. NULL: nobody. Set it
 * while nothing reads. */
void tensor_watch(void (*reader)(const void *data, int64_t bytes));
int64_t tensor_count(const struct tensor *t);
bool tensor_exists(const struct tensor *t);

#ifdef __cplusplus
}
#endif
#endif
