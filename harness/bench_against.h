/* bench_against.h: rows of `assay bench` held against a recorded run: ratios, and whether a change
 * is more than noise. Says, never judges. Test: tests/test_bench_against.c */
#ifndef ASSAY_HARNESS_BENCH_AGAINST_H
#define ASSAY_HARNESS_BENCH_AGAINST_H

#include "core/error.h"

#include <jansson.h>
#include <stdbool.h>

struct bench_against {
    json_t *root; /* NULL: not open */
    const char *file;
    const json_t *rows;
    const char *device; /* that it ran on; "" where it does not say */
    bool *met;          /* [rows] some row of this run was held against it */
    int faster, slower, noise, fresh;
};

/* `file`: what `assay bench --json` printed, or an object that holds it as "bench". ERR_INPUT: it
 * is neither, or holds no rows. */
enum err_code bench_against_open(struct bench_against *b, const char *file,
                                 struct err *err) ERR_USED;
/* Safe on one that is all zero. */
void bench_against_close(struct bench_against *b);

/* Adds to `row` (op, case, on, seconds, spread) how it compares: against: {verdict: "faster",
 * "slower", "noise" or "new", ratio, noise, seconds, spread, case}; of "new" the verdict alone.
 * ratio: recorded seconds / these. noise: the change that is none, see bench_noise(). Rows are the
 * same that agree in op, side and case up to ';': how they were run stands behind it. */
enum err_code bench_against_row(struct bench_against *b, json_t *row, struct err *err) ERR_USED;

/* {file, device, faster, slower, noise, new, missing: ["op: case"]}: missing are recorded rows of
 * `ops` (NULL: of any) that this run does not have. The caller's. */
json_t *bench_against_json(const struct bench_against *b,
                           bool (*wanted)(const void *ctx, const char *op), const void *ctx);

/* The relative change between two runs that is taken for noise: half of each one's spread, and
 * what cards and days differ by. */
double bench_noise(double spread, double other);

#endif
