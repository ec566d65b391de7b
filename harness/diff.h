/* diff.h: two dumps compared: alignment, verdict on each tap, flips, first divergence; with a model
 * also the runs of the reference that make routing equal and give measured bounds. Test:
 * tests/test_diff.c */
#ifndef ASSAY_HARNESS_DIFF_H
#define ASSAY_HARNESS_DIFF_H

#include "harness/align.h"
#include "harness/anchor.h"
#include "harness/diagnose.h"
#include "harness/diff_draft.h"
#include "harness/draft_hold.h"
#include "harness/flips.h"
#include "harness/foreign.h"
#include "harness/judge.h"
#include "harness/session.h"
#include "harness/shard_options.h"

#include <jansson.h>

struct diff_request {
    const char *subject, *truth;    /* dumps; truth may be NULL where model is given */
    struct foreign_options foreign; /* how the subject is read; of the truth, type and pass */
    const char *model;              /* NULL: compare only */
    const char *draft;              /* NULL, or the head of the subject's draft taps; needs model */
    const char *tokens;             /* NULL: the subject's own */
    const char *profile;            /* NULL: the subject's own, else chosen by fit */
    const char *profile_run;        /* NULL, or a dump */
    double bound;                   /* NaN: none given */
    const char *const *require;     /* patterns, NULL at the end; or NULL */
    const struct shard_plan *plan;  /* NULL: as the subject says how ranks shared the model */
    int threads;
    bool anchor;                /* every op from the subject's own inputs; needs model */
    bool diagnose;              /* also say which fault explains the guilty op; implies anchor */
    const char *const *without; /* faults that the diagnosis may not think of, NULL at the end; or
                                   NULL. To prove it: with the true one gone it must name nothing */
};

/* The first tap, in execution order, that its own op does not explain. */
struct guilty {
    const struct pair *pair; /* NULL: none */
    const char *op;
    int64_t layer; /* -1: none; of a draft head's op: its step */
    int64_t rank;  /* -1: unknown */
    struct span span;
};

struct diff {
    struct dump subject, truth, math, profile_run;
    const struct dump *base; /* what the subject is measured against: math, else truth */
    struct loaded loaded;
    bool has_model, has_head;
    struct forward_draft draft; /* the head, where it was given */
    struct draft_hold hold;
    struct tokens tokens;
    struct forced forced;
    bool anchored;
    struct anchor anchor;
    struct guilty guilty;
    bool cut; /* the subject's ranks share the model by this plan */
    struct shard_plan plan;
    struct diagnosis diagnosis;
    struct alignment rows, profile_rows;
    struct judge judge;
    struct tap_judgement *taps; /* [rows.count] */
    struct flips flips;
    struct draft_ties draft_ties;
    char profile_name[16], profile_how[128];
    bool unverified;       /* that profile is (profile.h), and with it every bound that it gives */
    struct dump rival_run; /* of the profile that fits next best, where it was chosen by fit */
    char rival_name[16];
    struct dump spread_run; /* as the profile's, of what the dump's rounding hides (anchor.h), where
                               the profile rounds nowhere and the subject's dump does */
    char note[256];         /* what limits the verdict; "" */
    int64_t compared, failed;
    int64_t amplified_rows; /* over all taps: amplified.h */
    int64_t first;          /* index of the first failing pair; -1 */
    const char *
        *promised; /* taps that the subject promised or that are required, and that are absent */
    int64_t promised_count;
};

/* Runs the comparison. ERR_OK: everything compared holds; ERR_DIFF: a difference (err stays without
 * text), or nothing compared; else an error. diff_close() in any case. */
enum err_code diff_run(struct diff *d, const struct diff_request *r, struct err *err) ERR_USED;
void diff_close(struct diff *d);

/* The reference's options for a run in this profile, as the comparison made it. */
struct session_options diff_options(const struct profile *profile, enum precision precision,
                                    int threads);

/* The fields of cli's table for `diff`, into `result`. */
enum err_code diff_json(const struct diff *d, json_t *result, struct err *err) ERR_USED;

#endif
