/* diagnose_shape.c: see diagnose_shape.h. */
#include "harness/diagnose_shape.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEARLY_ALL 0.9 /* of the squared error: what is worth saying */
enum { GROUP = 32, ROWS_FOR_COLUMNS = 8, COLUMNS_TO_PERMUTE = 2048 };

static double square(double x)
{
    return x * x;
}

/* ---- where ---- */

struct place {
    int64_t at;
    double energy;
};

static int by_energy(const void *a, const void *b)
{
    double x = ((const struct place *)a)->energy, y = ((const struct place *)b)->energy;
    return (x < y) - (x > y);
}

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The fewest parts that hold nearly all; energies may overlap (a row has several experts). */
static void add_part(struct error_shape *out, const char *what, struct place *list, int64_t n,
                     double total)
{
    struct shape_part *p = &out->part[out->parts++];
    double sum = 0;
    *p = (struct shape_part){.parts = n};
    snprintf(p->what, sizeof p->what, "%s", what);
    qsort(list, (size_t)n, sizeof *list, by_energy);
    for (int64_t i = 0; i < SHAPE_PLACES && i < n / 2 && sum < NEARLY_ALL * total; i++) {
        sum += list[i].energy;
        p->at[p->places++] = list[i].at;
    }
    p->share = total > 0 ? sum / total : 0;
    if (sum < NEARLY_ALL * total) p->places = 0;
    qsort(p->at, (size_t)p->places, sizeof *p->at, ascending);
}

static void cut_columns(struct error_shape *out, const char *what, const double *column,
                        int64_t cols, int64_t width, double total, struct place *list)
{
    int64_t n = cols / width;
    if (n < 2 || cols % width) return;
    for (int64_t i = 0; i < n; i++) {
        list[i] = (struct place){i, 0};
        for (int64_t c = i * width; c < (i + 1) * width; c++) list[i].energy += column[c];
    }
    add_part(out, what, list, n, total);
}

/* The expert whose rows carry the error, and without which there is none. */
static void cut_experts(const struct shape_input *in, struct error_shape *out, const double *row,
                        double total, struct place *list)
{
    for (int64_t e = 0; e < in->experts; e++) list[e] = (struct place){e, 0};
    for (int64_t i = 0; i < in->rows * in->top_k; i++) {
        if (in->ids[i] >= 0 && in->ids[i] < in->experts)
            list[in->ids[i]].energy += row[i / in->top_k];
    }
    struct place best = list[0];
    for (int64_t e = 1; e < in->experts; e++) {
        if (list[e].energy > best.energy) best = list[e];
    }
    int64_t with = 0;
    for (int64_t i = 0; i < in->rows * in->top_k; i++) with += in->ids[i] == best.at;
    if (with >= in->rows || best.energy < NEARLY_ALL * total) return;
    struct shape_part *p = &out->part[out->parts++];
    *p = (struct shape_part){.parts = in->experts,
                             .at = {best.at},
                             .places = 1,
                             .share = total > 0 ? best.energy / total : 0};
    snprintf(p->what, sizeof p->what, "expert");
}

static enum err_code find_places(const struct shape_input *in, struct error_shape *out,
                                 struct err *err)
{
    int64_t widest = in->cols > in->rows ? in->cols : in->rows;
    if (in->experts > widest) widest = in->experts;
    double *row = calloc((size_t)(in->rows + in->cols) + 1, sizeof *row), *column = row + in->rows;
    struct place *list = calloc((size_t)widest + 1, sizeof *list);
    double total = 0;
    char what[24];
    if (!row || !list) {
        err_set(err, ERR_MEMORY, "shape of an error||no memory");
        goto done;
    }
    for (int64_t i = 0; i < in->rows * in->cols; i++) {
        double e = square(in->subject[i] - in->clean[i]);
        row[i / in->cols] += e;
        column[i % in->cols] += e;
        total += e;
    }
    for (int64_t r = 0; r < in->rows; r++) list[r] = (struct place){r, row[r]};
    add_part(out, "row", list, in->rows, total);
    cut_columns(out, "column", column, in->cols, 1, total, list);
    cut_columns(out, "group of 32", column, in->cols, GROUP, total, list);
    if (in->heads > 0)
        cut_columns(out, "head", column, in->cols, in->cols / in->heads, total, list);
    for (int ranks = 8; ranks >= 4; ranks /= 2) {
        snprintf(what, sizeof what, "rank of %d", ranks);
        if (in->cols % ranks == 0)
            cut_columns(out, what, column, in->cols, in->cols / ranks, total, list);
    }
    if (in->ids) cut_experts(in, out, row, total, list);
done:
    free(row);
    free(list);
    return err->code;
}

