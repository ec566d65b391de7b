/* text.h: recorded results as text for people: one screen, verdict first. What a name from a file
 * holds is never obeyed by a terminal. Test: tests/test_report_text.c */
#ifndef ASSAY_REPORTS_TEXT_H
#define ASSAY_REPORTS_TEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* How a text is shown; all zero: the whole of it, for a file. */
struct text_view {
    bool colour;
    int columns; /* of the terminal; 0: there is none, a line may be as long as it is */
    int most;    /* lines of what may be long (taps, steps, findings), about; 0: all */
};

/* Renders the result of a verb, the object that its --json prints. Lines are not cut to the
 * terminal's columns: what a user copies from them (a replay line, a remedy) has to stay whole.
 * Only tables know the columns. */
typedef void text_report(const json_t *result, FILE *out, struct text_view view);

text_report report_diff_text, report_inspect_text, report_check_text, report_lint_text,
    report_preflight_text;
/* With more steps than view.most, those as expected are counted only. */
text_report report_plan_text;

/* The frame of all of them: the verdict, green where it is "PASS", and what `print` says after it
 * on the same line, all of it escaped by markup_terminal(). */
void text_show(const json_t *result, FILE *out, struct text_view view, const char *verdict,
               text_report *print);

#endif
