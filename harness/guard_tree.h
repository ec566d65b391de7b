/* guard_tree.h: the processes below one, as /proc shows them. Test: tests/test_guard_stall.c */
#ifndef ASSAY_HARNESS_GUARD_TREE_H
#define ASSAY_HARNESS_GUARD_TREE_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

enum { GUARD_PROCESSES = 512 };

struct guard_process {
    pid_t pid, parent;
    char state;          /* R S D Z T */
    unsigned long ticks; /* of CPU, user and system */
};

struct guard_tree {
    struct guard_process at[GUARD_PROCESSES];
    int count;
};

/* All processes below `root`, not itself, nor those at and below `without`. */
void guard_tree_read(struct guard_tree *t, pid_t root, pid_t without);
unsigned long guard_tree_ticks(const struct guard_tree *t);
/* Some thread of them runs, or would if it had a CPU: on a loaded machine it may have had none for
 * long. */
bool guard_tree_runs(const struct guard_tree *t);
/* {pid, parent, state, command, waits_in} of one. */
json_t *guard_tree_show(const struct guard_process *p);
/* The process has a handler for the signal. */
bool guard_tree_catches(pid_t pid, int number);

#endif
