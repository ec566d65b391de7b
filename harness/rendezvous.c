/* rendezvous.c: see rendezvous.h. The frames are those of wire.h: a HELLO with the sender's rank
 * and, as its data, "WORLD VERSION COMMIT HOST BOOT PID RUN"; a REPLY of rank 0's, or an ERROR
 * whose data is a line. */
#include "harness/rendezvous.h"

#include "core/check.h"
#include "harness/build_facts.h"
#include "harness/net.h"
#include "harness/rendezvous_door.h"
#include "harness/session.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TELL_S 1.0 /* for one that is told why the run does not begin */

/* ---- this rank ---- */

static void about_own(struct rendezvous_rank *own)
{
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");
    *own = (struct rendezvous_rank){.host = "?", .pid = getpid()};
    (void)gethostname(own->host, sizeof own->host - 1);
    if (!f || fscanf(f, "%39s", own->boot) != 1) snprintf(own->boot, sizeof own->boot, "-");
    if (f) fclose(f);
}

static void greeting_of(const struct rendezvous *r, const struct launch *l, struct greeting *g)
{
    *g = (struct greeting){.world = l->world, .about = r->of[l->rank]};
    snprintf(g->version, sizeof g->version, "%s", ASSAY_VERSION);
    snprintf(g->commit, sizeof g->commit, "%s", build_commit);
    snprintf(g->run, sizeof g->run, "%s", l->run[0] ? l->run : "-");
}

/* ---- rank 0 ---- */

static bool is_loopback_name(const char *host)
{
    return net_is_loopback(host) || strcmp(host, "localhost") == 0;
}

/* A host's own name may stand for its loopback in its own tables: others cannot come there. */
static int listen_at(const struct rendezvous *r, const struct launch *l, struct err *err)
{
    struct err lost = ERR_INIT;
    char own[NET_NUMBERS];
    int fd = net_listen(l->host, l->port, 2 * l->world, NULL, &lost);
    if (fd >= 0 && !is_loopback_name(l->host)) {
        net_own(fd, own);
        if (net_is_loopback(own)) {
            close(fd);
            fd = net_listen(NULL, l->port, 2 * l->world, NULL, &lost);
        }
    }
    if (fd < 0)
        err_set(err, ERR_PROCESS, "meet the other ranks|rank 0 on %s, at %.80s:%d|%s|%s",
                r->of[0].host, l->host, l->port, lost.found, lost.wanted);
    return fd;
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
        err_note(err, "rank %d on %s", i, r->of[i].host);
    }
    return err->code;
}

void rendezvous_refuse(struct rendezvous *r, const struct err *why)
{
    struct err lost = ERR_INIT;
    char line[ERR_LINE];
    err_line(why, line, sizeof line);
    (void)!tell_all(r, WIRE_ERROR, line, (int64_t)strlen(line), clock_seconds() + TELL_S, &lost);
}

static enum err_code receive_all(struct rendezvous *r, const struct launch *l, double wait_s,
                                 struct err *err)
{
    struct greeting own;
    int fd = listen_at(r, l, err);
    if (fd < 0) return err->code;
    greeting_of(r, l, &own);
    (void)!rendezvous_door(r, fd, &own, wait_s, err);
    close(fd);
    if (err->code == ERR_OK) return tell_all(r, WIRE_REPLY, NULL, 0, clock_seconds() + wait_s, err);
    rendezvous_refuse(r, err);
    return err->code;
}

/* ---- the others ---- */

static int reach(const struct rendezvous *r, const struct launch *l, double wait_s, double until,
                 struct err *err)
{
    struct err lost = ERR_INIT;
    int fd = net_connect(l->host, l->port, until, &lost);
    if (fd >= 0) return fd;
    err_set(err, ERR_PROCESS,
            "meet the other ranks|rank %d on %s to rank 0 at %.80s:%d|%s|%s within %g s", l->rank,
            r->of[l->rank].host, l->host, l->port, lost.found, lost.wanted, wait_s);
    err->rank = 0;
    return -1;
}

/* The next message of rank 0, which is what was waited for or an error that it tells. */
static enum err_code hear(struct rendezvous *r, double until, struct wire_message *m,
                          struct err *err)
{
    if (wire_receive(&r->peer[0], m, until, err) != ERR_OK) {
        err->rank = 0;
        return err_note(err, "rank %d on %s waits for rank 0", r->rank, r->of[r->rank].host);
    }
    if (m->kind == WIRE_REPLY) return ERR_OK;
    int n = m->bytes < ERR_PART ? (int)m->bytes : ERR_PART - 1;
    err_set(err, ERR_PROCESS, "meet the other ranks|rank %d on %s, told by rank 0|%.*s|all ranks",
            r->rank, r->of[r->rank].host, n, (const char *)m->data);
    err->rank = 0;
    return err->code;
}

