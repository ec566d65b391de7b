/* workers.h: N ranks of a run as processes of this host or of several, seen from their parent.
 *
 *     struct workers *w;
 *     struct worker_replies all;
 *     workers_open(&w, &(struct workers_options){.world = 4}, err);
 *     workers_call_all(w, &(struct worker_request){.task = "shard.forward", ...}, &all, err);
 *     workers_finish(w, err);
 *     workers_close(w);
 *
 * A call to all ranks gives one reply a rank, a call to one rank gives that one: two functions with
 * two types, so that nothing has to be told apart by its length.
 *
 * Whatever a rank does, a call ends by its deadline and says which rank, doing what, failed first
 * and why: the named outcomes below. All ranks are watched at once. When one fails, the others are
 * called out of their collectives, given `grace_s` to say what they have to say, and listed after
 * the first cause as consequences.
 *
 * An error that a task sets leaves the workers usable: the next call may follow ("go on with the
 * next batch"). Every other outcome ends the run: the ranks that are left are ended, later calls
 * are refused with the first cause. No process, no shared memory and no file outlives
 * workers_close(), nor a parent that is killed. Test: tests/test_workers.c,
 * tests/test_workers_kill.c
 *
 * Ranks that a launcher has started on several hosts are started, watched and ended there by a
 * process of the launcher's each, which tells this one by TCP; collectives go by TCP too
 * (collective_tcp.h), and a message holds no shared memory. Their outcomes, deadlines and words are
 * those of ranks of this host, with the host named; a host that is gone without a word is noticed
 * after NET_SILENT_S at the latest (net.h).
 *
 * Not for several threads at once; the thread that opens must live as long as the workers do (the
 * kernel ties their death to it). */
#ifndef ASSAY_HARNESS_WORKERS_H
#define ASSAY_HARNESS_WORKERS_H

#include "compat/envelope.h"
#include "harness/launch.h"
#include "harness/worker.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

struct workers;

struct workers_options {
    int world;           /* 1 .. COLLECTIVE_RANKS */
    const char *program; /* NULL: the one that runs now */
    double start_s;      /* until every rank has said that it is there; 0: 30 */
    double call_s;       /* of a call, unless the request says otherwise; 0: 600 */
    double stall_s;      /* a rank that says nothing new for so long hangs; 0: 60 */
    double collective_s; /* of one collective call; 0: as stall_s */
    double grace_s;      /* for the other ranks once one has failed; 0: 1 */
    int64_t window;      /* bytes a rank of the collectives' shared memory; 0: 1 MiB */
    const char *fault;   /* NULL, or "proc.hang@rank=1,call=0": an injected fault of a process */
    const char *oom;     /* where kills for want of memory are counted; NULL: the kernel's files */
    const struct launch *launch; /* NULL: all ranks are started here; or who has started them: this
                                    process is its rank 0 */
    double launch_s;             /* until all of those have come; 0: as start_s */
    bool quiet;                  /* keep the ranks' stderr for the report only, do not pass it on */
};

/* A process that a launcher has started as another rank than 0: serves rank 0 until that lets it
 * go. Returns the exit status. */
int worker_launched(const struct launch *launch, double wait_s, const struct worker_task *tasks);

enum err_code workers_open(struct workers **out, const struct workers_options *o,
                           struct err *err) ERR_USED;

struct worker_reply;

struct worker_request {
    const char *task;
    int64_t batch;       /* -1: none. 0 is a batch */
    const char *samples; /* "0-3": which samples a failure has lost; NULL: none */
    const void *data;
    int64_t bytes;
    const struct segment *segment; /* [segments] shared with the rank, not copied */
    int segments;
    double deadline_s; /* 0: the options' */
    /* Takes a piece that a rank hands over ahead of its reply (worker_part); it lives until this
     * comes back. NULL: none is expected. An error ends the call and is what the call gives. */
    enum err_code (*part)(void *ctx, const struct worker_reply *part, struct err *err);
    void *part_ctx;
};

/* Belongs to the workers and lives until the next call. */
struct worker_reply {
    int rank;
    const unsigned char *data;
    int64_t bytes;
    const struct segment *segment; /* [segments] */
    int segments;
};

struct worker_replies {
    int count; /* the world's */
    struct worker_reply of[COLLECTIVE_RANKS];
};

/* On an error err holds the first cause whole (code, four parts, its notes), its rank, and notes
 * with its place and the number of consequences; workers_failures() has the rest. */
enum err_code workers_call_all(struct workers *w, const struct worker_request *q,
                               struct worker_replies *out, struct err *err) ERR_USED;
enum err_code workers_call_one(struct workers *w, int rank, const struct worker_request *q,
                               struct worker_reply *out, struct err *err) ERR_USED;

/* Asks every rank to end and waits: what a rank does at its end (a crash, a status that is not 0)
 * is an error of the run too. Within grace_s; then workers_close() does the rest. */
enum err_code workers_finish(struct workers *w, struct err *err) ERR_USED;
/* Ends what still runs and frees everything. Safe on NULL. */
void workers_close(struct workers *w);

/* The last word of a run over several hosts is said. A launcher may end all of its processes as
 * soon as one has ended badly, so those of ranks that did wait for this, or for the end of this
 * process, though their ranks are gone with workers_close(). */
void workers_release(void);

int workers_world(const struct workers *w);
/* -1 when it has ended. */
pid_t workers_pid(const struct workers *w, int rank);
/* Whether another call can be made. */
bool workers_usable(const struct workers *w);

/* How a rank failed. */
enum worker_outcome {
    WORKER_FINE,
    WORKER_ERROR,       /* its task set an error: the envelope */
    WORKER_EXITED,      /* ended by itself without a reply, with status 0 or another */
    WORKER_SIGNALED,    /* ended by a signal */
    WORKER_OOM,         /* SIGKILL, and the kernel counted a kill for want of memory */
    WORKER_HUNG,        /* lives, and said nothing new for stall_s, or never replied */
    WORKER_LATE,        /* its reply came after the deadline */
    WORKER_EMPTY,       /* a reply of no bytes where the task always leaves some, or an error
                           without a text */
    WORKER_BROKEN,      /* a frame that cannot be read */
    WORKER_WRONG_RANK,  /* a reply in another rank's name */
    WORKER_WRONG_CALL,  /* a reply to another call */
    WORKER_NOT_TAKEN,   /* its request did not fit into the pipe until the deadline */
    WORKER_NOT_STARTED, /* never said that it is there */
    WORKER_OUTCOMES
};

/* "exited without a reply" ...; never empty. */
const char *worker_outcome_name(enum worker_outcome o);

struct worker_failure {
    enum worker_outcome outcome;
    bool consequence; /* of an earlier failure of another rank */
    struct envelope
        envelope;     /* what, where, when; made up by the parent where the rank sent none */
    const char *tail; /* the last lines of its stderr; "" when there are none */
};

struct worker_failures {
    int count; /* first cause first, consequences after all causes */
    struct worker_failure of[COLLECTIVE_RANKS];
};

/* Of the last call that failed. Lives as long as the workers, until the next call. */
const struct worker_failures *workers_failures(const struct workers *w);
/* The same as JSON, for a result's field `ranks`: [{rank, outcome, consequence, what, where, found,
 * wanted, chain, host, pid, op, layer, batch, sample, site, time, stderr: [...]}]. The caller's. */
json_t *workers_failures_json(const struct workers *w);
/* Lines "assay: rank 2: ..." for people: the first cause, the end of its stderr, then the
 * consequences, a line each. */
void workers_failures_print(const struct workers *w, FILE *f);

#endif
