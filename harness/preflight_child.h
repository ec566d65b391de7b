/* preflight_child.h: this program as a child of its own, for so many seconds, and nothing of what
 * it started left behind; for the rehearsal. Test: tests/test_preflight_rehearse.c */
#ifndef ASSAY_HARNESS_PREFLIGHT_CHILD_H
#define ASSAY_HARNESS_PREFLIGHT_CHILD_H

#include "core/error.h"

#include <signal.h>
#include <stdbool.h>

/* From preflight_children_begin() to _end() an interrupt waits: it is kept in `number`, ends the
 * child that runs, and is raised by _end(), so that what is temporary can be removed before. */
struct preflight_children {
    sigset_t before;
    int number; /* 0: none came */
};

void preflight_children_begin(struct preflight_children *c);
void preflight_children_end(struct preflight_children *c);

struct preflight_child {
    const char *const *argv; /* argv[0] is shown; run is this program. Ends with NULL */
    const char *folder;      /* its current one */
    const char *output;      /* file for both of its streams */
    double seconds;
    int status; /* as waitpid() gives it */
    bool late;  /* it was ended because its time was over */
};

/* At its end it is asked to go (SIGTERM), and killed five seconds later; so is all that it left
 * behind. Errors: ERR_IO, no process. */
enum err_code preflight_child_run(struct preflight_children *c, struct preflight_child *child,
                                  struct err *err) ERR_USED;

#endif
