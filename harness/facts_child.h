/* facts_child.h: a child process with its two streams caught, within limits. For facts.c.
 * Test: tests/test_facts.c */
#ifndef ASSAY_HARNESS_FACTS_CHILD_H
#define ASSAY_HARNESS_FACTS_CHILD_H

#include "harness/facts.h"

enum { FACTS_STDERR = 4096 };

struct facts_child {
    char *out; /* its stdout, `size` bytes */
    int64_t size, room;
    char message[FACTS_STDERR]; /* the end of its stderr */
    int status;                 /* as waitpid() gives it */
    int exec_errno;             /* 0, or why the program could not be started at all */
};

/* argv[0] is looked for in PATH; stdin is empty. Errors: ERR_PROCESS: a limit was passed, and the
 * child was killed; ERR_MEMORY; ERR_IO: no pipe, no fork. How it ended is in `c`.
 * facts_child_free() also after an error. */
enum err_code facts_child_run(struct facts_child *c, const struct facts_limits *limits,
                              const char *const *argv, struct err *err) ERR_USED;
void facts_child_free(struct facts_child *c);

#endif
