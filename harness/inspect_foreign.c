/* inspect_foreign.c: what an inspection knows of a file or folder that is read as another engine's
 * (foreign.h): its tensors by name, as matrices. Test: tests/test_foreign_folder.c */
#include "harness/inspect.h"

#include "core/dump.h"

#include <stdlib.h>
#include <string.h>

enum err_code ins_foreign(struct inspection *s, const struct dump *d, struct err *err)
{
    const char *slash = strrchr(s->path, '/');
    (void)ins_file_of(s, slash && slash[1] ? slash + 1 : s->path);
    s->tensors = calloc((size_t)d->count + 1, sizeof *s->tensors);
    if (!s->tensors || s->broken) return err_set(err, ERR_MEMORY, "inspect|%s|no memory", s->path);
    for (int64_t i = 0; i < d->count; i++) {
        const struct st_tensor *t = d->taps[i].tensor;
        const char *name = ins_keep(s, t->name);
        struct ins_tensor *out = &s->tensors[s->tensor_count++];
        *out = (struct ins_tensor){.name = name,
                                   .raw = name,
                                   .dims = t->dims,
                                   .dtype = t->dtype,
                                   .bytes = t->bytes,
                                   .placed = true,
                                   .expected = -1};
        memcpy(out->shape, t->shape, sizeof out->shape);
    }
    s->files[0].tensors = d->count;
    ins_sort(s);
    return ERR_OK;
}
