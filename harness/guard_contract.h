/* guard_contract.h: what the injected Pythons hold replies against, out of a recorded contract: the
 * functions that give a list under one condition and a single value under another. Test:
 * tests/test_guard_contract.c */
#ifndef ASSAY_HARNESS_GUARD_CONTRACT_H
#define ASSAY_HARNESS_GUARD_CONTRACT_H

#include "core/error.h"

#include <jansson.h>

/* {modules: {NAME: [[path in the module, [[shape, condition or null]]]]}, returns: {last name of a
 * function: annotation}}; the caller's. Errors: those of contract_load(). */
enum err_code guard_contract_read(const char *contract, json_t **out, struct err *err) ERR_USED;

#endif
