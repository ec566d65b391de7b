/* judge.c: see judge.h. */
#include "harness/judge.h"

#include "core/check.h"
#include "core/profile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FACTOR 2.0       /* subject against profile error, from the rule of judge.h */
#define ROW_FACTOR 4.0   /* one row against the whole tap, user and derived bounds */
#define FALSE_ALARM 1e-9 /* of narrow rows, a run */
enum { WIDE = 64, OPS_A_LAYER = 14, ROUNDINGS_AN_OP = 3 };

/* What --json says in bound_from begins with the name. */
static const struct {
    const char *name, *about;
} kinds[BOUND_KINDS] = {
    [BOUND_NONE] = {"", "nothing was judged"},
    [BOUND_USER] = {"user",
                    "--bound B: the tap's relative RMS is at most B, each row's at most 4 B"},
    [BOUND_MEASURED] =
        {"measured",
         "twice the error of the reference's own run in the subject's profile, against the same "
         "truth. Rows of 64 columns or more each on their own, but no less than the tap's relative "
         "RMS; narrower rows are pooled, and each is held below the pooled bound times the chi "
         "quantile of its width at 1e-9 a run. Floor: one ulp of the subject's type"},
    [BOUND_DERIVED] =
        {"derived",
         "a random walk of roundings: sqrt((4 u)^2 n + (8 u32)^2 n K/64), u the unit "
         "roundoff of the coarser of the two types, u32 that of float32, K the longest "
         "sum (the widest tap), n the ops up to this tap, or 3 roundings for each op "
         "since what the subject recorded (anchored); each row 4 times that. A tap finer "
         "than a recorded input of its op is measured, with this as the floor: twice what "
         "it does to the reference to start from values that only round to the stored"},
    [BOUND_EXACT] = {"exact", "whole numbers: every one is the same"},
};

const char *judge_kind_name(enum bound_kind kind)
{
    return kinds[kind].name;
}

const char *judge_kind_about(enum bound_kind kind)
{
    return kinds[kind].about;
}

int64_t judge_depth(enum tap_kind kind, int64_t layer, int64_t layers)
{
    if (kind == TAP_EMBED) return 1;
    if (tap_is_draft(kind))
        return 3 + (layers + 1 + layer) * OPS_A_LAYER + (int64_t)(kind - TAP_DRAFT_FUSED);
    if (layer < 0) return 1 + layers * OPS_A_LAYER + (kind == TAP_LOGITS ? 2 : 1);
    return 1 + layer * OPS_A_LAYER + (int64_t)kind;
}

/* Inverse of the upper tail of the normal distribution: Abramowitz and Stegun 26.2.23, error
 * below 4.5e-4. */
static double normal_quantile(double p)
{
    double t = sqrt(-2 * log(p));
    return t - (2.515517 + 0.802853 * t + 0.010328 * t * t) /
                   (1 + 1.432788 * t + 0.189269 * t * t + 0.001308 * t * t * t);
}

double judge_chi(int64_t width, double p)
{
    CHECK(width >= 1 && p > 0 && p < 0.5);
    double k = 2.0 / (9.0 * (double)width), c = 1 - k + normal_quantile(p) * sqrt(k);
    return sqrt(c * c * c);
}

/* Row figures of one comparison. */
struct row_errors {
    double *rel, *diff, *truth; /* [rows] */
};

static enum err_code rows_make(struct row_errors *r, int64_t rows, struct err *err)
{
    double *all = calloc((size_t)rows * 3 + 1, sizeof *all);
    *r = (struct row_errors){all, all ? all + rows : NULL, all ? all + 2 * rows : NULL};
    return all ? ERR_OK : err_set(err, ERR_MEMORY, "compare rows||no memory");
}

static struct view view_of(const struct dump_tap *t)
{
    return (struct view){
        .dtype = t->tensor->dtype, .data = t->tensor->data, .rows = t->rows, .cols = t->cols};
}

