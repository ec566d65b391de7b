/* workers.c: opening, calls and closing; see workers.h. */
#include "harness/workers.h"

#include "core/bytes.h"
#include "core/check.h"
#include "harness/session.h"
#include "harness/workers_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define PROGRAM "/proc/self/exe"
enum { KEPT = 1 << 20 /* bytes of a request that are kept for the next one */ };

static double or_default(double given, double dflt)
{
    return given > 0 ? given : dflt;
}

static void fill_in(struct workers_options *o)
{
    o->start_s = or_default(o->start_s, 30);
    o->call_s = or_default(o->call_s, 600);
    o->stall_s = or_default(o->stall_s, 60);
    o->collective_s = or_default(o->collective_s, o->stall_s);
    o->grace_s = or_default(o->grace_s, 1);
    o->launch_s = or_default(o->launch_s, o->start_s);
    if (o->window <= 0) o->window = 1 << 20;
}

static char *copied(const char *text)
{
    return text ? strdup(text) : NULL;
}

struct workers *workers_make(const struct workers_options *o)
{
    struct workers *w = calloc(1, sizeof *w);
    if (!w) return NULL;
    w->o = *o;
    fill_in(&w->o);
    const char *other = getenv("ASSAY_PROGRAM_FILE"); /* for tests, as in fault_env.c */
    w->program = copied(o->program ? o->program : other ? other : PROGRAM);
    w->fault = copied(o->fault);
    w->oom = copied(o->oom);
    w->rank = calloc((size_t)o->world, sizeof *w->rank);
    w->board.segment = w->shm.segment = (struct segment)SEGMENT_INIT;
    mesh_none(&w->mesh);
    w->parent = getpid();
    w->watch = epoll_create1(EPOLL_CLOEXEC);
    w->batch = -1;
    for (int i = 0; w->rank && i < o->world; i++)
        w->rank[i] = (struct rank){.rank = i,
                                   .pid = -1,
                                   .pidfd = -1,
                                   .err_fd = -1,
                                   .wire = {.fd = -1},
                                   .there = {.link = {.fd = -1}}};
    return w;
}

/* A new call, or the start: nobody has failed. */
static void begin(struct workers *w, double deadline_s)
{
    w->asked = clock_seconds();
    w->deadline_s = deadline_s;
    w->until = w->asked + deadline_s;
    w->only = -1;
    w->failed_at = 0;
    w->failures.count = 0;
    for (int i = 0; i < w->o.world; i++) {
        struct rank *r = &w->rank[i];
        r->state = RANK_IDLE;
        r->deadline_passed = r->blamed = false;
        r->failure.outcome = WORKER_FINE;
    }
}

enum err_code workers_open(struct workers **out, const struct workers_options *o, struct err *err)
{
    *out = NULL;
    if (o->world < 1 || o->world > COLLECTIVE_RANKS)
        return err_set(err, ERR_USAGE, "ranks|of this run|%d|1 .. %d", o->world, COLLECTIVE_RANKS);
    struct workers *w = workers_make(o);
    bool made = w && w->program && w->rank && (w->fault || !o->fault) && (w->oom || !o->oom);
    if (!made) err_set(err, ERR_MEMORY, "start ranks|%d|no memory|some", o->world);
    if (made && w->watch < 0) made = err_sys(err, errno, "start ranks|%d", o->world) == ERR_OK;
    if (made && board_make(&w->board, o->world, err) == ERR_OK &&
        collective_shm_make(&w->shm, o->world, w->o.window, err) == ERR_OK) {
        w->kills = workers_kills(w->oom);
        if (o->launch) (void)!workers_adopt(w, err);
        int own = o->launch ? 1 : o->world;
        begin(w, w->o.start_s);
        for (int i = 0; i < o->world; i++) w->rank[i].state = RANK_STARTING;
        for (int i = 0; i < own && err->code == ERR_OK; i++)
            (void)!workers_start_rank(w, i, -1, err);
        mesh_close(&w->mesh); /* rank 0 has it now */
    }
    if (err->code == ERR_OK) {
        workers_watch(w);
        (void)!workers_judge(w, err);
    }
    if (err->code == ERR_OK) {
        *out = w;
    } else {
        workers_close(w);
    }
    return err->code;
}

/* ---- calls ---- */

/* As snprintf("%s"), at a tenth of its price. */
static void put_text(char *to, size_t size, const char *from)
{
    if (!memccpy(to, from, '\0', size)) to[size - 1] = '\0';
}

/* The payload of a request: its head, then its data. Stays w's, and is there until the next one. */
static const unsigned char *payload_of(struct workers *w, const struct worker_request *q)
{
    int64_t bytes = REQUEST_HEAD + q->bytes;
    if (bytes > w->payload_room) {
        unsigned char *more = realloc(w->payload, (size_t)bytes);
        if (!more) return NULL;
        w->payload = more;
        w->payload_room = bytes;
    }
    unsigned char *p = w->payload;
    memset(p, 0, REQUEST_HEAD);
    put_text((char *)p, WORKER_TASK, q->task);
    put_text((char *)p + REQUEST_SAMPLES, WORKER_SAMPLES, w->samples);
    bytes_put(p + REQUEST_BATCH, (uint64_t)q->batch, 8);
    const double left_ms = 1000 * (w->until - clock_seconds());
    bytes_put(p + REQUEST_DEADLINE, (uint64_t)(int64_t)left_ms, 8);
    if (q->bytes > 0) memcpy(p + REQUEST_HEAD, q->data, (size_t)q->bytes);
    return p;
}

