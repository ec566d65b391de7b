/* inspect_samples_match.c: which entry of the reference a stored state is; see inspect_samples.h.
 */
#include "harness/inspect_samples.h"

#include <math.h>
#include <stdlib.h>

/* Rows that stand for all where every row is compared with every other. */
enum { PROBES = 32 };

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double match_quantile(double *x, int64_t n, double share)
{
    if (n == 0) return NAN;
    qsort(x, (size_t)n, sizeof *x, by_value);
    return x[(int64_t)(share * (double)(n - 1))];
}

double match_median(double *x, int64_t n)
{
    if (n == 0) return NAN;
    qsort(x, (size_t)n, sizeof *x, by_value);
    return n % 2 ? x[n / 2] : 0.5 * (x[n / 2 - 1] + x[n / 2]);
}

static double norm2(const double *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * x[i];
    return sum;
}

static double norm2f(const float *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * x[i];
    return sum;
}

/* |s / scale - c|^2 */
static double apart2(const double *s, double scale, const float *c, int64_t n)
{
    double sum = 0, by = 1 / scale;
    for (int64_t i = 0; i < n; i++) {
        double d = s[i] * by - c[i];
        sum += d * d;
    }
    return sum;
}

static double between2(const float *a, const float *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = (double)a[i] - b[i];
        sum += d * d;
    }
    return sum;
}

/* What one search works with. */
struct search {
    const struct match_job *job;
    int64_t *row; /* [n] stored rows that are finite */
    int64_t n;
    double *scratch; /* [rows] */
    double *gaps;    /* [threads][rows of truth] */
    double *far2;    /* [candidates][rows] |s / scale - c|^2 */
    double *scale;   /* [candidates] */
    double *error;   /* [candidates] */
};

static const double *stored(const struct search *k, int64_t i)
{
    return k->job->s + k->row[i] * k->job->truth->hidden;
}

static void take_finite(struct search *k, struct match *m)
{
    const struct match_job *job = k->job;
    for (int64_t p = 0; p < job->rows; p++) {
        bool finite = isfinite(norm2(job->s + p * job->truth->hidden, job->truth->hidden));
        if (finite) k->row[k->n++] = p;
        m->source[p] = finite ? -1 : -2;
        m->row_error[p] = NAN;
    }
}

/* ---- rows taken to be their own ---- */

static void measure_candidate(void *ctx, int64_t c, int worker)
{
    struct search *k = ctx;
    const struct truth *t = k->job->truth;
    double *rel = k->gaps + worker * t->rows;
    for (int64_t i = 0; i < k->n; i++) {
        const float *row = truth_row(t, c, k->job->first + k->row[i]);
        double d = apart2(stored(k, i), k->scale[c], row, t->hidden);
        k->far2[c * k->job->rows + i] = d;
        rel[i] = sqrt(d / (norm2f(row, t->hidden) + 1e-300));
    }
    k->error[c] = match_median(rel, k->n);
}

static void in_threads(const struct search *k, int64_t n,
                       void (*body)(void *ctx, int64_t i, int worker))
{
    const struct run run = {.threads = k->job->threads};
    run_parallel(&run, n, body, (void *)k);
}

/* The median margin between candidates b and c; NaN where no row tells them apart. */
static double margin_between(const struct search *k, int64_t b, int64_t c)
{
    const struct truth *t = k->job->truth;
    double twin = 2 * k->job->unit + MATCH_REFERENCE;
    int64_t n = 0;
    for (int64_t i = 0; i < k->n; i++) {
        const float *x = truth_row(t, b, k->job->first + k->row[i]);
        const float *y = truth_row(t, c, k->job->first + k->row[i]);
        double d = between2(x, y, t->hidden);
        if (d <= twin * twin * norm2f(x, t->hidden)) continue;
        k->scratch[n++] = (k->far2[c * k->job->rows + i] - k->far2[b * k->job->rows + i]) / d;
    }
    return match_median(k->scratch, n);
}

/* The two nearest by their error. */
static void choose_nearest(const struct search *k, struct match *m)
{
    m->candidate = 0;
    m->next = -1;
    for (int64_t c = 1; c < k->job->truth->candidates; c++) {
        if (k->error[c] < k->error[m->candidate]) m->candidate = c;
    }
    for (int64_t c = 0; c < k->job->truth->candidates; c++) {
        if (c != m->candidate && (m->next < 0 || k->error[c] < k->error[m->next])) m->next = c;
    }
    m->error = k->error[m->candidate];
    m->next_error = k->error[m->next];
    m->scale = k->scale[m->candidate];
    m->rival = -1;
    m->margin = 1;
}

