/* preflight_child.c: see preflight_child.h. The child leads a group of its own; this process is a
 * subreaper meanwhile, so that what leaves the group is still found and ended. */
#include "harness/preflight_child.h"

#include "harness/child.h"
#include "harness/session.h"
#include "harness/verb.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM "/proc/self/exe"

static const int interrupts[] = {SIGINT, SIGTERM, SIGHUP};
static const double grace_s = 5;

/* What the parent ignores stays ignored: nohup, and jobs in the background of a script. */
static void taken(sigset_t *set)
{
    struct sigaction old;
    sigemptyset(set);
    sigaddset(set, SIGCHLD);
    for (size_t i = 0; i < sizeof interrupts / sizeof interrupts[0]; i++) {
        if (sigaction(interrupts[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaddset(set, interrupts[i]);
    }
}

void preflight_children_begin(struct preflight_children *c)
{
    sigset_t set;
    c->number = 0;
    taken(&set);
    sigprocmask(SIG_BLOCK, &set, &c->before);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
}

void preflight_children_end(struct preflight_children *c)
{
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    sigprocmask(SIG_SETMASK, &c->before, NULL);
    if (c->number) raise(c->number);
}

__attribute__((noreturn)) static void become(const struct preflight_children *c,
                                             const struct preflight_child *child)
{
    int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int out = open(child->output, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (in < 0 || out < 0 || chdir(child->folder) != 0) _exit(127);
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    verb_signals_restore();
    sigprocmask(SIG_SETMASK, &c->before, NULL);
    execv(PROGRAM, (char *const *)(uintptr_t)child->argv);
    _exit(127);
}

/* Takes in whoever has ended; true: `pid` has. */
static bool reap(pid_t pid, int *status)
{
    bool ended = false;
    int how;
    for (pid_t who; (who = waitpid(-1, &how, WNOHANG)) > 0;) {
        if (who != pid) continue;
        *status = how;
        ended = true;
    }
    return ended;
}

/* Until `pid` has ended, an interrupt has come, or `seconds` are over; they are what is shown. */
static bool wait_for(struct preflight_children *c, pid_t pid, double seconds, int *status)
{
    static const double look_s = 1;
    const double began = clock_seconds(), end = began + seconds;
    sigset_t set;
    siginfo_t info;
    taken(&set);
    while (!reap(pid, status)) {
        const double left = end - clock_seconds(), tick = left < look_s ? left : look_s;
        if (!(left > 0)) return false;
        const struct timespec t = {(time_t)tick, (long)((tick - (double)(time_t)tick) * 1e9)};
        progress_show(NULL, "rehearsal, seconds of its limit", (int64_t)(clock_seconds() - began),
                      (int64_t)seconds);
        if (sigtimedwait(&set, &info, &t) < 0 || info.si_signo == SIGCHLD) continue;
        c->number = info.si_signo;
        return false;
    }
    return true;
}

/* What the child left behind has become ours: all children that there are. */
static void end_orphans(void)
{
    char path[64];
    int pid;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    for (bool any = true; any;) {
        FILE *f = fopen(path, "re");
        any = false;
        while (f && fscanf(f, "%d", &pid) == 1) {
            if (child_wait(pid, false, 0, NULL) != CHILD_STUCK) any = true;
        }
        if (f) fclose(f);
    }
}

enum err_code preflight_child_run(struct preflight_children *c, struct preflight_child *child,
                                  struct err *err)
{
    pid_t pid = fork();
    if (pid == 0) become(c, child);
    if (pid < 0) return err_sys(err, errno, "rehearse|a process");
    setpgid(pid, pid); /* here too: whoever comes first */
    bool ended = wait_for(c, pid, child->seconds, &child->status);
    child->late = !ended && !c->number;
    if (!ended) {
        kill(-pid, SIGTERM);
        ended = wait_for(c, pid, grace_s, &child->status);
    }
    kill(-pid, SIGKILL);
    if (!ended) (void)child_wait(pid, true, 0, &child->status);
    end_orphans();
    return ERR_OK;
}
