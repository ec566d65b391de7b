/* guard_run.c: see guard_run.h. */
#include "harness/guard_run.h"

#include "harness/child.h"
#include "harness/guard_place.h"
#include "harness/guard_streams.h"
#include "harness/verb.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct running {
    const struct guard_options *o;
    struct guard_place place;
    struct guard_streams streams;
    sigset_t taken, before;
    pid_t command, watcher; /* -1: none */
    int events, result;     /* to and from the watcher; -1: none */
};

/* ---- the watcher ---- */

static long file_size(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (long)st.st_size : 0;
}

/* In the watcher: out of the way of the terminal, holding nothing of the command's. */
__attribute__((noreturn)) static void become_watcher(struct running *r, struct guard_watch *w)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    setpgid(0, 0);
    for (int i = 0; i < 3; i++) dup2(null, i);
    for (int i = 0; i < 2; i++) {
        const struct guard_stream *s = &r->streams.at[i];
        int held[] = {s->from, s->command, s->copy};
        for (int k = 0; k < 3; k++) {
            if (held[k] >= 0) close(held[k]);
        }
    }
    for (int i = 0; i < 2; i++) close(r->streams.stop[i]); /* else its end is never seen */
    close(r->events);
    close(r->result);
    bool told = guard_watch_run(w);
    /* The guard itself was killed: what it knew stays where it is. */
    if (!told) guard_place_remove(&r->place, false);
    _exit(0);
}

static void fill(const struct running *r, struct guard_watch *w)
{
    *w = (struct guard_watch){.stream = {-1, -1},
                              .log = r->place.log,
                              .stacks = r->place.stacks,
                              .harmless = r->place.harmless,
                              .log_from = r->place.log_from,
                              .root = getpid(),
                              .stall_s = r->o->stall_s,
                              .kill = r->o->kill,
                              .number = guard_place_signal(),
                              .files = r->o->files};
    for (int i = 0; i < r->o->files; i++) {
        w->file[i] = r->o->file[i];
        w->file_from[i] = file_size(r->o->file[i]);
    }
}

/* Without a log there is nothing to watch with; without a watcher the command runs all the same. */
static void start_watcher(struct running *r)
{
    enum { COPY_BYTES = 1 << 20 };
    struct guard_watch w;
    int events[2], result[2];
    r->watcher = r->events = r->result = -1;
    if (!r->place.log[0] || pipe2(events, O_CLOEXEC) != 0) return;
    fcntl(events[1], F_SETFL, O_NONBLOCK); /* a watcher that reads no more holds nobody up */
    if (pipe2(result, O_CLOEXEC) != 0) return;
    fill(r, &w);
    for (int i = 0; i < 2; i++) {
        int ends[2];
        if (r->streams.at[i].from < 0 || pipe2(ends, O_CLOEXEC) != 0) continue;
        fcntl(ends[1], F_SETFL, O_NONBLOCK);
        (void)fcntl(ends[1], F_SETPIPE_SZ, COPY_BYTES);
        w.stream[i] = ends[0];
        r->streams.at[i].copy = ends[1];
    }
    w.events = events[0];
    r->events = events[1];
    w.result = result[1];
    r->result = result[0];
    r->watcher = fork();
    if (r->watcher == 0) become_watcher(r, &w);
    close(w.events);
    close(w.result);
    for (int i = 0; i < 2; i++) {
        if (w.stream[i] >= 0) close(w.stream[i]);
    }
}

static void tell(const struct running *r, enum guard_event_kind kind, pid_t pid, int status,
                 const char *name)
{
    struct guard_event e = {.kind = kind, .pid = pid, .status = status};
    snprintf(e.name, sizeof e.name, "%s", name);
    if (r->events >= 0) (void)!write(r->events, &e, sizeof e);
}

/* Its findings, once it has been told of the end. NULL: it has crashed, or takes too long. */
static json_t *ask_watcher(struct running *r)
{
    enum { PATIENCE_MS = 20000 };
    char *text = NULL;
    size_t used = 0;
    ssize_t n = 1;
    if (r->watcher < 0) return NULL;
    while (n > 0) {
        struct pollfd p = {.fd = r->result, .events = POLLIN};
        if (poll(&p, 1, PATIENCE_MS) <= 0) break;
        char *more = realloc(text, used + (1 << 16));
        if (!more) break;
        text = more;
        n = read(r->result, text + used, 1 << 16);
        if (n > 0) used += (size_t)n;
    }
    close(r->result);
    (void)child_wait(r->watcher, false, 0, NULL);
    json_t *seen = text && used ? json_loadb(text, used, 0, NULL) : NULL;
    free(text);
    return seen;
}

