/* reporting.h: what tests of renderers share: recorded results of fixtures/reports, rendered. */
#ifndef ASSAY_TESTS_REPORTING_H
#define ASSAY_TESTS_REPORTING_H

#include "reports/format.h"
#include "reports/text.h"
#include "tests/support.h"

/* The result of fixtures/reports/NAME.json; the caller's. */
json_t *kept_result(const char *name);
/* It in a format, rendered twice: other bytes the second time fail the test. The caller's. */
char *rendered(const char *name, const char *format);
char *rendered_of(const json_t *result, const char *format);

/* JSON whose texts stand in single quotes; the caller's. */
json_t *quoted(const char *text);
/* What a text report says of such a result. The caller's. */
char *said_of(text_report *report, const char *result, struct text_view view);

/* How often `what` stands in `text`. */
int times(const char *text, const char *what);

/* The text is XML in the sense that matters here: elements nest, attributes are in double quotes,
 * no raw '<' or '&', nothing that XML 1.0 forbids. Fails the test with the place. */
void assert_xml(const char *text);

/* Names in fixtures/reports, NULL at the end. */
extern const char *const kept_results[];

#endif
