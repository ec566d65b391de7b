/* cover.h: what a test run really executed, op by op; `assay cover` shows it.
 *
 * Where the environment names a folder in ASSAY_COVER, each process appends its notes to a file of
 * its own there, a line "OP KIND"; everywhere else a note does nothing. Notes are made where a
 * check has passed, never where a function was only called. Test: tests/test_cover.c */
#ifndef ASSAY_CORE_COVER_H
#define ASSAY_CORE_COVER_H

#include "core/error.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What may be covered, in the order of the table. */
enum cover_kind {
    COVER_REF,      /* ran on the reference, and what it gave was checked */
    COVER_GPU,      /* the same on the CUDA path */
    COVER_GOLDEN,   /* agreed with an outside implementation */
    COVER_DIFF,     /* two sides agreed on the same case */
    COVER_FAULT,    /* a fault in it was injected and caught */
    COVER_CONTRACT, /* its accept and reject cases held */
    COVER_KINDS
};

const char *cover_name(enum cover_kind kind);
void cover_note(const char *op, enum cover_kind kind);

/* Notes of all files of a folder: noted[op row of core/ops.c * COVER_KINDS + kind]. *lines: how
 * many notes there were. A line that names no op or kind is an error. */
enum err_code cover_read(const char *folder, bool *noted, int64_t *lines, struct err *err) ERR_USED;

#ifdef __cplusplus
}
#endif
#endif
