/* bench_counters.h: what the card's own counters say of the kernels of `assay bench --on gpu`: the
 * CSV that NVIDIA's profiler wrote of the same cases, beside their rows. Under a profiler that
 * begins when it is told to (ncu --profile-from-start off) a run has each case's launches counted
 * once, behind a launch of `bench_case` whose grid is the case's number. Test:
 * tests/test_bench_counters.c */
#ifndef ASSAY_HARNESS_BENCH_COUNTERS_H
#define ASSAY_HARNESS_BENCH_COUNTERS_H

#include "core/bench.h"
#include "core/error.h"

#include <jansson.h>
#include <stdio.h>

struct bench_counters {
    const char *file; /* NULL: not open */
    json_t *cases;    /* {"7": [{kernel, launches, seconds, bytes, tensor}]} */
    json_t *said;     /* errors that the profiler wrote there, as they are */
};

/* `file`: what ncu --csv --page raw --print-units base wrote. It may hold other lines, and other
 * metrics; a metric that it does not hold is not reported. ERR_INPUT: neither a counted kernel nor
 * an error of the profiler. */
enum err_code bench_counters_open(struct bench_counters *b, const char *file,
                                  struct err *err) ERR_USED;
/* Safe on one that is all zero. */
void bench_counters_close(struct bench_counters *b);

/* Adds to the row of case `number` (from 1) counters: [{kernel, launches, seconds, gbps,
 * read_share, tensor_share}]: of all launches of a kernel together, memory traffic (read and
 * written) a second, as a share of what this run reads, and the share of the time in which the
 * tensor cores were at work. Nothing where the file says nothing of the case. */
void bench_counters_row(const struct bench_counters *b, int number, const struct bench_ceilings *c,
                        json_t *row);
/* As lines of text. */
void bench_counters_print(const json_t *row, FILE *out);
/* {file, cases, errors: [text]}. The caller's. */
json_t *bench_counters_json(const struct bench_counters *b);

#endif
