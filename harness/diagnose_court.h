/* diagnose_court.h: the explanations of one guilty tap, held against each other; private to
 * diagnose*.c. */
#ifndef ASSAY_HARNESS_DIAGNOSE_COURT_H
#define ASSAY_HARNESS_DIAGNOSE_COURT_H

#include "harness/diagnose_fit.h"

enum { COURT_TRIALS = 24 };

/* One explanation, held against every kept tap. */
struct trial {
    struct claim claim;
    bool holds, pays; /* pays: says more than was chosen for it */
    double *left;     /* [taps]: squared error that stays */
    double *noise;    /* [taps]: of the profile's rounding, under it */
    double *slack;    /* [taps]: what another order of sums may change */
};

struct court {
    struct diff *diff;
    struct fitter fitter;
    struct diagnosis *out;
    struct rerun_taps math, wide;
    double like; /* residual over rounding error of the subject's right taps, with room */
    bool coarse; /* the guilty tap is rounded to 16 bits */
    bool nearly; /* something left no more than rounding, but more than `like` allows */
    struct trial *trials;
    int64_t count;
    struct hypothesis part; /* what a factor of one part leaves; no row: not looked for */
};

/* How near the subject comes to its profile where it is right. */
void court_learn(struct court *c);
/* Hears the best hypotheses of the list; what holds is kept as a trial. */
enum err_code court_singles(struct court *c, struct err *err) ERR_USED;
/* Hears one explanation; keeps it as a trial where it holds. Past COURT_TRIALS: drops it. */
enum err_code court_hear(struct court *c, struct claim claim, struct err *err) ERR_USED;
/* diagnose_pairs.c. Two at once; keeps the pairs that hold. */
enum err_code court_pairs(struct court *c, struct err *err) ERR_USED;
/* Makes what holds, and cannot be told from the best, the claims of the diagnosis: where one of
 * them pays for itself, which the others are equals of. */
void court_claim(struct court *c);

#endif
