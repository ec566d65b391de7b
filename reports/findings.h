/* findings.h: what a recorded result found wrong, as code scanners see it: a rule, a message, a
 * place. SARIF is made of it. Test: tests/test_sarif.c */
#ifndef ASSAY_REPORTS_FINDINGS_H
#define ASSAY_REPORTS_FINDINGS_H

#include <jansson.h>

/* [{rule, level: "error", "warning" or "note", message, file, line, logical: [{kind, name}], key,
 * count}]; `file` is "" where the finding lies in no file, `line` 0 where it has none. `key` says
 * which bug it is: the same on every run that has it, so it holds no number that a seed draws (a
 * layer, a row, a size). Findings of one key, file and line are one with a count. Empty only
 * where the verdict is not `fail`. The caller's. */
json_t *report_findings(const json_t *result);

#endif
