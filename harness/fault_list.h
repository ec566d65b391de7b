/* fault_list.h: `assay fault list`: the faults of the registry, as text and as JSON. Test:
 * tests/test_cli_fault.c */
#ifndef ASSAY_HARNESS_FAULT_LIST_H
#define ASSAY_HARNESS_FAULT_LIST_H

#include "harness/verb.h"

/* Prints the rows, or those that op `--op` hosts, unless a->json; the same as `faults` and `count`
 * in the result. ERR_USAGE: no such op. */
enum err_code fault_list(const struct args *a, json_t *result, struct err *err) ERR_USED;

#endif
