/* workers_outcome.c: how a rank failed, in words, and which failure came first; see
 * workers_parts.h. */
#include "core/check.h"
#include "core/text.h"
#include "harness/session.h"
#include "harness/workers_parts.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static const struct {
    const char *name;
    const char *wanted;
    int weight; /* a later outcome of the same rank counts where it weighs more */
    bool ends;  /* the rank cannot be called again */
} outcomes[WORKER_OUTCOMES] = {
    [WORKER_FINE] = {"fine", "", 0, false},
    [WORKER_ERROR] = {"failed with an error", "a reply", 9, false},
    [WORKER_EXITED] = {"ended by itself", "a reply", 4, true},
    [WORKER_SIGNALED] = {"was ended by a signal", "a reply", 5, true},
    [WORKER_OOM] = {"was killed because memory ran out", "a reply", 6, true},
    [WORKER_HUNG] = {"hangs", "a reply", 1, true},
    [WORKER_LATE] = {"replied after the deadline", "a reply in time", 2, true},
    [WORKER_EMPTY] = {"sent an empty message", "a reply, or an error that says what", 7, true},
    [WORKER_BROKEN] = {"sent what cannot be read", "a whole message", 7, true},
    [WORKER_WRONG_RANK] = {"replied in another rank's name", "its own rank", 7, true},
    [WORKER_WRONG_CALL] = {"replied to another request", "a reply to this one", 7, true},
    [WORKER_NOT_TAKEN] = {"does not take its request", "all of it taken", 1, true},
    [WORKER_NOT_STARTED] = {"did not start", "a word from it", 1, true},
};

const char *worker_outcome_name(enum worker_outcome o)
{
    return (unsigned)o < WORKER_OUTCOMES ? outcomes[o].name : "an unknown outcome";
}

const char *workers_status_text(int status, char *text, size_t size)
{
    int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (number)
        snprintf(text, size, "ended by signal %d (%s)", number, strsignal(number));
    else if (WEXITSTATUS(status) == 127)
        snprintf(text, size, "exited with status 127: the program could not be run");
    else
        snprintf(text, size, "exited with status %d", WEXITSTATUS(status));
    return text;
}

/* ---- kills for want of memory ---- */

/* The number behind "oom_kill" in a file of "NAME NUMBER" lines. */
static int64_t kills_in(const char *path)
{
    char line[128];
    int64_t kills = -1;
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        if (text_starts(line, "oom_kill ") && !text_int(line + strlen("oom_kill "), &kills))
            kills = -1;
    }
    if (f) fclose(f);
    return kills;
}

int64_t workers_kills(const char *path)
{
    return kills_in(path ? path : "/proc/vmstat");
}

/* ---- a failure ---- */

static void add_place(const struct workers *w, int rank, struct envelope *e)
{
    struct board_place p;
    e->batch = w->batch;
    snprintf(e->samples, sizeof e->samples, "%s", w->samples);
    /* Of a rank on another host nothing may have come yet in this call. */
    if (w->request) snprintf(e->op, sizeof e->op, "%s", w->request->task);
    if (!board_read(&w->board, rank, &p) || (w->rank[rank].far && p.call != w->call)) return;
    e->layer = p.layer;
    e->sample = p.sample;
    e->line = (int)p.line;
    snprintf(e->op, sizeof e->op, "%s", p.op);
    snprintf(e->file, sizeof e->file, "%s", p.file);
}

/* When a rank that says nothing itself failed, as well as that can be known. */
static int64_t failed_ns(const struct workers *w, const struct rank *r, enum worker_outcome o)
{
    int64_t ending = board_ending_ns(&w->board, r->rank);
    int64_t alive = board_alive_ns(&w->board, r->rank), asked = (int64_t)(1e9 * w->asked);
    if ((o == WORKER_EXITED || o == WORKER_SIGNALED) && ending > 0) return ending;
    if (o == WORKER_HUNG) return alive > asked ? alive : asked;
    return (int64_t)(1e9 * clock_seconds());
}

static bool weighs_more(const struct rank *r, enum worker_outcome o)
{
    return r->state != RANK_FAILED || outcomes[o].weight > outcomes[r->failure.outcome].weight;
}

/* The first failure of a call: nobody shall wait for that rank any longer. */
static void set_failed(struct workers *w, struct rank *r, enum worker_outcome o)
{
    const struct envelope *e = &r->failure.envelope;
    int by = e->cause >= 0 ? e->cause : r->rank;
    if (e->cause >= 0 && e->cause < w->o.world) w->rank[e->cause].blamed = true;
    r->state = RANK_FAILED;
    r->failure.outcome = o;
    r->failure.consequence = e->cause >= 0;
    r->failure.tail = r->log.tail;
    if (outcomes[o].ends) w->broken = true;
    if (w->failed_at > 0) return;
    w->failed_at = clock_seconds();
    collective_shm_stop(&w->shm, w->call, by);
    workers_far_stop(w, by);
}

/* Whether a weightier failure of the rank is known; its end is then a note to it. */
static bool known_already(struct workers *w, struct rank *r, enum worker_outcome o,
                          const char *found)
{
    char text[ERR_NOTE];
    if (weighs_more(r, o)) return false;
    if (outcomes[o].ends) w->broken = true;
    if (!found)
        err_note(&r->failure.envelope.err, "then %s",
                 workers_status_text(r->status, text, sizeof text));
    return true;
}

