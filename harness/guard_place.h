/* guard_place.h: the files of a guarded run, and the environment by which Pythons find the guard.
 * Test: tests/test_guard_run.c */
#ifndef ASSAY_HARNESS_GUARD_PLACE_H
#define ASSAY_HARNESS_GUARD_PLACE_H

#include "core/file.h"

#include <jansson.h>

struct guard_place {
    char folder[FILE_PATH]; /* "" : none could be made */
    char log[FILE_PATH], stacks[FILE_PATH];
    char inject[FILE_PATH];   /* what goes into PYTHONPATH */
    char contract[FILE_PATH]; /* guard_contract.h as JSON; "" : none */
    char harmless[FILE_PATH]; /* patterns of what is known to be harmless */
    long log_from;            /* bytes of the log that are of earlier runs */
    bool own_log;             /* the log lies in the folder */
};

/* The signal on which Pythons show their stacks: one that programs leave alone. */
int guard_place_signal(void);
/* As far as it can; a log that cannot be written leaves `log` empty. `log` and `contract` may be
 * NULL. ERR_IO: the scripts that go into Pythons are not where the program was installed. */
enum err_code guard_place_make(struct guard_place *p, const char *log, const json_t *contract,
                               struct err *err) ERR_USED;
/* In the child, before it becomes the command. */
void guard_place_environment(const struct guard_place *p, const char *also, bool deep);
/* Takes the folder away; the log that lies in it only where `log` is set. */
void guard_place_remove(const struct guard_place *p, bool log);

#endif
