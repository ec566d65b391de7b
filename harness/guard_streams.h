/* guard_streams.h: the command's output on its way through: what it writes goes on unchanged and at
 * once, and a copy to a watcher that may be slow or gone. A stream that is a terminal stays one (a
 * pty whose size follows); two streams that lead to one file share one pipe, so that their order
 * stays too. Test: tests/test_guard_run.c */
#ifndef ASSAY_HARNESS_GUARD_STREAMS_H
#define ASSAY_HARNESS_GUARD_STREAMS_H

#include "core/error.h"

#include <pthread.h>
#include <stdbool.h>

struct guard_stream {
    int from;    /* what the command writes can be read here; -1: not this one */
    int to;      /* and goes there */
    int copy;    /* to the watcher, never waited for; -1: none */
    int command; /* the command's end, until it has started */
    bool terminal;
    bool ended; /* nobody can write any more */
    pthread_t thread;
    bool started;
};

struct guard_streams {
    struct guard_stream at[2]; /* of stdout and stderr; at[1].from is -1 where both share at[0] */
    int stop[2];               /* a pipe: closed to end the threads once nothing is left to read */
};

/* The command's stdout leads to out_fd, its stderr to 2. */
enum err_code guard_streams_open(struct guard_streams *s, int out_fd, struct err *err) ERR_USED;
/* In the child: its streams 1 and 2. */
void guard_streams_become(const struct guard_streams *s);
/* In the parent, once the command has started: threads that pass on what comes. */
enum err_code guard_streams_start(struct guard_streams *s, struct err *err) ERR_USED;
/* The terminal's size, again. */
void guard_streams_resize(const struct guard_streams *s);
/* The command has ended: passes on what is there. Where other processes still hold a stream, a
 * process of its own stays with it until they are done. */
void guard_streams_finish(struct guard_streams *s);

#endif
