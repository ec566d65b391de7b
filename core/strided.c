/* strided.c: see strided.h. */
#include "core/strided.h"

#include "core/check.h"

#include <string.h>

bool strided_count(int dims, const int64_t *shape, int64_t *count)
{
    bool fits = true;
    *count = 1;
    for (int i = 0; i < dims; i++) {
        if (shape[i] == 0) {
            *count = 0;
            return true;
        }
        fits =
            fits && !__builtin_mul_overflow(*count, shape[i], count) && *count < (int64_t)1 << 60;
    }
    return fits;
}

bool strided_is_plain(int dims, const int64_t *shape, const int64_t *stride)
{
    int64_t step = 1;
    for (int i = 0; i < dims; i++) {
        if (shape[i] == 0) return true;
    }
    for (int i = dims - 1; i >= 0; i--) {
        if (shape[i] > 1 && stride[i] != step) return false;
        step *= shape[i];
    }
    return true;
}

void strided_copy(int dims, const int64_t *shape, const int64_t *stride, int size, const void *from,
                  void *out)
{
    int64_t at[STRIDED_DIMS] = {0}, count, last = dims - 1;
    const char *p = from;
    char *to = out;
    CHECK(dims >= 0 && dims <= STRIDED_DIMS && strided_count(dims, shape, &count));
    if (dims == 0) memcpy(to, p, (size_t)size);
    /* An odometer: its last digit turns in the inner loop. */
    for (int64_t done = 0; dims > 0 && done < count; done += shape[last]) {
        for (int64_t i = 0; i < shape[last]; i++, to += size)
            memcpy(to, p + i * stride[last] * size, (size_t)size);
        for (int64_t d = last - 1; d >= 0; d--) {
            p += stride[d] * size;
            if (++at[d] < shape[d]) break;
            p -= at[d] * stride[d] * size;
            at[d] = 0;
        }
    }
}