/* Keeps the failing row that is furthest past its bound, else the one nearest to it. */
static void judge_row(struct tap_judgement *out, int64_t row, double rel, double bound)
{
    bool fails = judge_fails(rel, bound);
    if (fails && out->rows_failed++ == 0) out->first_row_failed = row;
    double excess = bound > 0 ? rel / bound : rel > 0 ? INFINITY : 0;
    double kept = out->row_bound > 0 ? out->row_rel / out->row_bound
                  : out->row_rel > 0 ? INFINITY
                                     : 0;
    if (out->row >= 0 && !(excess > kept) && !(fails && out->rows_failed == 1)) return;
    out->row = row;
    out->row_rel = rel;
    out->row_bound = bound;
}

static void judge_fixed(struct tap_judgement *out, const struct row_errors *r, int64_t rows,
                        double bound)
{
    out->bound = bound;
    for (int64_t i = 0; i < rows; i++) {
        if (r->rel[i] >= 0 || isnan(r->rel[i])) judge_row(out, i, r->rel[i], ROW_FACTOR * bound);
    }
}

/* Says in `from` what it took. */
static double derived_bound(const struct judge *j, const struct pair *p, struct tap_judgement *out)
{
    enum dtype a = p->subject->tensor->dtype, b = p->truth->tensor->dtype;
    double u = fmax(dtype_is_float(a) ? dtype_unit(a) : 0, dtype_is_float(b) ? dtype_unit(b) : 0);
    double u32 = dtype_unit(DT_F32);
    /* A tap of an unknown name may stand anywhere: as deep as the dump is. */
    enum tap_kind kind = p->subject->known ? p->subject->kind : TAP_LOGITS;
    int64_t depth = p->ops > 0
                        ? ROUNDINGS_AN_OP * p->ops
                        : judge_depth(kind, p->subject->known ? p->subject->layer : -1, j->layers);
    if (u < u32) u = u32; /* a float64 dump of a float32 run is no more exact than the run */
    double n = (double)depth, k = j->widest > 64 ? (double)j->widest / 64 : 1;
    snprintf(out->from, sizeof out->from,
             "derived: random walk of %lld roundings, unit %.2g, sums of %lld; rows 4 times",
             (long long)depth, u, (long long)j->widest);
    return sqrt(16 * u * u * n + 64 * u32 * u32 * n * k);
}

/* The least that is allowed, and what it is called. */
struct floor {
    double rel, row; /* of a tap, of each row */
    const char *name;
};

static struct floor floor_of(const struct judge *j, const struct pair *p, struct tap_judgement *out)
{
    enum dtype t = p->subject->tensor->dtype;
    double bound = j->kind == BOUND_DERIVED ? derived_bound(j, p, out) : 0;
    if (j->kind == BOUND_DERIVED)
        return (struct floor){bound, ROW_FACTOR * bound, "the derived bound"};
    double ulp = 2 * (dtype_is_float(t) ? dtype_unit(t) : dtype_unit(DT_F32));
    double cut = j->cut_sums && t == DT_F32 ? profile_cut_sum(j->widest) : 0;
    double least = fmax(ulp, cut);
    return (struct floor){least, least, cut > 0 ? "what cut off sums lose" : "one ulp"};
}

static void judge_measured(const struct judge *j, const struct pair *p, const struct row_errors *s,
                           const struct row_errors *prof, const struct measure *prof_all,
                           struct tap_judgement *out)
{
    const struct floor lowest = floor_of(j, p, out);
    double pooled = prof_all->rms_diff, scale = prof_all->rms_truth;
    double tap_bound = fmax(FACTOR * pooled, lowest.rel * scale);
    out->kind = BOUND_MEASURED;
    out->bound = scale > 0 ? tap_bound / scale : INFINITY;
    out->profile_rel = prof_all->rel_rms;
    bool stored = j->kind == BOUND_DERIVED; /* it is the storage of the inputs that errs */
    snprintf(out->from, sizeof out->from,
             "measured: %g x the reference's error %s%s, %.3g; at least %s, %.2g", FACTOR,
             stored ? "from inputs as stored" : "in profile ", stored ? "" : j->profile_name,
             prof_all->rel_rms, lowest.name, lowest.rel);
    double chi =
        p->subject->cols < WIDE
            ? judge_chi(p->subject->cols,
                        FALSE_ALARM / (double)(j->rows->matched > 0 ? j->rows->matched : 1))
            : 1;
    /* One rounding of an input may decide a row, as where two scores of attention are far above all
     * others: no sum of many, and one draw says little of it. Rows have what derived ones have. */
    double luck = stored ? ROW_FACTOR / FACTOR : 1;
    for (int64_t i = 0; i < p->subject->rows; i++) {
        if (s->rel[i] < 0) continue;
        bool wide = p->subject->cols >= WIDE;
        /* A row in which the profile's run was lucky may be as wrong as the tap is on the whole:
         * two runs of the same roundings are. Of 1.0 million wide rows of 1,530 clean runs the
         * worst is at 1.78 of 2 with this, and one at 2.06 without; it more than doubles the bound
         * of one row in 250. A chi quantile at that width would be 1.6 times as wide. NaN stays. */
        double least = wide ? luck * prof_all->rel_rms * s->truth[i] : pooled * chi;
        double allowed = FACTOR * (prof->diff[i] < least ? least : prof->diff[i]);
        allowed = fmax(allowed, lowest.row * s->truth[i]);
        double bound = s->truth[i] > 0 ? allowed / s->truth[i] : 0;
        judge_row(out, i, s->rel[i], bound);
    }
}

