/* markup.h: texts that nobody checked (names of tensors, paths, messages) inside XML and HTML, and
 * on a terminal. Test: tests/test_html.c, tests/test_junit.c, tests/test_report_text.c */
#ifndef ASSAY_REPORTS_MARKUP_H
#define ASSAY_REPORTS_MARKUP_H

#include <stddef.h>
#include <stdio.h>

/* Writes `text` (UTF-8) for element content and for attributes in double quotes: the five special
 * characters as references. What XML forbids, other controls, and marks that turn the direction of
 * what follows are written out as \xNN or \uNNNN. */
void markup_text(FILE *out, const char *text);
/* The same of `size` bytes. */
void markup_bytes(FILE *out, const char *text, size_t size);
/* The same, cut behind `most` bytes at a character's end, with "..." then. */
void markup_short(FILE *out, const char *text, size_t most);

/* For a terminal, which obeys what a name from a file may hold: everything but newlines and tabs is
 * written out as above, and nothing else changed. */
void markup_terminal(FILE *out, const char *text, size_t size);

#endif
