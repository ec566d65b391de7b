/* preflight_shrink.h: how small a checkpoint of the same config can be: the value of `synth
 * --shrink` for a rehearsal whose plan gives none. Test: tests/test_preflight_rehearse.c */
#ifndef ASSAY_HARNESS_PREFLIGHT_SHRINK_H
#define ASSAY_HARNESS_PREFLIGHT_SHRINK_H

#include "core/config.h"

#include <stddef.h>

/* "experts=8,hidden=256,...": only what becomes smaller. `layers`: keep their number, where ids of
 * them are named; `vocab`: keep its size, where a tokenizer gives ids of it. Widths stay multiples
 * of the stored groups. Returns out. */
const char *preflight_shrink(const struct config *c, bool layers, bool vocab, char *out,
                             size_t size);

#endif
