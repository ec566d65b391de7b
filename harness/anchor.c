/* anchor.c: see anchor.h; spans are in span.c. */
#include "harness/anchor.h"

#include "core/check.h"
#include "core/synth.h"

#include <math.h>
#include <stdlib.h>

static bool wants(void *ctx, const char *name)
{
    const struct anchor *a = ctx;
    return a->inner->wants(a->inner->ctx, name);
}

static enum err_code reals(void *ctx, const char *name, const struct rows *rows, int64_t cols,
                           const double *data, struct err *err)
{
    const struct anchor *a = ctx;
    return a->inner->reals(a->inner->ctx, name, rows, cols, data, err);
}

static enum err_code ints(void *ctx, const char *name, const struct rows *rows, int64_t cols,
                          const int32_t *data, struct err *err)
{
    const struct anchor *a = ctx;
    return a->inner->ints(a->inner->ctx, name, rows, cols, data, err);
}

static void read_row(const struct dump_tap *t, int64_t row, double *out)
{
    const char *at = (const char *)t->tensor->data + row * t->cols * dtype_size(t->tensor->dtype);
    dtype_to_f64(t->tensor->dtype, at, t->cols, out);
}

/* A dump in 16 bits rounds what the engine did not: then the run's own value, where it rounds to
 * the one stored, is nearer to what the engine went on with. Of the taps that are inputs only
 * routing weights are kept in float32 by every engine. */
static bool stored_coarser(const char *name, enum dtype stored)
{
    enum tap_kind kind;
    int64_t layer;
    return tap_parse(name, &kind, &layer) && kind == TAP_EXPERT_WEIGHTS &&
           dtype_unit(stored) > dtype_unit(DT_F32);
}

static bool rounds_to(enum dtype t, double own, double stored)
{
    const double nearly = 1e-6; /* float32 sums may fall on the other side of the middle */
    return dtype_round(t, own) == stored || dtype_round(t, own * (1 + nearly)) == stored ||
           dtype_round(t, own * (1 - nearly)) == stored;
}

/* Half a step of the type at x: how far rounding to it may have moved a value. */
static double half_step(enum dtype t, double x)
{
    double subnormal = t == DT_F16 ? 0x1p-25 : t == DT_F8_E4M3 ? 0x1p-10 : 0;
    int exponent;
    (void)frexp(x, &exponent);
    return fmax(ldexp(dtype_unit(t), exponent - 1), subnormal);
}

/* What the run goes on with where it has `own` and the dump `stored`; u in [-1, 1). A value that
 * the run has exactly as stored was not rounded. */
static double merged(const struct anchor *a, enum dtype t, bool keeps, double own, double stored,
                     double u)
{
    if (keeps && rounds_to(t, own, stored)) return own;
    if (!a->spreads || own == stored || !isfinite(stored)) return stored;
    double x = stored + u * half_step(t, stored);
    return dtype_round(t, x) == stored ? x : stored; /* the step below a power of two is shorter */
}

static void merge_row(const struct anchor *a, const struct dump_tap *t, int64_t row, bool keeps,
                      double *x)
{
    enum dtype type = t->tensor->dtype;
    uint64_t base = synth_base(1, t->name);
    for (int64_t k = 0; k < t->cols; k++) {
        int64_t i = row * t->cols + k;
        double stored;
        dtype_to_f64(type, (const char *)t->tensor->data + i * dtype_size(type), 1, &stored);
        x[k] = merged(a, type, keeps, x[k], stored, synth_u(base, i));
    }
}

static enum err_code replace(void *ctx, const char *name, const struct rows *rows, int64_t cols,
                             double *data, struct err *err)
{
    const struct anchor *a = ctx;
    enum tap_kind kind;
    int64_t layer;
    if (tap_parse(name, &kind, &layer) && a->flows[kind]) return err->code;
    const struct dump_tap *t = anchor_tap(a, name, cols);
    bool keeps = t && stored_coarser(name, t->tensor->dtype);
    for (int64_t i = 0; t && i < rows->count; i++) {
        CHECK(rows->dump_row[i] < a->rows);
        int64_t row = a->subject_row[rows->dump_row[i]];
        if (row < 0) continue;
        if (keeps || a->spreads)
            merge_row(a, t, row, keeps, data + i * cols);
        else
            read_row(t, row, data + i * cols);
    }
    return err->code;
}

enum err_code anchor_make(struct anchor *a, const struct dump *subject, int64_t batch_rows,
                          struct err *err)
{
    *a = (struct anchor){.subject = subject, .rows = batch_rows};
    a->subject_row = malloc((size_t)(batch_rows + 1) * sizeof *a->subject_row);
    if (!a->subject_row) return err_set(err, ERR_MEMORY, "anchor|%s|no memory", subject->file.path);
    for (int64_t i = 0; i < batch_rows; i++) a->subject_row[i] = -1;
    for (int64_t i = 0; i < subject->rows; i++) {
        int64_t at = subject->batch_row ? subject->batch_row[i] : i;
        if (at < batch_rows) a->subject_row[at] = i;
    }
    return ERR_OK;
}

void anchor_free(struct anchor *a)
{
    free(a->subject_row);
    *a = (struct anchor){0};
}

struct tap_sink *anchor_sink(struct anchor *a, const struct tap_sink *inner)
{
    a->inner = inner;
    a->sink = (struct tap_sink){
        .wants = wants, .reals = reals, .ints = ints, .ctx = a, .replace = replace};
    return &a->sink;
}

const struct dump_tap *anchor_tap(const struct anchor *a, const char *name, int64_t cols)
{
    const struct dump_tap *t = dump_find(a->subject, name);
    bool fits =
        t && dtype_is_float(t->tensor->dtype) && t->cols == cols && t->rows == a->subject->rows;
    return fits ? t : NULL;
}

void anchor_overlay(const struct anchor *a, const char *name, int64_t cols, double *x)
{
    const struct dump_tap *t = anchor_tap(a, name, cols);
    for (int64_t i = 0; t && i < a->rows; i++) {
        if (a->subject_row[i] >= 0) read_row(t, a->subject_row[i], x + i * cols);
    }
}

bool anchor_rounds(const struct anchor *a)
{
    for (int64_t i = 0; i < a->subject->count; i++) {
        const struct dump_tap *t = &a->subject->taps[i];
        if (t->known && dtype_is_float(t->tensor->dtype) &&
            dtype_unit(t->tensor->dtype) > dtype_unit(DT_F32))
            return true;
    }
    return false;
}
