/* plan.h: PLAN.yaml as data: what `assay run` does, in order. Parsed whole before anything runs.
 *
 *   assay: 1                     the schema
 *   model: MODEL                 default of every step; synth:... too
 *   tokens: T                    likewise; a list of ids too
 *   steps:                       a list; each holds one of the five kinds, and
 *     - name: truth              unique; what later steps call its dump
 *       if: gpu                  gpu, ref, blas or "not X"; a skipped step is counted and shown
 *       expect: {verdict: fail, guilty: {op: moe, layer: 1}, first: {tap, op, layer, row},
 *                diagnosis: FAULT, exit: 0-4}
 *       forward: {on, precision, ...}             options of the verb, without dashes; _ counts as
 * - diff: {subject, truth, bound, ...}        subject and truth: an earlier step, or a path
 *       generate: {n, prompt, equals, ...}        equals: ids, or "@golden.json" (field greedy)
 *       op: {name, case, sweep, count, seed, on}  name: an op or a whole case line
 *       fault: {include: [...], seeds: N}
 *   expect: {compared_at_least: N}
 *   preflight: {...}             what `assay preflight` looks at: plan_preflight.h
 *
 * A `diff` runs the reference again (the verb's --model) where it says `model`, or where it needs
 * one: no truth, profile without profile-run, anchor, diagnose; then the plan's model is taken.
 * With a truth and none of these, two files are compared and nothing is run.
 *
 * `bless: true` in a `diff` makes its truth a golden of one's own engine, below the plan's folder:
 * see bless.h.
 *
 * Refused, with line and column: unknown keys, wrong types, missing needed keys, values that the
 * verb would refuse whatever the model is, two steps of one name, the name of a later step, empty
 * steps, expectations that contradict each other, a plan with neither steps nor preflight. Test:
 * tests/test_plan.c */
#ifndef ASSAY_HARNESS_PLAN_H
#define ASSAY_HARNESS_PLAN_H

#include "core/arena.h"
#include "core/error.h"
#include "harness/plan_preflight.h"
#include "harness/verb.h"

enum { PLAN_STEPS = 256, PLAN_OPTIONS = 40, PLAN_NAME = 48 };

enum plan_kind { PLAN_FORWARD, PLAN_DIFF, PLAN_GENERATE, PLAN_OP, PLAN_FAULT, PLAN_KINDS };

struct plan_place {
    int line, column; /* 0: not in the plan */
};

/* A text of the plan that may name the dump of an earlier step. */
struct plan_text {
    const char *text; /* NULL: not given */
    int step;         /* -1: none, the text is what it says */
    struct plan_place at;
};

struct plan_option {
    const struct option_row *row; /* of the step's verb */
    struct plan_text value;       /* "" for a flag that is set */
};

#define PLAN_ANY INT64_MIN /* a whole number that is not asked about */

struct plan_expect {
    bool given;
    struct plan_place at;
    const char *verdict;                                      /* pass, fail, error */
    int exit;                                                 /* -1: what the verdict implies */
    const char *guilty_op, *first_tap, *first_op, *diagnosis; /* NULL: not asked about */
    int64_t guilty_layer, first_layer, first_row;             /* PLAN_ANY */
};

struct plan_step {
    const char *name; /* as given, else "step-3" */
    enum plan_kind kind;
    struct plan_place at;
    const char *condition; /* of `if`, without "not"; NULL */
    bool negated;
    struct plan_text word[2]; /* diff: subject, truth; op: name, case */
    struct plan_text model;   /* NULL text: none is needed */
    struct plan_option option[PLAN_OPTIONS];
    int options;
    struct plan_text equals; /* generate: "1,2,3" or "@file" */
    bool bless;
    struct plan_expect expect;
};

struct plan {
    char path[1024]; /* as given; in messages */
    char folder[1024];
    struct plan_text model; /* NULL text: none of its own */
    struct plan_step *step;
    int steps;                 /* 0: only a preflight */
    int64_t compared_at_least; /* 1 where the plan does not say */
    struct plan_preflight preflight;
};

/* Everything lies in the arena. */
enum err_code plan_parse(const char *text, int64_t size, const char *path, struct arena *a,
                         struct plan *out, struct err *err) ERR_USED;
enum err_code plan_read(const char *path, struct arena *a, struct plan *out,
                        struct err *err) ERR_USED;

/* The verb that a step runs. */
const struct verb *plan_verb(enum plan_kind kind);
const char *plan_kind_name(enum plan_kind kind);
/* "PLAN.yaml:12:9", for messages. Returns buf. */
const char *plan_where(const struct plan *p, struct plan_place at, char *buf, size_t size);

#endif
