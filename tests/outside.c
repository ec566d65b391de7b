/* outside.c: see outside.h. */
#include "tests/outside.h"

#include "tests/support.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NO_PROGRAM = 127, NO_LOG = 126 };

char *outside(const char *const *argv, const char *log, int *status)
{
    int ended = 0;
    size_t size;
    const pid_t child = fork();
    if (child == 0) {
        if (!freopen(log, "w", stdout) || dup2(STDOUT_FILENO, STDERR_FILENO) < 0) _exit(NO_LOG);
        execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(errno == ENOENT ? NO_PROGRAM : NO_LOG);
    }
    assert_int_equal(waitpid(child, &ended, 0), child);
    if (!WIFEXITED(ended)) fail_msg("%s: a signal ended it", argv[0]);
    *status = WEXITSTATUS(ended);
    return *status == NO_PROGRAM ? NULL : read_whole(log, &size);
}
