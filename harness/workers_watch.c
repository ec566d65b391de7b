/* workers_watch.c: the one loop that serves all ranks at once: requests go out, replies and stderr
 * come in, deaths and deadlines are seen, whichever rank is first; see workers_parts.h. */
#include "core/check.h"
#include "harness/session.h"
#include "harness/workers_parts.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define STATUS_S 1.0 /* from the end of a rank's socket to the end of its process */

/* ---- stderr ---- */

static void drain_stderr(struct rank *r)
{
    char bytes[4096];
    while (r->err_fd >= 0) {
        ssize_t n = read(r->err_fd, bytes, sizeof bytes);
        if (n > 0) {
            worker_log_feed(&r->log, bytes, (size_t)n);
        } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
            worker_log_end(&r->log);
            close(r->err_fd);
            r->err_fd = -1;
        } else if (errno == EAGAIN) {
            return;
        }
    }
}

/* ---- messages ---- */

static void take_reply(struct workers *w, struct rank *r, const struct wire_message *m)
{
    char text[ERR_PART];
    bool late = r->state == RANK_FAILED && r->deadline_passed;
    if (m->bytes < REPLY_HEAD) {
        workers_fail(w, r, WORKER_EMPTY, "a reply of no bytes");
    } else if (late) {
        snprintf(text, sizeof text, "a reply %.2f s after its deadline of %g s",
                 clock_seconds() - w->until, w->deadline_s);
        workers_fail(w, r, WORKER_LATE, text);
    } else if (r->state == RANK_ASKED) {
        r->reply = *m;
        r->reply.data += REPLY_HEAD;
        r->reply.bytes -= REPLY_HEAD;
        r->state = RANK_DONE;
    } else {
        workers_fail(w, r, WORKER_BROKEN, "a reply that nobody asked for");
    }
}

static void take_error(struct workers *w, struct rank *r, const struct wire_message *m)
{
    struct envelope e;
    struct err err = ERR_INIT;
    char line[ERR_LINE];
    if (envelope_decode(&e, m->data, (size_t)m->bytes, &err) == ERR_OK) {
        workers_fail_envelope(w, r, &e);
        return;
    }
    bool empty = strstr(err.found, "empty text") || strstr(err.found, "its cause was lost");
    workers_fail(w, r, empty ? WORKER_EMPTY : WORKER_BROKEN, err_line(&err, line, sizeof line));
}

/* A piece ahead of the reply. One that comes too late, or after one was refused, only gets its
 * answer, so that the rank goes on to its end. */
static void take_part(struct workers *w, struct rank *r, const struct wire_message *m)
{
    struct err err = ERR_INIT;
    char line[ERR_LINE];
    const struct worker_reply part = {r->rank, m->data, m->bytes, m->segment, m->segments};
    if (!w->request || !w->request->part || r->wire.out_sent < r->wire.out_bytes) {
        workers_fail(w, r, WORKER_BROKEN, "a piece that nobody asked for");
        return;
    }
    bool take = r->state == RANK_ASKED && w->refused.code == ERR_OK;
    if (take) (void)!w->request->part(w->request->part_ctx, &part, &w->refused);
    const unsigned char taken = take && w->refused.code == ERR_OK;
    const struct wire_message answer = {
        .kind = WIRE_TAKEN, .call = w->call, .data = &taken, .bytes = 1};
    if (wire_queue(&r->wire, &answer, &err) != ERR_OK || wire_flush(&r->wire, &err) == WIRE_FAILED)
        workers_fail(w, r, WORKER_BROKEN, err_line(&err, line, sizeof line));
}

static void take_hello(struct rank *r, const struct wire_message *m)
{
    int64_t there_ns;
    r->state = RANK_IDLE;
    if (!r->far || m->bytes != sizeof there_ns) return;
    memcpy(&there_ns, m->data, sizeof there_ns);
    workers_far_clock(r, there_ns);
}

static void take_message(struct workers *w, struct rank *r, const struct wire_message *m)
{
    char text[ERR_PART];
    if (m->rank != r->rank) {
        snprintf(text, sizeof text, "a message in the name of rank %d", m->rank);
        workers_fail(w, r, WORKER_WRONG_RANK, text);
    } else if (m->kind == WIRE_HELLO && r->state == RANK_STARTING) {
        take_hello(r, m);
    } else if (m->kind == WIRE_PART && m->call == w->call) {
        take_part(w, r, m);
    } else if (m->kind != WIRE_REPLY && m->kind != WIRE_ERROR) {
        snprintf(text, sizeof text, "a message of kind %d", (int)m->kind);
        workers_fail(w, r, WORKER_BROKEN, text);
    } else if (m->call != w->call) {
        snprintf(text, sizeof text, "a reply to request %lld", (long long)m->call);
        workers_fail(w, r, WORKER_WRONG_CALL, text);
    } else if (m->kind == WIRE_REPLY) {
        take_reply(w, r, m);
    } else {
        take_error(w, r, m);
    }
}

