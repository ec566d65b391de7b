/* kernel_report.h: which kernels ran (core/kernels.h), as JSON and as a short table. Test:
 * tests/test_kernels.c */
#ifndef ASSAY_HARNESS_KERNEL_REPORT_H
#define ASSAY_HARNESS_KERNEL_REPORT_H

#include "core/bench.h"
#include "core/kernels.h"

#include <jansson.h>
#include <stdio.h>

/* [{op, kernel, tactic, grid: [x, y, z], block: [x, y, z], shared, calls}], of our own kernels also
 * registers, local_bytes, static_shared, blocks_per_multiprocessor, occupancy, in the order of
 * their first launch; where launches found no row, a last one with kernel "(not listed)" and how
 * many. */
json_t *kernels_json(const struct kernel_log *log);
/* One line a row. */
void kernels_print(const struct kernel_log *log, FILE *out);

/* Where the time of a row of many kernels went: {seconds, busy_seconds, gaps, span_seconds,
 * kernels:
 * [{kernel, calls, seconds}]}, the slowest first. busy_seconds: in which a kernel ran,
 * span_seconds: first begin to last end, both of a recorded run; gaps: the share of that span in
 * which none did. seconds: of the whole, unrecorded, with what the host takes to launch it. NULL
 * where nothing was recorded. */
json_t *profile_json(const struct bench_row *r);
/* The same in a few lines. */
void profile_print(const struct bench_row *r, FILE *out);

#endif
