/* strided.h: views of arrays by shape and stride, as torch and numpy store them, and their copy in
 * row-major order. Strides are in elements and 0 or more. Test: tests/test_strided.c */
#ifndef ASSAY_CORE_STRIDED_H
#define ASSAY_CORE_STRIDED_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { STRIDED_DIMS = 8 };

/* Elements of a shape (numbers of 0 or more); false from 2^60 on, so that the bytes of any type
 * still fit an int64_t. */
bool strided_count(int dims, const int64_t *shape, int64_t *count);
/* The view is the row-major order itself. Dimensions of one element may have any stride. */
bool strided_is_plain(int dims, const int64_t *shape, const int64_t *stride);
/* Copies the elements, of `size` bytes each, in row-major order. dims <= STRIDED_DIMS. */
void strided_copy(int dims, const int64_t *shape, const int64_t *stride, int size, const void *from,
                  void *out);

#ifdef __cplusplus
}
#endif
#endif
