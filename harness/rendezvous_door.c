/* rendezvous_door.c: see rendezvous_door.h. */
#include "harness/rendezvous_door.h"

#include "harness/net.h"
#include "harness/session.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#define ANSWER_S 10.0 /* at most, for one that has come to say who it is */

enum { NEWCOMERS = COLLECTIVE_RANKS + 16, LOOK_MS = 200 };

/* One that has come and not yet said who it is. */
struct newcomer {
    struct wire wire;
    double until;
    char from[NET_NUMBERS];
};

struct door {
    struct rendezvous *r;
    const struct greeting *own;
    double until;
    struct newcomer at[NEWCOMERS];
    int count, came;
    char sent_away[ERR_NOTE]; /* the last one that was none of ours; "" */
};

/* ---- greetings ---- */

int64_t greeting_write(const struct greeting *g, char text[GREETING_TEXT])
{
    return snprintf(text, GREETING_TEXT, "%d %s %s %s %s %lld %s", g->world, g->version, g->commit,
                    g->about.host, g->about.boot, (long long)g->about.pid, g->run);
}

bool greeting_read(struct greeting *g, const void *data, int64_t bytes)
{
    char text[GREETING_TEXT] = "";
    long long pid;
    if (bytes < 1 || bytes >= GREETING_TEXT) return false;
    memcpy(text, data, (size_t)bytes);
    *g = (struct greeting){0};
    bool read = sscanf(text, "%d %63s %63s %63s %39s %lld %63s", &g->world, g->version, g->commit,
                       g->about.host, g->about.boot, &pid, g->run) == 7;
    g->about.pid = read ? pid : 0;
    return read;
}

/* ---- who it is ---- */

enum verdict {
    COMES,
    STRANGER,
    WRONG /* a rank that should not be as it is: the run cannot begin */
};

static enum verdict look_at(const struct door *d, const struct wire_message *m, struct greeting *g,
                            char *why, size_t size)
{
    const struct rendezvous *r = d->r;
    if (m->kind != WIRE_HELLO || !greeting_read(g, m->data, m->bytes)) {
        snprintf(why, size, "no greeting");
        return STRANGER;
    }
    if (strcmp(g->run, d->own->run) != 0) {
        snprintf(why, size, "of run %.16s, not of %.16s", g->run, d->own->run);
        return STRANGER;
    }
    if (strcmp(g->version, d->own->version) != 0)
        snprintf(why, size, "it is assay %s, rank 0 is assay %s", g->version, d->own->version);
    else if (strcmp(g->commit, d->own->commit) != 0)
        snprintf(why, size, "it is built from %s, rank 0 from %s", g->commit, d->own->commit);
    else if (g->world != r->world)
        snprintf(why, size, "it is of a run of %d ranks, this one has %d", g->world, r->world);
    else if (m->rank < 1 || m->rank >= r->world)
        snprintf(why, size, "it says that it is rank %d of %d", m->rank, r->world);
    else if (r->peer[m->rank].fd >= 0)
        snprintf(why, size, "rank %d is here already, from %s, pid %lld", m->rank,
                 r->of[m->rank].host, (long long)r->of[m->rank].pid);
    else
        return COMES;
    return WRONG;
}

static void tell(struct newcomer *n, const char *why, double until)
{
    struct err lost = ERR_INIT;
    const struct wire_message no = {
        .kind = WIRE_ERROR, .data = (const unsigned char *)why, .bytes = (int64_t)strlen(why)};
    (void)!wire_send(&n->wire, &no, until, &lost);
}

/* One has said who it is. Its wire is free to be forgotten afterwards. */
static void let_in(struct door *d, struct newcomer *n, const struct wire_message *m,
                   struct err *err)
{
    char why[256] = "";
    struct greeting g = {.about.host = "an unknown host"};
    int rank = m->rank;
    enum verdict v = look_at(d, m, &g, why, sizeof why);
    if (v == COMES) {
        snprintf(n->wire.peer, sizeof n->wire.peer, "rank %d", rank);
        d->r->peer[rank] = n->wire;
        d->r->of[rank] = g.about;
        n->wire = (struct wire){.fd = -1};
        d->came++;
        return;
    }
    tell(n, why, d->until);
    if (v == STRANGER) {
        snprintf(d->sent_away, sizeof d->sent_away, "sent away: from %.39s (%.24s): %.40s", n->from,
                 g.about.host[0] ? g.about.host : "?", why);
        return;
    }
    err_set(err, ERR_PROCESS,
            "meet the other ranks|rank %d, from %s, pid %lld|%s|the ranks of this "
            "run",
            rank, g.about.host, (long long)g.about.pid, why);
    err->rank = rank;
}