static void choose(const struct search *k, struct match *m)
{
    choose_nearest(k, m);
    for (int64_t c = 0; c < k->job->truth->candidates; c++) {
        double margin = c == m->candidate ? NAN : margin_between(k, m->candidate, c);
        if (margin < m->margin) {
            m->margin = margin;
            m->rival = c;
        }
    }
    m->kind = m->margin > 0.5 ? MATCH_CLEAR : MATCH_UNCLEAR;
}

/* ---- rows that may be any ---- */

static int64_t probe_count(const struct search *k)
{
    return k->n < PROBES ? k->n : PROBES;
}

static int64_t probe(const struct search *k, int64_t i)
{
    return i * k->n / probe_count(k);
}

static void measure_anywhere(void *ctx, int64_t c, int worker)
{
    struct search *k = ctx;
    const struct truth *t = k->job->truth;
    double rel[PROBES];
    (void)worker;
    for (int64_t i = 0; i < probe_count(k); i++) {
        rel[i] = INFINITY;
        for (int64_t q = 0; q < t->rows; q++) {
            const float *row = truth_row(t, c, q);
            double d = apart2(stored(k, probe(k, i)), k->scale[c], row, t->hidden);
            d = sqrt(d / (norm2f(row, t->hidden) + 1e-300));
            if (d < rel[i]) rel[i] = d;
        }
    }
    k->error[c] = match_median(rel, probe_count(k));
}

/* ---- scale ---- */

/* The ratio of median lengths: no matter which row is which. */
static void scale_by_length(const struct search *k)
{
    const struct truth *t = k->job->truth;
    for (int64_t i = 0; i < k->n; i++) k->scratch[i] = sqrt(norm2(stored(k, i), t->hidden));
    double own = match_median(k->scratch, k->n);
    for (int64_t c = 0; c < t->candidates; c++) {
        for (int64_t i = 0; i < k->n; i++)
            k->scratch[i] = sqrt(norm2f(truth_row(t, c, k->job->first + k->row[i]), t->hidden));
        double length = match_median(k->scratch, k->n);
        k->scale[c] = own > 0 && length > 0 ? own / length : 1;
    }
}

/* The factor by which the rows are longer than the candidate's, in the middle; 1 where that is no
 * more than storage explains. */
static double shared_scale(const struct search *k, const struct match *m)
{
    const struct truth *t = k->job->truth;
    int64_t n = 0;
    for (int64_t i = 0; i < k->n; i++) {
        int64_t q = m->source[k->row[i]];
        if (q < 0) continue;
        const float *c = truth_row(t, m->candidate, q);
        const double *s = stored(k, i);
        double dot = 0;
        for (int64_t j = 0; j < t->hidden; j++) dot += s[j] * c[j];
        k->scratch[n++] = dot / (norm2f(c, t->hidden) + 1e-300);
    }
    double scale = match_median(k->scratch, n);
    return fabs(scale - 1) > 2 * k->job->unit + MATCH_REFERENCE ? scale : 1;
}

/* ---- rotation ---- */

/* How far the scalar products between the probed rows are from those of candidate c, relative. */
static double gram_error(const struct search *k, int64_t c)
{
    const struct truth *t = k->job->truth;
    int64_t n = probe_count(k);
    double off = 0, all = 0;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j <= i; j++) {
            const double *x = stored(k, probe(k, i)), *y = stored(k, probe(k, j));
            const float *u = truth_row(t, c, k->job->first + k->row[probe(k, i)]);
            const float *v = truth_row(t, c, k->job->first + k->row[probe(k, j)]);
            double have = 0, want = 0;
            for (int64_t h = 0; h < t->hidden; h++) {
                have += x[h] * y[h];
                want += (double)u[h] * v[h];
            }
            off += (have - want) * (have - want);
            all += want * want;
        }
    }
    return sqrt(off / (all + 1e-300));
}

/* Products of fewer rows than a handful fit by chance. */
static bool find_rotation(struct search *k, struct match *m)
{
    double best = INFINITY, next = INFINITY;
    int64_t at = -1;
    if (k->n < 4) return false;
    for (int64_t c = 0; c <= k->job->truth->layers; c++) {
        double e = gram_error(k, c);
        if (e < best) {
            next = best;
            best = e;
            at = c;
        } else if (e < next) {
            next = e;
        }
    }
    if (!(best < 0.25 * next && best < 0.25 && best < 0.25 * m->error)) return false;
    *m = (struct match){.kind = MATCH_ROTATED,
                        .candidate = at,
                        .next = -1,
                        .rival = -1,
                        .error = best,
                        .next_error = next,
                        .margin = 0,
                        .scale = 1,
                        .source = m->source,
                        .row_error = m->row_error};
    return true;
}

/* ---- all ---- */

