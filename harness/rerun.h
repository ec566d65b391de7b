/* rerun.h: the layers of a guilty tap's span again, held at the subject's own inputs, under faults.
 *
 * What enters the first layer is the subject's residual stream where it was recorded, else what the
 * anchored run of the comparison had there. Without faults a re-run has that run's bits. Test:
 * tests/test_rerun.c */
#ifndef ASSAY_HARNESS_RERUN_H
#define ASSAY_HARNESS_RERUN_H

#include "core/fault.h"
#include "harness/diff.h"

/* In the subject's profile with float32 sums, in exact mathematics, and in the profile with float64
 * sums: by how much another order of sums may differ. */
enum rerun_side { RERUN_PROFILE, RERUN_MATH, RERUN_WIDE, RERUN_SIDES };

/* Where a re-run begins. LEAD: one layer earlier, for faults that hand on what that layer left. */
enum rerun_entry { RERUN_FIRST, RERUN_LEAD, RERUN_ENTRIES };

/* Taps of a re-run in float64, one row a row of the batch; readable as a dump. Those in the profile
 * are rounded to what the subject's dump stores. */
struct rerun_taps {
    struct dump dump;
    struct st_tensor *tensors;
    double *data; /* of the real taps, one after another */
    int32_t *ids;
};

struct rerun {
    const struct diff *diff;
    const struct anchor *anchor;
    struct session session[RERUN_SIDES];
    struct rows rows;
    int32_t *sequence;
    int64_t *position, *dump_row;
    int64_t end; /* layers up to here; the head too where it is the last */
    struct {
        int64_t first;                             /* layer */
        double *x[RERUN_SIDES], *sum[RERUN_SIDES]; /* [rows, H]: what enters it; NULL at 0 */
    } entry[RERUN_ENTRIES];
    struct tap *taps; /* kept: the guilty one and those after it in its layer or step */
    int64_t count;
    int64_t tap_rows;   /* of each */
    int64_t *batch_row; /* [tap_rows]: the batch row of each; NULL: all rows of the batch */
    double *aux[RERUN_SIDES], *around[RERUN_SIDES]; /* of a draft head: its target's states */
    int64_t runs;
};

/* The guilty tap of an anchored comparison is known. */
enum err_code rerun_open(struct rerun *r, const struct diff *d, int threads,
                         struct err *err) ERR_USED;
void rerun_close(struct rerun *r);

enum err_code rerun_taps_make(struct rerun_taps *t, const struct rerun *r,
                              struct err *err) ERR_USED;
void rerun_taps_free(struct rerun_taps *t);

/* What to run. */
struct rerun_how {
    enum rerun_side side;
    enum rerun_entry entry;
    struct faults *faults; /* NULL: none */
    bool free_routing;     /* the router chooses; else the subject's experts are forced */
    int64_t taps;          /* stop after this many of r->taps */
};

/* rerun_draft.c: the same of a tap of a draft head: all steps up to its own. */
enum err_code rerun_draft_open(struct rerun *r, struct err *err) ERR_USED;
void rerun_draft_close(struct rerun *r);
enum err_code rerun_draft_go(struct rerun *r, struct rerun_how how, struct rerun_taps *out,
                             struct err *err) ERR_USED;
/* Tap `kind` of the run that the comparison made on this side, with the subject's rows over it:
 * [batch rows, H]. */
enum err_code rerun_overlaid(const struct rerun *r, enum rerun_side side, enum tap_kind kind,
                             int64_t layer, double *out, struct err *err) ERR_USED;
/* x as the subject's dump would hold tap `name`: in 16 bits, where that is what it stores. */
void rerun_store(const struct rerun *r, const char *name, double *x, int64_t n);

enum err_code rerun_go(struct rerun *r, struct rerun_how how, struct rerun_taps *out,
                       struct err *err) ERR_USED;

#endif