/* ---- the command ---- */

__attribute__((noreturn)) static void become_command(struct running *r, int failed)
{
    guard_streams_become(&r->streams);
    guard_place_environment(&r->place, r->o->also, r->o->deep);
    verb_signals_restore();
    sigprocmask(SIG_SETMASK, &r->before, NULL);
    execvp(r->o->command[0], r->o->command);
    int num = errno;
    (void)!write(failed, &num, sizeof num);
    _exit(num == ENOENT ? 127 : 126);
}

static enum err_code start_command(struct running *r, struct guard_outcome *out, struct err *err)
{
    int failed[2];
    if (pipe2(failed, O_CLOEXEC) != 0) return err_sys(err, errno, "guard|a pipe");
    r->command = fork();
    if (r->command == 0) become_command(r, failed[1]);
    int num = errno;
    close(failed[1]);
    if (r->command > 0 && read(failed[0], &num, sizeof num) == (ssize_t)sizeof num)
        out->exec_errno = num;
    close(failed[0]);
    if (r->command < 0) return err_sys(err, num, "guard|a process for %s", r->o->command[0]);
    tell(r, GUARD_COMMAND, r->command, 0, "");
    return ERR_OK;
}

/* The name of a process that has ended and that nobody has reaped yet. */
static void name_of(pid_t pid, char name[GUARD_NAME])
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    FILE *f = fopen(path, "re");
    if (!f || !fgets(name, GUARD_NAME, f)) snprintf(name, GUARD_NAME, "?");
    if (f) fclose(f);
    name[strcspn(name, "\n")] = '\0';
}

/* Takes in who has ended; true: the command has. */
static bool reap(struct running *r, int *status)
{
    siginfo_t info;
    char name[GUARD_NAME];
    for (;;) {
        info.si_pid = 0;
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || !info.si_pid) return false;
        pid_t pid = info.si_pid;
        int how = 0;
        name_of(pid, name);
        if (waitpid(pid, &how, WNOHANG) <= 0) return false;
        if (pid == r->command) {
            *status = how;
            return true;
        }
        if (pid == r->watcher)
            r->watcher = -1;
        else
            tell(r, GUARD_ORPHAN, pid, how, name);
    }
}

/* What a terminal sends goes to the whole group, the command in it; what a process sends came to
 * the guard alone. */
static void forward(const struct running *r, const siginfo_t *info)
{
    if (info->si_signo == SIGWINCH)
        guard_streams_resize(&r->streams);
    else if (info->si_code == SI_KERNEL)
        return;
    kill(r->command, info->si_signo);
}

static void take_signals(struct running *r)
{
    static const int numbers[] = {SIGCHLD, SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                                  SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH};
    sigemptyset(&r->taken);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        sigaddset(&r->taken, numbers[i]);
    sigprocmask(SIG_BLOCK, &r->taken, &r->before);
}

static void wait_for_command(struct running *r, struct guard_outcome *out)
{
    siginfo_t info;
    for (bool ended = false; !ended;) {
        if (sigwaitinfo(&r->taken, &info) < 0) continue;
        if (info.si_signo == SIGCHLD)
            ended = reap(r, &out->status);
        else
            forward(r, &info);
    }
}

enum err_code guard_run(const struct guard_options *o, struct guard_outcome *out, struct err *err)
{
    struct running r = {.o = o};
    *out = (struct guard_outcome){0};
    if (guard_place_make(&r.place, o->log, o->contract, err) != ERR_OK) return err->code;
    take_signals(&r);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (guard_streams_open(&r.streams, o->out_fd, err) != ERR_OK) return err->code;
    start_watcher(&r);
    if (start_command(&r, out, err) != ERR_OK || guard_streams_start(&r.streams, err) != ERR_OK)
        return err->code;
    wait_for_command(&r, out);
    guard_streams_finish(&r.streams);
    tell(&r, GUARD_ENDED, r.command, out->status, "");
    close(r.events);
    out->seen = ask_watcher(&r);
    if (!out->seen && r.place.log[0]) snprintf(out->kept, sizeof out->kept, "%s", r.place.log);
    guard_place_remove(&r.place, out->seen != NULL);
    sigprocmask(SIG_SETMASK, &r.before, NULL);
    return ERR_OK;
}

void guard_outcome_free(struct guard_outcome *out)
{
    json_decref(out->seen);
    out->seen = NULL;
}