static enum err_code go_to_first(struct rendezvous *r, const struct launch *l, double wait_s,
                                 struct err *err)
{
    char text[GREETING_TEXT];
    struct greeting own;
    double until = clock_seconds() + wait_s;
    struct wire_message m = {.kind = WIRE_HELLO, .rank = l->rank};
    int fd = reach(r, l, wait_s, until, err);
    if (fd < 0) return err->code;
    wire_init(&r->peer[0], fd, "rank 0");
    greeting_of(r, l, &own);
    m.bytes = greeting_write(&own, text);
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
    about_own(&r->of[l->rank]);
    if (l->world == 1) return ERR_OK;
    if (!l->host[0] || l->port == 0)
        return err_set(err, ERR_INPUT,
                       "meet the other ranks|%s|no address of rank 0|ASSAY_RENDEZVOUS, or "
                       "MASTER_ADDR and MASTER_PORT",
                       l->by ? l->by : "this run");
    if (l->rank == 0) return receive_all(r, l, wait_s, err);
    return go_to_first(r, l, wait_s, err);
}

void rendezvous_close(struct rendezvous *r)
{
    for (int i = 0; i < COLLECTIVE_RANKS; i++) wire_free(&r->peer[i]);
}

int rendezvous_elsewhere(const struct rendezvous *r)
{
    for (int i = 1; i < r->world; i++) {
        if (strcmp(r->of[i].host, r->of[0].host) != 0 || strcmp(r->of[i].boot, r->of[0].boot) != 0)
            return i;
    }
    return -1;
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
        return err_set(err, ERR_PROCESS, "share bytes of rank 0|rank %d on %s|%lld|%lld", r->rank,
                       r->of[r->rank].host, (long long)m.bytes, (long long)bytes);
    memcpy(data, m.data, (size_t)bytes);
    return ERR_OK;
}

/* Rank 0: what rank `i` hands over. */
static enum err_code take_from(struct rendezvous *r, int i, unsigned char *out, int64_t bytes,
                               double until, struct err *err)
{
    struct err lost = ERR_INIT;
    struct wire_message m;
    const char *host = r->of[i].host;
    if (wire_receive(&r->peer[i], &m, until, &lost) != ERR_OK) {
        err_set(err, ERR_PROCESS, "meet the other ranks|rank %d on %s|%s|%s", i, host, lost.found,
                lost.wanted);
    } else if (m.kind != WIRE_REPLY) {
        int n = m.bytes < ERR_PART ? (int)m.bytes : ERR_PART - 1;
        err_set(err, ERR_PROCESS, "meet the other ranks|rank %d on %s|%.*s|ready", i, host, n,
                (const char *)m.data);
    } else if (m.bytes != bytes) {
        err_set(err, ERR_PROCESS, "meet the other ranks|rank %d on %s|%lld bytes|%lld", i, host,
                (long long)m.bytes, (long long)bytes);
    } else {
        memcpy(out, m.data, (size_t)bytes);
        return ERR_OK;
    }
    err->rank = i;
    return err->code;
}

enum err_code rendezvous_gather(struct rendezvous *r, const struct err *failed, const void *data,
                                int64_t bytes, void *all, double wait_s, struct err *err)
{
    double until = clock_seconds() + wait_s;
    bool lost = failed && failed->code != ERR_OK;
    char line[ERR_LINE];
    struct wire_message m = {.kind = WIRE_REPLY, .data = data, .bytes = bytes};
    if (lost) {
        err_line(failed, line, sizeof line);
        m = (struct wire_message){.kind = WIRE_ERROR,
                                  .data = (const unsigned char *)line,
                                  .bytes = (int64_t)strlen(line)};
    }
    if (r->rank > 0) return wire_send(&r->peer[0], &m, until, err);
    if (lost) {
        *err = *failed;
        return err->code;
    }
    memcpy(all, data, (size_t)bytes);
    for (int i = 1; i < r->world && err->code == ERR_OK; i++)
        (void)!take_from(r, i, (unsigned char *)all + i * bytes, bytes, until, err);
    return err->code;
}
