/* compare.h: the comparator. Measuring and judging are two functions: one counts, the other
 * decides.
 *
 * Positions of NaN and infinities must match first; then norms. Every judgement has the form
 * if (!(x <= bound)) fail, so that a NaN fails. Test: tests/test_compare.c, with NaN on either
 * side, both infinities, a NaN bound and empty input. */
#ifndef ASSAY_CORE_COMPARE_H
#define ASSAY_CORE_COMPARE_H

#include "core/dtype.h"
#include "core/error.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Rows of a row-major matrix of any real or integer type. */
struct view {
    enum dtype dtype;
    const void *data;
    int64_t rows, cols;
};

struct cell {
    int64_t row, col; /* of the subject; -1: none */
    double subject, truth;
};

/* rel: norm of the difference over norm of the truth (0 where both are 0, infinite where only the
 * truth is). */
struct measure {
    int64_t rows, cols, elements;
    double rel_rms, max_abs, rms_truth, rms_diff;
    double cosine;
    struct cell
        worst; /* largest absolute difference; a cell that is not finite on one side alone wins */
    double worst_row_rel;
    int64_t worst_row; /* -1: no rows */
    int64_t nan_subject, nan_truth, inf_subject, inf_truth;
    int64_t special_mismatch; /* cells where NaN, +inf, -inf do not match */
    struct cell first_mismatch;
    int64_t differing;           /* cells that are not equal as values */
    struct cell first_differing; /* in row-major order */
};

/* Compares subject row i with truth row map[i] (map NULL: i; -1: left out). row_rel, where not
 * NULL, receives [subject.rows] relative row errors (-1 for rows left out), row_diff and row_truth
 * the two norms (RMS over the row). Shapes must agree in columns; the caller checks. */
void measure_views(struct view subject, struct view truth, const int64_t *map, struct measure *out,
                   double *row_rel, double *row_diff, double *row_truth);

/* !(value <= bound): true is a failure. */
bool judge_fails(double value, double bound);

/* Share of cells of width `cols` a row that are equal bit for bit as values (NaN equals NaN). */
double measure_equal_share(const struct measure *m);

#ifdef __cplusplus
}
#endif
#endif
