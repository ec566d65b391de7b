/* forward_draft.h: a draft head beside a forward pass: its aux states are taken from the target's
 * residual stream, its taps go where the target's go. Part of forward.h. Test:
 * tests/test_golden_eagle.c, tests/test_cli_draft.c */
#ifndef ASSAY_HARNESS_FORWARD_DRAFT_H
#define ASSAY_HARNESS_FORWARD_DRAFT_H

#include "core/checkpoint.h"
#include "core/head.h"
#include "harness/drafting.h"
#include "harness/states.h"

struct forward_draft {
    const struct engine *engine; /* NULL: the reference */
    struct head head;
    int64_t steps; /* 0: no head was asked for */
    struct states states;
    struct states_capture capture;
    /* The states of one entry id earlier and later too, for faults: forward_draft_around(). */
    struct states around;
    struct states_capture around_capture;
    double *near[2];                  /* [rows][count][hidden]; NULL: not asked for */
    const struct drafting_hold *hold; /* NULL, or what the draft is held at */
    char checkpoint[CHECKPOINT_TEXT];
    char aux[16 * HEAD_AUX]; /* the entry ids as a JSON array */
};

enum { FORWARD_DRAFT_METAS = 4, FORWARD_DRAFT_STEPS = 3, FORWARD_DRAFT_STEPS_MAX = 128 };

/* Opens HEAD for this target; room for the states of every row of the batch. `d` is all zero; it
 * must not move. */
enum err_code forward_draft_open(struct forward_draft *d, const char *head, int64_t steps,
                                 const struct model *target, const struct tokens *t,
                                 struct err *err) ERR_USED;
/* Also takes the states next to the head's, in a target of so many layers. Too many of them for one
 * sink: nothing is taken, and faults that would read them change nothing. */
enum err_code forward_draft_around(struct forward_draft *d, int64_t layers,
                                   struct err *err) ERR_USED;
void forward_draft_close(struct forward_draft *d);
/* Appends the head's taps to a list that is the caller's (free()). */
enum err_code forward_draft_taps(const struct forward_draft *d, struct tap **taps, int64_t *count,
                                 struct err *err) ERR_USED;
/* What the dump says of the head. */
void forward_draft_meta(const struct forward_draft *d, const char *head,
                        struct st_meta out[FORWARD_DRAFT_METAS]);
/* The last layer that must run for these taps and the head's aux states, plus one. */
int64_t forward_draft_layers(const struct forward_draft *d, const struct tap *taps, int64_t count,
                             int64_t layers);
/* `sink`, behind one that takes the aux states. */
struct tap_sink *forward_draft_sink(struct forward_draft *d, struct tap_sink *sink);
/* After the forward pass: every row of every sequence, all steps, their taps to `sink`. Arena,
 * rounding, threads and faults are those of `run`. */
enum err_code forward_draft_run(struct forward_draft *d, const struct run *run,
                                const struct tokens *t, struct tap_sink *sink,
                                struct err *err) ERR_USED;

#endif
