/* tensor.c: see tensor.h. */
#include "core/tensor.h"

#include "core/check.h"

#include <stdatomic.h>
#include <string.h>

int64_t tensor_count(const struct tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->dims; i++) n *= t->shape[i];
    return n;
}

bool tensor_exists(const struct tensor *t)
{
    return t->name[0] != '\0';
}

typedef void tensor_reader(const void *data, int64_t bytes);
static _Atomic(tensor_reader *) watcher;

void tensor_watch(tensor_reader *reader)
{
    atomic_store(&watcher, reader);
}

static int64_t columns_of(const struct tensor *t)
{
    return t->dims > 0 ? t->shape[t->dims - 1] : 1;
}

bool tensor_is_contiguous(const struct tensor *t)
{
    int64_t columns = columns_of(t);
    return t->pitch == 0 || t->pitch == columns || tensor_count(t) <= columns;
}

int64_t tensor_place(const struct tensor *t, int64_t i)
{
    int64_t columns = columns_of(t);
    return t->offset + (t->pitch == 0 ? i : i / columns * t->pitch + i % columns);
}

void tensor_hold(struct tensor *t, const void *data)
{
    t->data = data;
    t->offset = t->pitch = 0;
}

/* Elements [first, first + n) of the larger tensor. */
static const void *side_by_side(const struct tensor *t, int64_t first, int64_t n, void *buf)
{
    if (!t->data) {
        synth_fill(&t->rule, t->dtype, first, n, buf);
        return buf;
    }
    int64_t size = dtype_size(t->dtype);
    const char *at = (const char *)t->data + first * size;
    tensor_reader *reader = atomic_load_explicit(&watcher, memory_order_relaxed);
    if (reader && n > 0 && ((uintptr_t)at - 1) >> 12 != ((uintptr_t)at + n * size - 1) >> 12)
        reader(at, n * size);
    return at;
}

const void *tensor_elements(const struct tensor *t, int64_t first, int64_t n, void *buf)
{
    CHECK(first >= 0 && n >= 0 && first + n <= tensor_count(t));
    int64_t columns = columns_of(t), size = dtype_size(t->dtype);
    if (n == 0 || tensor_is_contiguous(t) || first % columns + n <= columns)
        return side_by_side(t, tensor_place(t, first), n, buf);
    CHECK(buf);
    for (int64_t done = 0; done < n;) {
        int64_t at = first + done, left = columns - at % columns,
                m = n - done < left ? n - done : left;
        char *to = (char *)buf + done * size;
        const void *from = side_by_side(t, tensor_place(t, at), m, to);
        if (from != to) memcpy(to, from, (size_t)(m * size));
        done += m;
    }
    return buf;
}
