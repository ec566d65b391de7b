/* shard_options.h: the options that cut a model over ranks, shared by every verb that can.
 * Test: tests/test_shard_options.c */
#ifndef ASSAY_HARNESS_SHARD_OPTIONS_H
#define ASSAY_HARNESS_SHARD_OPTIONS_H

#include "core/run.h"
#include "core/shard.h"
#include "harness/verb.h"

/* The rows of these options for a verb's table. */
#define SHARD_OPTION_ROWS                                                                          \
    {"--tp", "N", "ranks that heads, inner widths and vocabulary are cut over (default 1)",        \
     false},                                                                                       \
        {"--ep", "N", "ranks that the experts are dealt to (default 1)", false},                   \
        {"--expert-map", "contiguous|round-robin",                                                 \
         "which experts a rank has (default contiguous)", false},                                  \
        {"--redundant", "N", "experts 0 .. N-1 have a copy on the next rank (default 0)", false},  \
    {                                                                                              \
        "--reduce", "f64|f32|bf16",                                                                \
            "what sums over ranks round to (default f32; f64 under --precision f64)", false        \
    }

/* Reads them. Whether a model can be cut so is shard_plan_check()'s to say. */
enum err_code shard_options_read(const struct args *a, enum precision precision,
                                 struct shard_plan *out, struct err *err) ERR_USED;

#endif
