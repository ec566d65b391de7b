/* checkpoint.h: which checkpoint a result comes from, cheap enough for every run.
 *
 *   files        "sha256:HEX", over each shard's size, header and CHECKPOINT_SAMPLES pieces of its
 *                data, evenly spread; shards in order of their own hash, so names do not matter
 *   synthetic    "synth:seed=N,latent_gain=G"
 *
 * Says that two checkpoints differ. Does not say that they are equal: a changed byte between the
 * pieces is not seen, and the same tensors in other shards are another checkpoint. Values of
 * different kinds (before ':') cannot be compared. Test: tests/test_bless.c */
#ifndef ASSAY_CORE_CHECKPOINT_H
#define ASSAY_CORE_CHECKPOINT_H

#include "core/weights.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { CHECKPOINT_TEXT = 96, CHECKPOINT_SAMPLES = 64, CHECKPOINT_PIECE = 64 };

enum err_code checkpoint_name(const struct weights *w, char out[CHECKPOINT_TEXT],
                              struct err *err) ERR_USED;
/* Both are names of one kind, and they differ. Empty ones say nothing. */
bool checkpoint_contradicts(const char *a, const char *b);

#ifdef __cplusplus
}
#endif
#endif
