/* workers_launch.c: ranks that a launcher has started: rank 0 leads as the parent of all (its own
 * part of the work is done by a child of its), the others become workers. They meet by
 * rendezvous.h. On one host each then comes to a local socket of rank 0's, which is its wire from
 * there on, and gets the shared memory through it; on several each becomes a keeper
 * (worker_keeper.c). See workers.h. */
#include "core/check.h"
#include "harness/rendezvous.h"
#include "harness/session.h"
#include "harness/workers_parts.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum { DOOR_NAME = 64, SHARED = 2 /* board, collectives */, PORT_FIRST = 20000, PORTS = 20000 };

/* Where rank 0 waits for the others: a name that no file has; "": they are on several hosts. */
struct door {
    char name[DOOR_NAME];
};

/* What a rank is told there. */
struct welcome {
    int64_t window;
    double collective_s;
    int64_t parent;
    char fault[FAULT_TEXT]; /* "": none */
};

static socklen_t door_address(const struct door *d, struct sockaddr_un *out)
{
    size_t n = strlen(d->name);
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(out->sun_path + 1, d->name, n); /* after a NUL: an abstract name */
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
}

/* A launcher that tells no address: its processes on one host have one parent, and so one number in
 * common. */
static void find_address(struct launch *l)
{
    if (l->host[0] && l->port) return;
    snprintf(l->host, sizeof l->host, "127.0.0.1");
    l->port = PORT_FIRST + (int)(getppid() % PORTS);
}

/* ---- rank 0 ---- */

/* Whether the ranks share no memory: by the user's word, the launcher's, or their own. */
static enum err_code choose(const struct launch *l, struct rendezvous *r, bool *far,
                            struct err *err)
{
    int elsewhere = rendezvous_elsewhere(r);
    *far = l->transport == LAUNCH_TCP ||
           (l->transport == LAUNCH_ANY && (launch_apart(l) || elsewhere >= 0));
    if (*far || elsewhere < 0) return ERR_OK;
    err_set(err, ERR_PROCESS, "launcher|rank %d|on host %s|on %s, as rank 0: ASSAY_TRANSPORT=shm",
            elsewhere, r->of[elsewhere].host, r->of[0].host);
    err->rank = elsewhere;
    rendezvous_refuse(r, err);
    return err->code;
}

static int open_door(struct door *d, int world, struct err *err)
{
    struct sockaddr_un address;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    snprintf(d->name, sizeof d->name, "assay-%lld-%lld", (long long)getpid(),
             (long long)(1e9 * clock_seconds()));
    socklen_t size = door_address(d, &address);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0 && listen(fd, world) == 0)
        return fd;
    err_sys(err, errno, "launcher|rank 0: a local socket");
    if (fd >= 0) close(fd);
    return -1;
}

/* Whoever stands at the door: a process of this user's that says which rank it is. */
static enum err_code take_in(struct workers *w, int fd, double until, struct err *err)
{
    struct ucred who = {0};
    struct wire wire;
    struct wire_message m;
    struct welcome hello = {w->shm.window, w->o.collective_s, getpid(), ""};
    const struct segment shared[SHARED] = {w->board.segment, w->shm.segment};
    const struct wire_message welcome = {.kind = WIRE_REPLY,
                                         .data = (const unsigned char *)&hello,
                                         .bytes = sizeof hello,
                                         .segment = shared,
                                         .segments = SHARED};
    socklen_t size = sizeof who;
    snprintf(hello.fault, sizeof hello.fault, "%s", w->fault ? w->fault : "");
    wire_init(&wire, fd, "a rank");
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0 || who.uid != getuid() ||
        wire_receive(&wire, &m, until, err) != ERR_OK || m.kind != WIRE_HELLO || m.rank < 1 ||
        m.rank >= w->o.world || w->rank[m.rank].pid > 0) {
        wire_free(&wire);
        return err_set(err, ERR_PROCESS, "launcher|at the socket of rank 0|a stranger|a rank");
    }
    struct rank *r = &w->rank[m.rank];
    if (wire_send(&wire, &welcome, until, err) != ERR_OK) {
        wire_free(&wire);
        return err->code;
    }
    snprintf(wire.peer, sizeof wire.peer, "rank %d", r->rank);
    r->wire = wire;
    r->adopted = true;
    r->pid = r->had = who.pid;
    r->pidfd = (int)syscall(SYS_pidfd_open, who.pid, 0);
    r->state = RANK_STARTING;
    struct epoll_event event = {.events = EPOLLIN};
    if (r->pidfd < 0 || epoll_ctl(w->watch, EPOLL_CTL_ADD, r->pidfd, &event) != 0)
        return err_sys(err, errno, "watch a rank|rank %d of %d", r->rank, w->o.world);
    return ERR_OK;
}

