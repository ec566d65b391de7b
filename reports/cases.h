/* cases.h: a recorded result of any verb as a list of cases: what was asked, and what came of it.
 * JUnit and the tables of the HTML page are made of it. Test: tests/test_junit.c */
#ifndef ASSAY_REPORTS_CASES_H
#define ASSAY_REPORTS_CASES_H

#include <jansson.h>

/* [{suite, name, state: "pass", "fail", "error" or "skipped", cause, detail}]: a case a tap, op
 * case, fault, finding, problem, step of a plan. `cause` is one line, "" where it passed. Never
 * empty, and never all green where the verdict is not: what no case accounts for is a case named
 * by the verb. The caller's. */
json_t *report_cases(const json_t *result);

/* "assay.diff", or of `fault run` and `contract check` "assay.contract.check". The caller's. */
json_t *report_suite(const json_t *result);

/* An object {what, where, found, wanted} in one line: "what: where: found X, wanted Y". The
 * caller's. */
json_t *report_error_line(const json_t *error);

#endif
