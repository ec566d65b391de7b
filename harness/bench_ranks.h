/* bench_ranks.h: `assay bench collectives` and `assay bench layer` over ranks: what they do
 * together, timed on all of them at once. Test: tests/test_bench_ranks.c */
#ifndef ASSAY_HARNESS_BENCH_RANKS_H
#define ASSAY_HARNESS_BENCH_RANKS_H

#include "core/bench.h"
#include "core/shard.h"
#include "harness/bench_against.h"
#include "harness/verb.h"
#include "harness/worker.h"

/* The words that ask for it. */
#define BENCH_COLLECTIVES "collectives"
#define BENCH_LAYER "layer"

struct bench_ranks_request {
    struct shard_plan plan;
    bool layers; /* false: the collectives */
};

/* Reads --tp, --ep and their like; ERR_USAGE: fewer than two ranks. */
enum err_code bench_ranks_plan(const struct args *a, struct shard_plan *plan,
                               struct err *err) ERR_USED;
/* Starts the ranks of the plan, has them measure every case of the device, and adds rows (as
 * bench_row_json()) and what they run by to `result`: {transport, rows}, of layers {device,
 * ceilings} of rank 0 too. A row of a layer is a share of one rank's ceilings, by the work of
 * the rank that has most. `against`: NULL, or a run of one card. `quiet`: nothing is printed.
 * Errors: what a rank says. */
enum err_code bench_ranks(const struct bench_ranks_request *q, struct bench_against *against,
                          bool quiet, json_t *result, struct err *err) ERR_USED;
/* A rank's side: task "bench.collectives". */
enum err_code bench_ranks_task(struct worker *w, struct err *err);

#endif
