/* collective_tcp.c: see collective_tcp.h. */
#include "harness/collective_tcp.h"

#include "core/check.h"
#include "harness/session.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WAIT_S                                                                                     \
    0.05 /* a rank that waits shows that it lives, and looks around, as often as this              \
          */

/* What a window travels with. Both sides are the same program, so it travels as it is. */
struct window_head {
    struct collective_said said;
    int64_t channel;
    uint64_t turn;
};
_Static_assert(sizeof(struct window_head) % 8 == 0, "numbers behind it lie at multiples of 8");

/* A turn that runs: what of each member's is still due. */
struct turn {
    struct collective *c;
    struct collective_tcp *t;
    struct wire_message frame; /* this member's */
    bool queued[COLLECTIVE_RANKS], sent[COLLECTIVE_RANKS], got[COLLECTIVE_RANKS];
};

enum err_code collective_tcp_make(struct collective_tcp *t, struct collective_shm *lobby,
                                  const int *fd, const char (*host)[COLLECTIVE_HOST],
                                  int64_t window, struct err *err)
{
    char peer[WIRE_PEER];
    *t = (struct collective_tcp){.lobby = lobby, .window = collective_shm_window(window)};
    for (int i = 0; i < COLLECTIVE_RANKS; i++) t->peer[i].fd = -1;
    for (int i = 0; i < lobby->world; i++) {
        snprintf(t->host[i], sizeof t->host[i], "%s", host[i]);
        snprintf(peer, sizeof peer, "rank %d", i);
        if (i != lobby->rank) wire_init(&t->peer[i], fd[i], peer);
    }
    t->mine = malloc(sizeof(struct window_head) + (size_t)t->window);
    if (t->mine) return ERR_OK;
    collective_tcp_free(t);
    return err_set(err, ERR_MEMORY, "collective|rank %d|no memory|%lld bytes", lobby->rank,
                   (long long)t->window);
}

void collective_tcp_free(struct collective_tcp *t)
{
    for (int i = 0; t->lobby && i < COLLECTIVE_RANKS; i++) wire_free(&t->peer[i]);
    free(t->mine);
    *t = (struct collective_tcp){0};
}

void collective_tcp_join(struct collective_tcp *t)
{
    memset(t->turn, 0, sizeof t->turn);
}

static struct collective_tcp *state_of(const struct collective *c)
{
    return c->state;
}

/* ---- what goes wrong with a member ---- */

static enum err_code blame(const struct turn *k, int i, const char *found, struct err *err)
{
    const struct collective *c = k->c;
    int rank = c->member[i];
    struct err now = ERR_INIT;
    err_set(&now, ERR_PROCESS, "collective|rank %d, from rank %d on %s|%s|its part",
            c->member[c->rank], rank, k->t->host[rank], found);
    *err = now;
    err->rank = rank;
    return err->code;
}

/* Where a step of the wire to member i was not done: what went wrong names the member. */
static enum err_code not_done(const struct turn *k, int i, enum wire_state state, struct err *err)
{
    char found[ERR_PART];
    if (state == WIRE_AGAIN) return ERR_OK; /* nothing more for now */
    if (state == WIRE_END) return blame(k, i, "its connection has ended", err);
    snprintf(found, sizeof found, "%.120s", err->found);
    return blame(k, i, found, err);
}

/* ---- sending ---- */

static enum err_code push(struct turn *k, int i, struct err *err)
{
    struct wire *w = &k->t->peer[k->c->member[i]];
    for (;;) {
        if (k->queued[i] && w->out_sent == w->out_bytes) {
            k->sent[i] = true;
            return ERR_OK;
        }
        /* What an earlier call has begun to send ends first. */
        if (w->out_sent == w->out_bytes) {
            if (wire_queue(w, &k->frame, err) != ERR_OK) return err->code;
            k->queued[i] = true;
        }
        enum wire_state state = wire_flush(w, err);
        if (state != WIRE_DONE) return not_done(k, i, state, err);
    }
}

/* ---- receiving ---- */

static const struct window_head *head_of(const struct collective_tcp *t, int rank)
{
    return (const struct window_head *)(const void *)t->got[rank].data;
}

/* A message of a member: its window of this turn, or one of a call that is over. */
static enum err_code take(struct turn *k, int i, const struct wire_message *m, struct err *err)
{
    struct collective_tcp *t = k->t;
    int rank = k->c->member[i];
    char found[ERR_PART];
    if (m->kind != WIRE_WINDOW || m->bytes < (int64_t)sizeof(struct window_head) ||
        m->rank != rank) {
        snprintf(found, sizeof found, "a message of kind %d in the name of rank %d", (int)m->kind,
                 m->rank);
        return blame(k, i, found, err);
    }
    if (m->call < t->lobby->call) return ERR_OK;
    t->got[rank] = *m;
    const struct window_head *h = head_of(t, rank);
    if (m->call > t->lobby->call || h->channel != k->c->channel ||
        h->turn != t->turn[k->c->channel]) {
        snprintf(found, sizeof found, "%s \"%.*s\" of call %lld, group %lld, turn %llu",
                 collective_kind_name((enum collective_kind)h->said.kind), COLLECTIVE_NAME - 1,
                 h->said.name, (long long)m->call, (long long)h->channel,
                 (unsigned long long)h->turn);
        return blame(k, i, found, err);
    }
    k->got[i] = true;
    return ERR_OK;
}