static enum err_code measure_profile(const struct judge *j, const struct pair *p,
                                     const struct row_errors *s, struct tap_judgement *out,
                                     struct err *err)
{
    const struct dump_tap *t = dump_find(j->profile, p->subject->name);
    struct row_errors prof = {0};
    struct measure all;
    if (!t || t->cols != p->truth->cols) {
        out->verdict = TAP_UNCHECKED;
        snprintf(out->why, sizeof out->why, "the profile run has no such tap of %lld columns",
                 (long long)p->truth->cols);
        return ERR_OK;
    }
    /* The profile run's rows in the subject's order, against the same rows of the truth. */
    bool draft = p->subject->known && tap_is_draft(p->subject->kind);
    const int64_t *row = align_map(j->rows, p);
    const int64_t *profile_row = draft ? j->profile_draft_row : j->profile_row;
    int64_t rows = p->subject->rows, *map = calloc((size_t)t->rows + 1, sizeof *map);
    if (!map || rows_make(&prof, t->rows > rows ? t->rows : rows, err) != ERR_OK) {
        free(map);
        return err_set(err, ERR_MEMORY, "compare rows||no memory");
    }
    for (int64_t i = 0; i < t->rows; i++) map[i] = -1;
    for (int64_t i = 0; i < rows; i++) {
        if (profile_row[i] >= 0) map[profile_row[i]] = row[i];
    }
    measure_views(view_of(t), view_of(p->truth), map, &all, prof.rel, prof.diff, prof.truth);
    struct row_errors in_order = {0};
    if (rows_make(&in_order, rows, err) == ERR_OK) {
        for (int64_t i = 0; i < rows; i++)
            in_order.diff[i] = profile_row[i] >= 0 ? prof.diff[profile_row[i]] : 0;
        judge_measured(j, p, s, &in_order, &all, out);
    }
    free(in_order.rel);
    free(prof.rel);
    free(map);
    return err->code;
}

static void decide(struct tap_judgement *out)
{
    const struct measure *m = &out->measure;
    if (out->verdict == TAP_UNCHECKED) return;
    if (m->special_mismatch > 0) {
        out->verdict = TAP_FAIL;
        snprintf(out->why, sizeof out->why,
                 "%lld cells are NaN or infinite on one side only, first at row %lld, column %lld",
                 (long long)m->special_mismatch, (long long)m->first_mismatch.row,
                 (long long)m->first_mismatch.col);
    } else if (m->nan_subject > 0) {
        out->verdict = TAP_FAIL; /* equal to a truth that holds them too, and still no result */
        snprintf(out->why, sizeof out->why, "%lld cells are NaN on both sides",
                 (long long)m->nan_subject);
    } else if (judge_fails(m->rel_rms, out->bound)) {
        out->verdict = TAP_FAIL;
        snprintf(out->why, sizeof out->why, "relative RMS %.3g above %.3g", m->rel_rms, out->bound);
    } else if (out->rows_failed > 0) {
        out->verdict = TAP_FAIL;
        snprintf(out->why, sizeof out->why,
                 "%lld rows above their bound, first %lld, worst %lld: %.3g above %.3g",
                 (long long)out->rows_failed, (long long)out->first_row_failed, (long long)out->row,
                 out->row_rel, out->row_bound);
    }
}