/* ---- what ---- */

/* Share of the squared error that goes when each line of the matrix (rows, or columns) has its own
 * least-squares factor (or offset) of c. */
static double fit_lines(const struct shape_input *in, bool rows, bool offset)
{
    int64_t lines = rows ? in->rows : in->cols, n = rows ? in->cols : in->rows;
    double before = 0, after = 0;
    for (int64_t i = 0; i < lines; i++) {
        double cc = 0, sc = 0, ss = 0, d = 0, dd = 0;
        for (int64_t j = 0; j < n; j++) {
            int64_t at = rows ? i * in->cols + j : j * in->cols + i;
            double s = in->subject[at], c = in->clean[at];
            cc += c * c;
            sc += s * c;
            ss += s * s;
            d += s - c;
            dd += square(s - c);
        }
        before += dd;
        after += offset ? dd - d * d / (double)n : cc > 0 ? ss - sc * sc / cc : ss;
    }
    return before > 0 ? 1 - after / before : 0;
}

static void fit_scale(const struct shape_input *in, struct error_shape *out)
{
    double cc = 0, sc = 0, ss = 0, dd = 0;
    for (int64_t i = 0; i < in->rows * in->cols; i++) {
        double s = in->subject[i], c = in->clean[i];
        cc += c * c;
        sc += s * c;
        ss += s * s;
        dd += square(s - c);
    }
    out->relative = cc > 0 ? sqrt(dd / cc) : INFINITY;
    out->scale = cc > 0 ? sc / cc : 0;
    out->scale_explains = dd > 0 && cc > 0 ? 1 - (ss - sc * sc / cc) / dd : 0;
}

/* Each column of the subject against the nearest column of the reference. */
static void fit_permutation(const struct shape_input *in, struct error_shape *out)
{
    double before = 0, after = 0;
    int64_t moved = 0;
    if (in->rows < ROWS_FOR_COLUMNS || in->cols > COLUMNS_TO_PERMUTE) return;
    for (int64_t a = 0; a < in->cols; a++) {
        double best = INFINITY;
        int64_t from = -1;
        for (int64_t b = 0; b < in->cols; b++) {
            double d = 0;
            for (int64_t r = 0; r < in->rows && d < best; r++)
                d += square(in->subject[r * in->cols + a] - in->clean[r * in->cols + b]);
            if (d < best) {
                best = d;
                from = b;
            }
        }
        after += best;
        moved += from != a;
    }
    for (int64_t i = 0; i < in->rows * in->cols; i++)
        before += square(in->subject[i] - in->clean[i]);
    out->permutation_explains = before > 0 && moved > 0 ? 1 - after / before : 0;
}

/* Solves the n x n system a x = b in place (n <= SHAPE_TERMS, symmetric, positive); false where it
 * is singular. */
static bool solve(double a[SHAPE_TERMS][SHAPE_TERMS], double *b, int n)
{
    for (int i = 0; i < n; i++) {
        if (!(a[i][i] > 1e-30)) return false;
        for (int j = i + 1; j < n; j++) {
            double f = a[j][i] / a[i][i];
            for (int k = i; k < n; k++) a[j][k] -= f * a[i][k];
            b[j] -= f * b[i];
        }
    }
    for (int i = n - 1; i >= 0; i--) {
        for (int k = i + 1; k < n; k++) b[i] -= a[i][k] * b[k];
        b[i] /= a[i][i];
    }
    return true;
}

