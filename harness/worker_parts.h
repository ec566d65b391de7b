/* worker_parts.h: what worker*.c, workers*.c and process_fault.c share: the bytes inside the frames
 * and the words of a worker's command line. Private to them. */
#ifndef ASSAY_HARNESS_WORKER_PARTS_H
#define ASSAY_HARNESS_WORKER_PARTS_H

#include "core/fault.h"
#include "harness/board.h"
#include "harness/collective_shm.h"
#include "harness/collective_tcp.h"
#include "harness/wire.h"
#include "harness/worker.h"

#include <stdbool.h>
#include <sys/types.h>

_Static_assert((int)WORKER_SEGMENTS == (int)WIRE_SEGMENTS, "segments of a task and of a message");

/* A request's payload: the task's name and the samples, each padded with NULs, the batch i64, the
 * time that the call has left in ms i64 (so that a rank knows it), then the data. */
enum {
    REQUEST_SAMPLES = WORKER_TASK,
    REQUEST_BATCH = REQUEST_SAMPLES + WORKER_SAMPLES,
    REQUEST_DEADLINE = REQUEST_BATCH + 8,
    REQUEST_HEAD = REQUEST_DEADLINE + 8
};
/* A reply's payload begins with a mark, so that a reply of no bytes is never one that was meant:
 * the task left bytes, or it left none. */
enum { REPLY_HEAD = 4, REPLY_BYTES = 1, REPLY_NONE = 2 };

/* What a rank is told when it is started. */
struct worker_place {
    int rank, world;
    int socket, board, shm; /* descriptors */
    int64_t window;
    double collective_s;
    pid_t parent;
    bool launched; /* by somebody else: `parent` is rank 0, and not this process's */
    bool far;      /* ranks of several hosts: `shm` is this one's, windows go by `mesh` */
    int mesh[COLLECTIVE_RANKS];                   /* [world] descriptors; -1: this rank's own */
    char host[COLLECTIVE_RANKS][COLLECTIVE_HOST]; /* [world] */
    const char *fault, *oom;                      /* NULL: none */
};

/* The words after "worker": "--rank", "2", ... */
enum { PLACE_WORDS = 28, PLACE_TEXT = 64 };
struct place_words {
    char text[PLACE_WORDS][PLACE_TEXT];
    char mesh[COLLECTIVE_RANKS * 12], host[COLLECTIVE_RANKS * (COLLECTIVE_HOST + 1)];
    const char *word[PLACE_WORDS + 1]; /* NULL at the end */
    int count;
};
void worker_place_write(const struct worker_place *p, struct place_words *out);
enum err_code worker_place_read(struct worker_place *p, int words, char **word,
                                struct err *err) ERR_USED;

/* An injected fault of this rank. */
struct process_fault {
    struct fault_use use; /* row NULL: none, or another rank's */
    const char *oom;
};

enum err_code process_fault_read(struct process_fault *f, const struct worker_place *p,
                                 struct err *err) ERR_USED;
/* Before a request is read, at a step of a call, before a reply. Those that end the rank do not
 * come back. */
void process_fault_before(const struct process_fault *f, int64_t call);
void process_fault_step(const struct process_fault *f, int64_t call, int64_t step);
/* Once the collectives are open: whether this rank will drop out of one. */
void process_fault_collective(const struct process_fault *f, struct collective *c);

/* What the rank has to send as its reply. */
struct process_reply {
    struct wire *wire;
    struct wire_message *message; /* to be edited */
    struct board *board;
    int rank, world;
    double until; /* of the call, on the clock of clock_seconds() */
};
/* True: the fault has dealt with the reply, nothing is left to send. */
bool process_fault_reply(const struct process_fault *f, int64_t call, struct process_reply *r);

/* From now on a signal that kills this process leaves its name and a backtrace on stderr and its
 * time on the board; so does its end by exit(). */
void worker_crash_install(struct board *board, int rank);

#endif
