/* kernel_report.h: which kernels ran (core/kernels.h), as JSON and as a short table. Test:
 * tests/test_kernels.c */
#ifndef ASSAY_HARNESS_KERNEL_REPORT_H
#define ASSAY_HARNESS_KERNEL_REPORT_H

#include "core/kernels.h"

#include <jansson.h>
#include <stdio.h>

/* [{op, kernel, tactic, grid: [x, y, z], block: [x, y, z], shared, calls}], in the order of their
 * first launch; where launches found no row, a last one with kernel "(not listed)" and how many. */
json_t *kernels_json(const struct kernel_log *log);
/* One line a row. */
void kernels_print(const struct kernel_log *log, FILE *out);

#endif
