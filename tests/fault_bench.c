/* fault_bench.c: see fault_bench.h. */
#include "tests/fault_bench.h"

#include "harness/case_make.h"
#include "tests/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void bench_open(struct fault_bench *b, const char *line)
{
    char text[CASE_LINE];
    struct err err = ERR_INIT;
    *b = (struct fault_bench){0};
    snprintf(text, sizeof text, "%s%s", line,
             strstr(line, "precision=") ? ""
             : strchr(line, ' ')        ? ",precision=f64"
                                        : " precision=f64");
    (void)!case_parse(&b->c, text, &err);
    assert_ok(&err);
    (void)!case_make(&b->c, &b->arena, &b->data, &err);
    assert_ok(&err);
    (void)!case_run(&b->c, &b->arena, &b->run, &err);
    assert_ok(&err);
}

void bench_close(struct fault_bench *b)
{
    arena_release(&b->arena, NULL);
}

enum err_code bench_try(const char *fault, const char *op, const void *arg, struct run *run,
                        struct err *err)
{
    struct faults faults = {0};
    const struct fault_place place = {.op = op, .layer = -1, .side = ref_side()};
    if (faults_add(&faults, fault, err) != ERR_OK) return err->code;
    run->faults = &faults;
    enum err_code rc = fault_call(&place, arg, run, err);
    run->faults = NULL;
    faults_clear(&faults);
    return rc;
}

void bench_fault(const char *fault, const char *op, const void *arg, struct run *run)
{
    struct err err = ERR_INIT;
    (void)!bench_try(fault, op, arg, run, &err);
    assert_ok(&err);
}

void bench_run(struct fault_bench *b, const char *fault)
{
    bench_fault(fault, b->c.op->name, b->data.op, &b->run);
}

void assert_near(const char *what, const double *got, const double *want, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (!(fabs(got[i] - want[i]) <= 1e-9 * fmax(1, fabs(want[i]))))
            fail_msg("%s: cell %lld is %.17g, wanted %.17g", what, (long long)i, got[i], want[i]);
    }
}

double *bench_values(struct fault_bench *b, const struct matrix *m)
{
    struct err err = ERR_INIT;
    double *v = arena_alloc(&b->arena, m->out * m->in, sizeof *v, "values", &err);
    assert_ok(&err);
    for (int64_t r = 0; r < m->out; r++) case_matrix_row(m, r, v + r * m->in);
    return v;
}

double *bench_product(struct fault_bench *b, const double *x, int64_t T, const double *w,
                      int64_t out, int64_t in)
{
    struct err err = ERR_INIT;
    double *y = arena_alloc(&b->arena, T * out, sizeof *y, "product", &err);
    assert_ok(&err);
    for (int64_t i = 0; i < T * out; i++) {
        y[i] = 0;
        for (int64_t k = 0; k < in; k++) y[i] += x[i / out * in + k] * w[i % out * in + k];
    }
    return y;
}
