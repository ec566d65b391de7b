/* inspect_vocab.h: draft vocabularies: d2t and t2d against each other, of a head or beside samples.
 * A valid map (EAGLE-3 fact sheet, 2.2): i + d2t[i] strictly ascending, within the vocabulary, and
 * the set bits of t2d. Test: tests/test_inspect_head.c */
#ifndef ASSAY_HARNESS_INSPECT_VOCAB_H
#define ASSAY_HARNESS_INSPECT_VOCAB_H

#include "harness/inspect.h"

struct vocab_view {
    const char *where;
    const int64_t *d2t; /* [draft_vocab], or NULL: identity */
    const int64_t *t2d; /* [vocab] 0 or 1, or NULL */
    int64_t draft_vocab, vocab;
};

/* What d2t holds. BOTH: numbers that are valid either way, and no t2d to tell. */
enum vocab_reading { VOCAB_OFFSETS, VOCAB_ABSOLUTE, VOCAB_BOTH, VOCAB_NEITHER };

/* Which reading is valid by itself: ascending, in range; where both are, the one that t2d
 * confirms. */
enum vocab_reading vocab_read(const struct vocab_view *m);
/* Adds a problem for all that is wrong. Returns the reading. */
enum vocab_reading vocab_check(struct inspection *s, const struct vocab_view *m);
/* The target ids by a reading, or by t2d where neither holds; false: they cannot be had. */
bool vocab_ids(const struct vocab_view *m, enum vocab_reading reading, int64_t *id);

#endif
