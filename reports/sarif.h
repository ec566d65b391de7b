/* sarif.h: what a recorded result found, as SARIF 2.1.0, for code scanning. Test:
 * tests/test_sarif.c */
#ifndef ASSAY_REPORTS_SARIF_H
#define ASSAY_REPORTS_SARIF_H

#include <jansson.h>
#include <stdio.h>

/* One run: a result a finding of findings.h, with its rule; a physical location where it lies in a
 * file, logical ones (op, layer, rank, tap) else. An error is a notification of an invocation that
 * did not succeed. */
void report_sarif(const json_t *result, FILE *out);

#endif
