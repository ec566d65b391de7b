/* worker.c: see worker.h. */
#include "harness/worker.h"

#include "compat/envelope.h"
#include "core/bytes.h"
#include "core/check.h"
#include "harness/session.h"
#include "harness/worker_parts.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOK_S 1.0  /* an idle rank asks this often whether its parent lives */
#define SEND_S 60.0 /* a parent that takes no reply for so long has failed itself */

struct worker_private {
    struct worker_place start;
    struct wire wire;
    struct board board;
    struct collective_shm shm;
    struct collective_tcp tcp; /* of ranks on several hosts; else empty */
    struct collective collective;
    struct board_place place; /* what the board says */
    char op[BOARD_OP];        /* while it waits in a collective: what for */
    struct process_fault fault;
    int64_t step; /* of this call */
    double until; /* of this call */
    char samples[WORKER_SAMPLES];
    unsigned char *reply; /* REPLY_HEAD bytes, then the task's */
    int64_t reply_bytes, reply_room;
    struct segment out[WORKER_SEGMENTS];
    int outs;
};

/* ---- what a task uses ---- */

/* As snprintf("%s"), at a tenth of its price: this runs at every op. */
static void copy_text(char *to, size_t size, const char *from)
{
    if (!memccpy(to, from, '\0', size)) to[size - 1] = '\0';
}

static void write_place(struct worker *w, const char *op, int64_t layer, int64_t sample)
{
    struct worker_private *own = w->own;
    own->place.call = w->call;
    own->place.batch = w->batch;
    own->place.layer = layer;
    own->place.sample = sample;
    own->place.waiting = 0;
    copy_text(own->place.op, sizeof own->place.op, op);
    board_write(&own->board, w->rank, &own->place);
}

void worker_doing_at(struct worker *w, const char *op, int64_t layer, int64_t sample,
                     const char *file, int line)
{
    copy_text(w->own->place.file, sizeof w->own->place.file, file);
    w->own->place.line = line;
    write_place(w, op, layer, sample);
    process_fault_step(&w->own->fault, w->call, w->own->step++);
}

static bool parent_lives(const struct worker *w)
{
    const struct worker_place *p = &w->own->start;
    return p->launched ? kill(p->parent, 0) == 0 : getppid() == p->parent;
}

/* A collective is what a rank does while it waits in it. Who is not its parent's child is not ended
 * with it by the kernel, and may be the only one left. */
static void waiting(void *ctx, const char *what)
{
    struct worker *w = ctx;
    struct worker_private *own = w->own;
    struct board_place *p = &own->place;
    if (what && !parent_lives(w)) {
        fprintf(stderr, "assay: error: rank %d: the parent of the ranks has ended\n", w->rank);
        _exit(err_exit(ERR_PROCESS));
    }
    if (what && p->waiting) {
        board_beat(&own->board, w->rank);
    } else if (what) {
        copy_text(own->op, sizeof own->op, p->op);
        copy_text(p->op, sizeof p->op, what);
        p->waiting = 1;
        board_write(&own->board, w->rank, p);
    } else if (p->waiting) {
        write_place(w, own->op, p->layer, p->sample);
    }
}

static void doing(void *ctx, int rank, char *text, size_t size)
{
    const struct worker *w = ctx;
    struct board_place p;
    text[0] = '\0';
    if (!board_read(&w->own->board, rank, &p)) return;
    if (p.layer >= 0)
        snprintf(text, size, "in %s, layer %lld", p.op, (long long)p.layer);
    else
        snprintf(text, size, "in %s", p.op);
}

enum err_code worker_reply(struct worker *w, const void *data, int64_t bytes, struct err *err)
{
    struct worker_private *own = w->own;
    CHECK(bytes >= 0 && own->reply_bytes == 0);
    if (bytes + REPLY_HEAD > own->reply_room) {
        unsigned char *more = realloc(own->reply, (size_t)bytes + REPLY_HEAD);
        if (!more)
            return err_set(err, ERR_MEMORY, "reply|rank %d|no memory|%lld bytes", w->rank,
                           (long long)bytes);
        own->reply = more;
        own->reply_room = bytes + REPLY_HEAD;
    }
    memcpy(own->reply, (const unsigned char[REPLY_HEAD]){REPLY_BYTES}, REPLY_HEAD);
    if (bytes > 0) memcpy(own->reply + REPLY_HEAD, data, (size_t)bytes);
    own->reply_bytes = bytes + REPLY_HEAD;
    return ERR_OK;
}

static enum err_code no_memory_there(const struct worker *w, const char *what, struct err *err)
{
    return err_set(err, ERR_INPUT, "%s|rank %d|memory for a parent on another host|bytes", what,
                   w->rank);
}

