/* inspect_samples_rows.c: which row of the reference each stored row holds; see inspect_samples.h.
 */
#include "harness/inspect_samples.h"

#include <math.h>

struct search {
    const struct match_job *job;
    int64_t candidate;
    double scale;
    double *gaps; /* [threads][rows of truth] */
    int64_t *source;
};

/* Squared distances of one stored row: to its own row, to the nearest other one, and between
 * these. */
struct nearest {
    double own, other, between, typical; /* typical: the median between own and other rows */
    int64_t row;                         /* of the nearest other, or -1 */
};

static void distances(const double *s, double scale, const float *own, const float *c, int64_t n,
                      double *far, double *between)
{
    double sum = 0, gap = 0, by = 1 / scale;
    for (int64_t i = 0; i < n; i++) {
        double d = s[i] * by - c[i], g = (double)own[i] - c[i];
        sum += d * d;
        gap += g * g;
    }
    *far = sum;
    *between = gap;
}

/* Row i of all, counted from the sample's own rows on, so that of equal rows its own are taken. */
static int64_t nth_row(const struct match_job *job, int64_t i)
{
    return (job->first + i) % job->truth->rows;
}

/* Rows that storage cannot tell from the own one are passed over. */
static struct nearest look(const struct search *k, int64_t p, double *gaps)
{
    const struct match_job *job = k->job;
    const struct truth *t = job->truth;
    const double *s = job->s + p * t->hidden;
    const float *own = truth_row(t, k->candidate, job->first + p);
    double length, twin = 2 * job->unit + MATCH_REFERENCE;
    struct nearest n = {.other = INFINITY, .row = -1};
    int64_t count = 0;
    distances(s, k->scale, own, own, t->hidden, &n.own, &length);
    length = 0;
    for (int64_t i = 0; i < t->hidden; i++) length += (double)own[i] * own[i];
    for (int64_t i = 0; i < t->rows; i++) {
        double far, between;
        int64_t q = nth_row(job, i);
        if (q == job->first + p) continue;
        distances(s, k->scale, own, truth_row(t, k->candidate, q), t->hidden, &far, &between);
        if (between <= twin * twin * length) continue;
        gaps[count++] = between;
        if (far < n.other) {
            n.other = far;
            n.between = between;
            n.row = q;
        }
    }
    n.typical = match_median(gaps, count);
    return n;
}

/* A row holds another row where it lies in that one's quarter of the way between them, and none
 * where it is as far from its own as half of what separates rows at all. */
static void settle_row(void *ctx, int64_t p, int worker)
{
    const struct search *k = ctx;
    if (k->source[p] == -2) return;
    k->source[p] = k->job->first + p;
    struct nearest n = look(k, p, k->gaps + worker * k->job->truth->rows);
    if (n.row >= 0 && n.other < n.own && n.other - n.own <= -0.5 * n.between) {
        k->source[p] = n.other <= 0.25 * n.between ? n.row : -1;
    } else if (n.row >= 0 && n.own > 0.5 * n.typical) {
        k->source[p] = -1;
    }
}

int64_t match_rows(const struct match_job *job, int64_t candidate, double scale, double *gaps,
                   int64_t *source)
{
    struct search k = {job, candidate, scale, gaps, source};
    const struct run run = {.threads = job->threads};
    int64_t known = 0;
    run_parallel(&run, job->rows, settle_row, &k);
    for (int64_t p = 0; p < job->rows; p++) known += source[p] >= 0;
    return known;
}
