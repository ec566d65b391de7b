/* workers_start.c: a rank as a process; see workers_parts.h. The program runs itself again, so that
 * a rank begins with one thread and no state of its parent's. */
#include "core/check.h"
#include "harness/session.h"
#include "harness/workers_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CANNOT_RUN 127
#define REAP_S 5.0

/* The child between fork and exec: the parent may have threads, so nothing here may allocate or
 * lock. */
struct child {
    const char *program;
    char *const *argv;
    const int *keep; /* [kept] descriptors that the rank inherits */
    int kept;
    int err_fd;
    pid_t parent;
};

static void become_rank(const struct child *c)
{
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t none;
    sigemptyset(&none);
    sigemptyset(&plain.sa_mask);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != c->parent) _exit(CANNOT_RUN); /* it died before the line above */
    sigaction(SIGINT, &plain, NULL);
    sigaction(SIGTERM, &plain, NULL);
    sigaction(SIGHUP, &plain, NULL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    dup2(c->err_fd, STDOUT_FILENO); /* a stray line must not land in the parent's result */
    dup2(c->err_fd, STDERR_FILENO);
#ifdef SYS_close_range
    syscall(SYS_close_range, 3U, ~0U, 4U /* CLOSE_RANGE_CLOEXEC */);
#endif
    for (int i = 0; i < c->kept; i++) fcntl(c->keep[i], F_SETFD, 0);
    execv(c->program, c->argv);
    _exit(CANNOT_RUN);
}

/* `given`: the rank's end of its wire, where it is made already. */
static enum err_code open_ends(int given, int sockets[2], int pipes[2], struct err *err)
{
    sockets[0] = pipes[0] = pipes[1] = -1;
    sockets[1] = given;
    if ((given < 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) ||
        pipe2(pipes, O_CLOEXEC) != 0)
        return err_sys(err, errno, "start a rank|its socket and pipe");
    fcntl(pipes[0], F_SETFL, O_NONBLOCK);
    return ERR_OK;
}

static void shut(int fd)
{
    if (fd >= 0) close(fd);
}

static struct worker_place place_of(const struct workers *w, int rank, int socket)
{
    struct worker_place p = {.rank = rank,
                             .world = w->o.world,
                             .socket = socket,
                             .board = w->board.segment.fd,
                             .shm = w->shm.segment.fd,
                             .window = w->shm.window,
                             .collective_s = w->o.collective_s,
                             .parent = w->parent,
                             .far = w->far,
                             .fault = w->fault,
                             .oom = w->oom};
    memcpy(p.mesh, w->mesh.peer, sizeof p.mesh);
    memcpy(p.host, w->mesh.host, sizeof p.host);
    return p;
}

/* Returns how many. */
static int kept_of(const struct worker_place *p, int keep[3 + COLLECTIVE_RANKS])
{
    int n = 0;
    keep[n++] = p->socket;
    keep[n++] = p->board;
    keep[n++] = p->shm;
    for (int i = 0; p->far && i < p->world; i++) {
        if (p->mesh[i] >= 0) keep[n++] = p->mesh[i];
    }
    return n;
}

static pid_t start(const struct workers *w, int rank, int socket, int err_fd)
{
    const struct worker_place place = place_of(w, rank, socket);
    struct place_words words;
    char *argv[PLACE_WORDS + 3] = {w->program, "worker"};
    int keep[3 + COLLECTIVE_RANKS], kept = kept_of(&place, keep);
    worker_place_write(&place, &words);
    memcpy(argv + 2, words.word, sizeof *argv * (size_t)(words.count + 1));
    const struct child child = {w->program, argv, keep, kept, err_fd, w->parent};
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) become_rank(&child);
    return pid;
}

enum err_code workers_start_rank(struct workers *w, int rank, int given, struct err *err)
{
    struct rank *r = &w->rank[rank];
    int sockets[2], pipes[2];
    char peer[WIRE_PEER];
    if (open_ends(given, sockets, pipes, err) != ERR_OK) {
        shut(sockets[0]);
        shut(sockets[1]);
        return err_note(err, "rank %d", rank);
    }
    pid_t pid = start(w, rank, sockets[1], pipes[1]);
    int failed = errno;
    close(sockets[1]);
    close(pipes[1]);
    if (sockets[0] >= 0) {
        snprintf(peer, sizeof peer, "rank %d", rank);
        wire_init(&r->wire, sockets[0], peer);
        wire_slice(&r->wire, 1e-3 * WORKERS_TICK_MS);
    }
    r->err_fd = pipes[0];
    r->pid = r->had = pid;
    if (pid < 0) return err_sys(err, failed, "start a rank|rank %d of %d", rank, w->o.world);
    r->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct epoll_event event = {.events = EPOLLIN};
    if (r->pidfd < 0 || epoll_ctl(w->watch, EPOLL_CTL_ADD, r->pidfd, &event) != 0 ||
        epoll_ctl(w->watch, EPOLL_CTL_ADD, r->err_fd, &event) != 0)
        return err_sys(err, errno, "watch a rank|rank %d of %d", rank, w->o.world);
    worker_log_open(&r->log, rank, w->o.quiet ? NULL : stderr);
    return ERR_OK;
}

/* A killed process is gone at once, but where the kernel cannot let go of it: then it is left. */
static void reap(struct rank *r)
{
    const struct timespec nap = {.tv_nsec = 1000000};
    for (double until = clock_seconds() + REAP_S;;) {
        pid_t got = waitpid(r->pid, &r->status, WNOHANG);
        if (got == r->pid || (got < 0 && errno != EINTR) || clock_seconds() > until) return;
        nanosleep(&nap, NULL);
    }
}

void workers_end_rank(struct workers *w, struct rank *r)
{
    if (r->far) {
        workers_far_end(w, r);
        return;
    }
    if (r->pid > 0) {
        kill(r->pid, SIGKILL);
        if (!r->adopted) reap(r);
        r->pid = -1;
    }
    shut(r->pidfd);
    shut(r->err_fd);
    r->pidfd = r->err_fd = -1;
    wire_free(&r->wire);
}
