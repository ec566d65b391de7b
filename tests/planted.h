/* planted.h: dumps of the reference with faults planted in it, as subjects of a comparison. */
#ifndef ASSAY_TESTS_PLANTED_H
#define ASSAY_TESTS_PLANTED_H

#include "core/dtype.h"
#include "harness/session.h"

/* What to make. */
struct planted {
    const char *model, *profile; /* as forward takes them; the profile is written into the dump */
    const int64_t *token;        /* one sequence */
    int64_t tokens;
    const char *fault[3]; /* "ID@KEY=VALUE,..."; NULL at the end */
    const char *taps;     /* patterns joined by ','; NULL: all */
    int64_t last;         /* only the last rows; 0: all */
    enum dtype dtype;     /* of real taps: DT_F32, or a narrower one they are stored in */
    const char *fine;     /* patterns of those that are stored in float32 all the same */
    const char *says;     /* assay.profile of the dump; NULL: profile */
};

/* Writes the dump, in float32 arithmetic. False: the fault cannot run on this model (the text of
 * the error is printed). Anything else fails the test. */
bool planted_write(const struct planted *p, const char *path);

#endif
