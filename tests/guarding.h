/* guarding.h: helpers of the tests of `assay guard`: small Python scripts that lose something, or
 * nothing. */
#ifndef ASSAY_TESTS_GUARDING_H
#define ASSAY_TESTS_GUARDING_H

#include "tests/cli.h"

/* python3, or the one that ASSAY_PYTHON names. */
const char *guarding_python(void);
/* The first finding of that rule, or NULL. */
const json_t *guarding_finding(const struct cli *r, const char *rule);

/* Runs a line of sh, which must end well. */
void guarding_shell(const char *line);

/* Both streams and the exit status of the script at `path`, run without and with guard, are the
 * same, and guard says that nothing was lost. */
void guarding_left_alone(void **state, const char *program, const char *path);

#endif
