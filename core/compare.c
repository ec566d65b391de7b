/* compare.c: see compare.h. Elements are taken as float64 a chunk of a row at a time: no tap is
 * copied whole. */
#include "core/compare.h"

#include "core/check.h"
#include "core/clones.h"
#include "core/run.h"

#include <math.h>
#include <sched.h>
#include <string.h>

enum { CHUNK = 512, AHEAD = 4, CACHE_LINE = 64 };

struct row_sums {
    double diff2, truth2, subject2;
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

/* The cell at which the chunk's difference is `largest`, and the first that differs at all. */
static void locate(struct measure *m, struct cell at, int64_t n, const double *subject,
                   const double *truth, double largest)
{
    const bool record = largest > m->max_abs || m->worst.row < 0;
    bool found = false, first = m->first_differing.row < 0 && largest > 0;
    for (int64_t i = 0; i < n && (first || (record && !found)); i++) {
        const struct cell c = {at.row, at.col + i, subject[i], truth[i]};
        const double d = fabs(subject[i] - truth[i]);
        if (first && d > 0) {
            m->first_differing = c;
            first = false;
        }
        if (!record || found || d != largest) continue;
        m->max_abs = largest;
        m->worst = c;
        found = true;
    }
}

/* Partial sums of a chunk: cell i belongs to lane i % LANES, so that the order of every sum is
 * fixed whatever vector unit runs it. Vectors are spelled out: of plain loops the compiler keeps
 * some in registers and not others, at a factor of two. */
enum { LANES = 8 };
typedef double vec __attribute__((vector_size(LANES * sizeof(double))));
typedef int64_t vec_mask __attribute__((vector_size(LANES * sizeof(int64_t))));

struct lanes {
    double diff2[LANES], truth2[LANES], subject2[LANES], largest[LANES];
    int64_t differing[LANES];
};

/* n a multiple of LANES. A cell that is not finite leaves a sum of squares that is not. `largest`
 * is of the differences without their sign. */
CLONES static void add_lanes(struct lanes *l, int64_t n, const double *subject, const double *truth)
{
    vec diff2 = {0}, truth2 = {0}, subject2 = {0}, largest = {0};
    vec_mask differing = {0};
    for (int64_t i = 0; i < n; i += LANES) {
        vec a, b;
        memcpy(&a, subject + i, sizeof a);
        memcpy(&b, truth + i, sizeof b);
        vec d = a - b;
        diff2 += d * d;
        truth2 += b * b;
        subject2 += a * a;
        differing -= a != b;
        vec_mask size = (vec_mask)d & INT64_MAX, larger = (vec)size > largest;
        largest = (vec)((size & larger) | ((vec_mask)largest & ~larger));
    }
    memcpy(l->diff2, &diff2, sizeof diff2);
    memcpy(l->truth2, &truth2, sizeof truth2);
    memcpy(l->subject2, &subject2, sizeof subject2);
    memcpy(l->largest, &largest, sizeof largest);
    memcpy(l->differing, &differing, sizeof differing);
}

static double lanes_sum(const double *x)
{
    return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]));
}

static double lanes_max(const double *x)
{
    double m = x[0];
    for (int j = 1; j < LANES; j++) m = x[j] > m ? x[j] : m;
    return m;
}

static int64_t lanes_count(const int64_t *x)
{
    int64_t n = 0;
    for (int j = 0; j < LANES; j++) n += x[j];
    return n;
}

/* Cells one at a time: where some, or their squares, are not finite. */
static void add_slowly(struct measure *m, struct row_sums *sums, struct cell at, int64_t n,
                       const double *subject, const double *truth)
{
    for (int64_t i = 0; i < n; i++) {
        const struct cell c = {at.row, at.col + i, subject[i], truth[i]};
        if (special(c.subject) || special(c.truth)) {
            count_special(m, c);
            continue;
        }
        double d = c.subject - c.truth;
        sums->diff2 += d * d;
        sums->truth2 += c.truth * c.truth;
        sums->subject2 += c.subject * c.subject;
        if (d != 0 && m->differing++ == 0) m->first_differing = c;
        if (fabs(d) > m->max_abs || m->worst.row < 0) {
            m->max_abs = fabs(d);
            m->worst = c;
        }
    }
}