static enum err_code take_all_in(struct workers *w, int door, double until, struct err *err)
{
    for (int came = 1; came < w->o.world && err->code == ERR_OK;) {
        struct pollfd p = {door, POLLIN, 0};
        double left = until - clock_seconds();
        if (!(left > 0))
            return err_set(err, ERR_PROCESS,
                           "launcher|rank 0 of %d|%d ranks at its socket in time|all", w->o.world,
                           came - 1);
        if (poll(&p, 1, (int)(1000 * (left < 60 ? left : 60)) + 1) <= 0) continue;
        int fd = accept4(door, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0 && take_in(w, fd, until, err) == ERR_OK) came++;
    }
    return err->code;
}

static enum err_code adopt_near(struct workers *w, struct rendezvous *r, double until,
                                struct err *err)
{
    struct door door = {""};
    int fd = open_door(&door, w->o.world, err);
    if (fd < 0) {
        rendezvous_refuse(r, err);
        return err->code;
    }
    if (rendezvous_share(r, &door, sizeof door, w->o.launch_s, err) == ERR_OK)
        (void)!take_all_in(w, fd, until, err);
    close(fd);
    return err->code;
}

enum err_code workers_adopt(struct workers *w, struct err *err)
{
    struct rendezvous r;
    struct door none = {""};
    struct launch l = *w->o.launch;
    double until = clock_seconds() + w->o.launch_s;
    bool far;
    CHECK(l.rank == 0 && l.world == w->o.world);
    find_address(&l);
    if (rendezvous_meet(&r, &l, w->o.launch_s, err) == ERR_OK &&
        choose(&l, &r, &far, err) == ERR_OK) {
        if (!far)
            (void)!adopt_near(w, &r, until, err);
        else if (rendezvous_share(&r, &none, sizeof none, w->o.launch_s, err) == ERR_OK)
            (void)!workers_adopt_far(w, &r, err);
    }
    rendezvous_close(&r);
    return err->code;
}

/* ---- the others ---- */

/* At the door of rank 0: which rank this is, then what it is told. */
static enum err_code enter(const struct launch *l, const struct door *door, double until,
                           struct wire *wire, struct worker_place *place, struct err *err)
{
    static struct welcome hello; /* place->fault leads into it */
    struct sockaddr_un address;
    socklen_t size = door_address(door, &address);
    const struct wire_message here = {.kind = WIRE_HELLO, .rank = l->rank};
    struct wire_message m;
    double left = until - clock_seconds();
    const struct timeval patience = {.tv_sec = left > 1 ? (time_t)left : 1}; /* a full backlog */
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) != 0 ||
        connect(fd, (struct sockaddr *)&address, size) != 0) {
        if (fd >= 0) close(fd);
        return err_sys(err, errno, "launcher|rank %d to the socket of rank 0", l->rank);
    }
    wire_init(wire, fd, "rank 0");
    if (wire_send(wire, &here, until, err) != ERR_OK ||
        wire_receive(wire, &m, until, err) != ERR_OK)
        return err->code;
    if (m.kind != WIRE_REPLY || m.bytes != sizeof hello || m.segments != SHARED)
        return err_set(err, ERR_PROCESS, "launcher|rank %d, told by rank 0|%lld bytes|a welcome",
                       l->rank, (long long)m.bytes);
    memcpy(&hello, m.data, sizeof hello);
    *place = (struct worker_place){.rank = l->rank,
                                   .world = l->world,
                                   .socket = dup(fd),
                                   .board = dup(m.segment[0].fd),
                                   .shm = dup(m.segment[1].fd),
                                   .window = hello.window,
                                   .collective_s = hello.collective_s,
                                   .parent = (pid_t)hello.parent,
                                   .launched = true,
                                   .fault = hello.fault[0] ? hello.fault : NULL};
    return ERR_OK;
}

/* The rank itself, in this process. */
static int become_worker(const struct worker_place *place, const struct worker_task *tasks)
{
    struct place_words words;
    char *argv[PLACE_WORDS + 3] = {"assay", "worker"};
    worker_place_write(place, &words);
    memcpy(argv + 2, words.word, sizeof *argv * (size_t)(words.count + 1));
    return worker_main(words.count + 2, argv, tasks);
}

int worker_launched(const struct launch *launch, double wait_s, const struct worker_task *tasks)
{
    struct launch l = *launch;
    struct rendezvous r;
    struct door door;
    struct wire wire = {.fd = -1};
    struct worker_place place;
    struct err err = ERR_INIT;
    char line[ERR_LINE];
    find_address(&l);
    int status = -1;
    if (rendezvous_meet(&r, &l, wait_s, &err) == ERR_OK &&
        rendezvous_share(&r, &door, sizeof door, wait_s, &err) == ERR_OK) {
        if (door.name[0])
            (void)!enter(&l, &door, clock_seconds() + wait_s, &wire, &place, &err);
        else
            status = worker_keeper(&r, wait_s);
    }
    rendezvous_close(&r);
    wire_free(&wire);
    if (status >= 0) return status;
    if (err.code != ERR_OK) {
        fprintf(stderr, "assay: error: %s\n", err_line(&err, line, sizeof line));
        return err_exit(err.code);
    }
    return become_worker(&place, tasks);
}
