/* diff_draft.h: draft tokens of two dumps: identical, or a near tie that the logits explain. Part
 * of diff.h. Test: tests/test_diff_draft.c
 *
 * A token that differs is a near tie where both dumps hold draft.S.logits, that row of them agrees
 * within its bound, and their largest entries stand at different ids: then the gap between the two
 * is no larger than the two errors. What the row's later steps were fed differs from there on, so
 * they are left out. Any other token that differs is red. */
#ifndef ASSAY_HARNESS_DIFF_DRAFT_H
#define ASSAY_HARNESS_DIFF_DRAFT_H

#include "harness/align.h"
#include "harness/judge.h"

struct draft_tie {
    int64_t step, row; /* row of the subject's draft taps */
    int64_t subject, truth;
    double gap; /* between the two largest of the truth's logits that were confused */
};

struct draft_ties {
    struct draft_tie *list;
    int64_t count;
};

/* Judges the pair of a tap draft.S.tokens whose integers were compared already: `out` says so.
 * `logits`: the judged pair of draft.S.logits, or NULL. Rows of near ties lose their partner in
 * `rows`. */
enum err_code diff_draft_tokens(struct draft_ties *t, const struct pair *p,
                                const struct pair *logits, const struct tap_judgement *logits_out,
                                struct alignment *rows, struct tap_judgement *out,
                                struct err *err) ERR_USED;
void draft_ties_free(struct draft_ties *t);

#endif
