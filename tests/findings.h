/* findings.h: what an inspection of samples or of a head must say. */
#ifndef ASSAY_TESTS_FINDINGS_H
#define ASSAY_TESTS_FINDINGS_H

#include "harness/inspect_samples.h"
#include "tests/cli.h"

/* The result of inspect_samples() on one thread, over 64 samples and 1024 rows where o is NULL. The
 * caller's. */
json_t *samples_inspected(const char *path, const char *model, const struct samples_options *o);

/* Some problem has this `what`, and its cause and remedy (or what is wanted) hold these texts. */
void finds(const json_t *result, const char *what, const char *cause, const char *remedy);
/* There are n problems, or the test fails and shows them. */
void problems_are(const json_t *result, size_t n);
/* Some note holds this text. */
bool notes_hold(const json_t *result, const char *text);

#endif
