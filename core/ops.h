/* ops.h: the one list of ops, and one table per side that implements them.
 *
 * A row names an op and its places. A side is a table of name -> function; the program joins them
 * by name at start. A side that lacks an op is NOT IMPLEMENTED and red: there is no fallback. A
 * table entry that is not in the list stops the program at start. Test: tests/test_ops.c and tidy.
 */
#ifndef ASSAY_CORE_OPS_H
#define ASSAY_CORE_OPS_H

#include "core/run.h"

#ifdef __cplusplus
extern "C" {
#endif

struct op_row {
    const char *name;     /* as in reports, plans and `assay op` */
    const char *header;   /* the contract */
    const char *ref;      /* source of the reference */
    const char *gpu;      /* source of the CUDA path; NULL: it has none */
    const char *contract; /* limits, accept and reject cases */
    const char *test;
    const char *fixtures; /* outputs of outside implementations */
};

extern const struct op_row op_rows[];
extern const int op_count;
/* NULL when there is no such op. */
const struct op_row *op_find(const char *name);

/* `op` points to the op's argument struct. */
typedef enum err_code op_function(const void *op, struct run *run, struct err *err);

struct op_entry {
    const char *name;
    op_function *run;
};

/* A table ends with a NULL name. */
struct op_side {
    const char *name;  /* "ref", "gpu", "naive" */
    const char *about; /* "plain C, AVX-512 kernel", "not built in" */
    bool available;
    const char *why_not; /* where !available */
    const struct op_entry *entries;
};

const struct op_side *ref_side(void);
const struct op_side *gpu_side(void);
/* The oracle of the tests: naive loops in double, for `assay op --sweep`. */
const struct op_side *naive_side(void);

/* NULL: NOT IMPLEMENTED. */
op_function *op_side_find(const struct op_side *side, const char *name);
/* Every entry of the table is in the list, or an error names it. */
enum err_code op_side_check(const struct op_side *side, struct err *err) ERR_USED;

#ifdef __cplusplus
}
#endif
#endif
