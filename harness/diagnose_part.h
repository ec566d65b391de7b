/* diagnose_part.h: what needs no bug to be said: an op's output, or one expert's part of it, comes
 * out times a factor, 0 where it is missing; private to diagnose*.c.
 *
 * Two edits of one part can drown it, and then say no more than that it is not there. So a pair is
 * no name for what one factor explains as well. Test: tests/test_diagnose_part.c */
#ifndef ASSAY_HARNESS_DIAGNOSE_PART_H
#define ASSAY_HARNESS_DIAGNOSE_PART_H

#include "harness/diagnose_fit.h"
#include "harness/diagnose_shape.h"

/* The part of the guilty tap's span that leaves the least at that tap when it has a factor of its
 * own, by least squares, as a hypothesis whose row is of no registry. */
enum err_code part_fit(struct fitter *f, struct hypothesis *out, struct err *err) ERR_USED;

/* The same as a shape of the error. */
struct shape_weighed part_weighed(const struct hypothesis *part);

#endif
