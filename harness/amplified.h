/* amplified.h: rows whose error is rounding that an op made larger, and no op's fault.
 *
 * A row bound comes from one run of the reference in the subject's profile. Where a row's output
 * hangs on few inner values (a channel of an expert that outweighs all others), its error is no
 * sum of many independent ones: two right engines can lie several times further from the truth than
 * each other. Such a row is no evidence against the op if the op, run by the reference from the
 * subject's own recorded inputs, gives what the subject gives, within the bound of that one op.
 *
 * Only rows can be excused: the tap's relative RMS must hold on its own. Test:
 * tests/test_amplified.c */
#ifndef ASSAY_HARNESS_AMPLIFIED_H
#define ASSAY_HARNESS_AMPLIFIED_H

#include "harness/diff.h"

/* Compares once more, anchored, if any tap fails by rows alone; those that hold there pass, with
 * tap_judgement.amplified_rows. Taps after one that stays red are left as they are. */
enum err_code amplified_excuse(struct diff *d, const struct diff_request *r,
                               struct err *err) ERR_USED;

#endif
