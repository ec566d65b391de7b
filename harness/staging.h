/* staging.h: a checkpoint of many files appears in its folder as a whole, or not at all.
 *
 * The files are written into a folder DIR/.assay.tmp-PID and renamed into DIR at the end, in the
 * order given, with signals held back. The last one, config.json, is the one without which no
 * loader takes a folder for a checkpoint: whatever kills the program before, DIR holds none.
 * SIGINT, SIGTERM and SIGHUP remove the folder; after kill -9 it stays, as only a name that nobody
 * reads. A folder that holds a checkpoint already is refused: nothing is overwritten but
 * config.json. One at a time in a process. Test: tests/test_synth_verb.c */
#ifndef ASSAY_HARNESS_STAGING_H
#define ASSAY_HARNESS_STAGING_H

#include "core/error.h"
#include "core/file.h"

#include <stdbool.h>
#include <stdint.h>

enum { STAGING_NAME = 64 };

struct staging {
    char folder[FILE_PATH];
    char temporary[FILE_PATH];
    char (*path)[FILE_PATH]; /* [count] where each file is written */
    char (*name)[STAGING_NAME];
    int64_t count;
    bool made; /* the folder was not there before */
};

/* Makes the folder and the temporary one. Copies the names. */
enum err_code staging_open(struct staging *s, const char *folder, int64_t count,
                           const char (*name)[STAGING_NAME], struct err *err) ERR_USED;
/* All files are written: gives them their names. After an error nothing is left. */
enum err_code staging_commit(struct staging *s, struct err *err) ERR_USED;
/* Removes what was written; safe on an unopened or committed one. */
void staging_abandon(struct staging *s);

#endif
