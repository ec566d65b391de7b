/* workers_far.c: ranks on other hosts, seen from their parent: what their keepers (worker_keeper.c)
 * tell of them becomes what is known of a rank of this host, its place on the board, its stderr,
 * its status; see workers_parts.h. */
#include "harness/session.h"
#include "harness/workers_parts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define DRAIN_S 1.0 /* from the word of a rank's end to the end of what it sent itself */

enum { DRIFT = 10000 /* two clocks differ by less than one part in so many */ };

static int64_t now_ns(void)
{
    return (int64_t)(1e9 * clock_seconds());
}

/* ---- taking them over ---- */

static void take_over(struct workers *w, struct rendezvous *from, int rank, struct err *err)
{
    struct rank *r = &w->rank[rank];
    char peer[WIRE_PEER];
    struct epoll_event event = {.events = EPOLLIN};
    snprintf(peer, sizeof peer, "rank %d", rank);
    wire_init(&r->wire, w->mesh.wire[rank], peer);
    w->mesh.wire[rank] = -1;
    r->far = true;
    r->there.link = from->peer[rank];
    from->peer[rank] = (struct wire){.fd = -1};
    r->pid = r->had = (pid_t)from->of[rank].pid;
    r->state = RANK_STARTING;
    worker_log_open(&r->log, rank, w->o.quiet ? NULL : stderr);
    if (epoll_ctl(w->watch, EPOLL_CTL_ADD, r->there.link.fd, &event) != 0)
        err_sys(err, errno, "watch a rank|rank %d of %d", rank, w->o.world);
}

enum err_code workers_adopt_far(struct workers *w, struct rendezvous *r, struct err *err)
{
    struct far_welcome hello = {w->shm.window, w->o.collective_s, "", ""};
    snprintf(hello.fault, sizeof hello.fault, "%s", w->fault ? w->fault : "");
    snprintf(hello.oom, sizeof hello.oom, "%s", w->oom ? w->oom : "");
    w->far = true;
    if (mesh_open(&w->mesh, r, w->o.launch_s, err) != ERR_OK ||
        rendezvous_share(r, &hello, sizeof hello, w->o.launch_s, err) != ERR_OK)
        return err->code;
    for (int i = 0; i < w->o.world; i++)
        snprintf(w->rank[i].host, sizeof w->rank[i].host, "%s", w->mesh.host[i]);
    for (int i = 1; i < w->o.world && err->code == ERR_OK; i++) take_over(w, r, i, err);
    return err->code;
}

/* ---- what keepers tell ---- */

/* How far the clock there is from ours: by the word that was the shortest on its way, as far as two
 * clocks have not gone apart since. */
void workers_far_clock(struct rank *r, int64_t there_ns)
{
    struct far_rank *t = &r->there;
    int64_t now = now_ns(), skew = now - there_ns;
    int64_t apart = (now - t->skew_at_ns) / DRIFT;
    if (t->skew_at_ns > 0 && skew > t->skew_ns + apart) skew = t->skew_ns + apart;
    t->skew_ns = skew;
    t->skew_at_ns = now;
}

static void take_beat(struct workers *w, struct rank *r, const struct far_beat *b)
{
    workers_far_clock(r, b->now_ns);
    int64_t skew = r->there.skew_ns;
    board_put(&w->board, r->rank, &b->place, b->alive_ns + skew,
              b->ending_ns > 0 ? b->ending_ns + skew : 0);
}

static void take_ended(struct rank *r, const struct far_ended *e)
{
    r->status = (int)e->status;
    r->there.oom = e->oom != 0;
    r->there.ended = true;
    r->there.ended_at = clock_seconds();
}

static void take_word(struct workers *w, struct rank *r, const struct wire_message *m)
{
    int64_t pid;
    struct far_beat beat;
    struct far_ended ended;
    if (m->kind == WIRE_HELLO && m->bytes == sizeof pid) {
        memcpy(&pid, m->data, sizeof pid);
        r->pid = r->had = (pid_t)pid;
    } else if (m->kind == WIRE_BEAT && m->bytes == sizeof beat) {
        memcpy(&beat, m->data, sizeof beat);
        take_beat(w, r, &beat);
    } else if (m->kind == WIRE_STDERR) {
        worker_log_feed(&r->log, (const char *)m->data, (size_t)m->bytes);
    } else if (m->kind == WIRE_ENDED && m->bytes == sizeof ended) {
        memcpy(&ended, m->data, sizeof ended);
        worker_log_end(&r->log);
        take_ended(r, &ended);
    }
}

/* Without a word of its keeper's: that is gone, or its host. */
static void lose(struct rank *r)
{
    struct far_rank *t = &r->there;
    close(t->link.fd);
    t->link.fd = -1;
    if (t->ended) return;
    worker_log_end(&r->log);
    t->ended = t->lost = true;
    t->ended_at = clock_seconds();
}

void workers_far_serve(struct workers *w, struct rank *r)
{
    struct wire *link = &r->there.link;
    struct wire_message m;
    struct err lost = ERR_INIT;
    if (link->fd >= 0 && link->out_sent < link->out_bytes) (void)!wire_flush(link, &lost);
    while (link->fd >= 0) {
        switch (wire_fill(link, &m, &lost)) {
        case WIRE_DONE:
            take_word(w, r, &m);
            break;
        case WIRE_AGAIN:
            return;
        default:
            lose(r);
        }
    }
}

bool workers_far_over(const struct rank *r)
{
    bool read = r->wire.fd < 0 || r->state == RANK_DONE;
    return r->there.ended && (read || clock_seconds() > r->there.ended_at + DRAIN_S);
}

/* ---- what they are told ---- */

static void tell(struct rank *r, enum wire_kind kind, const void *data, int64_t bytes)
{
    struct wire *link = &r->there.link;
    const struct wire_message m = {.kind = kind, .data = data, .bytes = bytes};
    struct err lost = ERR_INIT;
    /* Where the last word has not gone yet, the connection is as good as gone itself. */
    if (link->fd < 0 || link->out_sent < link->out_bytes) return;
    if (wire_queue(link, &m, &lost) == ERR_OK) (void)!wire_flush(link, &lost);
}

void workers_far_stop(struct workers *w, int by)
{
    const struct far_stop stop = {w->call, by};
    for (int i = 0; i < w->o.world; i++) {
        if (w->rank[i].far) tell(&w->rank[i], WIRE_STOP, &stop, sizeof stop);
    }
}

/* Connections to keepers that are told to end their rank: see workers_release(). */
static int held[COLLECTIVE_RANKS], held_count;

void workers_release(void)
{
    while (held_count > 0) close(held[--held_count]);
}

static void hold(struct wire *link)
{
    if (link->fd >= 0 && held_count < COLLECTIVE_RANKS) {
        held[held_count++] = link->fd;
        link->fd = -1;
    }
    wire_free(link);
}

void workers_far_end(struct workers *w, struct rank *r)
{
    const char well = w->closing && r->failure.outcome == WORKER_FINE;
    tell(r, WIRE_BYE, &well, 1);
    hold(&r->there.link);
    wire_free(&r->wire);
    r->pid = -1;
}