static void end_of_socket(struct rank *r, const struct err *err)
{
    if (err->code != ERR_OK)
        snprintf(r->cut, sizeof r->cut, "a message %.120s, wanted %.60s bytes", err->found,
                 err->wanted);
    close(r->wire.fd);
    r->wire.fd = -1;
    r->closed = clock_seconds();
}

/* A reply stays in the wire's buffer until the next call, so a rank that is done is not read from:
 * what it sends then, nobody has asked for. `fill` reads; what it waits for is one message. */
static void take_messages(struct workers *w, struct rank *r,
                          enum wire_state (*fill)(struct wire *, struct wire_message *,
                                                  struct err *))
{
    while (r->wire.fd >= 0 && r->state != RANK_DONE) {
        struct err err = ERR_INIT;
        struct wire_message m;
        char line[ERR_LINE];
        switch (fill(&r->wire, &m, &err)) {
        case WIRE_DONE:
            take_message(w, r, &m);
            fill = wire_fill;
            break;
        case WIRE_END:
            end_of_socket(r, &err);
            return;
        case WIRE_FAILED:
            workers_fail(w, r, WORKER_BROKEN, err_line(&err, line, sizeof line));
            close(r->wire.fd);
            r->wire.fd = -1;
            return;
        default:
            return;
        }
    }
}

static void read_messages(struct workers *w, struct rank *r)
{
    take_messages(w, r, wire_fill);
}

static void send_pending(struct workers *w, struct rank *r)
{
    struct err err = ERR_INIT;
    char line[ERR_LINE];
    if (r->wire.fd < 0 || r->wire.out_sent == r->wire.out_bytes) return;
    if (wire_flush(&r->wire, &err) == WIRE_FAILED)
        workers_fail(w, r, WORKER_BROKEN, err_line(&err, line, sizeof line));
}

/* ---- processes ---- */

/* A launcher's process cannot be waited for: it has ended when its descriptor says so. */
static void take_adopted_end(struct workers *w, struct rank *r)
{
    struct pollfd p = {r->pidfd, POLLIN, 0};
    if (poll(&p, 1, 0) <= 0) return;
    r->pid = -1;
    close(r->pidfd);
    r->pidfd = -1;
    read_messages(w, r);
    if (w->closing) return;
    workers_fail(w, r, WORKER_EXITED, "ended; with which status, its launcher knows");
}

