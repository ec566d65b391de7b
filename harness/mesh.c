/* mesh.c: see mesh.h. Who connects says in a HELLO which rank it is and what the connection is for.
 */
#include "harness/mesh.h"

#include "harness/net.h"
#include "harness/session.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define ANSWER_S 3.0 /* for one that has connected to say who it is */

enum purpose { FOR_COLLECTIVES = 1, FOR_REQUESTS };

/* Where the ranks are, and what tells this run from another; rank 0's word to all. */
struct table {
    uint64_t secret;
    int64_t port[COLLECTIVE_RANKS];
    char address[COLLECTIVE_RANKS][NET_NUMBERS]; /* "": rank 0's, by which each knows it */
    char host[COLLECTIVE_RANKS][RENDEZVOUS_HOST];
};

/* What a connection begins with. */
struct hello {
    uint64_t secret;
    int64_t purpose;
};

void mesh_none(struct mesh *m)
{
    *m = (struct mesh){0};
    for (int i = 0; i < COLLECTIVE_RANKS; i++) m->peer[i] = m->wire[i] = -1;
}

void mesh_close(struct mesh *m)
{
    for (int i = 0; i < COLLECTIVE_RANKS; i++) {
        if (m->peer[i] >= 0) close(m->peer[i]);
        if (m->wire[i] >= 0) close(m->wire[i]);
    }
    mesh_none(m);
}

/* ---- the table ---- */

static enum err_code fill_table(struct rendezvous *r, struct table *t, struct err *err)
{
    if (getrandom(&t->secret, sizeof t->secret, 0) != sizeof t->secret)
        return err_sys(err, errno, "meet the other ranks|a number of this run's");
    for (int i = 0; i < r->world; i++) {
        if (i > 0) net_peer(r->peer[i].fd, t->address[i]);
        if (net_is_loopback(t->address[i])) t->address[i][0] = '\0'; /* on rank 0's host */
        snprintf(t->host[i], sizeof t->host[i], "%s", r->of[i].host);
    }
    return ERR_OK;
}

/* Everybody's port to rank 0, and the table to all. */
static enum err_code agree(struct rendezvous *r, const struct err *failed, int port,
                           struct table *t, double wait_s, struct err *err)
{
    const int64_t own = port;
    *t = (struct table){0};
    if (rendezvous_gather(r, failed, &own, sizeof own, t->port, wait_s, err) != ERR_OK ||
        (r->rank == 0 && fill_table(r, t, err) != ERR_OK)) {
        if (r->rank == 0) rendezvous_refuse(r, err);
        return err->code;
    }
    return rendezvous_share(r, t, sizeof *t, wait_s, err);
}

/* ---- going and letting in ---- */

static enum err_code go_to(const struct rendezvous *r, const struct table *t, int rank,
                           enum purpose purpose, double until, int *out, struct err *err)
{
    const struct hello h = {t->secret, purpose};
    const struct wire_message m = {
        .kind = WIRE_HELLO, .rank = r->rank, .data = (const unsigned char *)&h, .bytes = sizeof h};
    struct err lost = ERR_INIT;
    struct wire wire;
    char first[NET_NUMBERS];
    const char *address = t->address[rank];
    net_peer(r->peer[0].fd, first);
    if (!address[0]) address = first;
    int fd = net_connect(address, (int)t->port[rank], until, &lost);
    if (fd >= 0) {
        wire_init(&wire, fd, "a rank");
        (void)!wire_send(&wire, &m, until, &lost);
        wire.fd = -1;
        wire_free(&wire);
        *out = fd;
    }
    if (lost.code == ERR_OK) return ERR_OK;
    err_set(err, ERR_PROCESS, "connect the ranks|rank %d on %s to rank %d on %s, %s:%lld|%s|%s",
            r->rank, t->host[r->rank], rank, t->host[rank], address, (long long)t->port[rank],
            lost.found, lost.wanted);
    err->rank = rank;
    return err->code;
}

