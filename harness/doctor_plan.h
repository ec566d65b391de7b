/* doctor_plan.h: `assay doctor --plan`: how a model would be cut over ranks, and whether every
 * weight is where it should be. Test: tests/test_doctor_plan.c */
#ifndef ASSAY_HARNESS_DOCTOR_PLAN_H
#define ASSAY_HARNESS_DOCTOR_PLAN_H

#include "harness/shard_options.h"

/* Its options, for the verb's table. */
#define DOCTOR_PLAN_ROWS                                                                           \
    {"--plan", NULL, "print and check how a model is cut over ranks, and nothing else", false},    \
        {"--model", "MODEL", "of --plan: the model to cut", false}, SHARD_OPTION_ROWS

/* The options of --plan do not stand alone: ERR_USAGE names the first that does. */
enum err_code doctor_plan_options(const struct args *a, struct err *err) ERR_USED;
/* Fills `plan` of the result with the report of core/shard.h; prints it as a table unless a->json.
 */
enum err_code doctor_plan(const struct args *a, json_t *result, struct err *err) ERR_USED;

#endif