static void fit_terms(const struct shape_input *in, struct error_shape *out)
{
    double a[SHAPE_TERMS][SHAPE_TERMS] = {{0}}, b[SHAPE_TERMS] = {0}, before = 0, after = 0;
    int n = 0;
    while (n < SHAPE_TERMS && in->term_name[n]) n++;
    for (int64_t i = 0; i < in->rows * in->cols && n > 0; i++) {
        for (int j = 0; j < n; j++) {
            b[j] += in->term[j][i] * in->subject[i];
            for (int k = 0; k < n; k++) a[j][k] += in->term[j][i] * in->term[k][i];
        }
        before += square(in->subject[i] - in->clean[i]);
    }
    if (n == 0 || !(before > 0) || !solve(a, b, n)) return;
    for (int64_t i = 0; i < in->rows * in->cols; i++) {
        double s = in->subject[i];
        for (int j = 0; j < n; j++) s -= b[j] * in->term[j][i];
        after += s * s;
    }
    out->terms = n;
    out->terms_explain = 1 - after / before;
    for (int j = 0; j < n; j++) out->term[j] = (struct shape_term){in->term_name[j], b[j]};
}

/* ---- in words ---- */

__attribute__((format(printf, 2, 3))) static void say(struct error_shape *s, const char *format,
                                                      ...)
{
    size_t n = strlen(s->text);
    va_list list;
    va_start(list, format);
    vsnprintf(s->text + n, sizeof s->text - n, format, list);
    va_end(list);
}

static void say_parts(struct error_shape *s)
{
    bool any = false;
    for (int i = 0; i < s->parts; i++) {
        const struct shape_part *p = &s->part[i];
        if (p->places == 0) continue;
        say(s, "; %.0f %% of it in %s%s", 100 * p->share, p->what, p->places > 1 ? "s" : "");
        for (int64_t k = 0; k < p->places; k++)
            say(s, "%s%lld", k ? ", " : " ", (long long)p->at[k]);
        any = true;
    }
    if (!any) say(s, "; spread over all rows and columns");
}

static void say_all(struct error_shape *s)
{
    const struct {
        const char *what;
        double explains;
    } fits[] = {{"a factor for each row", s->row_scale_explains},
                {"a factor for each column", s->column_scale_explains},
                {"a value added to each column", s->offset_explains},
                {"the columns in another order", s->permutation_explains}};
    say(s, "the error is %.3g of the output", s->relative);
    say_parts(s);
    if (s->scale_explains >= NEARLY_ALL) {
        say(s, "; the reference times %.6g explains %.1f %%", s->scale, 100 * s->scale_explains);
        return;
    }
    if (s->terms_explain >= NEARLY_ALL) {
        for (int i = 0; i < s->terms; i++)
            say(s, "%s%.4g x %s", i ? " + " : "; ", s->term[i].factor, s->term[i].name);
        say(s, " explains %.1f %%", 100 * s->terms_explain);
    }
    if (s->weighed.name[0] && s->weighed.explains >= NEARLY_ALL)
        say(s, "; %s times %.6g explains %.1f %%", s->weighed.name, s->weighed.factor,
            100 * s->weighed.explains);
    for (size_t i = 0; i < sizeof fits / sizeof fits[0]; i++) {
        if (fits[i].explains >= NEARLY_ALL)
            say(s, "; %s explains %.1f %%", fits[i].what, 100 * fits[i].explains);
    }
}

enum err_code error_shape_find(const struct shape_input *in, struct error_shape *out,
                               struct err *err)
{
    *out = (struct error_shape){.made = true, .weighed = in->weighed};
    if (find_places(in, out, err) != ERR_OK) return err->code;
    fit_scale(in, out);
    out->row_scale_explains = in->cols >= ROWS_FOR_COLUMNS ? fit_lines(in, true, false) : 0;
    if (in->rows >= ROWS_FOR_COLUMNS) {
        out->column_scale_explains = fit_lines(in, false, false);
        out->offset_explains = fit_lines(in, false, true);
    }
    fit_permutation(in, out);
    fit_terms(in, out);
    say_all(out);
    return ERR_OK;
}
