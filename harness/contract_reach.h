/* contract_reach.h: a library cut down to what a consumer reaches. Test:
 * tests/test_contract_verbs.c */
#ifndef ASSAY_HARNESS_CONTRACT_REACH_H
#define ASSAY_HARNESS_CONTRACT_REACH_H

#include "compat/api.h"
#include "harness/verb.h"

/* `library` as CONSUMER (--for; NULL: nobody) and the names of --also reach it; --receiver types
 * what the consumer's source does not. Everything lies in the arena, and `library` must live as
 * long. ERR_INPUT: nothing is reached, or `library` was cut down already. */
enum err_code contract_reach(const struct args *args, const char *consumer, struct api *library,
                             struct arena *arena, struct api *out, struct err *err) ERR_USED;

#endif
