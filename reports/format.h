/* format.h: the formats that a recorded result can be rendered in: one table. A renderer is a pure
 * function of the result: the same result gives the same bytes. Test: tests/test_verb_report.c */
#ifndef ASSAY_REPORTS_FORMAT_H
#define ASSAY_REPORTS_FORMAT_H

#include <jansson.h>
#include <stdio.h>

struct report_format {
    const char *name; /* "junit" */
    void (*render)(const json_t *result, FILE *out);
};

/* NULL where there is none of that name (`length` bytes of it). */
const struct report_format *report_format_find(const char *name, size_t length);
/* "junit, sarif, html, json or text". */
const char *report_format_names(void);

#endif
