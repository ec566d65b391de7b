/* waits.h: no code path waits without a deadline: calls that may block stand in a table, each with
 * the reason why it cannot wait forever, and any other is a complaint. Test: tests/test_waits.c
 *
 * Looked at are the sources outside tests/. A call is none where its arguments bound it: WNOHANG,
 * LOCK_NB, MSG_DONTWAIT, a poll() whose time is a constant. What a file defines itself under such a
 * name is its own. */
#ifndef ASSAY_TESTS_WAITS_H
#define ASSAY_TESTS_WAITS_H

#include "tests/tidy.h"

struct wait_row {
    const char *path, *function, *call;
    const char *why; /* it ends */
};

extern const struct wait_row wait_rows[];
extern const int wait_count;

/* Complaints about the calls of one file. */
void waits_file(struct tidy *t, const char *path, const char *text);
/* ... and about rows of the table whose function makes no such call. */
void waits_rows(struct tidy *t, const char *root);

#endif
