/* ranks.h: a test program that is its own ranks. Its main() gives ranks_main() the first look; the
 * tasks of ranks.c are what a rank can be asked for.
 *
 * From ranks_apart() on they are started as a launcher starts them on several hosts: a process
 * each, two on a host, which is one by its name and its monotonic clock where this process may give
 * those, else by our word. */
#ifndef ASSAY_TESTS_RANKS_H
#define ASSAY_TESTS_RANKS_H

#include "harness/workers.h"
#include "tests/support.h"

/* True: this process was a rank, *status is its exit status. */
bool ranks_main(int argc, char **argv, int *status);

/* For cmocka: whose ranks the next tests are. */
int ranks_near(void **state);
int ranks_apart(void **state);
bool ranks_are_apart(void);
/* The name of a rank's host, when they are apart. */
const char *ranks_host(int rank);
/* "rank 2", or "rank 2 on node1" when they are apart; good until the next three. */
const char *ranks_who(int rank);
/* Its keeper's process, and how that has ended once ranks_close() is done; rank 1 or above. */
pid_t ranks_keeper(int rank);
int ranks_keeper_status(int rank);

/* Both as ranks_open() and ranks_close() do it: for a test whose rank 0 is another process. */
void ranks_start_keepers(struct workers_options *o);
void ranks_wait_for_keepers(void);

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
