/* diff.h: two dumps compared: alignment, verdict on each tap, flips, first divergence; with a model
 * also the runs of the reference that make routing equal and give measured bounds. Test:
 * tests/test_diff.c */
#ifndef ASSAY_HARNESS_DIFF_H
#define ASSAY_HARNESS_DIFF_H

#include "harness/align.h"
#include "harness/flips.h"
#include "harness/judge.h"
#include "harness/session.h"

#include <jansson.h>

struct diff_request {
    const char *subject, *truth; /* dumps; truth may be NULL where model is given */
    const char *model;           /* NULL: compare only */
    const char *tokens;          /* NULL: the subject's own */
    const char *profile;         /* NULL: the subject's own, else chosen by fit */
    const char *profile_run;     /* NULL, or a dump */
    double bound;                /* NaN: none given */
    const char *const *require;  /* patterns, NULL at the end; or NULL */
    int threads;
};

struct diff {
    struct dump subject, truth, math, profile_run;
    const struct dump *base; /* what the subject is measured against: math, else truth */
    struct loaded loaded;
    bool has_model;
    struct tokens tokens;
    struct forced forced;
    struct alignment rows, profile_rows;
    struct judge judge;
    struct tap_judgement *taps; /* [rows.count] */
    struct flips flips;
    char profile_name[16], profile_how[96];
    char note[256]; /* what limits the verdict; "" */
    int64_t compared, failed;
    int64_t first; /* index of the first failing pair; -1 */
    const char *
        *promised; /* taps that the subject promised or that are required, and that are absent */
    int64_t promised_count;
};

/* Runs the comparison. ERR_OK: everything compared holds; ERR_DIFF: a difference (err stays without
 * text), or nothing compared; else an error. diff_close() in any case. */
enum err_code diff_run(struct diff *d, const struct diff_request *r, struct err *err) ERR_USED;
void diff_close(struct diff *d);

/* The fields of cli's table for `diff`, into `result`. */
enum err_code diff_json(const struct diff *d, json_t *result, struct err *err) ERR_USED;

#endif
