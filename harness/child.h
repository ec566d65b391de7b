/* child.h: waiting for a process that was started here, never longer than asked. Every wait for a
 * child goes through here, but for those of ranks (workers.h), which are watched while they work.
 * Test: tests/test_child.c */
#ifndef ASSAY_HARNESS_CHILD_H
#define ASSAY_HARNESS_CHILD_H

#include "core/error.h"

#include <stdbool.h>
#include <sys/types.h>

enum child_end {
    CHILD_ENDED,
    CHILD_KILLED, /* it was still there and was made to end */
    CHILD_STUCK,  /* not even that helped: the kernel holds it, on a dead disk or driver */
};

/* Waits for `pid` until `until` (clock_seconds()); one that lives on is killed, with the process
 * group that it leads where `group` says that it does, and has ten seconds more. *status as
 * waitpid() gives it, 0 of a stuck one; may be NULL. */
enum child_end child_wait(pid_t pid, bool group, double until, int *status);

/* What to say of one that did not end by itself: "wait for WHAT|pid 123|no end after 60 s: killed|
 * ...". ERR_PROCESS. */
enum err_code child_late(struct err *err, const char *what, pid_t pid, double seconds,
                         enum child_end end);

#endif