/* A tap in a finer type than its inputs, all of whose values are a coarser type's: the engine
 * rounded it, and the error of inputs must not hide that. */
static void judge_values(const struct pair *p, struct tap_judgement *out)
{
    static const enum dtype coarser[] = {DT_BF16, DT_F16};
    enum { ENOUGH = 64 }; /* of float32's values one in 2^13 is F16's, one in 2^16 BF16's */
    const struct st_tensor *t = p->subject->tensor;
    for (size_t i = 0; out->verdict == TAP_PASS && i < 2; i++) {
        int64_t n = 0, other = 0;
        if (!(dtype_unit(coarser[i]) > dtype_unit(t->dtype))) continue;
        for (int64_t k = 0; k < t->count && other == 0; k++) {
            double x;
            dtype_to_f64(t->dtype, (const char *)t->data + k * dtype_size(t->dtype), 1, &x);
            n += x != 0;
            other += dtype_round(coarser[i], x) != x;
        }
        if (other > 0 || n < ENOUGH) continue;
        out->verdict = TAP_FAIL;
        snprintf(out->why, sizeof out->why, "all values are %s's, though stored as %s: rounded",
                 dtype_name(coarser[i]), dtype_name(t->dtype));
    }
}

/* Integers: equal or not. The sets of experts are judged apart, with their margins. */
static void judge_ints(struct tap_judgement *out)
{
    snprintf(out->from, sizeof out->from, "exact: integers");
    if (out->measure.differing == 0) return;
    out->verdict = TAP_FAIL;
    out->row = out->measure.first_differing.row;
    snprintf(
        out->why, sizeof out->why, "%lld of %lld integers differ, first at row %lld, column %lld",
        (long long)out->measure.differing, (long long)out->measure.elements,
        (long long)out->measure.first_differing.row, (long long)out->measure.first_differing.col);
}

enum err_code judge_pair(const struct judge *j, const struct pair *p, struct tap_judgement *out,
                         struct err *err)
{
    struct row_errors s;
    *out = (struct tap_judgement){.row = -1, .first_row_failed = -1, .profile_rel = NAN};
    int64_t count = align_count(j->rows, p);
    bool same_rows = p->subject->rows == (count >= 0 ? count : p->truth->rows);
    if (p->subject->cols != p->truth->cols || !same_rows) {
        out->verdict = TAP_FAIL;
        snprintf(out->why, sizeof out->why, "shape [%lld, %lld], wanted [%lld, %lld]",
                 (long long)p->subject->rows, (long long)p->subject->cols,
                 (long long)p->truth->rows, (long long)p->truth->cols);
        return ERR_OK;
    }
    if (rows_make(&s, p->subject->rows, err) != ERR_OK) return err->code;
    const int64_t *map = align_map(j->rows, p);
    measure_views(view_of(p->subject), view_of(p->truth), map, &out->measure, s.rel, s.diff,
                  s.truth);
    bool ints = dtype_is_int(p->subject->tensor->dtype);
    bool finer = j->kind == BOUND_DERIVED && p->finer && j->profile;
    if (out->measure.elements == 0) {
        out->verdict = TAP_UNCHECKED;
        snprintf(out->why, sizeof out->why, "no element to compare");
    } else if (ints) {
        out->kind = BOUND_EXACT;
        judge_ints(out);
    } else {
        out->kind = j->kind;
        if (j->kind == BOUND_MEASURED || finer)
            (void)!measure_profile(j, p, &s, out, err);
        else if (j->kind == BOUND_DERIVED)
            judge_fixed(out, &s, p->subject->rows, derived_bound(j, p, out));
        else
            judge_fixed(out, &s, p->subject->rows, j->user);
        if (j->kind == BOUND_USER)
            snprintf(out->from, sizeof out->from, "user: --bound %g, rows 4 times", j->user);
    }
    if (!ints) decide(out);
    if (!ints && finer) judge_values(p, out);
    free(s.rel);
    return err->code;
}
