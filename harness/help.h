/* help.h: what the program says of itself: verbs and options as text for a terminal and as JSON.
 * The source is the table of verbs alone; manual.h and reference.h make their pages of the same.
 * Test: tests/test_help.c */
#ifndef ASSAY_HARNESS_HELP_H
#define ASSAY_HARNESS_HELP_H

#include "harness/verb.h"

#include <jansson.h>
#include <stdio.h>

enum { HELP_COLUMNS = 100, HELP_LEFT = 96 };

/* Columns of the terminal at `fd`, at most HELP_COLUMNS; HELP_COLUMNS where it is none. */
int help_columns(int fd);
/* The list of verbs, and the exit statuses. */
void help_overview(FILE *f, int columns);
/* Usage, what it does, and every option of a verb. */
void help_verb(const struct verb *v, FILE *f, int columns);

/* "--on ref|gpu", "--bless=show|write", "--sweep". Returns buf. */
const char *help_left(const struct option_row *o, char buf[HELP_LEFT]);
/* Writes `text` from column `at` on, filled up to `columns`; lines after the first begin at column
 * `indent`. A word that is longer than a line stays whole. */
void help_fill(FILE *f, const char *text, int at, int indent, int columns);

/* What an exit status says, or NULL past the last. */
const char *help_exit(int status);

/* An environment variable that the program reads; the list ends with a NULL name. */
struct help_variable {
    const char *name, *about;
};
extern const struct help_variable help_variables[];

/* {name, usage, about, details, options: [{name, metavar, help, repeat}]}; metavar null: a flag.
 * The caller's. */
json_t *help_json(const struct verb *v);

#endif
