/* diagnose_fit.h: one fault against the guilty tap, its keys fitted; private to diagnose*.c. */
#ifndef ASSAY_HARNESS_DIAGNOSE_FIT_H
#define ASSAY_HARNESS_DIAGNOSE_FIT_H

#include "harness/rerun.h"

enum { FIT_PLACES = 8, FIT_VALUES = 64 };

/* What all hypotheses are held against. */
struct fitter {
    const struct diff *diff;
    struct rerun rerun;
    bool usable;                    /* the span runs on the subject's inputs without a fault */
    const struct dump_tap *subject; /* the guilty tap as the subject has it */
    struct rerun_taps clean, clean_math;
    struct rerun_taps taps, other; /* of the run at hand; of a second one for least squares */
    double clean_energy;   /* |subject - clean|^2 at the guilty tap; ids: rows that differ */
    double clean_noise;    /* |clean - exact|^2 there */
    bool ids;              /* the guilty tap holds expert ids, or draft tokens */
    int64_t choices;       /* how many of them there are to choose from */
    bool draft;            /* it is a draft head's: its layer is a step */
    const int64_t *row_of; /* [subject rows]: the row of a re-run's tap beside each; -1: none */
    /* Rows of the batch that differ by more than rounding; and which experts they all chose. */
    int64_t row[FIT_PLACES], bad_rows, expert[FIT_PLACES], experts;
    bool many;   /* more than half of the rows */
    int64_t col; /* of the worst cell */
};

enum err_code fitter_open(struct fitter *f, const struct diff *d, int threads,
                          struct err *err) ERR_USED;
void fitter_close(struct fitter *f);

/* |subject - taps|^2 at the tap of index i in f->rerun.taps, over the rows of both; infinite where
 * NaN and infinities do not match. Ids: rows that chose otherwise. */
double fit_left(const struct fitter *f, const struct rerun_taps *taps, int64_t i);
/* Ids of row r of a subject's tap that row `at` of a re-run's lacks. */
int64_t fit_ids_missing(const struct dump_tap *s, int64_t r, const struct dump_tap *t, int64_t at);
/* |a - b|^2 at tap i. */
double fit_between(const struct fitter *f, const struct rerun_taps *a, const struct rerun_taps *b,
                   int64_t i);

/* Runs the span under these faults as far as the first `count` kept taps; ids come from a run in
 * which the router chooses. A fault that cannot run here: ERR_OK with *ran false. */
enum err_code fit_run(struct fitter *f, enum rerun_side side, struct faults *faults, int64_t count,
                      struct rerun_taps *out, bool *ran, struct err *err) ERR_USED;

/* The ops that `row` is tried at: those of the guilty tap's span that host it, and where that tap
 * is a block's sum of recorded terms, the shared experts, if the fault may befall a term on its
 * way. `op` has room for span->ops + 1. Returns how many. */
int64_t fit_hosts(const struct diff *d, const struct fault_row *row, struct span_op *op);

/* What key k of a fault at op `op` is tried at, into list [FIT_VALUES]; of those that leave as
 * little the first is kept. The keys before k have their values in `use`. Returns how many. */
int fit_values(const struct fitter *f, const struct fault_use *use, const char *op, int k,
               double *list);

/* The keys of `row` that leave the least at the guilty tap. `with`: a fault that is active beside
 * it, or NULL. Fills out->use, ->op, ->layer, ->left, ->explains. */
enum err_code fit_fault(struct fitter *f, const struct fault_row *row, const struct fault_use *with,
                        struct hypothesis *out, struct err *err) ERR_USED;

/* How far a value is to be moved from that of run `a`, where run `b` has it `apart` from there and
 * the guilty tap is affine in it: by least squares. Infinite or NaN: the runs do not differ. */
double fit_step(const struct fitter *f, const struct rerun_taps *a, const struct rerun_taps *b,
                double apart);

#endif
