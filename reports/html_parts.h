/* html_parts.h: parts of the page of html.h. Private to reports/html*.c. */
#ifndef ASSAY_REPORTS_HTML_PARTS_H
#define ASSAY_REPORTS_HTML_PARTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* html_assets.c */
extern const char html_style[], html_script[];

/* html_plot.c: growth of the error by layer: subject, profile, bound on a log scale, and the same
 * as a table. Nothing where the result has no `growth`. */
void html_plot(const json_t *result, FILE *out);

/* html_map.c: `error_map` of a diff: rows by column blocks, and lines at its divisions that can be
 * switched, without a script. `number` tells maps of one page apart. */
void html_map(const json_t *result, int number, FILE *out);

/* html_table.c. `brief`: of taps only those that do not pass. */
void html_taps(const json_t *result, bool brief, FILE *out);
void html_flips(const json_t *result, FILE *out);
void html_hypotheses(const json_t *result, FILE *out);
void html_cases(const json_t *result, FILE *out);
/* Names of `key`, if any. */
void html_names(const json_t *result, const char *key, const char *title, FILE *out);
/* A text in an element: <td>, <dd>, ...; cut where it is long. */
void html_element(FILE *out, const char *element, const char *text);
/* A number, or the text that stands for it; "" for null. Returns buf. */
const char *html_number(const json_t *o, const char *key, char buf[32]);

#endif
