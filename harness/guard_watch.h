/* guard_watch.h: the watcher of `assay guard`, a process beside the one that the command's output
 * passes through: whatever happens to it, the command goes on. It reads the copies of the streams,
 * sees who died, looks for hangs, and at the end folds all of it with the guard's log into one list
 * of findings. Test: tests/test_guard.c */
#ifndef ASSAY_HARNESS_GUARD_WATCH_H
#define ASSAY_HARNESS_GUARD_WATCH_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

enum { GUARD_FILES = 16, GUARD_NAME = 32 };

enum guard_event_kind {
    GUARD_COMMAND, /* it has started: pid */
    GUARD_ORPHAN,  /* a process that lost its parent has ended: pid, status, name */
    GUARD_ENDED    /* the command has ended: status */
};

struct guard_event {
    enum guard_event_kind kind;
    pid_t pid;
    int status; /* as waitpid() gives it */
    char name[GUARD_NAME];
};

struct guard_watch {
    int stream[2]; /* copies of stdout and stderr; -1: none */
    int events;    /* struct guard_event; its end is the end of the guard itself */
    int result;    /* takes the findings as JSON */
    const char *log, *stacks, *harmless; /* files */
    long log_from;                       /* the log's records of this run stand behind it */
    pid_t root;                          /* the guard: what is below it is looked at */
    double stall_s;                      /* 0: hangs are not looked for */
    bool kill;                           /* a hanging command is ended */
    int number;                          /* the signal on which Pythons show their stacks */
    const char *file[GUARD_FILES];       /* of logs that the command writes itself */
    long file_from[GUARD_FILES];
    int files;
};

/* Runs in the watcher until the command has ended; its findings go to w->result. True: the end was
 * told, not only seen. */
bool guard_watch_run(struct guard_watch *w);

#endif
