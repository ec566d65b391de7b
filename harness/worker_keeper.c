/* worker_keeper.c: the process that a launcher has started on another host than rank 0's: it starts
 * the rank as a child, as rank 0's process does with its own, and tells rank 0 what that would see
 * itself: what the rank is doing, its stderr, how it has ended. Its requests go to the rank by a
 * connection of their own. See workers_parts.h.
 *
 * It ends the rank when rank 0 says so or its connection ends, and ends itself with 0 where the
 * rank has done all that was asked, else with 3, once rank 0's process has ended. */
#include "core/check.h"
#include "harness/session.h"
#include "harness/workers_parts.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STDERR_BYTES = 4096 };

struct keeper {
    struct workers *w;
    struct rank *r;
    struct wire link;
    int64_t beat_ns; /* the sign of life that was told last */
    int64_t kills;   /* for want of memory, at the start */
    int stopped_by;  /* the rank whose failure ended the last call; -1: none */
    bool told_pid, told_end;
    bool let_go; /* rank 0 has said that it is over; `well`: and that all is well */
    bool well, over;
};

/* ---- to rank 0 ---- */

/* True: it is on its way. One message at a time. */
static bool tell(struct keeper *k, enum wire_kind kind, const void *data, int64_t bytes)
{
    const struct wire_message m = {.kind = kind, .rank = k->r->rank, .data = data, .bytes = bytes};
    struct err lost = ERR_INIT;
    if (k->link.fd < 0 || k->link.out_sent < k->link.out_bytes) return false;
    if (wire_queue(&k->link, &m, &lost) != ERR_OK) return false;
    (void)!wire_flush(&k->link, &lost);
    return true;
}

static bool is_free(const struct keeper *k)
{
    return k->link.fd >= 0 && k->link.out_sent == k->link.out_bytes;
}

static void close_stderr(struct rank *r)
{
    close(r->err_fd);
    r->err_fd = -1;
}

/* Of a rank that has ended what is there is all: a child of its own may hold the other end. */
static void pass_stderr(struct keeper *k)
{
    char bytes[STDERR_BYTES];
    while (k->r->err_fd >= 0 && is_free(k)) {
        ssize_t n = read(k->r->err_fd, bytes, sizeof bytes);
        if (n > 0)
            (void)tell(k, WIRE_STDERR, bytes, n);
        else if (n == 0 || (errno != EINTR && errno != EAGAIN))
            close_stderr(k->r);
        else if (errno == EAGAIN && k->r->pid < 0)
            close_stderr(k->r);
        else if (errno == EAGAIN)
            return;
    }
}

static void pass_beat(struct keeper *k)
{
    struct board *b = &k->w->board;
    int rank = k->r->rank;
    struct far_beat beat = {.now_ns = (int64_t)(1e9 * clock_seconds()),
                            .alive_ns = board_alive_ns(b, rank),
                            .ending_ns = board_ending_ns(b, rank)};
    bool news = beat.alive_ns != k->beat_ns || (k->r->pid < 0 && !k->told_end);
    if (!is_free(k) || !news || !board_read(b, rank, &beat.place)) return;
    if (tell(k, WIRE_BEAT, &beat, sizeof beat)) k->beat_ns = beat.alive_ns;
}

static void pass_end(struct keeper *k)
{
    int64_t now = workers_kills(k->w->oom);
    const struct far_ended e = {.status = k->r->status, .oom = k->kills >= 0 && now > k->kills};
    if (k->r->pid >= 0 || k->r->err_fd >= 0 || k->told_end || !is_free(k)) return;
    k->told_end = tell(k, WIRE_ENDED, &e, sizeof e);
}

static void speak(struct keeper *k)
{
    const int64_t pid = k->r->had;
    struct err lost = ERR_INIT;
    if (k->link.fd >= 0 && !is_free(k)) (void)!wire_flush(&k->link, &lost);
    if (!k->told_pid && is_free(k)) k->told_pid = tell(k, WIRE_HELLO, &pid, sizeof pid);
    pass_stderr(k);
    pass_beat(k);
    pass_end(k);
}

/* ---- from rank 0 ---- */

static void end_rank(struct keeper *k)
{
    if (k->r->pid > 0) workers_end_rank(k->w, k->r);
}

static void take_word(struct keeper *k, const struct wire_message *m)
{
    struct far_stop stop;
    if (m->kind == WIRE_STOP && m->bytes == sizeof stop) {
        memcpy(&stop, m->data, sizeof stop);
        collective_shm_stop(&k->w->shm, stop.call, (int)stop.by);
        k->stopped_by = (int)stop.by;
    } else if (m->kind == WIRE_BYE && m->bytes == 1) {
        k->let_go = true;
        k->well = m->data[0] != 0;
        if (k->well) k->over = true;
        end_rank(k);
    }
}

