/* judge.h: bounds of whole-model comparisons, each with its origin, and the verdict on one tap.
 *
 *   user       --bound B: the tap's relative RMS <= B, each row's <= 4 B
 *   measured   twice the error of the reference's own run in the subject's profile, against the
 *              same truth: rows of 64 columns or more each on their own, but no less than the tap's
 *              relative RMS (the profile's run may be lucky in a row); narrower ones pooled over
 *              rows, and each row below the pooled bound times the chi quantile of its width at
 *              1e-9 a run. Floor: one ulp of the subject's type
 *   derived    random walk of roundings: sqrt( (4 u)^2 n + (8 u32)^2 n K/64 ), u the unit roundoff
 *              of the coarser of the two types, K the longest sum (widest tap), n the ops up to
 *              this tap, or 3 roundings for each op since what the subject recorded (anchored);
 *              each row 4 times that. A tap finer than an input of its op that was recorded:
 *              measured, with this as the floor and a run that starts from what rounds to the
 *              stored inputs (anchor.h) in the place of the profile's
 *
 * All are judged as if (!(x <= bound)) fail. Test: tests/test_judge.c */
#ifndef ASSAY_HARNESS_JUDGE_H
#define ASSAY_HARNESS_JUDGE_H

#include "core/compare.h"
#include "core/dump.h"
#include "harness/align.h"

#include <stdbool.h>

enum bound_kind { BOUND_NONE, BOUND_USER, BOUND_MEASURED, BOUND_DERIVED, BOUND_EXACT, BOUND_KINDS };

struct judge {
    enum bound_kind kind;
    double user;
    int64_t layers; /* of the deepest tap, plus one */
    int64_t widest; /* columns of the widest tap: stands for the longest sum */
    const struct alignment *rows;
    /* BOUND_MEASURED: the reference's run in the subject's profile; BOUND_DERIVED: for finer taps
       (align.h), its run from what rounds to the stored inputs, or NULL */
    const struct dump *profile;
    const int64_t *profile_row;       /* subject row -> profile row */
    const int64_t *profile_draft_row; /* the same of draft taps */
    const char *profile_name;
    bool cut_sums; /* of that profile: float32 taps may be off by profile_cut_sum(widest) */
};

enum tap_verdict { TAP_PASS, TAP_FAIL, TAP_UNCHECKED };

struct tap_judgement {
    enum tap_verdict verdict;
    struct measure measure;
    double bound;     /* on rel_rms */
    double row_bound; /* on the row that fails, or the one nearest to failing */
    double row_rel;
    int64_t row; /* that row; -1: none */
    int64_t rows_failed, first_row_failed;
    int64_t amplified_rows; /* rows past their bound that amplified.h excuses */
    double profile_rel;     /* BOUND_MEASURED: error of the profile run; else NaN */
    enum bound_kind kind;
    char from[192]; /* where the bound comes from, with its figures */
    char why[160];  /* of a failure; of an unchecked tap */
};

/* Compares one pair and decides. Memory is the only thing that can fail. */
enum err_code judge_pair(const struct judge *j, const struct pair *p, struct tap_judgement *out,
                         struct err *err) ERR_USED;

/* "user", "measured", "derived", "exact"; "" for none. */
const char *judge_kind_name(enum bound_kind kind);
/* How a bound of that kind is made, in words. */
const char *judge_kind_about(enum bound_kind kind);

/* Ops up to this tap in execution order, itself included, in a model of `layers` layers. */
int64_t judge_depth(enum tap_kind kind, int64_t layer, int64_t layers);
/* sqrt(chi2 quantile of `width` degrees at probability 1 - p, over width), Wilson and Hilferty's
 * approximation. */
double judge_chi(int64_t width, double p);

#endif
