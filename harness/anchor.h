/* anchor.h: the reference held at what a subject recorded.
 *
 * A sink between the reference and its dump: after a tap was recorded, the rows that the subject
 * has of it overwrite the run's own, so that every op runs from the subject's own inputs and its
 * output alone is compared. What the subject did not record, a tap or rows of one, flows on as the
 * reference computed it: the next tap is then rebuilt over several ops, its span. Chosen experts
 * come by struct forced.
 *
 * An engine of float32 whose dump is in 16 bits went on with values that the dump does not hold:
 * a run with `spreads` starts each op from some value that rounds to the stored one, drawn by a
 * hash of its place, and so shows what the dump's rounding can do to a tap. Test:
 * tests/test_anchor.c */
#ifndef ASSAY_HARNESS_ANCHOR_H
#define ASSAY_HARNESS_ANCHOR_H

#include "core/config.h"
#include "core/dump.h"

struct anchor {
    const struct dump *subject;
    int64_t rows;         /* of the batch */
    int64_t *subject_row; /* [rows]: row of the subject, -1: not recorded */
    const struct tap_sink *inner;
    struct tap_sink sink;
    bool flows[TAP_KINDS]; /* kinds that stay as the run has them, recorded or not */
    bool spreads; /* puts an engine's value where the dump's rounding may have moved it from */
};

/* Row i of the subject is batch row subject->batch_row[i], else i. */
enum err_code anchor_make(struct anchor *a, const struct dump *subject, int64_t batch_rows,
                          struct err *err) ERR_USED;
void anchor_free(struct anchor *a);
/* The sink to give to a run whose taps go to `inner`. One run at a time. */
struct tap_sink *anchor_sink(struct anchor *a, const struct tap_sink *inner);
/* The subject has this tap as `cols` real numbers a row; NULL: no. */
const struct dump_tap *anchor_tap(const struct anchor *a, const char *name, int64_t cols);
/* Some tap of real numbers is stored in a type coarser than float32. */
bool anchor_rounds(const struct anchor *a);
/* Overwrites the rows of x ([batch rows, cols]) that the subject recorded of tap `name`. */
void anchor_overlay(const struct anchor *a, const char *name, int64_t cols, double *x);

struct span_op {
    const char *op;
    int64_t layer; /* -1: none; of a draft head's op: its step */
};

/* What lies between a tap and the recorded taps that it was computed from. */
struct span {
    struct span_op *op; /* in execution order; the tap's own op is the last */
    int64_t ops;
    struct tap *from; /* recorded taps that it begins at */
    int64_t froms;
    int64_t first_layer, end_layer; /* layers of its ops: [first, end); -1, 0: embed alone */
    bool rebuilt;                   /* an input was not recorded */
};

enum err_code span_make(struct span *s, const struct anchor *a, const struct config *c,
                        enum tap_kind kind, int64_t layer, struct err *err) ERR_USED;
void span_free(struct span *s);

#endif
