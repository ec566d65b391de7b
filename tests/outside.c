/* outside.c: see outside.h. */
#include "tests/outside.h"

#include "tests/support.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NO_PROGRAM = 127, NO_LOG = 126 };

/* What a child exited with. */
static int exit_of(pid_t child, const char *name)
{
    int ended = 0;
    assert_int_equal(waitpid(child, &ended, 0), child);
    if (!WIFEXITED(ended)) fail_msg("%s: a signal ended it", name);
    return WEXITSTATUS(ended);
}

char *outside(const char *const *argv, const char *log, int *status)
{
    size_t size;
    const pid_t child = fork();
    if (child == 0) {
        if (!freopen(log, "w", stdout) || dup2(STDOUT_FILENO, STDERR_FILENO) < 0) _exit(NO_LOG);
        execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(errno == ENOENT ? NO_PROGRAM : NO_LOG);
    }
    *status = exit_of(child, argv[0]);
    return *status == NO_PROGRAM ? NULL : read_whole(log, &size);
}

int outside_sh(const char *line)
{
    const char *const argv[] = {"/bin/sh", "-c", line, NULL};
    const pid_t child = fork();
    if (child == 0) {
        execv(argv[0], (char *const *)(uintptr_t)argv);
        _exit(NO_PROGRAM);
    }
    return exit_of(child, line);
}
