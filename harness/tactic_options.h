/* tactic_options.h: the option --tactic of the verbs that run kernels (core/tactic.h). Test:
 * tests/test_tactic.c */
#ifndef ASSAY_HARNESS_TACTIC_OPTIONS_H
#define ASSAY_HARNESS_TACTIC_OPTIONS_H

#include "harness/verb.h"

/* A row of a verb's options. */
#define TACTIC_OPTION_ROW                                                                          \
    {                                                                                              \
        "--tactic", "WHAT=NAME", "force a kernel where an op has a choice (may be repeated)", true \
    }

/* Forces what --tactic says. The verb ends with tactic_check(). */
enum err_code tactic_options_read(const struct args *a, struct err *err) ERR_USED;

#endif
