/* shard_ranks.h: a run of the reference cut over ranks: forked processes with collectives over
 * shared memory, without workers and messages. */
#ifndef ASSAY_TESTS_SHARD_RANKS_H
#define ASSAY_TESTS_SHARD_RANKS_H

#include "core/shard.h"
#include "tests/support.h"
#include "tests/tap_record.h"

struct shard_run {
    const struct loaded *loaded; /* the whole model */
    const struct tokens *tokens;
    struct session_options options;
    struct shard_plan plan;
    const char *fault; /* NULL: none. Every rank has it */
    /* Before its run: what a rank does differently. NULL: nothing. */
    void (*differ)(int rank, struct shard_run *run, struct tokens *tokens);
    bool replicas_agree; /* struct shard's */
    bool replace;        /* rank 0's sink doubles "layers.0.q" and adds 1 to "layers.0.attn" */
};

struct shard_outcome {
    struct tap_record taps; /* rank 0's */
    struct err err[COLLECTIVE_RANKS];
    int64_t edits[COLLECTIVE_RANKS]; /* of the fault */
    double *last[COLLECTIVE_RANKS];  /* [sequences, V]: logits that each rank has at the end */
    void *memory;                    /* shared with the ranks */
    size_t bytes;
};

/* Runs on plan.tp * plan.ep processes at once. A rank that ends without a word fails the test. */
void shard_ranks_run(const struct shard_run *run, struct shard_outcome *out);
void shard_ranks_free(struct shard_outcome *out);
/* No rank has an error. */
void shard_ranks_ok(const struct shard_run *run, const struct shard_outcome *out);

/* A checkpoint that is made as it is read, from the text of a config.json in `folder`. */
void shard_model_text(struct loaded *l, void **folder, const char *config, int seed);

/* The largest record_relative() of a tap against that of the whole model; integer taps must be
 * equal, and the taps the same. */
double shard_ranks_distance(const struct tap_record *cut, const struct tap_record *whole);

#endif
