/* guard_text.h: what `assay guard` says at the end, on one screen: the verdict, then what was lost,
 * worst first. Test: tests/test_guard.c */
#ifndef ASSAY_REPORTS_GUARD_TEXT_H
#define ASSAY_REPORTS_GUARD_TEXT_H

#include <jansson.h>
#include <stdio.h>

/* `result`: the fields of cli.md. Prints nothing where nothing was found. */
void guard_text_print(FILE *f, const json_t *result);

#endif