static enum err_code pull(struct turn *k, int i, struct err *err)
{
    struct wire *w = &k->t->peer[k->c->member[i]];
    struct wire_message m;
    while (!k->got[i]) {
        enum wire_state state = wire_fill(w, &m, err);
        if (state != WIRE_DONE) return not_done(k, i, state, err);
        if (take(k, i, &m, err) != ERR_OK) return err->code;
    }
    return ERR_OK;
}

/* ---- a turn ---- */

/* What goes now; *left: whether anything is still due. */
static enum err_code exchange(struct turn *k, bool *left, struct err *err)
{
    *left = false;
    for (int i = 0; i < k->c->world; i++) {
        if (!k->sent[i] && push(k, i, err) != ERR_OK) return err->code;
        if (!k->got[i] && pull(k, i, err) != ERR_OK) return err->code;
        *left = *left || !k->sent[i] || !k->got[i];
    }
    return ERR_OK;
}

static void wait_for_news(const struct turn *k, double seconds)
{
    struct pollfd p[COLLECTIVE_RANKS];
    nfds_t n = 0;
    for (int i = 0; i < k->c->world; i++) {
        int events = (k->got[i] ? 0 : POLLIN) | (k->sent[i] ? 0 : POLLOUT);
        if (events) p[n++] = (struct pollfd){k->t->peer[k->c->member[i]].fd, (short)events, 0};
    }
    (void)poll(p, n, (int)(1000 * seconds) + 1);
}

static enum err_code not_come(const struct turn *k, struct err *err)
{
    const struct collective_tcp *t = k->t;
    bool came[COLLECTIVE_RANKS];
    char doing[128] = "";
    int missing = -1;
    for (int i = 0; i < k->c->world; i++) {
        came[i] = k->got[i] && k->sent[i];
        if (!came[i] && missing < 0) missing = k->c->member[i];
    }
    if (t->lobby->doing && missing >= 0)
        t->lobby->doing(t->lobby->ctx, missing, doing, sizeof doing);
    return collective_not_come(k->c, came, doing, t->host, err);
}

static enum err_code run_turn(struct turn *k, const char *what, struct err *err)
{
    const struct collective_shm *lobby = k->t->lobby;
    double until = clock_seconds() + k->c->deadline_s;
    for (;;) {
        bool left;
        struct err lost = ERR_INIT;
        bool done = exchange(k, &left, &lost) == ERR_OK && !left;
        if (lobby->waiting) lobby->waiting(lobby->ctx, done ? NULL : what);
        if (done) return ERR_OK;
        /* Whoever was stopped says so, and not that the others' connections end; one that was
         * blamed says whom it waits for itself. */
        int by = collective_shm_stopped(lobby);
        if (by >= 0 && by != lobby->rank) return collective_stopped(k->c, by, err);
        if (lost.code != ERR_OK) {
            *err = lost;
            return err->code;
        }
        double time = until - clock_seconds();
        if (!(time > 0)) return not_come(k, err);
        wait_for_news(k, time < WAIT_S ? time : WAIT_S);
    }
}

static unsigned char *mine(const struct collective *c)
{
    return state_of(c)->mine + sizeof(struct window_head);
}

static enum err_code meet(struct collective *c, const struct collective_call *call, int64_t bytes,
                          struct err *err)
{
    struct collective_tcp *t = state_of(c);
    struct window_head h = {.channel = c->channel, .turn = ++t->turn[c->channel]};
    const struct collective_said *said[COLLECTIVE_RANKS];
    char what[96];
    int rank = c->member[c->rank];
    collective_say(call, c->world, &h.said);
    collective_describe(call, what, sizeof what);
    memcpy(t->mine, &h, sizeof h);
    struct turn k = {.c = c,
                     .t = t,
                     .frame = {.kind = WIRE_WINDOW,
                               .rank = rank,
                               .call = t->lobby->call,
                               .data = t->mine,
                               .bytes = (int64_t)sizeof h + bytes}};
    k.queued[c->rank] = k.sent[c->rank] = k.got[c->rank] = true;
    t->got[rank] = k.frame;
    if (run_turn(&k, what, err) != ERR_OK) return err->code;
    for (int i = 0; i < c->world; i++) said[i] = &head_of(t, c->member[i])->said;
    return collective_compare(c, said, err);
}

static const unsigned char *of(const struct collective *c, int i, int64_t bytes)
{
    const struct wire_message *m = &state_of(c)->got[c->member[i]];
    return m->bytes >= (int64_t)sizeof(struct window_head) + bytes
               ? m->data + sizeof(struct window_head)
               : NULL;
}

/* ---- the side ---- */

static enum err_code tcp_run(struct collective *c, const struct collective_call *call,
                             struct err *err)
{
    const struct collective_exchange x = {
        .window = state_of(c)->window, .mine = mine, .meet = meet, .of = of};
    return collective_by_window(c, call, &x, err);
}

static enum err_code tcp_group(struct collective *out, const struct collective *whole,
                               struct err *err)
{
    out->state = whole->state;
    return err->code;
}

static enum err_code tcp_watch(struct collective *c, const char *what, struct err *err)
{
    return collective_shm_watch(c, state_of(c)->lobby, what, err);
}

static const struct collective_side tcp = {"tcp", tcp_run, tcp_group, tcp_watch};

void collective_tcp_open(struct collective *c, struct collective_tcp *t, double deadline_s)
{
    const struct collective_shm *s = t->lobby;
    *c = (struct collective){.side = s->world > 1 ? &tcp : NULL,
                             .state = t,
                             .rank = s->rank,
                             .world = s->world,
                             .deadline_s = deadline_s};
    for (int i = 0; i < s->world; i++) c->member[i] = i;
}
