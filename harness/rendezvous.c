/* rendezvous.c: see rendezvous.h. The frames are those of wire.h: a HELLO with the sender's rank
 * and, as its data, "WORLD VERSION HOST"; a REPLY of rank 0's, or an ERROR whose data is a line. */
#include "harness/rendezvous.h"

#include "core/check.h"
#include "harness/session.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define AGAIN_S 0.05  /* between two tries to reach rank 0 */
#define ANSWER_S 10.0 /* at most, for one that has come to say who it is */

static double least(double a, double b)
{
    return a < b ? a : b;
}

static enum err_code resolve(const struct launch *l, struct addrinfo **out, struct err *err)
{
    char port[16];
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    snprintf(port, sizeof port, "%d", l->port);
    int rc = getaddrinfo(l->host, port, &hints, out);
    if (rc != 0)
        return err_set(err, ERR_PROCESS, "meet the other ranks|%s:%s|%s|an address", l->host, port,
                       gai_strerror(rc));
    return ERR_OK;
}

static void no_delay(int fd)
{
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
}

/* ---- rank 0 ---- */

static int listen_at(const struct launch *l, struct err *err)
{
    struct addrinfo *at = NULL;
    int failed = 0;
    if (resolve(l, &at, err) != ERR_OK) return -1;
    for (struct addrinfo *a = at; a; a = a->ai_next) {
        int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
        if (fd >= 0 && bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, l->world) == 0) {
            freeaddrinfo(at);
            return fd;
        }
        failed = errno;
        if (fd >= 0) close(fd);
    }
    freeaddrinfo(at);
    err_set(err, ERR_PROCESS, "meet the other ranks|rank 0 at %s:%d|%s|a place to listen", l->host,
            l->port, strerror(failed));
    return -1;
}

/* Why one that has come cannot stay; "" : it can. */
static void look_at(const struct rendezvous *r, const struct wire_message *m, char *why,
                    size_t size, char host[RENDEZVOUS_HOST])
{
    char text[256] = "", version[32] = "";
    int world = -1;
    size_t n = m->bytes < 255 ? (size_t)m->bytes : 255;
    memcpy(text, m->data, n);
    why[0] = host[0] = '\0';
    bool read = sscanf(text, "%d %31s %63s", &world, version, host) == 3;
    if (m->kind != WIRE_HELLO || !read)
        snprintf(why, size, "\"%.60s\" instead of a greeting", text);
    else if (world != r->world)
        snprintf(why, size, "it is of a run of %d ranks, this one has %d", world, r->world);
    else if (strcmp(version, ASSAY_VERSION) != 0)
        snprintf(why, size, "it is assay %s, rank 0 is assay %s", version, ASSAY_VERSION);
    else if (m->rank < 1 || m->rank >= r->world)
        snprintf(why, size, "it says that it is rank %d of %d", m->rank, r->world);
    else if (r->peer[m->rank].fd >= 0)
        snprintf(why, size, "rank %d is here already, from %s", m->rank, r->host[m->rank]);
}

/* One connection: a rank that is expected, or one that is told why it is not. */
static bool receive_one(struct rendezvous *r, int fd, double until, struct err *err)
{
    struct wire wire;
    struct wire_message m;
    struct err lost = ERR_INIT;
    char why[256], host[RENDEZVOUS_HOST];
    no_delay(fd);
    wire_init(&wire, fd, "a newcomer");
    if (wire_receive(&wire, &m, least(until, clock_seconds() + ANSWER_S), &lost) != ERR_OK) {
        wire_free(&wire); /* somebody who knocks and says nothing of ours is no rank */
        return false;
    }
    int rank = m.rank;
    look_at(r, &m, why, sizeof why, host);
    if (why[0]) {
        const struct wire_message no = {
            .kind = WIRE_ERROR, .data = (const unsigned char *)why, .bytes = (int64_t)strlen(why)};
        (void)!wire_send(&wire, &no, until, &lost);
        wire_free(&wire);
        err_set(err, ERR_PROCESS, "meet the other ranks|rank %d, from %s|%s|the ranks of this run",
                rank, host[0] ? host : "an unknown host", why);
        err->rank = rank;
        return false;
    }
    snprintf(wire.peer, sizeof wire.peer, "rank %d", rank);
    r->peer[rank] = wire;
    memcpy(r->host[rank], host, sizeof host);
    return true;
}

