/* diagnose.h: which known bug explains the guilty op of an anchored comparison.
 *
 * The layers of the guilty tap's span run again, from the subject's own inputs, under each fault of
 * the registry that an op of the span can host, its keys fitted: sites by name, parameters over
 * their tries or by least squares. `explains` is the share of the squared error at the guilty tap
 * that goes: 1 - |subject - faulted|^2 / |subject - clean|^2, both in the subject's profile. For
 * expert ids: the share of the rows that chose otherwise.
 *
 * Claimed is only what leaves no more than rounding: the subject lies within the tap's own bound of
 * the faulted reference, the residual is no larger than the subject's right taps and another order
 * of sums explain, the taps after it in that layer that are wrong too come out as the subject's,
 * and the cells that it predicts say more than was chosen to get there (diagnose_evidence.h).
 * Others that hold as well and leave about as little are claimed with it, as a set that cannot be
 * told apart. Where nothing holds or comes near, two faults at once are tried (diagnose_pairs.c),
 * and not claimed where a factor of one part would do as well (diagnose_part.h). Else nothing is
 * claimed, and the shape of the error is told (diagnose_shape.h). Test: tests/test_diagnose.c */
#ifndef ASSAY_HARNESS_DIAGNOSE_H
#define ASSAY_HARNESS_DIAGNOSE_H

#include "core/fault.h"
#include "harness/case.h"
#include "harness/diagnose_shape.h"

#include <jansson.h>

enum { DIAGNOSE_ALSO = 3 };

/* A fault with its fitted keys. */
struct hypothesis {
    struct fault_use use;
    struct fault_use also[DIAGNOSE_ALSO]; /* other keys that leave exactly as much */
    int alsos;
    const char *op;  /* of the span: what hosts it */
    int64_t layer;   /* of that op; -1: none */
    double explains; /* share of the squared error that goes; can be negative */
    double left;     /* squared error that stays at the guilty tap */
    bool holds;      /* within the bound */
    int place;       /* in the registry */
};

/* One fault, or two at once, with the keys that they were heard with. */
struct claim {
    int64_t first, second;   /* hypotheses; second -1: one fault */
    struct fault_use use[2]; /* of `first`, of `second` */
    int rank[2], ranks; /* of the subject's, that err under `first`; two hold each other's part */
    double explains;
};

struct diagnosis {
    bool made;
    char profile[16];        /* that the span ran in */
    struct hypothesis *list; /* best first */
    int64_t count;           /* faults that an op of the span can host */
    struct claim *claims;    /* a set of equals; empty: nothing is claimed */
    int64_t claimed;
    int64_t runs; /* of the span, in all */
    struct error_shape shape;
    char replay[CASE_LINE + 64]; /* the guilty op alone; "" where it has no case line */
};

struct diff;
struct diff_request;

/* Fills d->diagnosis; d->guilty is known. May name the rank of d->guilty. */
enum err_code diagnose(struct diff *d, const struct diff_request *r, struct err *err) ERR_USED;
void diagnosis_free(struct diagnosis *g);

/* `diagnosis`, `hypotheses`, `shape`, `replay` and `inject`, into the result of diff. */
enum err_code diagnosis_json(const struct diagnosis *g, json_t *result, struct err *err) ERR_USED;

#endif
