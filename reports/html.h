/* html.h: a recorded result as one self-contained page: no network, opens from disk, light and
 * dark, prints; all of it readable without its script, which only sorts and searches. Test:
 * tests/test_html.c; ci/html.sh looks at it in a browser. */
#ifndef ASSAY_REPORTS_HTML_H
#define ASSAY_REPORTS_HTML_H

#include <jansson.h>
#include <stdio.h>

/* Verdict first; of a diff the guilty op, the bug's name, how to replay it, error by layer, the map
 * of the error, router flips, the ranking of hypotheses, all taps; of other verbs their cases; of a
 * plan its steps, and the diffs of those that are not as expected. Bounded: long lists are cut, and
 * the page says where. */
void report_html(const json_t *result, FILE *out);

#endif
