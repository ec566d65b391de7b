/* bless.h: goldens of one's own engine: what recording one would change, and the recording.
 *
 * A golden is the subject's dump, byte for byte in its tensors, with its provenance beside what the
 * dump says of itself: assay.golden, assay.engine, assay.engine_version, assay.profile,
 * assay.config_sha256, assay.checkpoint, assay.date (UTC), assay.command. `diff` refuses a golden
 * whose config or checkpoint contradicts the subject's.
 *
 * Refused: a subject that names no engine; config or checkpoint that neither the dump says nor a
 * model gives, or that contradict the model; a file in the golden's place that was not recorded
 * here, which may be the output of an outside implementation. Test: tests/test_bless.c */
#ifndef ASSAY_HARNESS_BLESS_H
#define ASSAY_HARNESS_BLESS_H

#include "core/checkpoint.h"
#include "core/dump.h"

#include <jansson.h>

enum bless_mode { BLESS_NO, BLESS_SHOW, BLESS_WRITE };

struct bless {
    struct dump subject, golden;
    char path[FILE_PATH]; /* of the golden */
    bool fresh;           /* there is none yet */
    char config_sha256[65], checkpoint[CHECKPOINT_TEXT];
    int64_t compared, changes; /* taps; changes: provenance too */
    json_t *report; /* {golden, fresh, compared, changes, taps: [{name, change, rel_rms}], meta:
                       [{key, old, new}]} */
};

/* Opens both and compares them tap by tap. `model` may be NULL. bless_close() in any case. */
enum err_code bless_open(struct bless *b, const char *subject, const char *golden,
                         const char *model, struct err *err) ERR_USED;
/* Writes the golden, all or nothing. */
enum err_code bless_write(struct bless *b, const char *command, struct err *err) ERR_USED;
void bless_close(struct bless *b);

#endif
