/* eagle_case.h: the draft heads whose goldens were made by outside implementations
 * (fixtures/eagle-*), each beside its target and the target's aux states. */
#ifndef ASSAY_TESTS_EAGLE_CASE_H
#define ASSAY_TESTS_EAGLE_CASE_H

#include "harness/drafting.h"
#include "harness/states.h"
#include "tests/golden.h"

/* Name below fixtures/, its target's, and how its tokens are found. */
struct eagle_spec {
    const char *name, *target;
    bool files; /* its tensors are a file; else made by the rule of its seed */
    bool trace; /* tokens: prompt and greedy of the golden's first trace; else the target's */
    int64_t steps;
};

extern const struct eagle_spec eagle_llama, eagle_llama_nbr, eagle_mla, eagle_trained, eagle_full;

struct eagle_case {
    const struct eagle_spec *spec;
    struct golden target;
    struct tokens tokens;
    struct loaded loaded;
    struct head head;
    struct session session;
    struct states states;
    struct dump golden;
    int64_t rows; /* tokens but the last */
    char head_spec[FILE_PATH];
};

/* Opens all, runs the target and keeps its states; or fails the test. */
void eagle_case_open(struct eagle_case *c, const struct eagle_spec *spec,
                     const struct session_options *o);
void eagle_case_close(struct eagle_case *c);

/* All that a drafting gave, by step: fused of step 0; hidden [rows, H], logits [rows, Vd], tokens
 * [rows]. */
struct eagle_drafts {
    int64_t rows, H, V, steps;
    int64_t given[8]; /* rows of each step */
    double *fused, *hidden[8], *logits[8];
    int32_t *token[8];
};

/* Drafts with this head (the case's own, or an edited copy) from these aux states (NULL: the
 * case's own). */
void eagle_case_draft(struct eagle_case *c, const struct head *head, const double *aux,
                      const int64_t *teacher, struct eagle_drafts *out);
void eagle_drafts_free(struct eagle_drafts *d);

/* The largest relative RMS of all real taps of the golden, and how many of its tokens differ. Every
 * tap of the golden is looked at, over all its rows. */
double eagle_case_distance(const struct eagle_case *c, const struct eagle_drafts *d,
                           int64_t *tokens_differ);
/* The case against its golden: relative RMS <= 5e-5 of each tap, 2e-4 of each row, tokens
 * identical. */
void eagle_case_check(const struct eagle_spec *spec, enum precision precision);

#endif
