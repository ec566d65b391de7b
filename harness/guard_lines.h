/* guard_lines.h: a stream of output, read line by line for what announces an error: a line that
 * says nothing more ("ERROR in batch 0-3: "), and one that does ("ERROR: no room"), each with
 * whether something near it explains it. Text only: any program's output. Test:
 * tests/test_guard_lines.c */
#ifndef ASSAY_HARNESS_GUARD_LINES_H
#define ASSAY_HARNESS_GUARD_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GUARD_LINE = 1024, GUARD_FOUND = 64, GUARD_NEAR = 5 };

enum guard_line_kind {
    GUARD_LINE_PLAIN,
    GUARD_LINE_EMPTY, /* announces an error and ends there */
    GUARD_LINE_ERROR, /* announces an error and says which */
    GUARD_LINE_TRACE, /* begins a trace */
    GUARD_LINE_ATEXIT /* Python up to 3.9, of a failed atexit function: a trace follows */
};

struct guard_line {
    enum guard_line_kind kind;
    char text[GUARD_LINE];
    int64_t number;        /* of the line in its stream, from 1 */
    double time;           /* when it came */
    bool explained;        /* by what follows it or stands before it */
    char also[GUARD_LINE]; /* of an atexit line: the last line of its trace */
};

struct guard_lines {
    char line[GUARD_LINE]; /* the one that is being read; what is longer is cut */
    size_t used;
    int64_t number;      /* lines so far */
    int64_t trace_line;  /* the last line of the last trace; 0: none */
    int traces;          /* how many */
    bool in_trace, held; /* held: found[count - 1] waits for its next line */
    struct guard_line found[GUARD_FOUND];
    int count, more; /* more: what found had no room for */
};

/* What one line is, without its end. */
enum guard_line_kind guard_line_kind(const char *line);
/* Bytes as they come, at `time`. A carriage return ends a line as well; colours are left out. */
void guard_lines_feed(struct guard_lines *l, const char *data, size_t n, double time);
/* No more bytes. */
void guard_lines_end(struct guard_lines *l, double time);

#endif
