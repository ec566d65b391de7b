/* workers_parts.h: the parent's side of the ranks, private to workers*.c:
 *   workers.c          opening, calls, closing
 *   workers_start.c    a rank as a process
 *   workers_launch.c   ranks that somebody else has started
 *   workers_far.c      ... on several hosts
 *   worker_keeper.c    the process there that a rank is started and watched by
 *   workers_watch.c    the one loop that serves all ranks: sends, replies, stderr, deaths
 *   workers_outcome.c  how each rank failed, in words; which came first
 *   workers_report.c   for people and for JSON */
#ifndef ASSAY_HARNESS_WORKERS_PARTS_H
#define ASSAY_HARNESS_WORKERS_PARTS_H

#include "core/file.h"
#include "harness/mesh.h"
#include "harness/worker_log.h"
#include "harness/worker_parts.h"
#include "harness/workers.h"

/* How long the loop waits at most before it looks at the clock, and at all ranks. */
enum { WORKERS_TICK_MS = 50 };

enum rank_state {
    RANK_STARTING, /* has not said hello */
    RANK_IDLE,
    RANK_ASKED, /* a reply is due */
    RANK_DONE,  /* replied in this call */
    RANK_FAILED /* failed in this call: `failure` */
};

/* A rank on another host, or treated as one (far): a keeper there, the process that a launcher has
 * started, starts it, watches it and tells this side by `link`: what it is doing (WIRE_BEAT), its
 * stderr (WIRE_STDERR), how it has ended (WIRE_ENDED). Its requests and replies go to it by `wire`.
 */
struct far_rank {
    struct wire link;
    bool ended, lost; /* by its keeper's word, or its connection has ended without one */
    double ended_at;
    bool oom;                    /* the kernel there had counted a kill for want of memory */
    int64_t skew_ns, skew_at_ns; /* from its host's monotonic clock to this one's, and when that was
                                    learnt; 0: not yet */
};

struct rank {
    int rank;
    pid_t pid;    /* -1: waited for */
    pid_t had;    /* the pid it had */
    bool adopted; /* a launcher's process, not ours: how it ended only that knows */
    bool far;     /* of several hosts: pid is its number there */
    struct far_rank there;
    char host[RENDEZVOUS_HOST]; /* its name where there are several; "" */
    int pidfd;                  /* readable when the process has ended; -1: it was waited for */
    int status;                 /* of waitpid(), once pid is -1 */
    int err_fd;                 /* its stderr; -1: closed */
    struct wire wire;
    struct worker_log log;
    enum rank_state state;
    struct wire_message reply;
    double closed;        /* when its end of the socket was found closed; 0: it is not */
    char cut[ERR_PART];   /* what was wrong with the message that its end cut off; "" none */
    bool deadline_passed; /* HUNG for want of a reply, which may still come late */
    bool blamed;          /* another rank's error names this one */
    struct worker_failure failure;
};

struct workers {
    struct workers_options o; /* with the defaults filled in */
    char *program, *fault, *oom;
    struct rank *rank; /* [o.world] */
    struct board board;
    struct collective_shm shm;
    bool far;         /* ranks of several hosts */
    struct mesh mesh; /* of those, until the rank that this process starts has it */
    pid_t parent;
    int watch;    /* epoll: readable when any rank has written to its stderr or ended; -1: none */
    int64_t call; /* the next one's number */
    double asked, until; /* when the call that runs began, and must end */
    double deadline_s;
    int only;               /* the rank that it asks; -1: all */
    int64_t batch;          /* of the call that runs */
    unsigned char *payload; /* of its request */
    int64_t payload_room;
    char samples[WORKER_SAMPLES];
    const struct worker_request *request; /* the call that runs; NULL: none */
    struct err refused;                   /* what its `part` said */
    bool closing;                         /* ends are expected */
    bool broken;                          /* no further calls */
    double failed_at;                     /* when the first failure of the call was seen; 0: none */
    int64_t kills; /* for want of memory, when the ranks were started; -1: not counted */
    struct worker_failures failures;
};

/* workers.c: nothing started yet, everything safe to close; NULL: no memory. */
struct workers *workers_make(const struct workers_options *o);

/* workers_start.c. `given`: the rank's end of its wire, taken; -1: one is made. */
enum err_code workers_start_rank(struct workers *w, int rank, int given, struct err *err) ERR_USED;
/* Kills the process if it runs, waits for it, and closes what belongs to it. */
void workers_end_rank(struct workers *w, struct rank *r);

/* workers_launch.c: ranks 1 .. world - 1 are those of o.launch. */
enum err_code workers_adopt(struct workers *w, struct err *err) ERR_USED;

/* workers_far.c: the same over connections; takes those of `r`. */
enum err_code workers_adopt_far(struct workers *w, struct rendezvous *r, struct err *err) ERR_USED;
/* What the rank's keeper has to say, and what is still to be said to it. */
void workers_far_serve(struct workers *w, struct rank *r);
/* Its host's clock stood at that when it sent what has come now. */
void workers_far_clock(struct rank *r, int64_t there_ns);
/* Rank `by` has failed: far ranks hear of it. */
void workers_far_stop(struct workers *w, int by);
/* Whether its end is known and everything that it sent before is read, or has had its time. */
bool workers_far_over(const struct rank *r);
/* Has its keeper end it. */
void workers_far_end(struct workers *w, struct rank *r);

/* worker_keeper.c: this process is the keeper of rank r->rank, from the meeting to the end. Returns
 * the exit status. */
int worker_keeper(struct rendezvous *r, double wait_s);

/* What rank 0 tells keepers, and what they tell it: the same program on both sides. */
struct far_welcome {
    int64_t window;
    double collective_s;
    char fault[FAULT_TEXT]; /* "": none */
    char oom[FILE_PATH];    /* "": the kernel's */
};
struct far_beat {
    struct board_place place;
    int64_t now_ns, alive_ns, ending_ns; /* of the clock there */
};
struct far_ended {
    int64_t status, oom;
};
struct far_stop {
    int64_t call, by;
};

/* workers_watch.c: serves the ranks until none of those asked (or starting) is left, or the first
 * failure is `grace_s` old. */
void workers_watch(struct workers *w);
/* Serves them until every process has ended, `until` at the latest. */
void workers_watch_ends(struct workers *w, double until);

/* workers_outcome.c: the rank has failed, once; the later word of a rank counts only where it says
 * more. `why` may be NULL: found in words, from the process's status. */
void workers_fail(struct workers *w, struct rank *r, enum worker_outcome o, const char *found);
void workers_fail_envelope(struct workers *w, struct rank *r, const struct envelope *e);
/* Puts the failures in order and says the first cause. */
enum err_code workers_judge(struct workers *w, struct err *err) ERR_USED;
/* "ended by signal 9 (Killed)", "exited with status 3". Returns text. */
const char *workers_status_text(int status, char *text, size_t size);
/* Kills for want of memory that the kernel has counted, of this process's group where it says so;
 * -1: it does not say. */
int64_t workers_kills(const char *path);

#endif
