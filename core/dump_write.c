/* dump_write.c: the writer of dump.h. The header is planned first, so that rows can be written in
 * any order as they are computed and no tap is held in memory. */
#include "core/dump.h"

#include "core/check.h"
#include "core/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct st_entry *find_entry(const struct dump_out *d, const char *name)
{
    for (int64_t i = 0; i < d->count; i++) {
        if (strcmp(d->entries[i].name, name) == 0) return &d->entries[i];
    }
    return NULL;
}

static bool wants(void *ctx, const char *name)
{
    return find_entry(ctx, name) != NULL;
}

static bool is_draft(const struct st_entry *e)
{
    enum tap_kind kind;
    int64_t layer;
    return tap_parse(e->name, &kind, &layer) && tap_is_draft(kind);
}

static void count_special(struct dump_out *d, const char *name, int64_t row, int64_t cols,
                          const double *x)
{
    for (int64_t c = 0; c < cols; c++) {
        if (isfinite((float)x[c])) continue;
        if (d->special++ > 0) continue;
        d->special_tap = name;
        d->special_row = row;
        d->special_col = c;
    }
}

/* Writes the rows of one step that are kept; `row` gives element i of the step as bytes of the
 * file's type. */
static enum err_code put(struct dump_out *d, const char *name, const struct rows *rows,
                         int64_t cols, const double *reals, const int32_t *ints, struct err *err)
{
    const struct st_entry *e = find_entry(d, name);
    if (!e) return ERR_OK;
    CHECK(e->shape[1] == cols && (e->dtype == DT_I32) == (ints != NULL));
    int64_t row_bytes = cols * dtype_size(e->dtype);
    const int64_t *keep = is_draft(e) ? d->draft_keep : d->keep;
    for (int64_t i = 0; i < rows->count; i++) {
        CHECK(rows->dump_row[i] >= 0 && rows->dump_row[i] < d->batch_rows);
        int64_t at = keep[rows->dump_row[i]];
        if (at < 0) continue;
        const void *bytes = ints + (ints ? i * cols : 0);
        if (!ints) {
            count_special(d, e->name, at, cols, reals + i * cols);
            dtype_from_f64(e->dtype, reals + i * cols, cols, d->row_buffer);
            bytes = d->row_buffer;
        }
        if (file_out_write_at(&d->file, bytes, row_bytes,
                              d->header_bytes + e->offset + at * row_bytes, err) != ERR_OK)
            return err_note(err, "tap %s", name);
        d->written[e - d->entries]++;
    }
    return ERR_OK;
}

static enum err_code put_reals(void *ctx, const char *name, const struct rows *rows, int64_t cols,
                               const double *data, struct err *err)
{
    return put(ctx, name, rows, cols, data, NULL, err);
}

static enum err_code put_ints(void *ctx, const char *name, const struct rows *rows, int64_t cols,
                              const int32_t *data, struct err *err)
{
    return put(ctx, name, rows, cols, NULL, data, err);
}

static enum dtype tap_type(const struct dump_out *d, const struct tap *t)
{
    if (t->ints) return DT_I32;
    return d->reals == DT_BF16 ? tap_dtype(t->kind, d->reals) : d->reals;
}

static enum err_code plan_entries(struct dump_out *d, const struct tap *taps, int64_t count,
                                  int64_t *cols_max, struct err *err)
{
    d->entries = calloc((size_t)count + 1, sizeof *d->entries);
    if (!d->entries) return err_set(err, ERR_MEMORY, "plan dump||no memory");
    for (int64_t i = 0; i < count; i++) {
        d->entries[d->count++] = (struct st_entry){.name = taps[i].name,
                                                   .dtype = tap_type(d, &taps[i]),
                                                   .dims = 2,
                                                   .shape = {0, taps[i].cols}};
        struct st_entry *e = &d->entries[i];
        e->shape[0] = is_draft(e) ? d->draft_kept : d->kept;
        if (taps[i].cols > *cols_max) *cols_max = taps[i].cols;
    }
    return ERR_OK;
}

/* Which rows of draft taps are kept, by the sequences that assay.lengths tells. */
static enum err_code plan_draft_rows(struct dump_out *d, const struct st_meta *meta, int64_t metas,
                                     struct err *err)
{
    json_t *lengths = NULL;
    const char *text = NULL;
    for (int64_t i = 0; i < metas; i++) {
        if (strcmp(meta[i].key, "assay.lengths") == 0) text = meta[i].value;
    }
    if (text && json_parse(text, (int64_t)strlen(text), "assay.lengths", &lengths, err) != ERR_OK)
        return err->code;
    int64_t n = (int64_t)json_array_size(lengths);
    int64_t *length = calloc((size_t)n + 1, sizeof *length);
    d->draft_keep = calloc((size_t)d->batch_rows + 1, sizeof *d->draft_keep);
    if (length && d->draft_keep) {
        for (int64_t i = 0; i < n; i++)
            length[i] = json_integer_value(json_array_get(lengths, (size_t)i));
        (void)dump_draft_rows(d->batch_rows, text ? length : NULL, n, d->draft_keep);
        for (int64_t i = 0; i < d->batch_rows; i++) {
            bool kept = d->keep[i] >= 0 && d->draft_keep[i] >= 0;
            d->draft_keep[i] = kept ? d->draft_kept++ : -1;
        }
    } else {
        err_set(err, ERR_MEMORY, "plan dump||no memory");
    }
    free(length);
    json_decref(lengths);
    return err->code;
}