struct segment *worker_reply_segment(struct worker *w, int64_t bytes, struct err *err)
{
    struct worker_private *own = w->own;
    if (own->outs == WORKER_SEGMENTS) {
        err_set(err, ERR_INPUT, "reply|rank %d|%d segments|%d at most", w->rank, own->outs + 1,
                WORKER_SEGMENTS);
        return NULL;
    }
    if (own->wire.far) {
        no_memory_there(w, "reply", err);
        return NULL;
    }
    struct segment *s = &own->out[own->outs];
    if (segment_reserve_pages(s, "assay-reply", bytes, err) != ERR_OK) return NULL;
    own->outs++;
    return s;
}

/* ---- what travels back ---- */

static enum err_code send_message(struct worker *w, struct wire_message *m, struct err *err)
{
    struct worker_private *own = w->own;
    struct process_reply r = {&own->wire, m, &own->board, w->rank, w->world, own->until};
    if (process_fault_reply(&own->fault, w->call, &r)) return ERR_OK;
    return wire_send(&own->wire, m, clock_seconds() + SEND_S, err);
}

static enum err_code send_reply(struct worker *w, struct err *err)
{
    static const unsigned char none[REPLY_HEAD] = {REPLY_NONE};
    struct worker_private *own = w->own;
    struct wire_message m = {.kind = WIRE_REPLY,
                             .rank = w->rank,
                             .call = w->call,
                             .data = own->reply_bytes ? own->reply : none,
                             .bytes = own->reply_bytes ? own->reply_bytes : REPLY_HEAD,
                             .segment = own->out,
                             .segments = own->outs};
    return send_message(w, &m, err);
}

/* The error with where this rank is. An error that blames another rank is that rank's doing. */
static enum err_code send_error(struct worker *w, const struct err *failed, struct err *err)
{
    unsigned char bytes[ENVELOPE_MOST];
    const struct board_place *p = &w->own->place;
    struct envelope e;
    envelope_now(&e, w->rank, w->world);
    e.err = *failed;
    e.cause = failed->rank >= 0 && failed->rank != w->rank ? failed->rank : -1;
    e.layer = p->layer;
    e.batch = p->batch;
    e.sample = p->sample;
    e.line = (int)p->line;
    snprintf(e.op, sizeof e.op, "%s", p->op);
    snprintf(e.file, sizeof e.file, "%s", p->file);
    snprintf(e.samples, sizeof e.samples, "%s", w->samples);
    struct wire_message m = {.kind = WIRE_ERROR, .rank = w->rank, .call = w->call, .data = bytes};
    m.bytes = (int64_t)envelope_encode(&e, bytes);
    return send_message(w, &m, err);
}

/* A rank that waits for its parent shows that it lives. */
static enum err_code wait_taken(struct worker *w, struct err *err)
{
    struct worker_private *own = w->own;
    struct wire_message m;
    for (double until = own->until + SEND_S; parent_lives(w) && clock_seconds() < until;) {
        board_beat(&own->board, w->rank);
        enum wire_state s = wire_fill_soon(&own->wire, &m, err);
        if (s == WIRE_AGAIN) continue;
        if (s != WIRE_DONE || m.kind != WIRE_TAKEN || m.call != w->call || m.bytes != 1) break;
        if (m.data[0]) return ERR_OK;
        return err_set(err, ERR_PROCESS, "hand over a piece|rank %d|the parent wants no more|%s",
                       w->rank, "it to be taken");
    }
    return err_set(err, ERR_PROCESS, "hand over a piece|rank %d|no word of the parent|%s", w->rank,
                   "that it was taken");
}

enum err_code worker_part(struct worker *w, const void *data, int64_t bytes,
                          const struct segment *segment, struct err *err)
{
    const struct wire_message m = {.kind = WIRE_PART,
                                   .rank = w->rank,
                                   .call = w->call,
                                   .data = data,
                                   .bytes = bytes,
                                   .segment = segment,
                                   .segments = segment ? 1 : 0};
    if (segment && w->own->wire.far) return no_memory_there(w, "hand over a piece", err);
    if (wire_send(&w->own->wire, &m, clock_seconds() + SEND_S, err) != ERR_OK) return err->code;
    return wait_taken(w, err);
}

/* ---- requests ---- */

static enum err_code run_task(struct worker *w, const struct worker_task *tasks, const char *name,
                              struct err *err)
{
    for (const struct worker_task *t = tasks; t->name; t++) {
        if (strcmp(t->name, name) != 0) continue;
        worker_doing(w, name, -1, -1);
        return t->run(w, err);
    }
    return err_set(err, ERR_USAGE, "request|task|\"%s\"|a task of this program", name);
}

