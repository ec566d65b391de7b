/* contract_accept.h: the file of findings that a project lives with:
 *
 *     accept:
 *       - symbol: "pkg.mod.Cls.*"     a pattern of symbols (text_glob()); or absent: any
 *         file: "src/a.py"            a pattern of the consumer's files; or absent: any
 *         reason: why                 needed
 *         until: 2027-01-31           the last day that it counts; or absent
 *
 * A row without symbol and file, an unknown key, an empty reason or a date that is none is
 * ERR_INPUT with line and column. Test: tests/test_contract_accept.c */
#ifndef ASSAY_HARNESS_CONTRACT_ACCEPT_H
#define ASSAY_HARNESS_CONTRACT_ACCEPT_H

#include "compat/judge_api.h"

/* Rows in the arena. */
enum err_code contract_accept_read(const char *path, struct arena *a, struct judge_accept **out,
                                   int *count, struct err *err) ERR_USED;

#endif
