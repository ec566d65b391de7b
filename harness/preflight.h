/* preflight.h: what can be known of a plan before the load, and what each thing that is wrong
 * would have cost.
 *
 * A check family is one file, preflight_NAME.c, and one row of the table in preflight.c. It adds
 * findings, and says what it looked at (preflight_about) or why it did not (preflight_not_asked:
 * the plan names nothing for it; preflight_not_checked: it does, and this machine cannot tell).
 * What was not checked is never green: see preflight_verdict().
 *
 * Cost: a run that ends of a finding has spent the part of the load that was done by then. The
 * length of the load is, in this order, the plan's load_minutes; the bytes of the checkpoint over
 * the plan's read_bandwidth; the same over 1 GB/s, which is assumed and said. Nothing that comes
 * after the load is counted, so every figure is a least one. Test: tests/test_preflight.c */
#ifndef ASSAY_HARNESS_PREFLIGHT_H
#define ASSAY_HARNESS_PREFLIGHT_H

#include "compat/pool.h"
#include "core/config.h"
#include "harness/plan.h"

#include <jansson.h>

enum preflight_severity { PREFLIGHT_ERROR, PREFLIGHT_WARNING, PREFLIGHT_NOTE };

/* When the run would have ended of it. */
enum preflight_strikes {
    PREFLIGHT_AT_START,   /* nothing is loaded yet: no minutes */
    PREFLIGHT_IN_LOAD,    /* `share` of the load is done */
    PREFLIGHT_AFTER_LOAD, /* the whole load */
    PREFLIGHT_UNSEEN      /* it does not end: what it writes is wrong; the whole load at least */
};

/* Texts live as long as the pool; NULL where there is none. `message` is needed. */
struct preflight_finding {
    const char *check; /* the family's name; set by preflight_add() */
    const char *rule;  /* "break", "range": with the family's name it is the rule of the report */
    enum preflight_severity severity;
    bool undecidable; /* a note: it may be wrong, and what would tell is said */
    const char *file, *function, *symbol;
    int line;
    const char *message, *found, *wanted, *remedy;
    enum preflight_strikes strikes;
    double share;   /* of the load, 0 to 1: PREFLIGHT_IN_LOAD */
    double minutes; /* set by preflight_settle(); NAN: unknown */
};

enum preflight_state { PREFLIGHT_CHECKED, PREFLIGHT_NOT_ASKED, PREFLIGHT_NOT_CHECKED };

enum { PREFLIGHT_CHECKS = 16, PREFLIGHT_WHYS = 64 };

struct preflight_check {
    const char *name;
    enum preflight_state state;
    const char *about; /* what was looked at, or why not */
    int findings;
    double seconds;
};

/* Something that the plan asks for and that could not be looked at. */
struct preflight_gap {
    const char *check, *why, *remedy;
};

struct preflight {
    const struct plan *plan;
    const struct plan_preflight *keys;
    struct arena *arena;
    struct pool pool;
    struct err *err; /* of the machine; once it is set, all calls do nothing */

    struct preflight_finding *finding;
    int findings, room;
    struct preflight_check check[PREFLIGHT_CHECKS];
    int checks;
    struct preflight_gap gap[PREFLIGHT_WHYS];
    int gaps;

    /* What the checkpoint's check leaves for those behind it. */
    const char *model;     /* its path, or synth:...; NULL: the plan names none */
    const char *config_at; /* the path of its config.json */
    struct config config;
    bool configured;        /* config is read */
    int64_t bytes;          /* of its shards; 0: not known */
    int64_t largest_tensor; /* bytes; 0: not known */
    double load_minutes;    /* NAN: not known */
    const char *load_from;  /* how it is known */
    int64_t shards;         /* files; 0: not known */
    json_t *rehearsal;      /* what was run, and what the guard said; NULL: nothing */
    json_t *layers;         /* what the ids mean in both numberings */
};

/* Runs every check; `rehearse`: the last one too. What is wrong with the plan's things is a
 * finding; an error is one of the machine (memory, a read that fails). preflight_free() in any
 * case. */
enum err_code preflight_run(struct preflight *p, const struct plan *plan, bool rehearse,
                            struct arena *a, struct err *err) ERR_USED;
/* Fields of the result: findings, counts, checks, not_checked, load, minutes, layers,
 * rehearsal. */
void preflight_json(const struct preflight *p, json_t *result);
/* ERR_DIFF where an error or a warning was found; else what was not checked (ERR_DEVICE); else
 * ERR_INPUT where nothing was looked at at all. */
enum err_code preflight_verdict(const struct preflight *p, struct err *err) ERR_USED;
void preflight_free(struct preflight *p);

/* ---- for the check families ---- */

void preflight_add(struct preflight *p, struct preflight_finding f);
/* printf into the pool; NULL with p->err set where there is no memory. */
const char *preflight_text(struct preflight *p, const char *format, ...) ERR_PRINTF(2, 3);
void preflight_about(struct preflight *p, const char *format, ...) ERR_PRINTF(2, 3);
void preflight_not_asked(struct preflight *p, const char *why);
void preflight_not_checked(struct preflight *p, const char *why, const char *remedy);
/* What went wrong while something of the plan was looked at: a finding where that something is at
 * fault (ERR_INPUT, ERR_USAGE, ERR_DIFF), not checked where the environment is (ERR_DEVICE,
 * ERR_PROCESS), p->err else. `like` gives everything but the texts. Empties e. */
void preflight_refused(struct preflight *p, struct preflight_finding like, struct err *e);
/* The path as plan_path() finds it. */
const char *preflight_path(struct preflight *p, const char *text);
/* "PLAN.yaml" with the line in f->line: where the plan itself is at fault. */
const char *preflight_plan(const struct preflight *p);

void preflight_checkpoint(struct preflight *p);
void preflight_config(struct preflight *p);
void preflight_contract(struct preflight *p);
void preflight_lint(struct preflight *p);
void preflight_layers(struct preflight *p);
void preflight_disk(struct preflight *p);
void preflight_ranks(struct preflight *p);
void preflight_memory(struct preflight *p);
void preflight_device(struct preflight *p);
void preflight_commands(struct preflight *p);
void preflight_rehearse(struct preflight *p);

#endif
