/* shrink.h: the text of a real config.json, made smaller: what `assay synth --shrink` writes.
 *
 * SPEC is "layers=4,experts=16,vocab=2048"; the keys are in shrink.c. The text is edited in place,
 * number by number: every other byte, unknown fields and vision_config included, stays as it is.
 * Besides the values asked for, only what must follow them is changed: num_key_value_heads with the
 * heads, vision_config.text_hidden_size with the hidden size, and token ids that would lie outside
 * the vocabulary, which keep their distance from its end. What has no smaller form that holds is
 * refused. Not checked: whether an engine has kernels for the new sizes. Test:
 * tests/test_synth_verb.c */
#ifndef ASSAY_HARNESS_SHRINK_H
#define ASSAY_HARNESS_SHRINK_H

#include "core/config.h"
#include "core/error.h"

#include <stdbool.h>
#include <stdint.h>

enum { SHRINK_CHANGES = 64, SHRINK_TEXT = 96 };

struct shrink_change {
    const char *parent; /* "", "text_config" or "vision_config" */
    char key[SHRINK_TEXT];
    char from[SHRINK_TEXT], to[SHRINK_TEXT];
    bool token; /* a token id that had to move into the vocabulary */
};

struct shrink {
    struct shrink_change change[SHRINK_CHANGES];
    int changes;
    char *text; /* the new config.json; shrink_free() */
    int64_t size;
    struct config config; /* what it says */
};

/* `text` is the config.json at `path`, which is used in messages. Refused: an unknown key, a value
 * that is no whole number of 1 or more or is above the config's own, a key that the config lacks,
 * and everything that config_parse() refuses in the result. */
enum err_code shrink_make(struct shrink *s, const char *spec, const char *text, int64_t size,
                          const char *path, struct err *err) ERR_USED;
void shrink_free(struct shrink *s);

#endif
