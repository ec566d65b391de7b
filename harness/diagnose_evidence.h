/* diagnose_evidence.h: what an explanation predicts against what was chosen to get there, in bits;
 * private to diagnose*.c.
 *
 * A wrong cell that comes out right is evidence: the digits in which prediction and subject agree,
 * at most the 16 that a cell of bf16 holds. The same wrong value in many cells is one value: a row
 * of zeros says no more than one of its zeros does. Whoever explains by choice pays for it: one of
 * N faults takes log2 N bits, a parameter log2 of the values that were tried, one that was fitted a
 * cell. Where the error is tells a single fault's site for free; two at once are seen only through
 * each other, and their sites are choices too. Of expert ids, evidence is what goes and comes in
 * each row that chooses otherwise, of all that could, and which of the rows do: there a row that
 * the fault names is a choice. (Minimum description length: Rissanen 1978.) */
#ifndef ASSAY_HARNESS_DIAGNOSE_EVIDENCE_H
#define ASSAY_HARNESS_DIAGNOSE_EVIDENCE_H

#include "harness/diagnose_fit.h"

/* Bits that the run in f->taps says of the wrong cells of the guilty tap; infinite: enough for any
 * claim. `unit`: the roundoff of what the tap is rounded to; nothing to ids. */
double evidence_bits(const struct fitter *f, double unit);
/* Bits that were chosen for the claim, of `hypotheses` faults. `ids`: the tap holds ids. */
double evidence_charge(const struct claim *claim, int64_t hypotheses, bool ids);

#endif
