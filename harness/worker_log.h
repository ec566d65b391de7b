/* worker_log.h: what a rank writes on its stderr, as its parent keeps it: passed on line by line
 * with the rank before it, its end kept for the report (without lines of a load's progress),
 * warnings that are known to be harmless folded. Bounded: a rank that writes without end costs no
 * more memory than one that is quiet. Test: tests/test_worker_log.c */
#ifndef ASSAY_HARNESS_WORKER_LOG_H
#define ASSAY_HARNESS_WORKER_LOG_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { LOG_TAIL = 4096, LOG_LINE = 1024, LOG_HARMLESS = 4 };

struct worker_log {
    int rank;
    FILE *out; /* lines are passed on to it; NULL: they are not */
    char line[LOG_LINE];
    size_t line_bytes;
    bool cut;            /* the rest of a line that was too long is left out */
    char tail[LOG_TAIL]; /* the last whole lines, a NUL at the end */
    size_t tail_bytes;
    int64_t lines;                /* seen, folded ones included */
    int64_t folded[LOG_HARMLESS]; /* of each row of the table */
};

/* A kind of line that says nothing about the run, and why. */
struct harmless {
    const char *part; /* what the line holds */
    const char *why;
};
extern const struct harmless worker_log_harmless[LOG_HARMLESS]; /* NULL part: no more */

void worker_log_open(struct worker_log *l, int rank, FILE *out);
/* Bytes as they come, lines in pieces or many at once. Bytes that are no printable UTF-8 become
 * '?'. */
void worker_log_feed(struct worker_log *l, const char *bytes, size_t n);
/* A last line without its end; then one line for each kind that was folded. */
void worker_log_end(struct worker_log *l);
/* The last lines as an array of texts. The caller's. */
json_t *worker_log_json(const char *tail);

#endif
