/* diff_model.h: the reference's part in a comparison; private to diff.c. */
#ifndef ASSAY_HARNESS_DIFF_MODEL_H
#define ASSAY_HARNESS_DIFF_MODEL_H

#include "harness/diff.h"

/* Opens the model, runs MATH in float64 and the subject's profile, both with the subject's own
 * experts, and makes them d->math (the base) and d->profile_run. */
enum err_code diff_model(struct diff *d, const struct diff_request *r, struct err *err) ERR_USED;
/* A truth that the reference's own run contradicts is said in d->note. Compares what lies before
 * the first flip. */
void diff_check_truth(struct diff *d);

#endif
