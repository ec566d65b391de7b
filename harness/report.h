/* report.h: `--report FORMAT=FILE`, for every verb that has the row: its result rendered beside its
 * text. Formats: reports/format.h. Test: tests/test_verb_report.c */
#ifndef ASSAY_HARNESS_REPORT_H
#define ASSAY_HARNESS_REPORT_H

#include "harness/verb.h"
#include "reports/format.h"

/* The row for a verb's table. */
#define REPORT_OPTION_ROW                                                                          \
    {                                                                                              \
        "--report", "FORMAT=FILE",                                                                 \
            "also write the result as junit, sarif, html, json or text (may be repeated)", true    \
    }

/* Every --report of the line names a format and a file, each file once. Asked before the verb runs:
 * a long run must not end in a mistyped word. ERR_USAGE. */
enum err_code report_check(const struct args *a, struct err *err) ERR_USED;
/* Renders what was asked for, each file all or nothing. */
enum err_code report_write(const struct args *a, const json_t *result, struct err *err) ERR_USED;

/* Renders into a file, or on stdout where `path` is NULL. */
enum err_code report_render(const struct report_format *format, const json_t *result,
                            const char *path, struct err *err) ERR_USED;

/* What a report says of where a result comes from: the command's words (without those behind the
 * "--" of a verb that runs another command) and the machine, as fields `command` and `machine`. */
void report_origin(const struct verb *v, int argc, char *const *argv, json_t *result);

#endif
