/* drafting.h: a draft head beside its target on a batch of known tokens: every row, K steps, with
 * the keys that a trainer's recursion and an inference chain share. Row p: aux states of p with
 * token p + 1; step s >= 1 feeds the row's own argmax (as target id) and its own state, at position
 * p + s, and sees the true rows j <= p and its own chain. Test: tests/test_drafting.c */
#ifndef ASSAY_HARNESS_DRAFTING_H
#define ASSAY_HARNESS_DRAFTING_H

#include "core/eagle.h"
#include "harness/session.h"

/* What a step gives, for rows of one sequence: [rows, ...]. */
struct drafting_out {
    int64_t sequence, rows, step;
    const double *fused; /* step 0 only, else NULL */
    const double *hidden, *logits;
    const int32_t *token; /* argmax as target id; -1: NaN among the logits */
    const double *margin; /* of the draft logits */
};

/* What a subject recorded and the draft goes on with: states of the tap (kind, s->number), over x
 * [rows, H]; the tokens that a step chose, over token [rows], of batch rows first ... Rows that it
 * did not record stay. */
struct drafting_hold {
    void (*states)(void *ctx, enum tap_kind kind, const struct draft_step *s, double *x);
    void (*tokens)(void *ctx, int64_t step, int64_t first, int64_t rows, int32_t *token);
    void *ctx;
};

struct drafting {
    const struct engine *engine; /* NULL: the reference */
    const struct head *head;
    struct run run; /* arena, precision, profile, threads of the target's run */
    int64_t steps;
    int64_t first_row;                /* of the batch: that of row 0 */
    const double *aux_near[2];        /* as struct draft_step's, of all rows; each may be NULL */
    const struct drafting_hold *hold; /* NULL: nothing is held */
    /* Tokens fed at step s >= 1, as target ids; NULL: the row's own argmax. For metrics on the true
     * text: token p + 1 + s. */
    const int64_t *teacher; /* the sequence's tokens, or NULL */
    enum err_code (*give)(void *ctx, const struct drafting_out *out, struct err *err);
    void *ctx;
};

/* Rows 0 .. rows-1 of one sequence: aux [rows, aux_count * target_hidden], token [rows + 1]: row p
 * is paired with token[p + 1]. With a teacher, step s has rows - s rows. */
enum err_code drafting_run(const struct drafting *d, int64_t sequence, int64_t rows,
                           const double *aux, const int64_t *token, struct err *err) ERR_USED;

#endif