/* Reads no byte more than the hello: what is behind it is for others. */
static bool read_hello(int fd, uint64_t secret, double until, struct wire_message *m,
                       struct hello *h)
{
    struct err lost = ERR_INIT;
    struct wire wire;
    wire_init(&wire, fd, "a rank");
    bool good = wire_receive(&wire, m, until, &lost) == ERR_OK && m->kind == WIRE_HELLO &&
                m->bytes == sizeof *h && !wire_buffered(&wire);
    if (good) memcpy(h, m->data, sizeof *h);
    wire.fd = -1;
    wire_free(&wire);
    return good && h->secret == secret;
}

/* True: one of those that are awaited. Others are closed. */
static bool let_in(struct mesh *m, const struct rendezvous *r, const struct table *t, int fd,
                   double until)
{
    struct wire_message hello;
    struct hello h = {0};
    double soon = clock_seconds() + ANSWER_S;
    if (read_hello(fd, t->secret, soon < until ? soon : until, &hello, &h) &&
        hello.rank > r->rank && hello.rank < r->world) {
        int *place = h.purpose == FOR_COLLECTIVES                ? &m->peer[hello.rank]
                     : h.purpose == FOR_REQUESTS && r->rank == 0 ? &m->wire[hello.rank]
                                                                 : NULL;
        if (place && *place < 0) {
            *place = fd;
            return true;
        }
    }
    close(fd);
    return false;
}

static enum err_code not_come(const struct mesh *m, const struct rendezvous *r,
                              const struct table *t, double wait_s, struct err *err)
{
    char who[120] = "";
    size_t n = 0;
    int first = -1;
    for (int i = r->rank + 1; i < r->world; i++) {
        if (m->peer[i] >= 0 && (r->rank > 0 || m->wire[i] >= 0)) continue;
        if (first < 0) first = i;
        if (n < sizeof who)
            n += (size_t)snprintf(who + n, sizeof who - n, "%s%d on %s", n ? ", " : "", i,
                                  t->host[i]);
    }
    err_set(err, ERR_PROCESS, "connect the ranks|rank %d on %s|no connection in %g s from %s|all",
            r->rank, t->host[r->rank], wait_s, who);
    err->rank = first;
    return err->code;
}

static enum err_code connect_all(struct mesh *m, const struct rendezvous *r, const struct table *t,
                                 int door, double wait_s, struct err *err)
{
    double until = clock_seconds() + wait_s;
    int due = (r->world - 1 - r->rank) * (r->rank == 0 ? 2 : 1);
    for (int i = 0; i < r->rank; i++) {
        if (go_to(r, t, i, FOR_COLLECTIVES, until, &m->peer[i], err) != ERR_OK) return err->code;
    }
    if (r->rank > 0 && go_to(r, t, 0, FOR_REQUESTS, until, &m->wire[0], err) != ERR_OK)
        return err->code;
    while (due > 0) {
        if (!(clock_seconds() < until)) return not_come(m, r, t, wait_s, err);
        if (!net_wait(door, until)) continue;
        int fd = net_accept(door);
        if (fd >= 0) due -= let_in(m, r, t, fd, until);
    }
    return ERR_OK;
}

/* ---- all of it ---- */

/* Every rank has what it needs, or all hear of the first that has not. */
static enum err_code all_ready(struct rendezvous *r, const struct err *failed, double wait_s,
                               struct err *err)
{
    char ready = 1, all[COLLECTIVE_RANKS];
    /* Who waits for connections does so for its whole time. */
    if (rendezvous_gather(r, failed, &ready, 1, all, 2 * wait_s, err) != ERR_OK) {
        if (r->rank == 0) rendezvous_refuse(r, err);
        return err->code;
    }
    return rendezvous_share(r, &ready, 1, 2 * wait_s, err);
}

enum err_code mesh_open(struct mesh *m, struct rendezvous *r, double wait_s, struct err *err)
{
    struct err failed = ERR_INIT;
    struct table t;
    int port = 0, door = net_listen(NULL, 0, 2 * r->world, &port, &failed);
    mesh_none(m);
    if (agree(r, &failed, port, &t, wait_s, err) == ERR_OK) {
        memcpy(m->host, t.host, sizeof m->host);
        (void)!connect_all(m, r, &t, door, wait_s, &failed);
        (void)!all_ready(r, &failed, wait_s, err);
    }
    if (door >= 0) close(door);
    if (err->code != ERR_OK) mesh_close(m);
    return err->code;
}
