/* bench.h: the contract of `assay bench`: a side measures its machine's own ceilings first, then
 * its ops; the harness prints each as a share of what the ceilings allow. Times are medians of
 * rounds; nothing here judges. Test: tests/test_bench.c */
#ifndef ASSAY_CORE_BENCH_H
#define ASSAY_CORE_BENCH_H

#include "core/error.h"
#include "core/kernels.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes a second (read; copy counts both directions) and operations a second of a dense product in
 * the side's own arithmetic. */
struct bench_ceilings {
    double read, copy, matmul;
    char device[160];     /* name, and what of it was used */
    char matmul_what[64]; /* "bf16 8192^3, cuBLASLt" */
};

enum { BENCH_TEXT = 160, BENCH_KERNEL = 48, BENCH_KERNELS = 40 };

/* What one kernel took of a row, all its calls together. */
struct bench_kernel {
    char name[BENCH_KERNEL];
    int64_t calls;
    double seconds;
};

struct bench_row {
    char text[BENCH_TEXT]; /* what was measured: sizes, cold or warm */
    double seconds;        /* one call, the median of the rounds */
    double spread;         /* (slowest tenth - fastest tenth) / median */
    double bytes, flops;   /* the least that must be read and written; operations of the formula */
    double bus;            /* of what ranks do together: bytes that pass each one's link; else 0 */
    int64_t rounds;
    /* Of what is made of many kernels, recorded in a run of its own; kernels 0: not recorded. */
    double busy, span; /* seconds in which a kernel ran; from the first one's begin to the end */
    double whole;      /* seconds of that many kernels where nothing is recorded */
    /* Of those that a graph launches, several in a row without a wait: seconds of one, and what the
     * host takes to launch it; 0: no graph. What `whole` has beyond `queued` is the wait for the
     * host. */
    double queued, submit;
    struct bench_kernel kernel[BENCH_KERNELS]; /* in the order of their first call */
    int kernels;
};

struct bench_side {
    const char *name; /* as in ops.h */
    /* Errors: ERR_DEVICE where there is no such machine. */
    enum err_code (*ceilings)(struct bench_ceilings *out, struct err *err);
    /* The op of case i; NULL past the last. */
    const char *(*op)(int i);
    enum err_code (*measure)(int i, struct bench_row *out, struct kernel_log *log, struct err *err);
};

const struct bench_side *gpu_bench(void);

/* What several ranks do together, measured on all of them at once: every rank makes the same calls
 * in the same order. */
struct shard;
struct bench_group {
    const char *name; /* as in ops.h */
    /* `s`: this rank and its collectives; no model is needed. Errors: ERR_DEVICE, ERR_PROCESS. */
    enum err_code (*open)(const struct shard *s, void **self, struct err *err);
    void (*close)(void *self);
    const char *(*about)(void *self);     /* "2 ranks by NCCL 2.28.9" */
    const char *(*op)(void *self, int i); /* of case i; NULL past the last */
    enum err_code (*measure)(void *self, int i, struct bench_row *out, struct kernel_log *log,
                             struct err *err);
};

/* Sums and exchanges; and a layer of a model, which they share: rows of its ops are those of
 * gpu_bench() on one card, by op and text. */
const struct bench_group *gpu_bench_group(void);
const struct bench_group *gpu_bench_layers(void);

/* Sorts n > 0 round times and fills seconds, spread, rounds. */
void bench_median(double *seconds, int64_t n, struct bench_row *out);
/* The share of the roofline: max(bytes / read, flops / matmul) / seconds. */
double bench_share(const struct bench_row *r, const struct bench_ceilings *c);

#ifdef __cplusplus
}
#endif
#endif
