/* text.h: recorded results as text for people: one screen, verdict first. Colours only on a
 * terminal and without NO_COLOR. Test: tests/test_report_text.c */
#ifndef ASSAY_REPORTS_TEXT_H
#define ASSAY_REPORTS_TEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* The result of `diff` (fields of cli's table, with `verdict`). `rows_max`: lines of the tap table,
 * 0: all. */
void report_diff_text(const json_t *result, FILE *out, bool colour, int rows_max);
/* The result of `run` (plan_run.h). `rows_max`: with more steps than this, those as expected are
 * counted only; 0: all. */
void report_plan_text(const json_t *result, FILE *out, bool colour, int rows_max);

/* The result of `inspect`. `lines_max`: lines of problems, 0: all. */
void report_inspect_text(const json_t *result, FILE *out, bool colour, int lines_max);

/* The result of `contract check`. `lines_max`: about as many lines, 0: all. */
void report_check_text(const json_t *result, FILE *out, bool colour, int lines_max);

/* The result of `lint`. `lines_max`: about as many lines, 0: all. */
void report_lint_text(const json_t *result, FILE *out, bool colour, int lines_max);

/* The result of `preflight`, one page. `findings_max`: findings that are shown, 0: all. */
void report_preflight_text(const json_t *result, FILE *out, bool colour, int findings_max);

#endif
