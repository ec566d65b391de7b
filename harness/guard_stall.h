/* guard_stall.h: no output and no CPU in the whole tree for so many seconds, and nothing in it that
 * would run if it had a CPU: a hang, and what every process of it was at. Test:
 * tests/test_guard_stall.c */
#ifndef ASSAY_HARNESS_GUARD_STALL_H
#define ASSAY_HARNESS_GUARD_STALL_H

#include "harness/guard_tree.h"

struct guard_stall {
    double seconds; /* 0: never */
    double since;   /* when the window began */
    double looked;  /* when somebody looked last; 0: nobody yet */
    unsigned long ticks;
    bool said; /* of this hang */
};

/* There was output at `now`. */
void guard_stall_alive(struct guard_stall *s, double now);
/* It is `now` that somebody looks who wanted to every `every` seconds. What is more than twice that
 * since the look before is time in which nobody looked, and says nothing: on a loaded machine. */
void guard_stall_look(struct guard_stall *s, double now, double every);
/* True once for each hang: nothing came, the tree has used less than a hundredth of a CPU since the
 * window began, and no process was seen that would run. Processes that come and go are no sign of
 * life: a heartbeat beside a program that hangs must not hide it. */
bool guard_stall_check(struct guard_stall *s, const struct guard_tree *t, double now);
/* {pid, parent, state, command, waits_in, stack: [lines]} of each process. Pythons that wrote a
 * record "stacks" show theirs into `path` on the signal `number`; the file's bytes are kept. */
json_t *guard_stall_show(const struct guard_tree *t, const json_t *stacks, const char *path,
                         int number);

#endif
