/* bench_ranks.h: `assay bench collectives`: what ranks do together, timed on all of them at once.
 * Test: tests/test_bench_ranks.c */
#ifndef ASSAY_HARNESS_BENCH_RANKS_H
#define ASSAY_HARNESS_BENCH_RANKS_H

#include "core/bench.h"
#include "core/shard.h"
#include "harness/verb.h"
#include "harness/worker.h"

/* The word that asks for it. */
#define BENCH_COLLECTIVES "collectives"

/* Reads --tp, --ep and their like; ERR_USAGE: fewer than two ranks. */
enum err_code bench_ranks_plan(const struct args *a, struct shard_plan *plan,
                               struct err *err) ERR_USED;
/* Starts the ranks of `plan`, has them measure every case of the device, and adds
 * rows and what they run by to `result`: {transport, rows: [{op, case, on, seconds, spread, rounds,
 * bytes, gbps, busbw_gbps, kernels}]}. `quiet`: nothing is printed. Errors: what a rank says. */
enum err_code bench_ranks(const struct shard_plan *plan, bool quiet, json_t *result,
                          struct err *err) ERR_USED;
/* A rank's side: task "bench.collectives". */
enum err_code bench_ranks_task(struct worker *w, struct err *err);

#endif
