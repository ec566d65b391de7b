/* campaign.h: `assay fault run`: every fault of the registry injected on purpose, at every site of
 * some cases, and what must catch it asked whether it does. The share that was caught is the
 * mutation score; clean runs beside it must raise nothing.
 *
 *   op faults    A subject is the reference's forward in a bf16 profile with the fault injected,
 *                its taps stored as bf16, its sums in another order than the reference's. It is
 *                held against the reference as `diff --diagnose` does.
 *   of a head    The same with the draft head's steps behind the forward; faults of op eagle.verify
 *                in speculation, which must be found lossy.
 *   of ranks     tp.* and ep.* again, in real ranks of the reference that share the model: what one
 *                of them does wrong must be found in the dump that all made.
 *   file faults  A checkpoint on disk with one thing wrong; `inspect` must name it.
 *   call faults  The program as a child in which the n-th call of a kind fails; it must say so or
 *                cope, and leave nothing half written.
 *   clean runs   Other weights, shapes, tokens, profiles, thread counts; none may be red.
 *   proofs       Of the diagnosis: the true fault left out, a parameter off the values that are
 *                tried, two faults at once. None may give a wrong name with confidence.
 *
 * Jobs are drawn from a seed, independent of each other and of the number of workers, which are
 * processes: a detector that crashes is a miss. Tests: tests/test_campaign.c */
#ifndef ASSAY_HARNESS_CAMPAIGN_H
#define ASSAY_HARNESS_CAMPAIGN_H

#include "core/engine.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Texts are borrowed. */
struct campaign_options {
    const char *const *include; /* patterns of fault ids, NULL at the end; or NULL: all */
    uint64_t seed;
    int64_t seeds;              /* this many draws from `seed` on */
    const char *model, *tokens; /* NULL: the cases of campaign_case.h */
    const char *draft;          /* with a model: its draft head; NULL: none */
    /* NULL: the reference; or the engine whose runs are the subjects: op faults of the target and
     * clean runs alone, each op also alone against the reference. */
    const struct engine_kind *engine;
    bool quick;    /* a site of each fault and case in place of all, fewer draws */
    int64_t clean; /* clean runs; -1: as many as the rest asks for */
    double bound;  /* what the comparison is judged by; NaN: its own bounds */
    int workers;
    int ranks; /* 2, 4 or 8, of the runs that faults of ranks are injected into; 0: two and four */
};

/* Runs it; fills the fields of cli's table for `fault run` and more. ERR_OK: all caught, nothing
 * raised by clean runs, no wrong name. ERR_FAULT: an outcome was not the expected one, or nothing
 * was injected. Else an error of the campaign itself. */
enum err_code campaign_run(const struct campaign_options *o, json_t *result,
                           struct err *err) ERR_USED;

/* The result in words. */
void campaign_text(const json_t *result);

#endif
