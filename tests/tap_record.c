/* tap_record.c: see tap_record.h. */
#include "tests/tap_record.h"

#include "tests/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool wants(void *ctx, const char *name)
{
    (void)ctx;
    (void)name;
    return true;
}

static struct recorded *open_tap(struct tap_record *r, const char *name, int64_t cols, size_t size)
{
    for (int i = 0; i < r->count; i++) {
        if (strcmp(r->tap[i].name, name) == 0) return &r->tap[i];
    }
    assert_true(r->count < RECORD_TAPS);
    struct recorded *t = &r->tap[r->count++];
    *t = (struct recorded){.rows = r->rows, .cols = cols, .ints = size == sizeof(int32_t)};
    snprintf(t->name, sizeof t->name, "%s", name);
    t->data = calloc((size_t)(r->rows * cols), size);
    assert_non_null(t->data);
    return t;
}

static void keep(struct tap_record *r, const char *name, const struct rows *rows, int64_t cols,
                 size_t size, const void *data)
{
    struct recorded *t = open_tap(r, name, cols, size);
    size_t row = (size_t)cols * size;
    for (int64_t i = 0; i < rows->count; i++)
        memcpy((char *)t->data + (size_t)rows->dump_row[i] * row,
               (const char *)data + (size_t)i * row, row);
}

static enum err_code reals(void *ctx, const char *name, const struct rows *rows, int64_t cols,
                           const double *data, struct err *err)
{
    (void)err;
    keep(ctx, name, rows, cols, sizeof *data, data);
    return ERR_OK;
}

static enum err_code ints(void *ctx, const char *name, const struct rows *rows, int64_t cols,
                          const int32_t *data, struct err *err)
{
    (void)err;
    keep(ctx, name, rows, cols, sizeof *data, data);
    return ERR_OK;
}

enum err_code record_run(struct tap_record *r, const struct loaded *l, const struct tokens *t,
                         const struct session_options *o, struct faults *faults,
                         struct forced *forced, struct err *err)
{
    struct session s;
    struct tap_sink sink = {.wants = wants, .reals = reals, .ints = ints, .ctx = r};
    *r = (struct tap_record){.rows = t->count};
    (void)!session_open(&s, l, o, t->sequences, t->length, err);
    assert_ok(err);
    s.run.faults = faults;
    s.run.progress = NULL;
    enum err_code rc = session_forward(&s, t, &sink, forced, NULL, err);
    session_close(&s);
    return rc;
}

void record_free(struct tap_record *r)
{
    for (int i = 0; i < r->count; i++) free(r->tap[i].data);
    *r = (struct tap_record){0};
}

const struct recorded *record_find(const struct tap_record *r, const char *name)
{
    for (int i = 0; i < r->count; i++) {
        if (strcmp(r->tap[i].name, name) == 0) return &r->tap[i];
    }
    fail_msg("no tap %s", name);
    return NULL;
}

int record_first_change(const struct tap_record *a, const struct tap_record *b)
{
    assert_int_equal(a->count, b->count);
    for (int i = 0; i < a->count; i++) {
        const struct recorded *x = &a->tap[i], *y = &b->tap[i];
        assert_string_equal(x->name, y->name);
        assert_true(x->rows == y->rows && x->cols == y->cols);
        size_t size = x->ints ? sizeof(int32_t) : sizeof(double);
        if (memcmp(x->data, y->data, (size_t)(x->rows * x->cols) * size) != 0) return i;
    }
    return -1;
}

double record_relative(const struct recorded *a, const double *other)
{
    double diff = 0, norm = 0;
    const double *x = a->data;
    for (int64_t i = 0; i < a->rows * a->cols; i++) {
        diff += (x[i] - other[i]) * (x[i] - other[i]);
        norm += other[i] * other[i];
    }
    return sqrt(diff / norm);
}
