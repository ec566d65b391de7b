/* junit.h: a recorded result as JUnit XML, for CI systems. Schema: docs/schema/junit.xsd. Test:
 * tests/test_junit.c */
#ifndef ASSAY_REPORTS_JUNIT_H
#define ASSAY_REPORTS_JUNIT_H

#include <jansson.h>
#include <stdio.h>

/* A testsuite a suite of cases.h, in order; failures carry the one-line cause. */
void report_junit(const json_t *result, FILE *out);

#endif
