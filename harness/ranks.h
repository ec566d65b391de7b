/* ranks.h: a model cut over several processes, of one host or of several, as one engine: what runs
 * sessions, forward, generate and extract without their knowing it. The parent keeps what every
 * engine's host side keeps (tables and lengths of caches, decisions); the ranks bind the checkpoint
 * themselves, hold their part of it (core/shard.h) and run ref or gpu on that.
 *
 * Taps, logits and progress come from rank 0 while a step runs, in the order of execution and in
 * pieces of at most RANKS_PIECE bytes; each is given to the sink before the next one is asked for,
 * so no tap of a long step lies anywhere whole. A draft head is held whole by rank 0 alone and run
 * there: it is a hundredth of the target, its inputs are the parent's, and its sums would be as
 * long as its layers are few.
 *
 * What cannot be done over ranks is refused: values put in for a run's own (tap_sink.replace), a
 * step that is taken up in its middle (step.after_layer), op faults (run.faults).
 *
 * A rank that fails, dies or hangs ends the step with an error that names it, its op and layer;
 * workers.h has the rest. Test: tests/test_ranks.c */
#ifndef ASSAY_HARNESS_RANKS_H
#define ASSAY_HARNESS_RANKS_H

#include "core/engine.h"
#include "harness/launch.h"
#include "harness/shard_options.h"

enum { RANKS_PIECE = 16 << 20 };

struct ranks_options {
    bool on; /* false: one process, nothing below counts */
    struct shard_plan plan;
    double timeout_s;        /* a rank without a sign of life for so long hangs; 0: 600 */
    int64_t piece;           /* bytes of a piece at most, but for one row; 0: RANKS_PIECE */
    const char *fault;       /* NULL, or a fault of a process: "proc.hang@rank=1,call=2" */
    const char *shard_fault; /* NULL, or one of what the ranks do together: "tp.double_reduce" */
    struct launch launch;    /* launch.by NULL: the ranks are started here */
    bool quiet;              /* failures and the ranks' stderr are kept, not printed */
};

/* The rows of these options, those of the plan included, for a verb's table. */
#define RANKS_OPTION_ROWS                                                                          \
    SHARD_OPTION_ROWS,                                                                             \
        {"--rank-timeout", "SECONDS",                                                              \
         "a rank without a sign of life for so long hangs (default 600)", false},                  \
    {                                                                                              \
        "--ranks", "own|launcher",                                                                 \
            "who starts the ranks (default: mpirun, srun or torchrun where this runs under it)",   \
            false                                                                                  \
    }

/* Reads them. Over ranks where --tp or --ep is given. For tests, a fault of a process may stand in
 * the environment: ASSAY_RANK_FAULT="proc.hang@rank=1,call=2,step=9" (call 0 opens). */
enum err_code ranks_options_read(const struct args *a, enum precision precision,
                                 struct ranks_options *o, struct err *err) ERR_USED;

/* Whether this process is another rank than 0 of a launcher's, under a verb whose ranks that
 * starts: then it has served rank 0, and *status is its exit status. */
bool ranks_follow(const struct args *a, int *status);

/* Starts the ranks and has them open `model`, whose checkpoint they find by its path. `kind`: what
 * runs in each. The engine's kind is as `kind`, with rows_alone false where copies of experts take
 * turns by row. Errors: the plan does not fit the model; what a rank says; ERR_PROCESS. After one
 * *e may still be asked by ranks_json(), and is to be closed. */
enum err_code ranks_engine_open(struct engine *e, const struct engine_kind *kind,
                                const struct model *model, const struct ranks_options *o,
                                struct err *err) ERR_USED;
/* Whether an engine is one of ranks: what it reads, other processes read. */
bool ranks_is(const struct engine *e);

/* What the next steps are for, should one fail: "0-3" of batch 2. batch -1: none. */
void ranks_label(const struct engine *e, int64_t batch, const char *samples);
/* Whether another step can be run. */
bool ranks_usable(const struct engine *e);
/* Most anonymous and shared memory of the ranks together, in their own steps so far. */
int64_t ranks_peak_bytes(const struct engine *e);
/* How often the ranks' shard fault has edited something in the steps so far: 0 after a run means
 * that it never came up. */
int64_t ranks_edits(const struct engine *e);
/* The fields of a result that say how it was run: {tp, ep, expert_map, redundant, reduce, ranks:
 * the failures so far, as workers_failures_json()}; NULL: no engine of ranks. The caller's. */
json_t *ranks_json(const struct engine *e);

#endif
