/* ranks.h: a test program that is its own ranks. Its main() gives ranks_main() the first look; the
 * tasks below are what a rank can be asked for. */
#ifndef ASSAY_TESTS_RANKS_H
#define ASSAY_TESTS_RANKS_H

#include "harness/workers.h"
#include "tests/support.h"

/* True: this process was a rank, *status is its exit status. */
bool ranks_main(int argc, char **argv, int *status);

/* Short deadlines, stderr kept and not passed on. */
struct workers_options ranks_options(int world);
/* Opens, or fails the test. */
struct workers *ranks_open(const struct workers_options *o);
/* Closes, and checks that nothing is left of it and of whatever the test did since its setup. */
void ranks_close(struct workers *w);
/* Asks them to end first, which must go well. */
void ranks_finish(struct workers *w);
/* For cmocka: a failed test's ranks are not the next one's trouble. */
int ranks_setup(void **state);
int ranks_teardown(void **state);
/* A request without anything but a task and some words. */
struct worker_request ranks_request(const char *task, const char *words);
/* A call to all that must fail. */
void ranks_fail(struct workers *w, const char *task, const char *words, struct err *err);

/* No child, no descriptor and no mapping that was not there at the setup. */
void ranks_assert_no_traces(void);

#endif
