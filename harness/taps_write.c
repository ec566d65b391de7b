/* taps_write.c: see taps_write.h. */
#include "harness/taps_write.h"

#include "core/file.h"

#include <stdlib.h>
#include <string.h>

static enum err_code plan(const struct assay_tap *taps, int64_t count, struct st_entry *entries,
                          struct err *err)
{
    for (int64_t i = 0; i < count; i++) {
        const struct assay_tap *t = &taps[i];
        if (t->rows < 0 || t->cols < 0 || (unsigned)t->dtype >= DT_COUNT ||
            (!t->data && t->rows * t->cols > 0))
            return err_set(
                err, ERR_INPUT,
                "write dump|tap %s|[%lld, %lld] of %s|sizes of 0 or more, a type and data", t->name,
                (long long)t->rows, (long long)t->cols, dtype_name(t->dtype));
        for (int64_t k = 0; k < i; k++) {
            if (strcmp(taps[k].name, t->name) == 0)
                return err_set(err, ERR_INPUT, "write dump|tap %s|the same name twice|once",
                               t->name);
        }
        entries[i] = (struct st_entry){
            .name = t->name, .dtype = t->dtype, .dims = 2, .shape = {t->rows, t->cols}};
    }
    return ERR_OK;
}

static enum err_code write_data(const char *path, const struct assay_tap *taps, int64_t count,
                                const char *header, int64_t header_bytes, struct err *err)
{
    struct file_out f = FILE_OUT_INIT;
    if (file_out_open(&f, path, err) == ERR_OK)
        (void)!file_out_write(&f, header, header_bytes, err);
    for (int64_t i = 0; i < count && err->code == ERR_OK; i++)
        (void)!file_out_write(&f, taps[i].data,
                              taps[i].rows * taps[i].cols * dtype_size(taps[i].dtype), err);
    if (err->code == ERR_OK) (void)!file_out_commit(&f, err);
    file_out_abandon(&f);
    return err->code;
}

enum err_code taps_write(const char *path, const struct assay_tap *taps, int64_t count,
                         const struct st_meta *meta, int64_t metas, struct err *err)
{
    struct st_entry *entries = calloc((size_t)count + 1, sizeof *entries);
    char *header = NULL;
    int64_t header_bytes = 0;
    if (!entries) return err_set(err, ERR_MEMORY, "write dump|%s|no memory", path);
    if (plan(taps, count, entries, err) == ERR_OK &&
        st_plan(entries, count, meta, metas, &header, &header_bytes, err) == ERR_OK)
        (void)!write_data(path, taps, count, header, header_bytes, err);
    free(header);
    free(entries);
    return err->code;
}