static void listen_to(struct keeper *k)
{
    struct wire_message m;
    struct err lost = ERR_INIT;
    while (!k->over) {
        switch (wire_fill(&k->link, &m, &lost)) {
        case WIRE_DONE:
            take_word(k, &m);
            break;
        case WIRE_AGAIN:
            return;
        default:
            k->over = true;
        }
    }
}

/* ---- the rank ---- */

static void look_at_rank(struct keeper *k)
{
    struct rank *r = k->r;
    int status;
    if (r->pid <= 0 || waitpid(r->pid, &status, WNOHANG) != r->pid) return;
    r->status = status;
    r->pid = -1;
    close(r->pidfd);
    r->pidfd = -1;
}

static void keep(struct keeper *k)
{
    while (!k->over) {
        bool sends = k->link.out_sent < k->link.out_bytes;
        struct pollfd p[] = {{k->link.fd, (short)(POLLIN | (sends ? POLLOUT : 0)), 0},
                             {k->r->pidfd, POLLIN, 0},
                             {sends ? -1 : k->r->err_fd, POLLIN, 0}};
        (void)poll(p, 3, WORKERS_TICK_MS);
        look_at_rank(k);
        listen_to(k);
        if (!k->over) speak(k);
    }
}

/* ---- all of it ---- */

static enum err_code open_keeper(struct keeper *k, struct rendezvous *r, double wait_s,
                                 struct err *err)
{
    struct far_welcome hello;
    struct mesh mesh;
    if (mesh_open(&mesh, r, wait_s, err) != ERR_OK) return err->code;
    if (rendezvous_share(r, &hello, sizeof hello, wait_s, err) != ERR_OK) {
        mesh_close(&mesh);
        return err->code;
    }
    const struct workers_options o = {.world = r->world,
                                      .collective_s = hello.collective_s,
                                      .window = hello.window,
                                      .fault = hello.fault[0] ? hello.fault : NULL,
                                      .oom = hello.oom[0] ? hello.oom : NULL};
    struct workers *w = k->w = workers_make(&o);
    if (!w || !w->rank || !w->program) {
        mesh_close(&mesh);
        return err_set(err, ERR_MEMORY, "start a rank|%d|no memory|some", r->rank);
    }
    w->far = true;
    w->mesh = mesh;
    k->r = &w->rank[r->rank];
    k->link = r->peer[0];
    r->peer[0] = (struct wire){.fd = -1};
    k->kills = workers_kills(w->oom);
    int socket = w->mesh.wire[0];
    w->mesh.wire[0] = -1;
    if (board_make(&w->board, r->world, err) == ERR_OK &&
        collective_shm_make(&w->shm, r->world, hello.window, err) == ERR_OK)
        (void)!workers_start_rank(w, r->rank, socket, err);
    else
        close(socket);
    mesh_close(&w->mesh);
    return err->code;
}

static enum err_code verdict(const struct keeper *k, const struct rendezvous *r, struct err *err)
{
    const char *host = r->of[r->rank].host;
    if (k->well) return ERR_OK;
    if (!k->let_go)
        return err_set(err, ERR_PROCESS,
                       "ranks of several hosts|rank %d on %s|the connection of rank 0 has ended|a "
                       "word of it",
                       r->rank, host);
    if (k->stopped_by >= 0)
        return err_set(err, ERR_PROCESS,
                       "ranks of several hosts|rank %d on %s|the run was ended: rank %d failed "
                       "first|all ranks",
                       r->rank, host, k->stopped_by);
    return err_set(err, ERR_PROCESS,
                   "ranks of several hosts|rank %d on %s|rank 0 has ended the "
                   "run|its end",
                   r->rank, host);
}

int worker_keeper(struct rendezvous *r, double wait_s)
{
    struct keeper k = {.link = {.fd = -1}, .stopped_by = -1};
    struct err err = ERR_INIT;
    char line[ERR_LINE];
    if (open_keeper(&k, r, wait_s, &err) == ERR_OK) {
        keep(&k);
        end_rank(&k);
        (void)!verdict(&k, r, &err);
    }
    workers_close(k.w);
    wire_free(&k.link);
    if (err.code == ERR_OK) return 0;
    fprintf(stderr, "assay: error: %s\n", err_line(&err, line, sizeof line));
    return err_exit(err.code);
}