/* A chunk of one row; the arrays have room for CHUNK cells. */
static void add_cells(struct measure *m, struct row_sums *sums, struct cell at, int64_t n,
                      double *subject, double *truth)
{
    struct lanes l;
    int64_t padded = (n + LANES - 1) / LANES * LANES;
    for (int64_t i = n; i < padded; i++) subject[i] = truth[i] = 0;
    add_lanes(&l, padded, subject, truth);
    double truth2 = lanes_sum(l.truth2), subject2 = lanes_sum(l.subject2);
    if (!isfinite(truth2) || !isfinite(subject2)) {
        add_slowly(m, sums, at, n, subject, truth);
        return;
    }
    sums->diff2 += lanes_sum(l.diff2);
    sums->truth2 += truth2;
    sums->subject2 += subject2;
    double largest = lanes_max(l.largest);
    if (largest > m->max_abs || m->worst.row < 0 || (m->first_differing.row < 0 && largest > 0))
        locate(m, at, n, subject, truth, largest);
    m->differing += lanes_count(l.differing);
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

/* Of the angle between subject and truth: |s - t|^2 = |s|^2 + |t|^2 - 2 s.t. NaN where one is 0. */
static double cosine(const struct row_sums *s)
{
    double dot = (s->truth2 + s->subject2 - s->diff2) / 2;
    return dot / (sqrt(s->truth2) * sqrt(s->subject2));
}

static const void *at(struct view v, int64_t row, int64_t col)
{
    return (const char *)v.data + (row * v.cols + col) * dtype_size(v.dtype);
}

/* One comparison, rows in blocks of a fixed size: a block is one piece of work, and the blocks are
 * added up in order, so that no figure depends on the number of threads. */
struct job {
    struct view subject, truth;
    const int64_t *map;
    double *row_rel, *row_diff, *row_truth;
    int64_t block_rows;
    struct block {
        struct measure m;
        struct row_sums sums;
    } * blocks;
};

/* Asks for the cells that are compared AHEAD chunks from now: the hardware's own prefetch ends with
 * each page, and a dump is read once, from the page cache. A request that goes beyond the data does
 * nothing. */
static void fetch_ahead(const void *cells, int64_t bytes)
{
    const char *from = (const char *)cells + AHEAD * bytes;
    for (int64_t i = 0; i < bytes; i += CACHE_LINE) __builtin_prefetch(from + i);
}

static void measure_row(const struct job *j, struct block *b, int64_t r, int64_t t)
{
    struct measure *m = &b->m;
    struct row_sums s = {0};
    double x[CHUNK], y[CHUNK];
    int64_t mismatches = m->special_mismatch, differing = m->differing, cols = j->subject.cols;
    for (int64_t c = 0; c < cols; c += CHUNK) {
        const struct cell first = {.row = r, .col = c};
        int64_t n = cols - c < CHUNK ? cols - c : CHUNK;
        fetch_ahead(at(j->subject, r, c), CHUNK * dtype_size(j->subject.dtype));
        fetch_ahead(at(j->truth, t, c), CHUNK * dtype_size(j->truth.dtype));
        dtype_to_f64(j->subject.dtype, at(j->subject, r, c), n, x);
        dtype_to_f64(j->truth.dtype, at(j->truth, t, c), n, y);
        add_cells(m, &s, first, n, x, y);
    }
    bool special_row = m->special_mismatch > mismatches;
    double rel = special_row ? INFINITY : relative(s.diff2, s.truth2, m->differing > differing);
    double width = cols ? (double)cols : 1;
    if (j->row_rel) j->row_rel[r] = rel;
    if (j->row_diff) j->row_diff[r] = special_row ? INFINITY : sqrt(s.diff2 / width);
    if (j->row_truth) j->row_truth[r] = sqrt(s.truth2 / width);
    m->rows++;
    if (m->worst_row < 0 || rel > m->worst_row_rel) {
        m->worst_row_rel = rel;
        m->worst_row = r;
    }
    b->sums.diff2 += s.diff2;
    b->sums.truth2 += s.truth2;
    b->sums.subject2 += s.subject2;
}

static void clear(struct block *b, int64_t cols)
{
    const struct cell none = {.row = -1, .col = -1};
    *b = (struct block){.m = {.cols = cols,
                              .worst_row = -1,
                              .worst = none,
                              .first_mismatch = none,
                              .first_differing = none}};
}

static void measure_block(void *ctx, int64_t i, int worker)
{
    const struct job *j = ctx;
    struct block *b = &j->blocks[i];
    (void)worker;
    clear(b, j->subject.cols);
    int64_t end = (i + 1) * j->block_rows;
    for (int64_t r = i * j->block_rows; r < end && r < j->subject.rows; r++) {
        int64_t t = j->map ? j->map[r] : r;
        CHECK(t < j->truth.rows);
        if (t >= 0) {
            measure_row(j, b, r, t);
            continue;
        }
        if (j->row_rel) j->row_rel[r] = -1;
        if (j->row_diff) j->row_diff[r] = -1;
        if (j->row_truth) j->row_truth[r] = -1;
    }
}

static void add_block(struct block *all, const struct block *b)
{
    struct measure *m = &all->m;
    const struct measure *n = &b->m;
    if (n->worst.row >= 0 && (m->worst.row < 0 || n->max_abs > m->max_abs)) {
        m->worst = n->worst;
        m->max_abs = n->max_abs;
    }
    if (n->worst_row >= 0 && (m->worst_row < 0 || n->worst_row_rel > m->worst_row_rel)) {
        m->worst_row = n->worst_row;
        m->worst_row_rel = n->worst_row_rel;
    }
    if (m->first_mismatch.row < 0) m->first_mismatch = n->first_mismatch;
    if (m->first_differing.row < 0) m->first_differing = n->first_differing;
    m->rows += n->rows;
    m->nan_subject += n->nan_subject;
    m->nan_truth += n->nan_truth;
    m->inf_subject += n->inf_subject;
    m->inf_truth += n->inf_truth;
    m->special_mismatch += n->special_mismatch;
    m->differing += n->differing;
    all->sums.diff2 += b->sums.diff2;
    all->sums.truth2 += b->sums.truth2;
    all->sums.subject2 += b->sums.subject2;
}

/* Threads pay where there is more than a few megabytes to read. */
static int threads_for(const struct job *j)
{
    cpu_set_t set;
    if (j->subject.rows * j->subject.cols < (int64_t)1 << 20) return 1;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return n < 1 ? 1 : n > 16 ? 16 : n;
}

void measure_views(struct view subject, struct view truth, const int64_t *map, struct measure *m,
                   double *row_rel, double *row_diff, double *row_truth)
{
    CHECK(subject.cols == truth.cols);
    enum { BLOCKS = 64 };
    struct block blocks[BLOCKS], all;
    struct job j = {subject, truth, map, row_rel, row_diff, row_truth, 0, blocks};
    j.block_rows = (subject.rows + BLOCKS - 1) / BLOCKS;
    int64_t count = j.block_rows ? (subject.rows + j.block_rows - 1) / j.block_rows : 0;
    const struct run run = {.threads = threads_for(&j)};
    run_parallel(&run, count, measure_block, &j);
    clear(&all, subject.cols);
    for (int64_t i = 0; i < count; i++) add_block(&all, &blocks[i]);
    *m = all.m;
    m->elements = m->rows * m->cols;
    double n = m->elements ? (double)m->elements : 1;
    m->rms_diff = m->special_mismatch ? INFINITY : sqrt(all.sums.diff2 / n);
    m->rms_truth = sqrt(all.sums.truth2 / n);
    m->rel_rms = m->special_mismatch ? INFINITY
                                     : relative(all.sums.diff2, all.sums.truth2, m->differing > 0);
    m->cosine = cosine(&all.sums);
}

bool judge_fails(double value, double bound)
{
    return !(value <= bound);
}

double measure_equal_share(const struct measure *m)
{
    return m->elements ? 1 - (double)m->differing / (double)m->elements : 0;
}
