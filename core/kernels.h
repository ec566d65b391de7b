/* kernels.h: which kernels ran: the proof of path of an engine that has more than one way to
 * compute an op. Filled by the engine through run->kernels, shown in every report of such a run, so
 * that nobody tests a fallback unawares. Test: tests/test_kernels.c */
#ifndef ASSAY_CORE_KERNELS_H
#define ASSAY_CORE_KERNELS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { KERNEL_NAME = 64, KERNEL_ROWS = 256 };

/* What the compiler made of a kernel, and how many blocks of the last launch's size a
 * multiprocessor holds at a time. `registers` 0: not known (a library's, or none of ours was
 * asked). */
struct kernel_facts {
    int64_t registers; /* of a thread */
    int64_t local;     /* bytes of a thread: spilled registers and arrays that are not in them */
    int64_t static_shared; /* bytes of a block, beside `shared` */
    int64_t blocks;        /* resident on one multiprocessor */
    double occupancy;      /* share of its warps that these are */
};

/* Launches of one kernel for one op with one tactic, whatever their grids. */
struct kernel_row {
    char op[24];                /* of core/ops.c; "load", "taps": what is no op */
    char kernel[KERNEL_NAME];   /* "mla_decode_mma64", "cublasLt" */
    char tactic[KERNEL_NAME];   /* "split 8, tile 64x32": what was chosen at run time, or "" */
    uint32_t grid[3], block[3]; /* of the last launch; 0 where a library chooses */
    int64_t shared;             /* bytes of dynamic shared memory */
    int64_t calls;
    struct kernel_facts facts;
};

struct kernel_log {
    struct kernel_row row[KERNEL_ROWS];
    int rows;
    int64_t lost; /* launches that found no row: never silent, shown where it is not 0 */
};

/* Counts a launch: adds to the row of the same op, kernel and tactic, or begins one. Facts that a
 * row has stay where the launch knows none. Returns the row; NULL where it was lost. */
struct kernel_row *kernel_log_add(struct kernel_log *log, const struct kernel_row *launch);

#ifdef __cplusplus
}
#endif
#endif
