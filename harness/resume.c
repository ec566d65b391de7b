/* resume.c: see resume.h. */
#include "harness/resume.h"

#include "core/check.h"
#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum err_code resume_name(struct resume *r, const char *path, struct err *err)
{
    *r = (struct resume){0};
    int n = snprintf(r->partial, sizeof r->partial, "%s.partial", path);
    int m = snprintf(r->state, sizeof r->state, "%s.state", path);
    if (n < 0 || m < 0 || n >= FILE_PATH || m >= FILE_PATH)
        return err_set(err, ERR_INPUT, "resume|%s|%d bytes|a shorter path", path, n);
    return ERR_OK;
}

/* One of the two matrices, at an address that a double may have. */
static enum err_code matrix_of(const struct resume *r, const char *name, const double **out,
                               struct err *err)
{
    const struct st_tensor *t = st_find(&r->file, name);
    if (!t || t->dtype != DT_F64 || t->dims != 2 || t->shape[0] != r->rows ||
        t->shape[1] != r->hidden || (uintptr_t)t->data % sizeof(double) != 0)
        return err_set(err, ERR_INPUT, "resume|%s: %s|%s|F64 [%lld, %lld]", r->state, name,
                       t ? "another shape or type" : "nothing", (long long)r->rows,
                       (long long)r->hidden);
    *out = t->data;
    return ERR_OK;
}

enum err_code resume_read(struct resume *r, struct dump_out *out, bool resumed, const char *request,
                          int64_t rows, int64_t hidden, struct err *err)
{
    r->out = out;
    r->request = request;
    r->rows = rows;
    r->hidden = hidden;
    if (!resumed || !file_exists(r->state)) return ERR_OK;
    if (st_open(&r->file, r->state, err) != ERR_OK) return err->code;
    const char *was = st_meta(&r->file, "assay.request"), *next = st_meta(&r->file, "assay.next");
    if (!was || strcmp(was, request) != 0)
        return err_set(err, ERR_INPUT, "resume|%s|%s|%s", r->state, was ? was : "no request",
                       request);
    if (!next || !text_int(next, &r->next) || r->next < 1)
        return err_set(err, ERR_INPUT, "resume|%s: assay.next|%s|a layer", r->state,
                       next ? next : "nothing");
    if (matrix_of(r, "x", &r->x, err) != ERR_OK || matrix_of(r, "sum", &r->sum, err) != ERR_OK)
        return err->code;
    dump_assume(out, r->next);
    return ERR_OK;
}

enum err_code resume_after_layer(void *ctx, int64_t layer, const double *x, const double *sum,
                                 struct err *err)
{
    struct resume *r = ctx;
    struct file_out f = FILE_OUT_INIT;
    char next[32], *header = NULL;
    int64_t header_bytes = 0, bytes = r->rows * r->hidden * (int64_t)sizeof *x;
    snprintf(next, sizeof next, "%lld", (long long)layer + 1);
    const struct st_meta meta[] = {{"assay.request", r->request}, {"assay.next", next}};
    struct st_entry entries[] = {
        {.name = "x", .dtype = DT_F64, .dims = 2, .shape = {r->rows, r->hidden}},
        {.name = "sum", .dtype = DT_F64, .dims = 2, .shape = {r->rows, r->hidden}},
    };
    if (file_out_sync(&r->out->file, err) == ERR_OK &&
        st_plan(entries, 2, meta, 2, &header, &header_bytes, err) == ERR_OK &&
        file_out_open(&f, r->state, err) == ERR_OK &&
        file_out_write(&f, header, header_bytes, err) == ERR_OK &&
        file_out_write(&f, x, bytes, err) == ERR_OK &&
        file_out_write(&f, sum, bytes, err) == ERR_OK)
        (void)!file_out_commit(&f, err);
    file_out_abandon(&f);
    free(header);
    return err->code == ERR_OK ? ERR_OK : err_note(err, "state of a resumable run");
}

void resume_done(struct resume *r)
{
    unlink(r->state);
}

void resume_close(struct resume *r)
{
    st_close(&r->file);
    *r = (struct resume){0};
}
