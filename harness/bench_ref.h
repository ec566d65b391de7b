/* bench_ref.h: the reference's side of `assay bench`: op cases by wall clock, and what this host
 * reads, copies and multiplies. */
#ifndef ASSAY_HARNESS_BENCH_REF_H
#define ASSAY_HARNESS_BENCH_REF_H

#include "core/bench.h"

const struct bench_side *ref_bench(void);

#endif
