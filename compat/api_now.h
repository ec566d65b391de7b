/* api_now.h: where a name that is not there may be now: the same last name in another module, and
 * names that look alike. Suggestions, never proof. Test: tests/test_api_now.c */
#ifndef ASSAY_COMPAT_API_NOW_H
#define ASSAY_COMPAT_API_NOW_H

#include "compat/api.h"

/* How alike two identifiers are, 0 to 1: by their words (an equal word counts one, one that begins
 * another 0.7) or by edit distance, whichever says more. */
double api_alike(const char *x, const char *y);
enum { API_ALIKE_MIN_PERCENT = 50 };

/* A list of suggestions, best first. */
struct api_best {
    const char **text;
    double *score;
    int count, most;
};
/* Puts `text` at its place where it is good enough; each text once. */
void api_best_add(struct api_best *b, const char *text, double score);

/* Modules and names whose last part is that of `wanted` ("pkg.mod.Name"), those first whose other
 * trailing parts agree too, definitions before re-exports. Count, at most `most`. */
int api_moved(const struct api *a, const char *wanted, const char **out, int most);

#endif
