/* process_fault.c: faults proc.* made to happen in a rank; the rows are in core/fault_proc.c, the
 * seams in worker.c, the declarations in worker_parts.h. Test: tests/test_process_fault.c */
#include "compat/envelope.h"
#include "core/check.h"
#include "harness/session.h"
#include "harness/worker_parts.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static bool is(const struct process_fault *f, const char *id)
{
    return f->use.row && strcmp(f->use.row->id, id) == 0;
}

static int64_t value(const struct process_fault *f, const char *key)
{
    int64_t v = (int64_t)fault_value(&f->use, key);
    return v < 0 ? 0 : v;
}

enum err_code process_fault_read(struct process_fault *f, const struct worker_place *p,
                                 struct err *err)
{
    *f = (struct process_fault){.oom = p->oom};
    if (!p->fault) return ERR_OK;
    if (fault_use_parse(&f->use, p->fault, FAULT_PROCESS, err) != ERR_OK) return err->code;
    double rank = fault_value(&f->use, "rank");
    if ((rank < 0 ? p->world - 1 : (int)rank) != p->rank) f->use.row = NULL;
    return ERR_OK;
}

static void sleep_ms(int64_t ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

void process_fault_before(const struct process_fault *f, int64_t call)
{
    if (is(f, "proc.not_reading") && value(f, "call") == call) raise(SIGSTOP);
}

/* The kernel's counter of kills goes up, and the rank is killed: as it looks from outside. */
static void run_out_of_memory(const char *counter)
{
    static const char text[] = "oom_kill 1\n";
    int fd = counter ? open(counter, O_WRONLY | O_TRUNC) : -1;
    if (fd >= 0 && write(fd, text, sizeof text - 1) < 0) _exit(1);
    raise(SIGKILL);
}

void process_fault_step(const struct process_fault *f, int64_t call, int64_t step)
{
    if (!f->use.row || value(f, "call") != call) return;
    for (int k = 0; k < FAULT_KEYS && f->use.row->keys[k].name; k++) {
        if (strcmp(f->use.row->keys[k].name, "step") == 0 && value(f, "step") != step) return;
    }
    if (is(f, "proc.worker_exit_0")) exit(0);
    if (is(f, "proc.worker_exit_n")) exit((int)value(f, "status"));
    if (is(f, "proc.worker_signal")) raise((int)value(f, "signal"));
    if (is(f, "proc.oom")) run_out_of_memory(f->oom);
    if (is(f, "proc.nccl_abort")) setenv(COLLECTIVE_ABORT, "1", 1);
    while (is(f, "proc.hang")) sleep_ms(1000);
}

/* ---- collectives ---- */

static const struct collective_side *real;

static enum err_code run_or_abort(struct collective *c, const struct collective_call *call,
                                  struct err *err)
{
    if (getenv(COLLECTIVE_ABORT))
        return err_set(err, ERR_PROCESS,
                       "collective|rank %d|it is aborted (" COLLECTIVE_ABORT
                       ")|one that all ranks finish",
                       c->member[c->rank]);
    return real->run(c, call, err);
}

void process_fault_collective(const struct process_fault *f, struct collective *c)
{
    static struct collective_side side;
    if (!is(f, "proc.nccl_abort") || !c->side) return;
    real = c->side;
    side = *real;
    side.run = run_or_abort;
    c->side = &side;
}

/* ---- replies ---- */

static void write_all(int fd, const unsigned char *p, size_t n)
{
    while (n > 0) {
        ssize_t w = write(fd, p, n);
        if (w <= 0) return;
        p += w;
        n -= (size_t)w;
    }
}

/* Forms the frame and sends the first `share` of it, a bit changed or not. */
static void send_part(struct process_reply *r, double share, bool flip)
{
    struct err e = ERR_INIT;
    if (wire_queue(r->wire, r->message, &e) != ERR_OK) return;
    if (flip) r->wire->out[r->wire->out_bytes - 1] ^= 1;
    if (share == 1) {
        (void)!wire_flush(r->wire, &e);
        return;
    }
    write_all(r->wire->fd, r->wire->out, (size_t)(share * (double)r->wire->out_bytes));
    exit(0);
}

/* An error as the bytes that reach the parent, spoilt. */
static void send_error(struct process_reply *r, const char *what, bool flip)
{
    static unsigned char bytes[ENVELOPE_MOST];
    struct envelope e;
    envelope_now(&e, r->rank, r->world);
    err_set(&e.err, ERR_INPUT, "%s", what);
    if (!what[0]) e.err.what[0] = '\0';
    size_t n = envelope_encode(&e, bytes);
    if (flip) bytes[n / 2] ^= 4;
    r->message->kind = WIRE_ERROR;
    r->message->data = bytes;
    r->message->bytes = (int64_t)n;
    r->message->segments = 0;
    send_part(r, 1, false);
}

/* Shows that it lives, and is late all the same. */
static void be_late(const struct process_reply *r, int64_t ms)
{
    double until = r->until + 1e-3 * (double)ms;
    while (clock_seconds() < until) {
        board_beat(r->board, r->rank);
        sleep_ms(20);
    }
}

bool process_fault_reply(const struct process_fault *f, int64_t call, struct process_reply *r)
{
    if (!f->use.row || value(f, "call") != call) return false;
    if (is(f, "proc.late_reply")) be_late(r, value(f, "ms"));
    if (is(f, "proc.empty_reply")) r->message->bytes = 0;
    if (is(f, "proc.wrong_rank_reply")) r->message->rank = (r->rank + 1) % r->world;
    if (is(f, "proc.wrong_call_reply")) r->message->call--;
    if (is(f, "proc.reply_unwrapped")) {
        static const unsigned char bare[64] = "[[0.5, 0.25]]";
        write_all(r->wire->fd, bare, sizeof bare);
    } else if (is(f, "proc.truncated_reply")) {
        send_part(r, 0.5, false);
    } else if (is(f, "proc.garbled_reply")) {
        send_part(r, 1, true);
    } else if (is(f, "proc.empty_message")) {
        send_error(r, "", false);
    } else if (is(f, "proc.cause_lost")) {
        send_error(r, err_sentence(ERR_INPUT), false);
    } else if (is(f, "proc.garbled_error")) {
        send_error(r, "read|model.safetensors|3 bytes|8", true);
    } else {
        return false;
    }
    return true;
}
