/* bench_row.h: one row of `assay bench`, as JSON and as a line. Test: tests/test_bench_row.c */
#ifndef ASSAY_HARNESS_BENCH_ROW_H
#define ASSAY_HARNESS_BENCH_ROW_H

#include "core/bench.h"

#include <jansson.h>
#include <stdio.h>

/* {op, case, on, seconds, spread, rounds, gbps, tflops}; with ceilings also {ceiling: "read" or
 * "matmul", share}: which of them binds, and how much of it this was; of what passes between ranks
 * {bytes, busbw_gbps}; then {kernels} and, where they were recorded, {profile}. Scripts read rows
 * as text: the figures stand before the kernels. `c`: NULL, or what the machine can do. NULL: no
 * memory. */
json_t *bench_row_json(const char *op, const char *on, const struct bench_row *r,
                       const struct bench_ceilings *c, const struct kernel_log *log);
/* A line of such a row, and how it compares where bench_against_row() has said it. */
void bench_row_print(const json_t *row, FILE *out);
/* "DEVICE\nread ... GB/s, ..." */
void bench_ceilings_print(const struct bench_ceilings *c, FILE *out);
/* {read_gbps, copy_gbps, matmul_tflops, matmul} */
json_t *bench_ceilings_json(const struct bench_ceilings *c);

#endif
