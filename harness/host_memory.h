/* host_memory.h: the memory of this machine, as its kernel tells. Test: tests/test_host_memory.c */
#ifndef ASSAY_HARNESS_HOST_MEMORY_H
#define ASSAY_HARNESS_HOST_MEMORY_H

#include <stdbool.h>

enum { HOST_LINE = 512 };

/* The first line of a file without its newline; false when there is none. */
bool host_line(const char *path, char line[HOST_LINE]);
/* What stands after "KEY<blanks>:<blanks>" in the first line of a file that begins so. */
bool host_key(const char *path, const char *key, char value[HOST_LINE]);

/* Bytes. */
struct host_memory {
    double total, available; /* -1: unknown */
    double limit;            /* of our control groups, of version 1 or 2; INFINITY: none */
};

struct host_memory host_memory(void);

#endif
