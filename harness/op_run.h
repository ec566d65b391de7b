/* op_run.h: one case on several sides: fresh buffers each, then every later side is held against
 * the first. Judged element by element against a derived bound (bound.h). Red: an element outside
 * its bound or not finite, an integer that differs, an expert choice that no error of the keys
 * explains, nothing compared. Every side but the first runs with the case's fault, where it has
 * one; a pass then is no evidence of a test. Test: test_op_run.c */
#ifndef ASSAY_HARNESS_OP_RUN_H
#define ASSAY_HARNESS_OP_RUN_H

#include "core/compare.h"
#include "core/kernels.h"
#include "core/ops.h"
#include "harness/bound.h"
#include "harness/case.h"

enum { OP_SUBJECTS = 4, OP_WHY = 160 };

/* A side, at the precision of the case or at one of its own. */
struct op_subject {
    const struct op_side *side;
    bool own_precision;
    enum precision precision;
};

struct op_output {
    const char *name;
    const char *side; /* the subject */
    double rel_rms, max_abs;
    double ratio; /* how far past its bound the worst is: above 1 fails */
    double bound; /* of the worst element: the one nearest to, or furthest past, its own bound */
    struct cell worst;
    int64_t elements, near_ties;
    bool failed;
    char why[OP_WHY]; /* where failed: more than the worst element says, or "" */
    char from[2 * BOUND_FROM + 8];
};

enum op_verdict { OP_OK, OP_FAIL, OP_NOT_IMPLEMENTED, OP_ERROR };

struct op_result {
    enum op_verdict verdict;
    const char *side; /* NOT_IMPLEMENTED, ERROR: whose */
    struct err err;   /* ERROR */
    struct op_output output[(OP_SUBJECTS - 1) * CASE_OUTPUTS];
    int outputs;
    int64_t compared; /* elements */
    /* The case's fault: calls that it edited, and of them those whose outputs it changed in bits.
     */
    int64_t fault_calls, fault_changed;
    struct kernel_log kernels; /* what ran, on sides that say so */
};

/* Runs and judges. Only what belongs to no side (memory of the harness, a case that cannot be made)
 * is returned as an error; what a side says is in the result. subject[0] is the truth. */
enum err_code op_run_case(const struct op_case *c, const struct op_subject *subject, int n,
                          struct op_result *out, struct err *err) ERR_USED;

#endif