static void take_status(struct workers *w, struct rank *r)
{
    int status = r->status;
    if (w->closing && WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
    workers_fail(w, r, WIFSIGNALED(status) ? WORKER_SIGNALED : WORKER_EXITED, NULL);
}

/* On another host: its keeper says so, on another connection than what the rank itself sent. */
static void take_far_end(struct workers *w, struct rank *r)
{
    read_messages(w, r);
    if (!workers_far_over(r)) return;
    r->pid = -1;
    if (!r->there.lost)
        take_status(w, r);
    else
        workers_fail(w, r, WORKER_EXITED,
                     "its connection has ended: the process that was started there is gone, or its "
                     "host");
}

/* The process has ended: what it sent and wrote before counts first. */
static void take_end(struct workers *w, struct rank *r)
{
    int status;
    if (r->adopted) {
        take_adopted_end(w, r);
        return;
    }
    pid_t got = waitpid(r->pid, &status, WNOHANG);
    if (got == 0 || (got < 0 && errno == EINTR)) return;
    r->status = status;
    r->pid = -1;
    close(r->pidfd); /* it would stay readable */
    r->pidfd = -1;
    read_messages(w, r);
    drain_stderr(r);
    take_status(w, r);
}

/* ---- the loop ---- */

/* What is looked for on a rank's socket. One that has replied is left alone until the next call. */
static short looked_for(const struct rank *r)
{
    bool reads = r->state == RANK_ASKED || r->state == RANK_STARTING || r->state == RANK_FAILED;
    bool sends = r->wire.out_sent < r->wire.out_bytes;
    return (short)((reads ? POLLIN : 0) | (sends ? POLLOUT : 0));
}

/* One rank was asked, and all of it is sent: a short call's reply is waited for in the read itself,
 * for one tick. What others say or do is seen after it. */
static void wait_for_one(struct workers *w, struct rank *r)
{
    if (r->state == RANK_ASKED && r->wire.fd >= 0 && r->wire.out_sent == r->wire.out_bytes)
        take_messages(w, r, wire_fill_soon);
}

/* Waits for news of any rank, `ms` at most, and takes it all. */
static void serve(struct workers *w, int ms)
{
    struct pollfd p[COLLECTIVE_RANKS + 1];
    int n = 0, of[COLLECTIVE_RANKS + 1];
    for (int i = 0; i < w->o.world; i++) {
        short events = looked_for(&w->rank[i]);
        if (w->rank[i].wire.fd < 0 || !events) continue;
        of[n] = i;
        p[n++] = (struct pollfd){w->rank[i].wire.fd, events, 0};
    }
    p[n] = (struct pollfd){w->watch, POLLIN, 0};
    (void)poll(p, (nfds_t)n + 1, ms);
    for (int k = 0; k < n; k++) {
        struct rank *r = &w->rank[of[k]];
        if (p[k].revents & POLLOUT) send_pending(w, r);
        if (p[k].revents & ~POLLOUT) read_messages(w, r);
    }
    for (int i = 0; i < w->o.world; i++) {
        struct rank *r = &w->rank[i];
        if (r->far) {
            workers_far_serve(w, r);
            if (r->pid > 0 && r->there.ended) take_far_end(w, r);
        } else if (p[n].revents) {
            drain_stderr(r);
            if (r->pid > 0) take_end(w, r);
        }
    }
}

/* Whether it waits in a collective for one that does not: that one is to blame. */
static bool waits_for_another(const struct workers *w, const struct rank *r)
{
    struct board_place p;
    if (!board_read(&w->board, r->rank, &p) || !p.waiting) return false;
    for (int i = 0; i < w->o.world; i++) {
        bool asked = w->rank[i].state == RANK_ASKED;
        if (asked && (!board_read(&w->board, i, &p) || !p.waiting)) return true;
    }
    return false;
}

static void check_hang(struct workers *w, struct rank *r, double now)
{
    char text[ERR_PART];
    double alive = 1e-9 * (double)board_alive_ns(&w->board, r->rank);
    double silent = now - (alive > w->asked ? alive : w->asked);
    if (r->state == RANK_STARTING && now > w->until) {
        snprintf(text, sizeof text, "no sign of it in %g s", w->deadline_s);
        workers_fail(w, r, WORKER_NOT_STARTED, text);
    } else if (r->state == RANK_ASKED && now > w->until && r->wire.out_sent < r->wire.out_bytes) {
        snprintf(text, sizeof text,
                 "%zu of the %zu bytes of its request taken in %g s: a full pipe", r->wire.out_sent,
                 r->wire.out_bytes, w->deadline_s);
        workers_fail(w, r, WORKER_NOT_TAKEN, text);
    } else if (r->state == RANK_ASKED && now > w->until && !waits_for_another(w, r)) {
        snprintf(text, sizeof text, "no reply in %g s; its last sign of life is %.1f s old",
                 w->deadline_s, silent);
        r->deadline_passed = true;
        workers_fail(w, r, WORKER_HUNG, text);
    } else if (r->state == RANK_ASKED && silent > w->o.stall_s &&
               r->wire.out_sent == r->wire.out_bytes) {
        snprintf(text, sizeof text, "no sign of life for %.1f s", silent);
        workers_fail(w, r, WORKER_HUNG, text);
    }
    /* It closed its socket and lives on. */
    if ((r->state == RANK_ASKED || r->state == RANK_STARTING) && r->closed > 0 && r->pid > 0 &&
        now > r->closed + STATUS_S)
        workers_fail(w, r, WORKER_BROKEN, r->cut[0] ? r->cut : "its end of the socket is closed");
}

static bool any_open(const struct workers *w)
{
    for (int i = 0; i < w->o.world; i++) {
        const struct rank *r = &w->rank[i];
        if (r->state == RANK_ASKED || r->state == RANK_STARTING) return true;
        if (r->deadline_passed && r->failure.outcome == WORKER_HUNG) return true;
    }
    return false;
}

void workers_watch(struct workers *w)
{
    if (w->only >= 0) wait_for_one(w, &w->rank[w->only]);
    while (any_open(w)) {
        serve(w, WORKERS_TICK_MS);
        double now = clock_seconds();
        for (int i = 0; i < w->o.world; i++) check_hang(w, &w->rank[i], now);
        if (w->failed_at > 0 && now > w->failed_at + w->o.grace_s) return;
    }
}

void workers_watch_ends(struct workers *w, double until)
{
    for (;;) {
        bool running = false;
        for (int i = 0; i < w->o.world; i++) running |= w->rank[i].pid > 0;
        if (!running || clock_seconds() > until) return;
        serve(w, WORKERS_TICK_MS);
    }
}
