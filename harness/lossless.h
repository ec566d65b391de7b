/* lossless.h: is what speculation generated the target's own? Greedy: token by token against a
 * plain decode. Sampling: by the law of its verification (law.h), on small vocabularies and on the
 * model's own laws at the prompt's end. Test: tests/test_lossless.c */
#ifndef ASSAY_HARNESS_LOSSLESS_H
#define ASSAY_HARNESS_LOSSLESS_H

#include "harness/law.h"
#include "harness/speculate.h"

/* Greedy: the target decodes the generated text itself, one token a step, without drafts; so every
 * token is held against a choice in the same context, also behind a difference. */
struct lossless {
    int64_t checked;
    int64_t ties; /* differences between logits that lie as close as speculate_near_tie() says */
    bool holds;
    /* Where it does not: the first difference that is none of these. */
    int64_t at, got, wanted; /* place among the generated tokens; the two tokens */
    double gap, margin;      /* by how much got's logit is lower; of the target's choice */
};

/* generated [count] after the prompt. */
enum err_code lossless_greedy(const struct loaded *l, const struct session_options *o,
                              const struct tokens *prompt, const int64_t *generated, int64_t count,
                              struct lossless *out, struct err *err) ERR_USED;

enum { LOSSLESS_LAWS = 8 };

/* Sampling: every case of law.h, and at last the model's. */
struct lossless_laws {
    struct law model;
    struct arena arena; /* the model's laws */
    struct law_test test[LOSSLESS_LAWS];
    int count, failed; /* failed: the first that does not hold, or -1 */
};

/* The model's case is taken after one round of a chain of two drafts at the temperature (the
 * draft's laws differ by position), and has the form of `tree`. */
enum err_code lossless_sampling(const struct loaded *l, const struct session_options *o,
                                const struct head *head, const struct speculate_options *how,
                                const struct tokens *prompt, law_verify *verify, void *ctx,
                                struct lossless_laws *out, struct err *err) ERR_USED;
void lossless_laws_free(struct lossless_laws *laws);

#endif