/* Everything but the file. *header is the caller's. */
static enum err_code plan(struct dump_out *d, const char *path, const struct tap *taps,
                          int64_t count, int64_t batch_rows, int64_t keep_first, int64_t keep_end,
                          enum dtype reals, const struct st_meta *meta, int64_t metas,
                          char **header, struct err *err)
{
    CHECK(0 <= keep_first && keep_first <= keep_end && keep_end <= batch_rows);
    *d = (struct dump_out){.file = FILE_OUT_INIT,
                           .batch_rows = batch_rows,
                           .kept = keep_end - keep_first,
                           .reals = reals};
    d->sink = (struct tap_sink){.wants = wants, .reals = put_reals, .ints = put_ints, .ctx = d};
    int64_t cols_max = 1;
    d->keep = calloc((size_t)batch_rows + 1, sizeof *d->keep);
    d->written = calloc((size_t)count + 1, sizeof *d->written);
    if (!d->keep || !d->written) return err_set(err, ERR_MEMORY, "plan dump|%s|no memory", path);
    for (int64_t i = 0; i < batch_rows; i++)
        d->keep[i] = i >= keep_first && i < keep_end ? i - keep_first : -1;
    if (plan_draft_rows(d, meta, metas, err) != ERR_OK ||
        plan_entries(d, taps, count, &cols_max, err) != ERR_OK)
        return err->code;
    d->row_buffer = malloc((size_t)cols_max * sizeof(double));
    if (!d->row_buffer) return err_set(err, ERR_MEMORY, "plan dump|%s|no memory", path);
    return st_plan(d->entries, d->count, meta, metas, header, &d->header_bytes, err);
}

enum err_code dump_create(struct dump_out *d, const char *path, const struct tap *taps,
                          int64_t count, int64_t batch_rows, int64_t keep_first, int64_t keep_end,
                          enum dtype reals, const struct st_meta *meta, int64_t metas,
                          struct err *err)
{
    char *header = NULL;
    if (plan(d, path, taps, count, batch_rows, keep_first, keep_end, reals, meta, metas, &header,
             err) == ERR_OK &&
        file_out_open(&d->file, path, err) == ERR_OK)
        (void)!file_out_write(&d->file, header, d->header_bytes, err);
    if (err->code == ERR_OK && d->file.direct)
        err_set(err, ERR_INPUT,
                "write dump|%s|a device or pipe|a file: taps are written at their place", path);
    free(header);
    return err->code;
}

/* The file must begin with this very header: same taps, shapes, tokens, profile, version. */
static enum err_code check_header(const char *kept, const char *header, int64_t bytes,
                                  struct err *err)
{
    struct file_map m;
    if (file_map(kept, &m, err) != ERR_OK) return err->code;
    bool same = m.size >= bytes && memcmp(m.data, header, (size_t)bytes) == 0;
    file_unmap(&m);
    if (same) return ERR_OK;
    return err_set(err, ERR_INPUT, "resume|%s|what another run left|this run's, or no file", kept);
}

enum err_code dump_create_kept(struct dump_out *d, const char *path, const char *kept,
                               const struct tap *taps, int64_t count, int64_t batch_rows,
                               int64_t keep_first, int64_t keep_end, enum dtype reals,
                               const struct st_meta *meta, int64_t metas, bool *resumed,
                               struct err *err)
{
    char *header = NULL;
    *resumed = false;
    if (plan(d, path, taps, count, batch_rows, keep_first, keep_end, reals, meta, metas, &header,
             err) == ERR_OK &&
        file_out_open_kept(&d->file, path, kept, resumed, err) == ERR_OK &&
        (!*resumed || check_header(kept, header, d->header_bytes, err) == ERR_OK))
        (void)!file_out_write_at(&d->file, header, d->header_bytes, 0, err);
    free(header);
    return err->code;
}

void dump_assume(struct dump_out *d, int64_t layer)
{
    for (int64_t i = 0; i < d->count; i++) {
        enum tap_kind kind;
        int64_t of;
        bool known = tap_parse(d->entries[i].name, &kind, &of);
        if (!known || tap_is_draft(kind)) continue;
        if (kind == TAP_EMBED || (of >= 0 && of < layer)) d->written[i] = d->kept;
    }
}

enum err_code dump_commit(struct dump_out *d, struct err *err)
{
    for (int64_t i = 0; i < d->count && err->code == ERR_OK; i++) {
        if (d->written[i] != d->entries[i].shape[0])
            err_set(err, ERR_IO, "write dump|%s: tap %s|%lld rows given|%lld", d->file.path,
                    d->entries[i].name, (long long)d->written[i],
                    (long long)d->entries[i].shape[0]);
    }
    return file_out_commit(&d->file, err);
}

void dump_abandon(struct dump_out *d)
{
    file_out_abandon(&d->file);
    free(d->entries);
    free(d->keep);
    free(d->draft_keep);
    free(d->written);
    free(d->row_buffer);
    *d = (struct dump_out){.file = FILE_OUT_INIT};
}
