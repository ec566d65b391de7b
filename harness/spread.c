/* spread.c: see spread.h. */
#include "harness/spread.h"

#include <math.h>
#include <stdlib.h>

static int by_rms(const void *a, const void *b)
{
    const struct spread_line *x = a, *y = b;
    if (x->rms != y->rms) return x->rms < y->rms ? 1 : -1;
    return (x->at > y->at) - (x->at < y->at);
}

/* Sums of squares become figures; the worst few are kept. */
static void keep_worst(struct spread_line *list, int64_t n, double width, struct spread_line *out,
                       int *count, double *median)
{
    for (int64_t i = 0; i < n; i++) {
        double rms = sqrt(list[i].rms / width), truth = sqrt(list[i].rel / width);
        list[i].rms = rms;
        list[i].rel = truth > 0 ? rms / truth : rms > 0 ? INFINITY : 0;
    }
    qsort(list, (size_t)n, sizeof *list, by_rms);
    *median = n > 0 ? list[n / 2].rms : 0;
    *count = n < SPREAD_WORST ? (int)n : SPREAD_WORST;
    for (int i = 0; i < *count; i++) out[i] = list[i];
}

static void add_cell(struct spread_line *row, struct spread_line *col, double s, double t)
{
    bool same = s == t || (isnan(s) && isnan(t));
    double d = same ? 0 : s - t, square = isfinite(d) ? d * d : INFINITY;
    double truth = isfinite(t) ? t * t : 0;
    row->rms += square;
    col->rms += square;
    row->rel += truth;
    col->rel += truth;
}

static void read_row(const struct dump_tap *t, int64_t row, double *out)
{
    const char *at = (const char *)t->tensor->data + row * t->cols * dtype_size(t->tensor->dtype);
    dtype_to_f64(t->tensor->dtype, at, t->cols, out);
}

enum err_code spread_find(const struct pair *p, const int64_t *map, struct spread *out,
                          struct err *err)
{
    const struct dump_tap *s = p->subject, *t = p->truth;
    int64_t rows = 0;
    *out = (struct spread){0};
    struct spread_line *row = calloc((size_t)(s->rows + s->cols) + 1, sizeof *row),
                       *col = row + s->rows;
    double *cells = calloc((size_t)s->cols * 2 + 1, sizeof *cells);
    if (!row || !cells) {
        free(row);
        free(cells);
        return err_set(err, ERR_MEMORY, "spread of an error|%s|no memory", s->name);
    }
    for (int64_t c = 0; c < s->cols; c++) col[c].at = c;
    for (int64_t r = 0; r < s->rows; r++) {
        int64_t at = map ? map[r] : r;
        if (at < 0) continue;
        read_row(s, r, cells);
        read_row(t, at, cells + s->cols);
        row[rows].at = r;
        for (int64_t c = 0; c < s->cols; c++)
            add_cell(&row[rows], &col[c], cells[c], cells[s->cols + c]);
        rows++;
    }
    keep_worst(row, rows, s->cols ? (double)s->cols : 1, out->row, &out->rows, &out->row_median);
    keep_worst(col, s->cols, rows ? (double)rows : 1, out->col, &out->cols, &out->col_median);
    free(row);
    free(cells);
    return ERR_OK;
}
