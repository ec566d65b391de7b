/* tampered.h: the fixture's training samples in memory, to be spoilt in one place and written again
 * in any format. */
#ifndef ASSAY_TESTS_TAMPERED_H
#define ASSAY_TESTS_TAMPERED_H

#include "harness/sample.h"

#include <jansson.h>

enum { TAMPERED_SAMPLES = 4, TAMPERED_STATES = 4, TAMPERED_WIDTH = 256, TAMPERED_ROWS = 64 };

struct tampered {
    struct tampered_sample {
        int64_t rows, token[TAMPERED_ROWS], mask[TAMPERED_ROWS];
        uint16_t state[TAMPERED_STATES][TAMPERED_ROWS][TAMPERED_WIDTH]; /* bfloat16 */
        int states;
        bool no_mask;
    } sample[TAMPERED_SAMPLES];
    int count;
    enum sample_format format;
    const char *claim; /* text of data_config.json, NULL: none */
};

/* What a test does to the samples. */
typedef void tamper(struct tampered *t);

/* fixtures/samples in a format: two samples, entries 2, 3, 5 and 6 of tiny-k25; 48 rows and the
 * first 24 of them. */
void tampered_read(struct tampered *t, enum sample_format f);
/* The residual stream of tiny-k25 at these entry ids (6: the last), for sequences that
 * have no token in common and some tokens twice; tampered_make() in profile math. */
void tampered_make(struct tampered *t, int count, const int64_t *entry);
void tampered_make_as(struct tampered *t, int count, const int64_t *entry, const char *profile);
/* Writes the samples to the folder, with what the fixture has beside them where `beside`. */
void tampered_write(const struct tampered *t, const char *folder, bool beside);
/* The final norm of tiny-k25, on the last state of every sample. */
void tampered_norm_last(struct tampered *t);

#endif
