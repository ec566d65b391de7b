/* plan_run.h: a plan, run: its steps in order, one verdict.
 *
 * Before the first step: what this build lacks (ERR_DEVICE, unless the step is skipped), a device
 * that is not there, a step that uses the dump of a skipped one.
 *
 * A step that differs is red and the next one runs; a step that errs without `expect` stops the
 * plan. Green: every step as expected, at least compared_at_least comparisons, never 0. A
 * comparison is a tap of a diff, a case of an op, or the token list of a generate with `equals`.
 *
 * `guilty` is held against the result's own, which anchoring gives, else against `first`; the
 * step's `note` says so.
 *
 * With bless, a `diff` with `bless: true` shows what recording its subject would change instead of
 * judging it. BLESS_WRITE: when all other steps hold, the goldens are written, and each such step
 * is then run as the diff that it is, against the file as written. BLESS_SHOW: red where something
 * would change.
 *
 * The result: {plan, out, steps: [{name, kind, line, verdict (pass, fail, error, skipped, not run),
 * outcome, expected, why, note, compared, seconds, result, error}], compared, compared_at_least,
 * passed, failed, skipped, why: [...], blessed: [{step, written, ...bless.h}], verdict, exit,
 * error} goes to DIR/result.json and DIR/result.txt; dumps of forward steps to
 * DIR/NAME.safetensors. Test: tests/test_plan_run.c */
#ifndef ASSAY_HARNESS_PLAN_RUN_H
#define ASSAY_HARNESS_PLAN_RUN_H

#include "harness/bless.h"
#include "harness/plan.h"

#include <jansson.h>

/* Fills `result`. ERR_OK: green; ERR_DIFF: red; else the error that stopped it. */
enum err_code plan_run(const struct plan *p, const char *folder, enum bless_mode bless,
                       json_t *result, struct err *err) ERR_USED;

/* ---- for plan_run.c and its test ---- */

/* What a step came to. */
struct plan_outcome {
    const char *verdict; /* pass, fail, error */
    int exit;
    const json_t *result;
};

enum { PLAN_WHY = 256 };

/* Holds the outcome against `expect` (none: pass). Where it does not hold, `why` says how; `note`
 * says how `guilty` was checked, or "". */
bool plan_as_expected(const struct plan_expect *x, const struct plan_outcome *o, char why[PLAN_WHY],
                      char note[PLAN_WHY]);
/* The expectation in one line: "fail, guilty moe layer 1". Returns buf. */
const char *plan_expect_text(const struct plan_expect *x, char *buf, size_t size);

#endif
