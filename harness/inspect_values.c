/* inspect_values.c: weight_shape repeats a packed linear's [out, in]: two numbers in the data of
 * each. Read in the order of the files, a few bytes each. */
#include "harness/inspect.h"

#include "core/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int by_place(const void *a, const void *b)
{
    const struct ins_tensor *s = *(const struct ins_tensor *const *)a,
                            *t = *(const struct ins_tensor *const *)b;
    if (s->file != t->file) return s->file < t->file ? -1 : 1;
    return (s->offset > t->offset) - (s->offset < t->offset);
}

/* Zeros that were never written: a file that was only sized, not filled. What lies there cannot be
 * judged. */
static bool in_hole(int fd, const struct ins_tensor *t)
{
    off_t data = lseek(fd, t->offset, SEEK_DATA);
    return data < 0 ? errno == ENXIO : data >= t->offset + t->bytes;
}

static void check(struct inspection *s, int fd, const struct ins_tensor *t)
{
    unsigned char bytes[16];
    const struct layout_tensor *e = &s->layout.tensors[t->expected];
    if (pread(fd, bytes, (size_t)t->bytes, t->offset) != t->bytes) {
        ins_problem(s, (struct ins_problem){.what = "weight_shape",
                                            .where = s->files[t->file].name,
                                            .tensor = t->raw,
                                            .found = "bytes that cannot be read",
                                            .wanted = "two numbers"});
        return;
    }
    int64_t out = dtype_int_at(t->dtype, bytes, 0), in = dtype_int_at(t->dtype, bytes, 1);
    if (out == e->out && in == e->in) return;
    if (out == 0 && in == 0 && in_hole(fd, t)) {
        s->unwritten++;
        return;
    }
    ins_problem(
        s, (struct ins_problem){.what = "weight_shape",
                                .where = s->files[t->file].name,
                                .tensor = t->raw,
                                .found = ins_text(s, "(%lld, %lld)", (long long)out, (long long)in),
                                .wanted = ins_text(s, "(%lld, %lld), as config.json says",
                                                   (long long)e->out, (long long)e->in)});
}

void ins_check_weight_shapes(struct inspection *s)
{
    int64_t n = 0;
    int fd = -1;
    const struct ins_tensor **order = calloc((size_t)s->tensor_count + 1, sizeof *order);
    if (!order) {
        s->broken = true;
        return;
    }
    for (int64_t i = 0; i < s->tensor_count; i++) {
        const struct ins_tensor *t = &s->tensors[i];
        bool pair = t->placed && t->expected >= 0 && (t->bytes == 8 || t->bytes == 16) &&
                    s->layout.tensors[t->expected].kind == LAYOUT_PAIR &&
                    layout_dtype_fits(&s->config, LAYOUT_PAIR, t->dtype) &&
                    t->bytes == 2 * dtype_size(t->dtype);
        if (pair) order[n++] = t;
    }
    if (n) qsort(order, (size_t)n, sizeof *order, by_place);
    for (int64_t i = 0; i < n; i++) {
        char path[FILE_PATH];
        struct err err = ERR_INIT;
        if (i == 0 || order[i]->file != order[i - 1]->file) {
            if (fd >= 0) close(fd);
            fd = ins_path(s, order[i]->file, path, &err) == ERR_OK
                     ? open(path, O_RDONLY | O_CLOEXEC)
                     : -1;
        }
        check(s, fd, order[i]);
    }
    if (fd >= 0) close(fd);
    free(order);
}