static enum err_code not_all(const struct rendezvous *r, double wait_s, struct err *err)
{
    char missing[128] = "", here[ERR_NOTE] = "";
    size_t n = 0, k = 0;
    int first = -1;
    for (int i = 1; i < r->world; i++) {
        bool there = r->peer[i].fd >= 0;
        if (!there && first < 0) first = i;
        if (!there && n < sizeof missing)
            n += (size_t)snprintf(missing + n, sizeof missing - n, "%s%d", n ? ", " : "", i);
        if (there && k < sizeof here)
            k += (size_t)snprintf(here + k, sizeof here - k, "%srank %d from %s", k ? ", " : "", i,
                                  r->host[i]);
    }
    err_set(err, ERR_PROCESS, "meet the other ranks|rank 0 of %d|not come in %g s: %s|all ranks",
            r->world, wait_s, missing);
    err->rank = first;
    return err_note(err, "came: %s", k ? here : "none");
}

static enum err_code tell_all(struct rendezvous *r, enum wire_kind kind, const void *data,
                              int64_t bytes, double until, struct err *err)
{
    const struct wire_message m = {.kind = kind, .data = data, .bytes = bytes};
    for (int i = 1; i < r->world; i++) {
        struct err lost = ERR_INIT;
        if (r->peer[i].fd < 0) continue;
        if (wire_send(&r->peer[i], &m, until, &lost) == ERR_OK || err->code != ERR_OK) continue;
        *err = lost;
        err->rank = i;
    }
    return err->code;
}

static enum err_code receive_all(struct rendezvous *r, const struct launch *l, double wait_s,
                                 struct err *err)
{
    double until = clock_seconds() + wait_s;
    int came = 1, fd = listen_at(l, err);
    while (fd >= 0 && err->code == ERR_OK && came < r->world) {
        struct pollfd p = {fd, POLLIN, 0};
        double left = until - clock_seconds();
        if (!(left > 0)) {
            (void)!not_all(r, wait_s, err);
        } else if (poll(&p, 1, (int)(least(left, 60) * 1000) + 1) > 0) {
            int one = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
            if (one >= 0) came += receive_one(r, one, until, err);
        }
    }
    if (fd >= 0) close(fd);
    if (err->code == ERR_OK)
        return tell_all(r, WIRE_REPLY, NULL, 0, clock_seconds() + ANSWER_S, err);
    struct err lost = *err; /* the others hear of it, what becomes of that changes nothing */
    char line[ERR_LINE];
    err_line(err, line, sizeof line);
    (void)!tell_all(r, WIRE_ERROR, line, (int64_t)strlen(line), clock_seconds() + 1, &lost);
    return err->code;
}

/* ---- the others ---- */

/* One try. *why: the reason, where one was given. */
static int try_to_reach(const struct addrinfo *at, double until, int *why)
{
    for (const struct addrinfo *a = at; a; a = a->ai_next) {
        int failed = 0;
        socklen_t size = sizeof failed;
        int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        struct pollfd p = {fd, POLLOUT, 0};
        double left = until - clock_seconds();
        bool started = connect(fd, a->ai_addr, a->ai_addrlen) == 0 || errno == EINPROGRESS;
        if (!started) *why = errno;
        if (started && left > 0 && poll(&p, 1, (int)(least(left, 60) * 1000) + 1) > 0 &&
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &size) == 0) {
            if (failed == 0) return fd;
            *why = failed;
        }
        if (fd >= 0) close(fd);
    }
    return -1;
}

