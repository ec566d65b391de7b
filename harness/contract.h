/* contract.h: the verb `contract`: what its parts share. Test: tests/test_contract_verbs.c */
#ifndef ASSAY_HARNESS_CONTRACT_H
#define ASSAY_HARNESS_CONTRACT_H

#include "compat/api.h"
#include "harness/verb.h"

/* A surface from a contract file (PATH ends in .yaml or .yml), or from a library itself: a folder,
 * wheel, sdist or installed name, through the extractor. Errors: api_read(), facts_read(). */
enum err_code contract_load(const char *path, struct arena *a, struct api *out,
                            struct err *err) ERR_USED;

/* The words of the verb, each in its own file. */
enum err_code contract_record(const struct args *a, json_t *result, struct err *err);
enum err_code contract_check(const struct args *a, json_t *result, struct err *err);
enum err_code contract_diff(const struct args *a, json_t *result, struct err *err);
enum err_code contract_show(const struct args *a, json_t *result, struct err *err);

#endif
