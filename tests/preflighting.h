/* preflighting.h: plans for tests of `preflight`: written into the test's folder, run, and their
 * findings looked up. */
#ifndef ASSAY_TESTS_PREFLIGHTING_H
#define ASSAY_TESTS_PREFLIGHTING_H

#include "tests/cli.h"

/* The result of `preflight PLAN --json`, with `text` as PLAN ("p.yaml" of the test's folder), where
 * the exit status is `status`; else the test fails and shows what was printed. The caller's. */
json_t *preflighted(void **state, const char *text, int status);
/* The same with --rehearse. */
json_t *rehearsed(void **state, const char *text, int status);
/* The first finding of that rule ("layers.range"), or NULL. */
const json_t *finding_of(const json_t *result, const char *rule);
/* How many there are. */
int findings_of(const json_t *result, const char *rule);
/* The row of `checks`. */
const json_t *check_of(const json_t *result, const char *check);
/* A text of a finding holds this, or the test fails; "" wants no such text. */
void assert_holds(const json_t *finding, const char *key, const char *text);

#endif
