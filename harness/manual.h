/* manual.h: the manual pages, assay(1) and assay-VERB(1), of the same table as --help. They use the
 * macros of man(7) alone. Test: tests/test_manual.c */
#ifndef ASSAY_HARNESS_MANUAL_H
#define ASSAY_HARNESS_MANUAL_H

#include "core/error.h"

#include <stdint.h>
#include <stdio.h>

struct verb;

/* Writes folder/assay.1 and folder/assay-VERB.1 for every verb; counts them in *pages. */
enum err_code manual_write(const char *folder, int64_t *pages, struct err *err) ERR_USED;

/* Text as roff shows it again: hyphens that can be typed, no macro at the start of a line. */
void manual_text(FILE *f, const char *text);

#endif
