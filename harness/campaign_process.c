/* campaign_process.c: faults of a rank among several, in real processes of this program: a call
 * that goes well, then one in which the rank fails; see campaign_parts.h. */
#include "core/file.h"
#include "core/synth.h"
#include "harness/campaign_parts.h"
#include "harness/workers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { REQUEST = 1 << 20 /* bytes: more than a pipe takes */, STEPS = 4 };
/* Later than a loaded machine lets the parent look, sooner than it gives up. */
enum { LATE_MS = 250 };
#define SHORT_S 3.0 /* a call's deadline, for faults that let it pass */
#define LONG_S 60.0

struct draw {
    int world, rank;
    char fault[FAULT_TEXT];
};

static int below(const struct job *j, int i, uint64_t n)
{
    return (int)(synth_x(synth_base(j->seed, j->row->id), i) % n);
}

static bool has_key(const struct fault_row *f, const char *key)
{
    for (int k = 0; k < FAULT_KEYS && f->keys[k].name; k++) {
        if (strcmp(f->keys[k].name, key) == 0) return true;
    }
    return false;
}

/* Which rank of how many (drawn, or in turn), at which step of the second call, by which signal or
 * status. */
static void draw_fault(const struct job *j, struct draw *d)
{
    static const int signals[] = {4, 6, 7, 8, 9, 11, 15};
    char step[32] = "", more[32] = "";
    d->world = 2 + below(j, 0, 3);
    d->rank = below(j, 1, (uint64_t)d->world);
    /* Each rank of two, of three, of four in turn. */
    for (int i = 0, world = 2; j->command >= 0 && world <= 4; i += world++) {
        int at = j->command % CAMPAIGN_RANKS - i;
        if (at < 0 || at >= world) continue;
        d->world = world;
        d->rank = at;
    }
    if (has_key(j->row, "step")) snprintf(step, sizeof step, ",step=%d", below(j, 2, STEPS));
    if (has_key(j->row, "signal"))
        snprintf(more, sizeof more, ",signal=%d", signals[below(j, 3, 7)]);
    if (has_key(j->row, "status")) snprintf(more, sizeof more, ",status=%d", 1 + below(j, 3, 100));
    if (has_key(j->row, "ms")) snprintf(more, sizeof more, ",ms=%d", LATE_MS + below(j, 3, 300));
    snprintf(d->fault, sizeof d->fault, "%s@rank=%d,call=1%s%s", j->row->id, d->rank, step, more);
}

static bool passes_deadline(const struct fault_row *f)
{
    static const char *const ids[] = {"proc.hang", "proc.late_reply", "proc.not_reading"};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        if (strcmp(f->id, ids[i]) == 0) return true;
    }
    return false;
}

static json_t *judge(const struct campaign *c, const struct job *j, const struct draw *d,
                     const struct workers *w, const struct err *failed)
{
    char line[ERR_LINE], wanted[128];
    const struct worker_failures *f = workers_failures(w);
    const struct worker_failure *first = &f->of[0];
    err_line(failed, line, sizeof line);
    if (failed->code == ERR_OK) return campaign_record(j, c, "missed", "%s: a pass", d->fault);
    snprintf(wanted, sizeof wanted, "workers: %s", worker_outcome_name(first->outcome));
    bool named = f->count > 0 && first->envelope.rank == d->rank && failed->rank == d->rank;
    for (int i = 1; i < f->count; i++) named = named && f->of[i].consequence;
    if (!named || strcmp(wanted, j->row->detector) != 0)
        return campaign_record(j, c, "missed", "%s of %d ranks: %.300s", d->fault, d->world, line);
    return campaign_record(j, c, "caught", "%s of %d ranks: %.300s", d->fault, d->world, line);
}

static enum err_code call(struct workers *w, const unsigned char *data, double deadline_s,
                          struct err *err)
{
    struct worker_replies *replies = calloc(1, sizeof *replies);
    const struct worker_request q = {.task = "collectives",
                                     .batch = 0,
                                     .samples = "0-3",
                                     .data = data,
                                     .bytes = REQUEST,
                                     .deadline_s = deadline_s};
    if (!replies) return err_set(err, ERR_MEMORY, "fault campaign|replies|no memory|some");
    (void)!workers_call_all(w, &q, replies, err);
    free(replies);
    return err->code;
}

/* A counter of kills of our own: the kernel's cannot be made to move. */
static enum err_code make_counter(const char *path, struct err *err)
{
    static const char text[] = "oom_kill 0\n";
    struct file_out f = FILE_OUT_INIT;
    if (file_out_open(&f, path, err) == ERR_OK &&
        file_out_write(&f, text, sizeof text - 1, err) == ERR_OK)
        (void)!file_out_commit(&f, err);
    file_out_abandon(&f);
    return err->code;
}

json_t *campaign_process(struct campaign *c, const struct job *j)
{
    struct draw d;
    struct err err = ERR_INIT, failed = ERR_INIT;
    struct workers *w = NULL;
    char counter[FILE_PATH], line[ERR_LINE];
    unsigned char *data = calloc(1, REQUEST);
    json_t *record = NULL;
    draw_fault(j, &d);
    campaign_path(c, "oom", counter);
    const struct workers_options o = {
        .world = d.world, .fault = d.fault, .oom = counter, .start_s = LONG_S, .quiet = true};
    if (!data) err_set(&err, ERR_MEMORY, "fault campaign|request|no memory|some");
    if (err.code == ERR_OK && make_counter(counter, &err) == ERR_OK &&
        workers_open(&w, &o, &err) == ERR_OK && call(w, data, LONG_S, &err) == ERR_OK) {
        (void)!call(w, data, passes_deadline(j->row) ? SHORT_S : LONG_S, &failed);
        record = judge(c, j, &d, w, &failed);
    }
    if (err.code != ERR_OK)
        record =
            campaign_record(j, c, "error", "%s: %s", d.fault, err_line(&err, line, sizeof line));
    workers_close(w);
    unlink(counter);
    free(data);
    return record;
}