/* The last frame was cut, and the process has ended by itself: the frame is what was wrong. */
static enum worker_outcome refine(const struct workers *w, const struct rank *r,
                                  enum worker_outcome o)
{
    bool killed = o == WORKER_SIGNALED && WTERMSIG(r->status) == SIGKILL;
    if (killed && r->far) return r->there.oom ? WORKER_OOM : o;
    if (killed && w->kills >= 0 && workers_kills(w->oom) > w->kills) return WORKER_OOM;
    return o == WORKER_EXITED && r->cut[0] ? WORKER_BROKEN : o;
}

void workers_fail(struct workers *w, struct rank *r, enum worker_outcome o, const char *found)
{
    char status[96], text[2 * ERR_PART];
    if (!found && (o == WORKER_EXITED || o == WORKER_SIGNALED)) {
        enum worker_outcome finer = refine(w, r, o);
        workers_status_text(r->status, status, sizeof status);
        snprintf(text, sizeof text, "%s%s%s%s", status,
                 finer == WORKER_OOM     ? ": the kernel's killer of processes when memory runs out"
                 : r->state == RANK_DONE ? " after its reply"
                                         : "",
                 r->cut[0] ? "; " : "", r->cut);
        if (known_already(w, r, finer, NULL)) return;
        o = finer;
        found = text;
    } else if (known_already(w, r, o, found)) {
        return;
    }
    if (o == WORKER_EXITED && r->state == RANK_STARTING) o = WORKER_NOT_STARTED;
    struct envelope *e = &r->failure.envelope;
    envelope_now(e, r->rank, w->o.world);
    e->pid = r->had;
    e->clock_ns = failed_ns(w, r, o);
    add_place(w, r->rank, e);
    if (r->host[0]) snprintf(e->host, sizeof e->host, "%s", r->host);
    err_set(&e->err, ERR_PROCESS, "worker|rank %d%s%s %s|%s|%s", r->rank, r->host[0] ? " on " : "",
            r->host, outcomes[o].name, found,
            w->closing ? "an end with status 0" : outcomes[o].wanted);
    e->err.rank = r->rank;
    set_failed(w, r, o);
}

void workers_fail_envelope(struct workers *w, struct rank *r, const struct envelope *e)
{
    if (!weighs_more(r, WORKER_ERROR)) return;
    if (e->rank != r->rank || e->world != w->o.world) {
        workers_fail(w, r, WORKER_WRONG_RANK, "an error in the name of another rank");
        return;
    }
    r->failure.envelope = *e;
    r->failure.envelope.clock_ns += r->there.skew_ns;
    set_failed(w, r, WORKER_ERROR);
}

/* ---- the order ---- */

static int earlier(const void *a, const void *b)
{
    const struct worker_failure *x = a, *y = b;
    if (x->consequence != y->consequence) return x->consequence ? 1 : -1;
    int64_t d = x->envelope.clock_ns - y->envelope.clock_ns;
    return d < 0 ? -1 : d > 0 ? 1 : x->envelope.rank - y->envelope.rank;
}

/* A rank that has not replied when the others' failures are all in. */
static void fail_rest(struct workers *w)
{
    for (int i = 0; i < w->o.world; i++) {
        struct rank *r = &w->rank[i];
        char text[ERR_PART];
        if (r->state != RANK_ASKED && r->state != RANK_STARTING) continue;
        snprintf(text, sizeof text, "no word from it within %g s of the first failure",
                 w->o.grace_s);
        workers_fail(w, r, r->state == RANK_ASKED ? WORKER_HUNG : WORKER_NOT_STARTED, text);
        /* Who waits in a collective itself only hands the wait on, whoever waits for it. */
        struct board_place at;
        bool waits = board_read(&w->board, r->rank, &at) && at.waiting;
        r->failure.consequence = !r->blamed || waits;
    }
}

static void note_consequences(const struct worker_failures *f, struct err *err)
{
    char text[ERR_NOTE];
    size_t n = 0;
    for (int i = 1; i < f->count && n < sizeof text; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%d", i > 1 ? ", " : "",
                              f->of[i].envelope.rank);
    if (n > 0) err_note(err, "after it: ranks %s", text);
}

static void note_stderr(const struct worker_failure *f, struct err *err)
{
    const char *last = f->tail;
    for (const char *p = f->tail; *p; p++) {
        if (*p == '\n' && p[1]) last = p + 1;
    }
    if (*last) err_note(err, "its stderr ends: %.*s", (int)strcspn(last, "\n"), last);
}

enum err_code workers_judge(struct workers *w, struct err *err)
{
    struct worker_failures *f = &w->failures;
    f->count = 0;
    if (w->failed_at > 0) fail_rest(w);
    for (int i = 0; i < w->o.world; i++) {
        if (w->rank[i].state == RANK_FAILED) f->of[f->count++] = w->rank[i].failure;
    }
    if (f->count == 0) return ERR_OK;
    qsort(f->of, (size_t)f->count, sizeof f->of[0], earlier);
    f->of[0].consequence = false; /* there is a first one, whatever it says itself */
    (void)!envelope_raise(&f->of[0].envelope, err);
    if (f->of[0].outcome != WORKER_ERROR) note_stderr(&f->of[0], err);
    note_consequences(f, err);
    return err->code;
}
