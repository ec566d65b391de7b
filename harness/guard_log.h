/* guard_log.h: the guard's log, JSON lines that several processes append to: what the injected
 * Pythons (compat/python/assay_guard/log.py) and the watcher saw. A finding is on disk when its
 * record has been written. Read back, records that count or withdraw a finding are folded into it.
 *
 * Records: "k": "hello" a Python has begun | "stacks" it shows its stacks on a signal, into "fd" |
 * "finding" | "note" what is lost only where something else says so | "count" of the finding "id" |
 * "own" a mistake of the guard's own | "shallow" a Python that cannot look into packages not named.
 * Test: tests/test_guard_fold.c */
#ifndef ASSAY_HARNESS_GUARD_LOG_H
#define ASSAY_HARNESS_GUARD_LOG_H

#include "core/error.h"

#include <jansson.h>

/* Appends one record in one write; `sync`: and waits for the disk. Failures are nobody's trouble.
 */
void guard_log_append(const char *path, const json_t *record, int sync);

struct guard_log {
    json_t *findings; /* arrays; the caller's */
    json_t *notes;
    json_t *stacks; /* records "stacks" */
    json_t *own;
    json_t *shallow; /* versions of Pythons that could not do what --deep asks, each once */
    int pythons;     /* "hello" */
    int broken;      /* lines that are no record: torn by a kill */
};

/* Reads what stands behind `from`; a log that is not there is an empty one. Findings whose count is
 * 0 are left out. ERR_MEMORY. */
enum err_code guard_log_read(struct guard_log *l, const char *path, long from,
                             struct err *err) ERR_USED;
void guard_log_free(struct guard_log *l);

#endif
