/* fault_bench.h: one op run alone under a fault, on the data of a case line, for tests that
 * calculate what the fault must give. */
#ifndef ASSAY_TESTS_FAULT_BENCH_H
#define ASSAY_TESTS_FAULT_BENCH_H

#include "core/fault.h"
#include "harness/case.h"

struct fault_bench {
    struct arena arena;
    struct op_case c;
    struct case_data data; /* data.op: the op's argument struct */
    struct run run;
};

/* Makes the line's data, in float64 without rounding where the line does not say otherwise. */
void bench_open(struct fault_bench *b, const char *line);
void bench_close(struct fault_bench *b);
/* Runs the bench's op with a fault. */
void bench_run(struct fault_bench *b, const char *fault);
/* Any op. */
void bench_fault(const char *fault, const char *op, const void *arg, struct run *run);
/* The same, handing on what it says. */
enum err_code bench_try(const char *fault, const char *op, const void *arg, struct run *run,
                        struct err *err) ERR_USED;

/* |got - want| <= 1e-9 max(1, |want|), NaN nowhere. */
void assert_near(const char *what, const double *got, const double *want, int64_t n);

/* Values of a stored matrix, [out, in], decoded by the harness. In the bench's arena. */
double *bench_values(struct fault_bench *b, const struct matrix *m);
/* y = x W^T. In the bench's arena. */
double *bench_product(struct fault_bench *b, const double *x, int64_t T, const double *w,
                      int64_t out, int64_t in);

#endif
