/* outside.h: programs that are not ours, for tests that ask them: bash, groff, xmllint. */
#ifndef ASSAY_TESTS_OUTSIDE_H
#define ASSAY_TESTS_OUTSIDE_H

/* Runs argv[0] of the PATH; both streams go to the file `log`. *status is what it exited with; a
 * signal fails the test. Returns what it said, the caller's; NULL where there is no such program.
 */
char *outside(const char *const *argv, const char *log, int *status);

/* Runs a line by /bin/sh with this process' streams; what it exited with. A signal fails the test.
 */
int outside_sh(const char *line);

#endif
