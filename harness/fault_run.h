/* fault_run.h: `assay fault run`: options and plan of a fault campaign. Test:
 * tests/test_cli_campaign.c */
#ifndef ASSAY_HARNESS_FAULT_RUN_H
#define ASSAY_HARNESS_FAULT_RUN_H

#include "harness/verb.h"

/* The second word, if any, is a plan: its model, its tokens, and the patterns and seeds of its
 * `fault` steps. */
enum err_code fault_run(const struct args *a, json_t *result, struct err *err) ERR_USED;
/* The rows of its options for the verb's table. */
#define FAULT_RUN_OPTION_ROWS                                                                      \
    {"--fault", "GLOB", "run: only faults whose id fits (may be repeated)", true},                 \
        {"--seed", "S", "run: what everything is drawn from (default 1)", false},                  \
        {"--seeds", "N", "run: that many seeds from there on (default 1)", false},                 \
        {"--model", "MODEL", "run: inject into this one (default: small ones of its own)", false}, \
        {"--tokens", "T", "run: tokens for it", false},                                            \
        {"--draft", "HEAD", "run: with --model, its draft head", false},                           \
        {"--on", "ref|gpu", "run: whose runs the faults are injected into (ref)", false},          \
        {"--quick", NULL, "run: one site of each fault and case, fewer draws", false},             \
        {"--clean", "COUNT", "run: that many clean runs", false},                                  \
        {"--bound", "B", "run: judge by this bound, as diff --bound does", false},                 \
        {"--ranks", "2|4|8", "run: real ranks that tp.* and ep.* are injected into (2 and 4)",     \
         false},                                                                                   \
    {                                                                                              \
        "--threads", "N", "run: processes that share the work (default: all)", false               \
    }

#endif
