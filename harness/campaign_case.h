/* campaign_case.h: what a fault campaign runs on: small checkpoints with tokens. Two of the cases
 * have the shapes of K2.5 and DeepSeek-V3 in small; the others are drawn from a seed: widths,
 * heads, experts, groups, eps, RoPE, quantisation (none, INT4 with and without zero points, FP8
 * blocks). Each has a draft head, by turns with attention of Llama and of DeepSeek. Test:
 * tests/test_campaign_case.c */
#ifndef ASSAY_HARNESS_CAMPAIGN_CASE_H
#define ASSAY_HARNESS_CAMPAIGN_CASE_H

#include "core/file.h"
#include "harness/tokens.h"

enum { CASE_NAME = 48, CASE_FIXED = 2 };

struct campaign_case {
    char name[CASE_NAME];
    char model[FILE_PATH];
    char head[FILE_PATH + 32]; /* a draft head for it, as HEAD is given; "": none */
    struct tokens tokens;
};

/* Writes case i's checkpoint to the new folder `folder`: the fixed shapes first, then drawn ones.
 * The same (i, seed) is the same case. campaign_case_close(). */
enum err_code campaign_case_make(struct campaign_case *c, int64_t i, uint64_t seed,
                                 const char *folder, struct err *err) ERR_USED;
/* A model and tokens that the user gives; `head` may be NULL. */
enum err_code campaign_case_given(struct campaign_case *c, const char *model, const char *tokens,
                                  const char *head, struct err *err) ERR_USED;
/* Other tokens for the same model: one or two sequences of ids below `vocab`. */
enum err_code campaign_case_tokens(struct tokens *t, int64_t vocab, uint64_t seed,
                                   struct err *err) ERR_USED;
void campaign_case_close(struct campaign_case *c);

#endif
