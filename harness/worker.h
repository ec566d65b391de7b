/* worker.h: a rank of a run of several processes, seen from inside it. The parent's side is
 * workers.h.
 *
 * The program starts itself again with the hidden verb `worker`; the child joins the collectives
 * and waits for requests. A request names a task; the task works, talks to the other ranks through
 * w->collective, and either leaves a reply or sets an error. Both travel back: the error whole,
 * with rank, host, pid, op, layer, batch, sample, call site and time (compat/envelope.h).
 *
 * A worker ends itself when its parent dies: by a signal of the kernel's, by the end of its pipe,
 * and by looking. Test: tests/test_workers.c */
#ifndef ASSAY_HARNESS_WORKER_H
#define ASSAY_HARNESS_WORKER_H

#include "core/collective.h"
#include "core/error.h"
#include "harness/segment.h"

#include <stdint.h>

enum { WORKER_TASK = 32, WORKER_SAMPLES = 96, WORKER_SEGMENTS = 8 };

struct worker_private;

/* What a task gets. */
struct worker {
    int rank, world;
    struct collective *collective; /* of all ranks; groups: collective_group() */
    int64_t call;                  /* number of this request, from 0 */
    int64_t batch;                 /* the request's; -1: none */
    const char *samples;           /* the request's: "0-3"; "" where there are none */
    const unsigned char *data;     /* the request's bytes: JSON or what the two sides agreed on */
    int64_t bytes;
    const struct segment *segment; /* [segments] the request's shared memory, read and write */
    int segments;
    void *state;                 /* the tasks' own between calls; NULL at first */
    void (*forget)(void *state); /* frees it when the worker ends; may be NULL */
    struct worker_private *own;
};

struct worker_task {
    const char *name; /* at most WORKER_TASK - 1 bytes */
    /* Returns err->code. Without a reply left (worker_reply) an empty one is sent. */
    enum err_code (*run)(struct worker *w, struct err *err);
};

/* The tasks of the program, NULL name at the end: worker_tasks.c. */
extern const struct worker_task worker_tasks[];

/* Says what this rank does now: the heartbeat. Whoever asks why a rank died or hangs reads it, also
 * after the rank's death. Call it at every op and every few seconds of a long one; it costs well
 * under a microsecond. `op`: "mla.core" (32 bytes count); layer, sample: -1 for none. */
#define worker_doing(w, op, layer, sample)                                                         \
    worker_doing_at((w), (op), (layer), (sample), __FILE__, __LINE__)
void worker_doing_at(struct worker *w, const char *op, int64_t layer, int64_t sample,
                     const char *file, int line);

/* Leaves the reply's bytes (copied; once a call). */
enum err_code worker_reply(struct worker *w, const void *data, int64_t bytes,
                           struct err *err) ERR_USED;
/* The next of the reply's shared segments (WORKER_SEGMENTS at most): write a large tensor straight
 * into segment->data. It stays the worker's and is used again in the next call. NULL on an error:
 * ERR_INPUT where the parent is on another host, with which no memory is shared.
 */
struct segment *worker_reply_segment(struct worker *w, int64_t bytes, struct err *err);

/* Gives the parent a piece of the task's work ahead of the reply (worker_request.part of
 * workers.h), and comes back once it was taken: for what is too large, or comes too early, for a
 * reply. `data` says what it is, `segment` (NULL: none) holds its cells: memory of the task's own,
 * free again afterwards. w->data is gone with the first piece; the request's segments stay.
 * ERR_PROCESS: the parent does not want it. ERR_INPUT: a segment for another host. */
enum err_code worker_part(struct worker *w, const void *data, int64_t bytes,
                          const struct segment *segment, struct err *err) ERR_USED;

/* The process of a rank: argv as the launcher gave it (`assay worker ...`), the tasks that it
 * knows. Returns the exit status. */
int worker_main(int argc, char **argv, const struct worker_task *tasks);

#endif