static void no_scale(const struct search *k)
{
    for (int64_t c = 0; c < k->job->truth->candidates; c++) k->scale[c] = 1;
}

/* True where at least half of the rows hold a known row. */
static bool settle_rows(const struct search *k, const struct match *m)
{
    return 2 * match_rows(k->job, m->candidate, m->scale, k->gaps, m->source) >= k->n;
}

static int64_t in_place(const struct search *k, const struct match *m)
{
    int64_t n = 0;
    for (int64_t i = 0; i < k->n; i++) n += m->source[k->row[i]] == k->job->first + k->row[i];
    return n;
}

/* Own rows first, then any row. The first look holds only where most rows are in their place: it
 * compared each with its own. False: nothing is clear; kind UNCLEAR where the rows are. */
static bool find(struct search *k, struct match *m)
{
    in_threads(k, k->job->truth->candidates, measure_candidate);
    choose(k, m);
    bool rows = settle_rows(k, m) && 2 * in_place(k, m) >= k->n;
    if (rows && m->kind == MATCH_CLEAR) return true;
    struct match own = *m;
    own.kind = rows ? MATCH_UNCLEAR : MATCH_NONE;
    *m = own;
    in_threads(k, k->job->truth->candidates, measure_anywhere);
    choose_nearest(k, m);
    m->kind = m->error < 0.5 * m->next_error ? MATCH_CLEAR : MATCH_NONE;
    if (m->kind == MATCH_CLEAR && settle_rows(k, m)) return true;
    *m = own;
    return false;
}

static bool find_scaled(struct search *k, struct match *m)
{
    scale_by_length(k);
    return find(k, m);
}

static bool storage_explains(const struct search *k, bool known, const struct match *m)
{
    return known && m->error <= k->job->unit + MATCH_REFERENCE;
}

static void finish(struct search *k, struct match *m)
{
    const struct truth *t = k->job->truth;
    int64_t n = 0;
    for (int64_t i = 0; i < k->n; i++) {
        int64_t p = k->row[i], q = m->source[p] >= 0 ? m->source[p] : k->job->first + p;
        const float *c = truth_row(t, m->candidate, k->job->first + p);
        double length = norm2f(c, t->hidden) + 1e-300;
        m->row_error[p] = sqrt(apart2(stored(k, i), m->scale, c, t->hidden) / length);
        c = truth_row(t, m->candidate, q);
        length = norm2f(c, t->hidden) + 1e-300;
        if (m->source[p] >= 0 || m->kind != MATCH_CLEAR)
            k->scratch[n++] = sqrt(apart2(stored(k, i), m->scale, c, t->hidden) / length);
    }
    if (m->kind != MATCH_ROTATED) m->error = match_median(k->scratch, n);
    m->exact = m->kind == MATCH_CLEAR && m->error <= k->job->unit + MATCH_REFERENCE;
}

/* A common factor is believed where it brings the state at least twice as near. */
static void match_all(struct search *k, struct match *m)
{
    take_finite(k, m);
    m->kind = MATCH_NONE;
    m->next = m->rival = -1;
    m->scale = 1;
    if (k->n == 0) return;
    no_scale(k);
    bool known = find(k, m);
    struct match plain = *m;
    if (!storage_explains(k, known, m) && find_scaled(k, m) &&
        (!known || m->error < 0.5 * plain.error)) {
        m->scale = shared_scale(k, m);
        known = true;
    } else {
        *m = plain;
    }
    if (known || (!find_rotation(k, m) && m->kind == MATCH_UNCLEAR)) {
        (void)settle_rows(k, m);
    } else {
        for (int64_t i = 0; i < k->n; i++) m->source[k->row[i]] = -1;
    }
    finish(k, m);
}

enum err_code match_state(const struct match_job *job, struct match *m, struct err *err)
{
    int64_t C = job->truth->candidates;
    struct search k = {.job = job,
                       .row = malloc((size_t)(job->rows + 1) * sizeof(int64_t)),
                       .scratch = malloc((size_t)(job->rows + 1) * sizeof(double)),
                       .gaps = malloc((size_t)(job->threads * job->truth->rows) * sizeof(double)),
                       .far2 = malloc((size_t)(C * job->rows + 1) * sizeof(double)),
                       .scale = malloc((size_t)C * sizeof(double)),
                       .error = malloc((size_t)C * sizeof(double))};
    if (k.row && k.scratch && k.gaps && k.far2 && k.scale && k.error) {
        match_all(&k, m);
    } else {
        err_set(err, ERR_MEMORY, "match states|rows|no memory");
    }
    free(k.row);
    free(k.scratch);
    free(k.gaps);
    free(k.far2);
    free(k.scale);
    free(k.error);
    return err->code;
}
