/* shard_options.h: the options that cut a model over ranks, shared by every verb that can, and what
 * a dump says of them. Test: tests/test_shard_options.c */
#ifndef ASSAY_HARNESS_SHARD_OPTIONS_H
#define ASSAY_HARNESS_SHARD_OPTIONS_H

#include "core/dump.h"
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
/* Whether --tp or --ep is given. */
bool shard_options_given(const struct args *a);

/* A plan as the metadata of a dump: assay.tp, assay.ep, assay.expert_map, assay.redundant,
 * assay.reduce. The texts point into `room`. */
enum { SHARD_METAS = 5 };
struct shard_meta_room {
    char tp[16], ep[16], redundant[24];
};
void shard_plan_meta(const struct shard_plan *p, struct shard_meta_room *room,
                     struct st_meta out[SHARD_METAS]);
/* Reads it back. *known: more than one rank made the dump; what it does not say has its default
 * (--reduce: f32). ERR_INPUT: a value that no plan has. */
enum err_code shard_plan_of_dump(const struct dump *d, struct shard_plan *out, bool *known,
                                 struct err *err) ERR_USED;

#endif
