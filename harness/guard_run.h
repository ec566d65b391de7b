/* guard_run.h: runs a command under guard: its streams pass through, signals are forwarded, the
 * watcher (guard_watch.h) runs beside it, and Pythons below it are injected through PYTHONPATH.
 * This process does as little as it can, so that it cannot fail where the command would not:
 * without a folder, a log or a watcher the command runs as ever.
 *
 * It is a subreaper: processes below that lose their parent become its children, and how they end
 * is known. The command stays in the process group and session of its caller, as if it had been
 * started without a guard. Test: tests/test_guard_run.c */
#ifndef ASSAY_HARNESS_GUARD_RUN_H
#define ASSAY_HARNESS_GUARD_RUN_H

#include "core/file.h"
#include "harness/guard_watch.h"

struct guard_options {
    char *const *command; /* ends with NULL */
    int out_fd;           /* where its stdout goes: 1, or 2 */
    double stall_s;
    bool kill;
    const char *also; /* packages, with ':' between */
    bool deep;        /* all other packages too */
    const char *log;  /* NULL: in a folder of the guard's own, which goes away */
    const char *file[GUARD_FILES];
    int files;
    const json_t *contract; /* guard_contract.h, or NULL */
};

struct guard_outcome {
    int status;           /* as waitpid() gives it */
    int exec_errno;       /* 0, or why the command could not be started */
    json_t *seen;         /* {findings, own, shallow, pythons, lines_not_kept} of the watcher; NULL:
                             it gave nothing */
    char kept[FILE_PATH]; /* a log that nobody read, and that is still there; "" : none */
};

/* ERR_IO: the command could not be started at all. */
enum err_code guard_run(const struct guard_options *o, struct guard_outcome *out,
                        struct err *err) ERR_USED;
void guard_outcome_free(struct guard_outcome *out);

#endif