static void ask(struct workers *w, struct rank *r, const struct wire_message *m, struct err *err)
{
    struct err e = ERR_INIT;
    char line[ERR_LINE];
    if (r->wire.fd >= 0 && wire_queue(&r->wire, m, err) != ERR_OK) return;
    r->state = RANK_ASKED;
    if (r->wire.fd >= 0 && wire_flush(&r->wire, &e) == WIRE_FAILED)
        workers_fail(w, r, WORKER_BROKEN, err_line(&e, line, sizeof line));
}

/* `only`: one rank, or -1 for all. */
static enum err_code call(struct workers *w, int only, const struct worker_request *q,
                          struct err *err)
{
    CHECK(q->bytes >= 0 && strlen(q->task) < WORKER_TASK);
    if (w->broken) {
        if (w->failures.count > 0) (void)!envelope_raise(&w->failures.of[0].envelope, err);
        err_set(err, ERR_PROCESS, "call the ranks|%s|an earlier call ended the run|ranks", q->task);
        return err_note(err, "in an earlier call than %s", q->task);
    }
    begin(w, or_default(q->deadline_s, w->o.call_s));
    w->only = only;
    w->batch = q->batch;
    put_text(w->samples, sizeof w->samples, q->samples ? q->samples : "");
    const unsigned char *payload = payload_of(w, q);
    if (!payload)
        return err_set(err, ERR_MEMORY, "call the ranks|%s|no memory|%lld bytes", q->task,
                       (long long)q->bytes);
    const struct wire_message m = {.kind = WIRE_REQUEST,
                                   .call = w->call,
                                   .data = payload,
                                   .bytes = REQUEST_HEAD + q->bytes,
                                   .segment = q->segment,
                                   .segments = q->segments};
    w->request = q;
    w->refused = (struct err)ERR_INIT;
    for (int i = 0; i < w->o.world && err->code == ERR_OK; i++) {
        if (only < 0 || only == i) ask(w, &w->rank[i], &m, err);
    }
    if (w->payload_room > KEPT) {
        free(w->payload);
        w->payload = NULL;
        w->payload_room = 0;
    }
    if (err->code != ERR_OK) {
        w->request = NULL;
        w->broken = true; /* some ranks were asked, and some were not */
        return err->code;
    }
    workers_watch(w);
    (void)!workers_judge(w, err);
    w->call++;
    w->request = NULL;
    if (w->refused.code == ERR_OK) return err->code;
    *err = w->refused; /* the ranks only failed because they were not heard to the end */
    w->failures.count = 0;
    return err->code;
}

static struct worker_reply reply_of(const struct rank *r)
{
    const struct wire_message *m = &r->reply;
    return (struct worker_reply){r->rank, m->data, m->bytes, m->segment, m->segments};
}

enum err_code workers_call_all(struct workers *w, const struct worker_request *q,
                               struct worker_replies *out, struct err *err)
{
    if (call(w, -1, q, err) != ERR_OK) return err->code;
    out->count = w->o.world;
    for (int i = 0; i < w->o.world; i++) out->of[i] = reply_of(&w->rank[i]);
    return ERR_OK;
}

enum err_code workers_call_one(struct workers *w, int rank, const struct worker_request *q,
                               struct worker_reply *out, struct err *err)
{
    CHECK(rank >= 0 && rank < w->o.world);
    if (call(w, rank, q, err) != ERR_OK) return err->code;
    *out = reply_of(&w->rank[rank]);
    return ERR_OK;
}

/* ---- the end ---- */

enum err_code workers_finish(struct workers *w, struct err *err)
{
    struct err lost = ERR_INIT;
    const struct wire_message bye = {.kind = WIRE_BYE, .call = w->call};
    if (w->broken) return ERR_OK; /* said already */
    begin(w, w->o.grace_s);
    w->closing = w->broken = true;
    for (int i = 0; i < w->o.world; i++) {
        struct rank *r = &w->rank[i];
        if (r->wire.fd >= 0 && wire_queue(&r->wire, &bye, &lost) == ERR_OK)
            (void)!wire_flush(&r->wire, &lost);
    }
    workers_watch_ends(w, w->until);
    for (int i = 0; i < w->o.world; i++) {
        if (w->rank[i].pid > 0)
            workers_fail(w, &w->rank[i], WORKER_HUNG, "still there after it was asked to end");
    }
    return workers_judge(w, err);
}

void workers_close(struct workers *w)
{
    if (!w) return;
    mesh_close(&w->mesh);
    for (int i = 0; w->rank && i < w->o.world; i++) workers_end_rank(w, &w->rank[i]);
    board_free(&w->board);
    collective_shm_free(&w->shm);
    if (w->watch >= 0) close(w->watch);
    free(w->rank);
    free(w->program);
    free(w->fault);
    free(w->oom);
    free(w->payload);
    free(w);
}

int workers_world(const struct workers *w)
{
    return w->o.world;
}

pid_t workers_pid(const struct workers *w, int rank)
{
    CHECK(rank >= 0 && rank < w->o.world);
    return w->rank[rank].pid;
}

bool workers_usable(const struct workers *w)
{
    return !w->broken;
}
