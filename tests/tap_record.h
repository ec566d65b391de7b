/* tap_record.h: the taps of a run of the reference, kept in memory, for tests that compare runs. */
#ifndef ASSAY_TESTS_TAP_RECORD_H
#define ASSAY_TESTS_TAP_RECORD_H

#include "core/fault.h"
#include "harness/session.h"

enum { RECORD_TAPS = 192 };

struct recorded {
    char name[TAP_NAME];
    int64_t rows, cols;
    bool ints;
    void *data; /* [rows, cols] of double or int32, in the batch's order */
};

struct tap_record {
    struct recorded tap[RECORD_TAPS]; /* in execution order */
    int count;
    int64_t rows; /* of the batch */
};

/* Runs the batch; `faults` and `forced` may be NULL. What the run says is returned, in `err`. */
enum err_code record_run(struct tap_record *r, const struct loaded *l, const struct tokens *t,
                         const struct session_options *o, struct faults *faults,
                         struct forced *forced, struct err *err) ERR_USED;
void record_free(struct tap_record *r);
/* The tap of this name, or the test fails. */
const struct recorded *record_find(const struct tap_record *r, const char *name);
/* Index of the first tap that differs in bits, -1: none. Fails the test where taps or shapes
 * differ.
 */
int record_first_change(const struct tap_record *a, const struct tap_record *b);
/* Norm of the difference over the norm of the other, over all cells. */
double record_relative(const struct recorded *a, const double *other);

#endif