static int reach(const struct launch *l, double wait_s, double until, struct err *err)
{
    struct addrinfo *at = NULL;
    int why = ETIMEDOUT, fd = -1;
    if (resolve(l, &at, err) != ERR_OK) return -1;
    while ((fd = try_to_reach(at, until, &why)) < 0 && clock_seconds() < until)
        nanosleep(&(struct timespec){.tv_nsec = (long)(1e9 * AGAIN_S)}, NULL);
    freeaddrinfo(at);
    if (fd >= 0) return fd;
    err_set(err, ERR_PROCESS,
            "meet the other ranks|rank %d to rank 0 at %s:%d|%s|an answer within %g s", l->rank,
            l->host, l->port, strerror(why), wait_s);
    err->rank = 0;
    return -1;
}

/* The next message of rank 0, which is what was waited for or an error that it tells. */
static enum err_code hear(struct rendezvous *r, double until, struct wire_message *m,
                          struct err *err)
{
    if (wire_receive(&r->peer[0], m, until, err) != ERR_OK) {
        err->rank = 0;
        return err_note(err, "rank %d waits for rank 0", r->rank);
    }
    if (m->kind == WIRE_REPLY) return ERR_OK;
    int n = m->bytes < ERR_PART ? (int)m->bytes : ERR_PART - 1;
    err_set(err, ERR_PROCESS, "meet the other ranks|rank %d, told by rank 0|%.*s|all ranks",
            r->rank, n, (const char *)m->data);
    err->rank = 0;
    return err->code;
}

static enum err_code go_to_first(struct rendezvous *r, const struct launch *l, double wait_s,
                                 struct err *err)
{
    char text[128], host[RENDEZVOUS_HOST] = "?";
    double until = clock_seconds() + wait_s;
    struct wire_message m = {.kind = WIRE_HELLO, .rank = l->rank};
    int fd = reach(l, wait_s, until, err);
    if (fd < 0) return err->code;
    no_delay(fd);
    wire_init(&r->peer[0], fd, "rank 0");
    (void)gethostname(host, sizeof host - 1);
    m.bytes = snprintf(text, sizeof text, "%d %s %.60s", l->world, ASSAY_VERSION, host);
    m.data = (const unsigned char *)text;
    if (wire_send(&r->peer[0], &m, until, err) != ERR_OK) return err->code;
    /* Rank 0 may wait its whole time for others, counted from when it began. */
    return hear(r, until + wait_s, &m, err);
}

/* ---- both ---- */

enum err_code rendezvous_meet(struct rendezvous *r, const struct launch *l, double wait_s,
                              struct err *err)
{
    *r = (struct rendezvous){.rank = l->rank, .world = l->world};
    for (int i = 0; i < COLLECTIVE_RANKS; i++) r->peer[i].fd = -1;
    if (l->world > COLLECTIVE_RANKS)
        return err_set(err, ERR_INPUT, "meet the other ranks|%s|%d ranks|%d at most",
                       l->by ? l->by : "this run", l->world, COLLECTIVE_RANKS);
    if (l->world == 1) return ERR_OK;
    if (!l->host[0] || l->port == 0)
        return err_set(err, ERR_INPUT,
                       "meet the other ranks|%s|no address of rank 0|MASTER_ADDR and MASTER_PORT",
                       l->by ? l->by : "this run");
    if (l->rank == 0) return receive_all(r, l, wait_s, err);
    return go_to_first(r, l, wait_s, err);
}

void rendezvous_close(struct rendezvous *r)
{
    for (int i = 0; i < COLLECTIVE_RANKS; i++) wire_free(&r->peer[i]);
}

enum err_code rendezvous_share(struct rendezvous *r, void *data, int64_t bytes, double wait_s,
                               struct err *err)
{
    double until = clock_seconds() + wait_s;
    struct wire_message m;
    if (r->world == 1) return ERR_OK;
    if (r->rank == 0) return tell_all(r, WIRE_REPLY, data, bytes, until, err);
    if (hear(r, until, &m, err) != ERR_OK) return err->code;
    if (m.bytes != bytes)
        return err_set(err, ERR_PROCESS, "share bytes of rank 0|rank %d|%lld|%lld", r->rank,
                       (long long)m.bytes, (long long)bytes);
    memcpy(data, m.data, (size_t)bytes);
    return ERR_OK;
}
