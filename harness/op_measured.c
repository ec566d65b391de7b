/* op_measured.c: see op_measured.h. */
#include "harness/op_measured.h"

#include "harness/judge.h"

#include <math.h>
#include <stdio.h>

enum { WIDE = 64 }; /* columns from which a row's own statistics carry it */

static const double miss = 1e-9; /* chance that a right narrow row is called wrong, a run */

/* Root mean squares over one row, or over all. */
struct errors {
    double subject, profile, size;
};

static const double *row_of(const struct case_output *o, int64_t row)
{
    return (const double *)o->data + row * o->cols;
}

/* Adds the squares of one row. A NaN or infinity stays one. */
static void add_row(const struct op_measured *m, int64_t row, struct errors *e)
{
    const double *x = row_of(m->exact, row), *p = row_of(m->profile, row),
                 *s = row_of(m->subject, row);
    for (int64_t i = 0; i < m->exact->cols; i++) {
        e->subject += (s[i] - x[i]) * (s[i] - x[i]);
        e->profile += (p[i] - x[i]) * (p[i] - x[i]);
        e->size += x[i] * x[i];
    }
}

static struct errors rooted(struct errors e, double n)
{
    return (struct errors){sqrt(e.subject / n), sqrt(e.profile / n), sqrt(e.size / n)};
}

static double bound_of(const struct op_measured *m, const struct errors *e)
{
    return fmax(2 * e->profile, 2 * m->unit * e->size);
}

/* Column of the row's largest error; the first that is not finite. */
static int64_t worst_column(const struct op_measured *m, int64_t row)
{
    const double *x = row_of(m->exact, row), *s = row_of(m->subject, row);
    int64_t worst = 0;
    for (int64_t i = 0; i < m->exact->cols; i++) {
        if (!isfinite(s[i])) return i;
        if (fabs(s[i] - x[i]) > fabs(s[worst] - x[worst])) worst = i;
    }
    return worst;
}

/* One row against its bound; keeps the one nearest to failing. */
static void judge_row(const struct op_measured *m, int64_t row, double error, double bound,
                      double *nearest, struct op_output *out)
{
    double ratio = error == 0 ? 0 : error / bound;
    if (!(error <= bound)) out->failed = true;
    if (ratio <= *nearest) return;
    *nearest = out->ratio = isnan(ratio) ? INFINITY : ratio;
    int64_t c = worst_column(m, row);
    out->bound = bound;
    out->worst = (struct cell){row, c, row_of(m->subject, row)[c], row_of(m->exact, row)[c]};
}

static struct errors pool(const struct op_measured *m)
{
    struct errors all = {0};
    for (int64_t r = 0; r < m->exact->rows; r++) add_row(m, r, &all);
    return rooted(all, (double)m->exact->rows * (double)m->exact->cols);
}

void op_measured_judge(const struct op_measured *m, struct op_output *out)
{
    int64_t cols = m->exact->cols;
    bool wide = cols >= WIDE;
    struct errors all = pool(m);
    double pooled = bound_of(m, &all), nearest = -1,
           chi = wide ? 1 : judge_chi(cols, miss / (double)m->exact->rows);
    if (!wide && !(all.subject <= pooled)) out->failed = true;
    for (int64_t r = 0; r < m->exact->rows; r++) {
        struct errors row = {0};
        add_row(m, r, &row);
        row = rooted(row, (double)cols);
        /* The truth's own run may be lucky in a row: no row's bound lies below that of all. */
        judge_row(m, r, row.subject, wide ? fmax(bound_of(m, &row), pooled) : pooled * chi,
                  &nearest, out);
    }
    snprintf(out->from, sizeof out->from,
             "measured: twice the truth's error in the profile, %.3g of %.3g; floor 1 ulp%s",
             all.profile, all.size, wide ? ", row by row" : ", pooled, rows by chi");
}
