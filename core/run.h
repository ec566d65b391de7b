/* run.h: all that differs between two runs of the same op: precision, rounding profile, threads,
 * scratch, progress. Ops take it as an argument and keep no state of their own. */
#ifndef ASSAY_CORE_RUN_H
#define ASSAY_CORE_RUN_H

#include "core/arena.h"
#include "core/dtype.h"
#include "core/profile.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* F64: no rounding but the profile's. F32: every op's output is also rounded to float32, and matrix
 * products are summed in float32. */
enum precision { PRECISION_F32, PRECISION_F64 };

/* OWN: a fixed order of summation, so that a row's bits depend on its own inputs and K alone.
 * BLAS: OpenBLAS; faster or slower, never bit-stable. The cross-check. */
enum linear_impl { LINEAR_OWN, LINEAR_BLAS };

struct faults;
struct kernel_log;

struct run {
    struct arena *arena;
    struct profile profile;
    enum precision precision;
    enum linear_impl linear;
    enum dtype act; /* what RP_* points round to: the engine's activation type */
    int threads;    /* at least 1; never changes a bit */
    void (*progress)(void *ctx, const char *stage, int64_t done, int64_t total); /* may be NULL */
    void *progress_ctx;
    /* Told of every op of a step before it runs: what a rank that dies or hangs was at. May be
     * NULL.
     */
    void (*doing)(void *ctx, const char *op, int64_t layer);
    void *doing_ctx;
    struct faults *faults;      /* NULL, or edits of ops: core/fault.h */
    struct kernel_log *kernels; /* NULL, or filled by an engine with several kernels: kernels.h */
};

/* x[0..n) rounded as this run rounds at point p: to float32 under F32, then to `act` where the
 * profile says so. RP_NONE: as it is. */
void run_round(const struct run *run, enum round_point p, double *x, int64_t n);
double run_round_one(const struct run *run, enum round_point p, double x);

/* Calls body(ctx, i, worker) for i in [0, n), each once, on up to run->threads threads; worker <
 * run->threads. The order is free, so bodies must write to places of their own. */
void run_parallel(const struct run *run, int64_t n, void (*body)(void *ctx, int64_t i, int worker),
                  void *ctx);

#ifdef __cplusplus
}
#endif
#endif
