/* kernel_times.cuh: when each kernel, fill and copy of a stretch of work ran, as the driver's own
 * profiling library (CUPTI) records it: what a graph's time is made of, and what lies between its
 * kernels. The library is opened when it is needed. Private to gpu/bench*.cu. */
#ifndef ASSAY_GPU_KERNEL_TIMES_CUH
#define ASSAY_GPU_KERNEL_TIMES_CUH

#include "core/bench.h"
#include "gpu/context.cuh"

/* From here on what runs is recorded. *there false: there is no such library here, or this build
 * knows none, and nothing is. */
enum err_code kernel_times_begin(struct gpu *g, bool *there, struct err *err) ERR_USED;
/* Waits, and ends it. What ran was `parts` times the same; the last of them is what is given:
 * out->busy (seconds in which one or more ran), span (first begin to last end) and kernel[]. */
enum err_code kernel_times_end(struct gpu *g, int parts, struct bench_row *out,
                               struct err *err) ERR_USED;

#endif
