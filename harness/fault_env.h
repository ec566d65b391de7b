/* fault_env.h: the program run as a child in which the n-th call of a kind fails: faults env.*. The
 * failing is done by a library beside the program (preload/interpose.c). Test:
 * tests/test_fault_env.c */
#ifndef ASSAY_HARNESS_FAULT_ENV_H
#define ASSAY_HARNESS_FAULT_ENV_H

#include "core/error.h"

#include <stdbool.h>
#include <stdint.h>

/* Kinds of calls: "malloc", "write", "short_write", "fsync", "mmap", "rename", "open"; NULL past
 * the end. */
const char *fault_env_kind(int i);

struct fault_env {
    const char *kind;
    int64_t call; /* the N-th; 0: only count */
    int limit_s;  /* a child that runs longer is killed: a hang is an outcome */
};

struct fault_outcome {
    int status;         /* exit status; -1: ended by a signal */
    int signal;         /* 0, or the signal that ended it */
    bool hung;          /* killed at the limit */
    int64_t calls;      /* of the kind, that the child made; -1: it left no report */
    bool injected;      /* the call came and failed */
    char message[1024]; /* its stderr, the first lines */
};

/* Runs the program that is running now with these arguments (argv[0] is the verb, NULL at the end),
 * stdout to `out` (a path; NULL: /dev/null). Errors: the library is not there (ERR_DEVICE), fork,
 * exec. */
enum err_code fault_env_run(const struct fault_env *f, const char *const *argv, const char *out,
                            struct fault_outcome *outcome, struct err *err) ERR_USED;

/* What a run under such a fault must be: an exit status of 0 (it coped) or 3, no signal, no hang,
 * and a message that is not empty and of one line where it is not 0. ERR_FAULT says what was wrong.
 */
enum err_code fault_env_judge(const struct fault_env *f, const struct fault_outcome *o,
                              struct err *err) ERR_USED;

#endif
