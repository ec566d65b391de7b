/* campaign_subject.h: the reference as another engine: its forward in some profile, with faults in
 * it, every tap kept in bf16. Test: tests/test_campaign_op.c */
#ifndef ASSAY_HARNESS_CAMPAIGN_SUBJECT_H
#define ASSAY_HARNESS_CAMPAIGN_SUBJECT_H

#include "core/fault.h"
#include "harness/session.h"

/* What such an engine does otherwise than the reference: none of it is an error. */
enum subject_order {
    ORDER_F64,    /* sums in float64, rounded where the profile rounds */
    ORDER_CHUNKS, /* the same, prefill in chunks; the last tokens one at a time, but where the
                     profile absorbs the decode */
    ORDER_BLAS,   /* sums as OpenBLAS orders them; where there is none: ORDER_F64 */
    ORDERS
};

struct subject {
    struct tap *taps; /* in execution order */
    int64_t count, rows;
    int64_t draft_rows, *draft_row; /* of draft taps; [rows]: which one a batch row has, or -1 */
    void **data;                    /* [count]: bf16 or int32, [rows or draft_rows, cols] */
    bool *given;                    /* [count] */
    bool cut;                       /* over ranks, by this plan */
    struct shard_plan plan;
};

struct subject_how {
    const char *profile;
    enum subject_order order;
    int threads;
    const char *head; /* NULL, or a draft head that runs behind it, SUBJECT_STEPS steps */
    const struct engine_kind *engine; /* NULL: the reference */
    /* NULL: one process; or over these ranks, whose fault is theirs and not in `faults` */
    const struct ranks_options *ranks;
    int64_t *edits; /* NULL, or out: ranks_edits() */
};

enum { SUBJECT_STEPS = 3 };

/* Runs it; `faults` NULL: none. An error of the run is returned as it is. */
enum err_code subject_run(struct subject *s, const struct loaded *l, const struct tokens *t,
                          struct subject_how how, struct faults *faults, struct err *err) ERR_USED;
void subject_free(struct subject *s);
int64_t subject_tap_rows(const struct subject *s, int64_t i);
int64_t subject_tap_bytes(const struct subject *s, int64_t i);
/* The first tap, from `from` on, whose bits differ, NaN and NaN being alike; -1: none. */
int64_t subject_differ(const struct subject *a, const struct subject *b, int64_t from);
/* As a dump: with tokens, lengths, profile, order and plan, as engines write them. */
enum err_code subject_write(const struct subject *s, const struct tokens *t, const char *profile,
                            const char *path, struct err *err) ERR_USED;

#endif
