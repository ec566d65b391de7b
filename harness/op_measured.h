/* op_measured.h: the judgement of an op's output where bounding each element is too dear (a case
 * line with bound=measured): a row's error may be twice that of the truth's side in the case's
 * profile, both against the same side at float64 without rounding. Rows narrower than 64 columns
 * are pooled and each held below the pooled bound times the chi quantile of its width. Floor: one
 * ulp of the activation type, in units of the row. Source: the rule for measured bounds, judge.h.
 * Test: tests/test_op_measured.c */
#ifndef ASSAY_HARNESS_OP_MEASURED_H
#define ASSAY_HARNESS_OP_MEASURED_H

#include "harness/op_run.h"

/* What is held against what; all of one shape and of reals. */
struct op_measured {
    const struct case_output *exact;   /* the truth's side, float64, no rounding */
    const struct case_output *profile; /* the truth's side as the case says */
    const struct case_output *subject;
    double unit; /* unit roundoff of what the subject writes */
};

/* Fills failed, ratio, worst (the row nearest to or furthest past its bound, its worst column),
 * bound (of that row, in the output's units, a root mean square) and from. */
void op_measured_judge(const struct op_measured *m, struct op_output *out);

#endif
