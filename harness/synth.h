/* synth.h: a synthetic checkpoint on disk, in the real layout: config.json, shards, index.
 *
 * Values: those of synth:DIR/config.json?seed=S, bit for bit, also with --shrink, where they are of
 * the small config and not a part of the large one's. Written are the tensors of the text model:
 * no vision tower, no tokenizer, no generation_config.json, no multi-token-prediction layer.
 *
 *   1 shard        model.safetensors, no index
 *   N shards       model-00001-of-00000N.safetensors (five digits, then six, as Kimi-K2.5 has them)
 *                  and model.safetensors.index.json
 *   N > layers     layer i in shard i+1; embedding, final norm and lm_head in shard layers+1, or
 *                  spread over up to two more
 *   N <= layers    contiguous layers, so that the largest shard is as small as it can be; the
 *                  three are in the last one
 *   N > all these  tensor by tensor, in the order of one file; the largest shard as small as it can
 *                  be
 * Test: tests/test_synth_verb.c */
#ifndef ASSAY_HARNESS_SYNTH_H
#define ASSAY_HARNESS_SYNTH_H

#include "harness/shrink.h"

#include <stdint.h>

struct synth_request {
    const char *config; /* path of config.json */
    const char *folder;
    uint64_t seed;
    const char *latent_gain; /* as text; NULL: 1 */
    int64_t shards;          /* 1 or more */
    const char *shrink;      /* NULL: the config as it is */
};

struct synth_result {
    int64_t tensors;
    int64_t bytes;        /* of all shards, headers included */
    struct shrink shrunk; /* what --shrink changed; synth_result_free() */
};

/* Refused: more shards than there are tensors to fill them; a folder with a checkpoint in it; with
 * --shrink, the folder that the config lies in. */
enum err_code synth_checkpoint(const struct synth_request *q, struct synth_result *out,
                               struct err *err) ERR_USED;
void synth_result_free(struct synth_result *r);

/* The shard (from 0) of each of `items` parts of these sizes: contiguous, none empty, the largest
 * as small as possible. shards <= items. */
void synth_balance(const int64_t *bytes, int64_t items, int64_t shards, int64_t *shard_of);

#endif
