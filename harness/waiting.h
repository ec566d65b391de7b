/* waiting.h: which threads of this process wait for a page of a mapped file, as the kernel tells it
 * in /proc/self/task. Where a kernel does not tell, nobody waits. Test: tests/test_load.c */
#ifndef ASSAY_HARNESS_WAITING_H
#define ASSAY_HARNESS_WAITING_H

#include <stdint.h>

enum { WAITING_MAX = 8 };

struct waiting {
    uint64_t faults; /* pages that came in from a disk, of all threads that live */
    int count;
    long thread[WAITING_MAX]; /* that wait for one now */
};

/* `tasks`: the folder, with a folder of files "stat" and "syscall" for each thread. */
void waiting_read(const char *tasks, struct waiting *w);

#endif
