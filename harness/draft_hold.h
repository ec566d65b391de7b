/* draft_hold.h: a draft head beside a target, held at what a subject recorded: tokens that its
 * steps chose, and, where the comparison is anchored, its aux states, fc output and layer outputs
 * too. What the subject did not record flows on as the reference computed it. Part of diff.h. Test:
 * tests/test_diff_head.c */
#ifndef ASSAY_HARNESS_DRAFT_HOLD_H
#define ASSAY_HARNESS_DRAFT_HOLD_H

#include "harness/anchor.h"
#include "harness/forward_draft.h"

struct draft_hold {
    const struct dump *subject;
    int64_t rows, *at; /* [batch rows]: row of the subject's draft taps; -1: none */
    bool states;       /* more than the tokens */
    struct drafting_hold hold;
};

/* Refused: draft taps whose place in the batch nobody can tell. */
enum err_code draft_hold_make(struct draft_hold *h, const struct dump *subject,
                              const struct tokens *t, bool states, struct err *err) ERR_USED;
void draft_hold_free(struct draft_hold *h);
/* Overwrites the rows of captured states that the subject recorded. */
enum err_code draft_hold_aux(const struct anchor *a, struct states *s, struct err *err) ERR_USED;
/* The batch row of every row of a draft tap, count - sequences of them. The caller's; NULL: no
 * memory. */
int64_t *draft_hold_rows(const struct tokens *t);
/* Steps of the draft taps of a dump; 0: it has none. */
int64_t draft_hold_steps(const struct dump *subject);

/* What draft tap `kind` of step S was computed from, and over which ops; their `layer` is the step.
 * For span_make(). */
void span_of_draft(struct span *s, const struct anchor *a, enum tap_kind kind, int64_t step);

#endif
