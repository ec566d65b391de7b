/* forced.c: experts of a dump as the router's choice; see session.h. */
#include "harness/session.h"

#include "core/check.h"

#include <stdlib.h>
#include <string.h>

static int ascending(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

enum err_code forced_make(struct forced *f, const struct config *c, int64_t batch_rows,
                          struct err *err)
{
    *f = (struct forced){.layers = c->layers, .rows = batch_rows, .top_k = c->top_k};
    size_t n = (size_t)(c->layers * batch_rows * c->top_k);
    f->ids = malloc((n + 1) * sizeof *f->ids);
    if (!f->ids) return err_set(err, ERR_MEMORY, "force experts||no memory");
    memset(f->ids, 0xFF, n * sizeof *f->ids); /* -1: free */
    return ERR_OK;
}

void forced_free(struct forced *f)
{
    free(f->ids);
    *f = (struct forced){0};
}

static enum err_code read_row(const struct forced *f, const struct config *c,
                              const struct dump_tap *t, int64_t row, int32_t *ids, struct err *err)
{
    for (int64_t j = 0; j < f->top_k; j++) {
        int64_t id = dtype_int_at(t->tensor->dtype, t->tensor->data, row * f->top_k + j);
        if (id < 0 || id >= c->experts)
            return err_set(err, ERR_INPUT, "force experts|%s row %lld, slot %lld|%lld|0 to %lld",
                           t->name, (long long)row, (long long)j, (long long)id,
                           (long long)c->experts - 1);
        ids[j] = (int32_t)id;
    }
    qsort(ids, (size_t)f->top_k, sizeof *ids, ascending);
    for (int64_t j = 1; j < f->top_k; j++) {
        if (ids[j] == ids[j - 1])
            return err_set(err, ERR_INPUT, "force experts|%s row %lld|expert %d twice|each once",
                           t->name, (long long)row, ids[j]);
    }
    return ERR_OK;
}

enum err_code forced_read(struct forced *f, const struct config *c, const struct dump *d,
                          const int64_t *batch_row, int64_t batch_rows, struct err *err)
{
    if (forced_make(f, c, batch_rows, err) != ERR_OK) return err->code;
    for (int64_t i = 0; i < d->count; i++) {
        const struct dump_tap *t = &d->taps[i];
        if (!t->known || t->kind != TAP_EXPERTS || t->layer >= c->layers) continue;
        if (t->cols != c->top_k || !dtype_is_int(t->tensor->dtype))
            return err_set(err, ERR_INPUT, "force experts|%s: %s|%lld of %s a row|%lld integers",
                           d->file.path, t->name, (long long)t->cols, dtype_name(t->tensor->dtype),
                           (long long)c->top_k);
        for (int64_t r = 0; r < t->rows; r++) {
            int64_t row = batch_row ? batch_row[r] : r;
            if (row < 0 || row >= batch_rows) continue;
            if (read_row(f, c, t, r, f->ids + (t->layer * batch_rows + row) * f->top_k, err) !=
                ERR_OK)
                return err->code;
            f->count++;
        }
    }
    return ERR_OK;
}

bool forced_give(void *ctx, int64_t layer, const struct rows *rows, int32_t *ids)
{
    const struct forced *f = ctx;
    CHECK(layer >= 0 && layer < f->layers);
    for (int64_t i = 0; i < rows->count; i++) {
        CHECK(rows->dump_row[i] < f->rows);
        memcpy(ids + i * f->top_k, f->ids + (layer * f->rows + rows->dump_row[i]) * f->top_k,
               (size_t)f->top_k * sizeof *ids);
    }
    return true;
}