static enum err_code serve(struct worker *w, const struct worker_task *tasks,
                           const struct wire_message *m, struct err *err)
{
    struct worker_private *own = w->own;
    struct err failed = ERR_INIT;
    char task[WORKER_TASK] = "";
    w->call = m->call;
    if (m->bytes < REQUEST_HEAD)
        return err_set(err, ERR_PROCESS, "request|from the parent|%lld bytes|%d or more",
                       (long long)m->bytes, REQUEST_HEAD);
    memcpy(task, m->data, WORKER_TASK - 1);
    memcpy(own->samples, m->data + REQUEST_SAMPLES, WORKER_SAMPLES - 1);
    w->batch = (int64_t)bytes_get(m->data + REQUEST_BATCH, 8);
    own->until = clock_seconds() + 1e-3 * (double)(int64_t)bytes_get(m->data + REQUEST_DEADLINE, 8);
    w->samples = own->samples;
    w->data = m->data + REQUEST_HEAD;
    w->bytes = m->bytes - REQUEST_HEAD;
    w->segment = m->segment;
    w->segments = m->segments;
    own->step = own->reply_bytes = own->outs = 0;
    collective_shm_join(&own->shm, w->call);
    if (own->start.far) collective_tcp_join(&own->tcp);
    if (run_task(w, tasks, task, &failed) == ERR_OK) return send_reply(w, err);
    return send_error(w, &failed, err);
}

/* The next message. False: the parent is gone, or err. */
static bool next_message(struct worker *w, struct wire_message *m, struct err *err)
{
    struct wire *wire = &w->own->wire;
    for (;;) {
        enum wire_state s = wire_fill_soon(wire, m, err);
        if (s != WIRE_AGAIN) return s == WIRE_DONE;
        if (!parent_lives(w)) return false;
    }
}

static void serve_all(struct worker *w, const struct worker_task *tasks, struct err *err)
{
    const int64_t now_ns = (int64_t)(1e9 * clock_seconds()); /* of this host */
    struct wire_message m = {.kind = WIRE_HELLO,
                             .rank = w->rank,
                             .data = (const unsigned char *)&now_ns,
                             .bytes = sizeof now_ns};
    write_place(w, "saying hello", -1, -1);
    (void)!wire_send(&w->own->wire, &m, clock_seconds() + SEND_S, err);
    for (int64_t call = 0; err->code == ERR_OK; call++) {
        write_place(w, "waiting for a request", -1, -1);
        process_fault_before(&w->own->fault, call);
        if (!next_message(w, &m, err) || m.kind == WIRE_BYE) return;
        (void)!serve(w, tasks, &m, err);
    }
}

/* ---- the process ---- */

static enum err_code join(struct worker *w, struct err *err)
{
    struct worker_private *own = w->own;
    const struct worker_place *p = &own->start;
    w->rank = p->rank;
    w->world = p->world;
    w->batch = -1;
    w->samples = "";
    wire_init(&own->wire, p->socket, "the parent");
    wire_slice(&own->wire, LOOK_S);
    if (board_attach(&own->board, p->board, p->world, err) != ERR_OK ||
        collective_shm_attach(&own->shm, p->shm, p->rank, p->world, p->window, err) != ERR_OK ||
        process_fault_read(&own->fault, p, err) != ERR_OK)
        return err->code;
    worker_crash_install(&own->board, p->rank);
    own->shm.waiting = waiting;
    own->shm.doing = doing;
    own->shm.ctx = w;
    if (p->far &&
        collective_tcp_make(&own->tcp, &own->shm, p->mesh, p->host, p->window, err) != ERR_OK)
        return err->code;
    if (p->far)
        collective_tcp_open(&own->collective, &own->tcp, p->collective_s);
    else
        collective_shm_open(&own->collective, &own->shm, p->collective_s);
    process_fault_collective(&own->fault, &own->collective);
    w->collective = &own->collective;
    return ERR_OK;
}

static void leave(struct worker *w)
{
    struct worker_private *own = w->own;
    if (w->state && w->forget) w->forget(w->state);
    for (int i = 0; i < WORKER_SEGMENTS; i++) segment_free(&own->out[i]);
    free(own->reply);
    wire_free(&own->wire);
    collective_tcp_free(&own->tcp);
    collective_shm_free(&own->shm);
}

int worker_main(int argc, char **argv, const struct worker_task *tasks)
{
    /* The board is written until the very end of the process. */
    static struct worker_private own = {.wire = {.fd = -1}, .board = {.segment = SEGMENT_INIT}};
    struct worker w = {.own = &own};
    struct err err = ERR_INIT;
    own.shm.segment = (struct segment)SEGMENT_INIT;
    for (int i = 0; i < WORKER_SEGMENTS; i++) own.out[i] = (struct segment)SEGMENT_INIT;
    signal(SIGPIPE, SIG_IGN);
    if (worker_place_read(&own.start, argc - 2, argv + 2, &err) == ERR_OK &&
        join(&w, &err) == ERR_OK)
        serve_all(&w, tasks, &err);
    leave(&w);
    if (err.code == ERR_OK) return 0;
    char line[ERR_LINE];
    fprintf(stderr, "assay: error: %s\n", err_line(&err, line, sizeof line));
    return err_exit(err.code);
}
