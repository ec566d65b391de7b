/* compare.c: see compare.h. Elements are taken as float64 a chunk of a row at a time: no tap is
 * copied whole. */
#include "core/compare.h"

#include "core/check.h"

#include <math.h>

enum { CHUNK = 512 };

struct row_sums {
    double diff2, truth2, subject2, dot;
};

static bool special(double x)
{
    return !isfinite(x);
}

/* One cell that is not finite on at least one side. */
static void count_special(struct measure *m, struct cell c)
{
    m->nan_subject += isnan(c.subject) != 0;
    m->nan_truth += isnan(c.truth) != 0;
    m->inf_subject += isinf(c.subject) != 0;
    m->inf_truth += isinf(c.truth) != 0;
    bool same = (isnan(c.subject) && isnan(c.truth)) || c.subject == c.truth;
    if (same) return;
    if (m->special_mismatch++ == 0) {
        m->first_mismatch = c;
        m->worst = c;
        m->max_abs = INFINITY;
    }
    if (m->differing++ == 0) m->first_differing = c;
}

static void add_cells(struct measure *m, struct row_sums *sums, int64_t row, int64_t col, int64_t n,
                      const double *subject, const double *truth)
{
    for (int64_t i = 0; i < n; i++) {
        struct cell c = {.row = row, .col = col + i, .subject = subject[i], .truth = truth[i]};
        if (special(c.subject) || special(c.truth)) {
            count_special(m, c);
            continue;
        }
        double d = c.subject - c.truth;
        sums->diff2 += d * d;
        sums->truth2 += c.truth * c.truth;
        sums->subject2 += c.subject * c.subject;
        sums->dot += c.subject * c.truth;
        if (d != 0 && m->differing++ == 0) m->first_differing = c;
        if (fabs(d) > m->max_abs || m->worst.row < 0) {
            m->max_abs = fabs(d);
            m->worst = c;
        }
    }
}

/* From the sums of squares. Squares leave the range of float64 long before values do: cells that
 * differ but whose squares are lost count as infinitely wrong, not as equal. */
static double relative(double diff2, double truth2, bool differs)
{
    const double smallest = 0x1p-1000;
    if (!differs) return 0;
    if (truth2 == 0 || (diff2 < smallest && truth2 < smallest) || !isfinite(diff2) ||
        !isfinite(truth2))
        return INFINITY;
    return sqrt(diff2) / sqrt(truth2);
}

static const void *at(struct view v, int64_t row, int64_t col)
{
    return (const char *)v.data + (row * v.cols + col) * dtype_size(v.dtype);
}

void measure_views(struct view subject, struct view truth, const int64_t *map, struct measure *m,
                   double *row_rel, double *row_diff, double *row_truth)
{
    CHECK(subject.cols == truth.cols);
    const struct cell none = {.row = -1, .col = -1};
    *m = (struct measure){.cols = subject.cols,
                          .worst_row = -1,
                          .worst = none,
                          .first_mismatch = none,
                          .first_differing = none};
    struct row_sums total = {0};
    double a[CHUNK], b[CHUNK];
    for (int64_t r = 0; r < subject.rows; r++) {
        int64_t t = map ? map[r] : r;
        CHECK(t < truth.rows);
        struct row_sums s = {0};
        int64_t mismatches = m->special_mismatch, differing = m->differing;
        for (int64_t c = 0; t >= 0 && c < subject.cols; c += CHUNK) {
            int64_t n = subject.cols - c < CHUNK ? subject.cols - c : CHUNK;
            dtype_to_f64(subject.dtype, at(subject, r, c), n, a);
            dtype_to_f64(truth.dtype, at(truth, t, c), n, b);
            add_cells(m, &s, r, c, n, a, b);
        }
        double rel = m->special_mismatch > mismatches
                         ? INFINITY
                         : relative(s.diff2, s.truth2, m->differing > differing);
        double width = subject.cols ? (double)subject.cols : 1;
        if (row_rel) row_rel[r] = t < 0 ? -1 : rel;
        if (row_diff)
            row_diff[r] = t < 0                              ? -1
                          : m->special_mismatch > mismatches ? INFINITY
                                                             : sqrt(s.diff2 / width);
        if (row_truth) row_truth[r] = t < 0 ? -1 : sqrt(s.truth2 / width);
        if (t < 0) continue;
        m->rows++;
        if (m->worst_row < 0 || rel > m->worst_row_rel) {
            m->worst_row_rel = rel;
            m->worst_row = r;
        }
        total.diff2 += s.diff2;
        total.truth2 += s.truth2;
        total.subject2 += s.subject2;
        total.dot += s.dot;
    }
    m->elements = m->rows * m->cols;
    double n = m->elements ? (double)m->elements : 1;
    m->rms_diff = m->special_mismatch ? INFINITY : sqrt(total.diff2 / n);
    m->rms_truth = sqrt(total.truth2 / n);
    m->rel_rms =
        m->special_mismatch ? INFINITY : relative(total.diff2, total.truth2, m->differing > 0);
    m->cosine = total.dot / sqrt(total.truth2 * total.subject2);
}

bool judge_fails(double value, double bound)
{
    return !(value <= bound);
}

double measure_equal_share(const struct measure *m)
{
    return m->elements ? 1 - (double)m->differing / (double)m->elements : 0;
}