/* ---- the door ---- */

static void forget(struct door *d, int i)
{
    wire_free(&d->at[i].wire);
    d->at[i] = d->at[--d->count];
}

/* What one that was readable has sent. True: it is still awaited. */
static bool serve(struct door *d, struct newcomer *n, struct err *err)
{
    struct err lost = ERR_INIT;
    struct wire_message m;
    switch (wire_fill(&n->wire, &m, &lost)) {
    case WIRE_AGAIN:
        return true;
    case WIRE_DONE:
        let_in(d, n, &m, err);
        return false;
    default: /* somebody who says nothing of ours is no rank */
        if (lost.code != ERR_OK)
            snprintf(d->sent_away, sizeof d->sent_away,
                     "sent away: from %.39s: %.40s, wanted %.16s", n->from, lost.found,
                     lost.wanted);
        return false;
    }
}

static void let_come(struct door *d, int fd)
{
    int one;
    while (d->count < NEWCOMERS && (one = net_accept(fd)) >= 0) {
        struct newcomer *n = &d->at[d->count++];
        *n = (struct newcomer){.until = clock_seconds() + ANSWER_S};
        net_peer(one, n->from);
        wire_init(&n->wire, one, "a newcomer");
    }
}

static void look_around(struct door *d, int fd, struct err *err)
{
    struct pollfd p[NEWCOMERS + 1];
    int n = d->count;
    for (int i = 0; i < n; i++) p[i] = (struct pollfd){d->at[i].wire.fd, POLLIN, 0};
    p[n] = (struct pollfd){n < NEWCOMERS ? fd : -1, POLLIN, 0};
    (void)poll(p, (nfds_t)n + 1, LOOK_MS);
    for (int i = n - 1; i >= 0; i--) { /* the last one takes the place of one that leaves */
        bool stays = err->code != ERR_OK || !p[i].revents || serve(d, &d->at[i], err);
        if (!stays || clock_seconds() > d->at[i].until) forget(d, i);
    }
    if (p[n].revents) let_come(d, fd);
}

static enum err_code not_all(const struct door *d, double wait_s, struct err *err)
{
    const struct rendezvous *r = d->r;
    char missing[160] = "", here[ERR_NOTE] = "";
    size_t n = 0, k = 0;
    int first = -1;
    for (int i = 1; i < r->world; i++) {
        bool there = r->peer[i].fd >= 0;
        if (!there && first < 0) first = i;
        if (!there && n < sizeof missing)
            n += (size_t)snprintf(missing + n, sizeof missing - n, "%s%d", n ? ", " : "", i);
        if (there && k < sizeof here)
            k += (size_t)snprintf(here + k, sizeof here - k, "%srank %d from %s", k ? ", " : "", i,
                                  r->of[i].host);
    }
    err_set(err, ERR_PROCESS,
            "meet the other ranks|rank 0 of %d, on %s|not come in %g s: %s|all ranks", r->world,
            r->of[0].host, wait_s, missing);
    err->rank = first;
    if (d->sent_away[0]) err_note(err, "%s", d->sent_away);
    return err_note(err, "came: %s", k ? here : "none");
}

enum err_code rendezvous_door(struct rendezvous *r, int fd, const struct greeting *own,
                              double wait_s, struct err *err)
{
    static struct door d; /* large, and one at a time */
    d = (struct door){.r = r, .own = own, .until = clock_seconds() + wait_s, .came = 1};
    while (err->code == ERR_OK && d.came < r->world) {
        if (clock_seconds() > d.until)
            (void)!not_all(&d, wait_s, err);
        else
            look_around(&d, fd, err);
    }
    while (d.count > 0) forget(&d, 0);
    return err->code;
}
