/* child.c: see child.h. */
#include "harness/child.h"

#include "harness/session.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#define LOOK_S 1e-3
#define DYING_S 10.0

/* True: it has ended, or is no child of this process any more. */
static bool has_ended(pid_t pid, int *status)
{
    pid_t got = waitpid(pid, status, WNOHANG);
    return got == pid || (got < 0 && errno != EINTR);
}

static bool ends_by(pid_t pid, double until, int *status)
{
    const struct timespec pause = {.tv_nsec = (long)(LOOK_S * 1e9)};
    while (!has_ended(pid, status)) {
        if (clock_seconds() >= until) return false;
        nanosleep(&pause, NULL);
    }
    return true;
}

enum child_end child_wait(pid_t pid, bool group, double until, int *status)
{
    int how = 0;
    enum child_end end = CHILD_ENDED;
    if (!ends_by(pid, until, &how)) {
        if (group) kill(-pid, SIGKILL);
        kill(pid, SIGKILL);
        end = ends_by(pid, clock_seconds() + DYING_S, &how) ? CHILD_KILLED : CHILD_STUCK;
    }
    if (status) *status = how;
    return end;
}

enum err_code child_late(struct err *err, const char *what, pid_t pid, double seconds,
                         enum child_end end)
{
    return err_set(err, ERR_PROCESS,
                   "wait for %s|pid %d|no end after %.3g s: %s|an end in that time", what, (int)pid,
                   seconds,
                   end == CHILD_STUCK ? "killed, and the kernel does not let go of it" : "killed");
}
