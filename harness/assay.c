/* assay.c: see assay.h. */
#include "harness/assay.h"

#include "core/check.h"
#include "core/file.h"
#include "core/json.h"
#include "core/safetensors.h"
#include "harness/diff.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum err_code plan(const struct assay_tap *taps, int64_t count, struct st_entry *entries,
                          json_t *order, struct err *err)
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
        if (json_array_append_new(order, json_string(t->name)) != 0)
            return err_set(err, ERR_INPUT, "write dump|tap %lld|a name that is no UTF-8",
                           (long long)i);
    }
    return ERR_OK;
}

static enum err_code write_taps(const char *path, const struct assay_tap *taps, int64_t count,
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

enum err_code assay_dump_write(const char *path, const struct assay_tap *taps, int64_t count,
                               const char *tokens, const char *engine, struct err *err)
{
    CHECK(path && count >= 0 && (taps || count == 0));
    struct st_entry *entries = calloc((size_t)count + 1, sizeof *entries);
    json_t *order = json_array(), *checked = NULL;
    char *header = NULL, *order_text = NULL;
    int64_t header_bytes = 0, metas = 0;
    struct st_meta meta[4];
    if (!entries || !order) err_set(err, ERR_MEMORY, "write dump|%s|no memory", path);
    if (err->code == ERR_OK && tokens)
        (void)!json_parse(tokens, (int64_t)strlen(tokens), "tokens", &checked, err);
    if (err->code == ERR_OK && plan(taps, count, entries, order, err) == ERR_OK) {
        order_text = json_dumps(order, JSON_COMPACT);
        meta[metas++] = (struct st_meta){"assay.version", ASSAY_VERSION};
        meta[metas++] = (struct st_meta){"assay.order", order_text ? order_text : "[]"};
        if (tokens) meta[metas++] = (struct st_meta){"assay.tokens", tokens};
        if (engine) meta[metas++] = (struct st_meta){"assay.engine", engine};
        if (st_plan(entries, count, meta, metas, &header, &header_bytes, err) == ERR_OK)
            (void)!write_taps(path, taps, count, header, header_bytes, err);
    }
    free(header);
    free(order_text);
    json_decref(checked);
    json_decref(order);
    free(entries);
    return err->code;
}

enum err_code assay_compare(const char *subject, const char *truth, double bound,
                            struct assay_verdict *out, struct err *err)
{
    struct diff d;
    const struct diff_request r = {.subject = subject, .truth = truth, .bound = bound};
    *out = (struct assay_verdict){.layer = -1, .row = -1, .col = -1};
    enum err_code rc = diff_run(&d, &r, err);
    out->compared = d.compared;
    out->failed = d.failed;
    if ((rc == ERR_OK || rc == ERR_DIFF) && d.first >= 0) {
        const struct pair *p = &d.rows.pairs[d.first];
        const struct tap_judgement *t = &d.taps[d.first];
        snprintf(out->tap, sizeof out->tap, "%s", p->subject->name);
        snprintf(out->op, sizeof out->op, "%s",
                 p->subject->known ? tap_op(p->subject->kind, p->moe) : "");
        snprintf(out->why, sizeof out->why, "%s", t->why);
        out->layer = p->subject->known ? p->subject->layer : -1;
        out->row = t->first_row_failed >= 0 ? t->first_row_failed : t->measure.worst.row;
        out->col = t->measure.worst.row == out->row ? t->measure.worst.col : -1;
        out->rel_rms = t->measure.rel_rms;
        out->bound = t->bound;
    }
    diff_close(&d);
    return rc;
}
