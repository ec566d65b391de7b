/* golden.h: the cases whose goldens were made by transformers (fixtures/CASE), and how they are
 * run. */
#ifndef ASSAY_TESTS_GOLDEN_H
#define ASSAY_TESTS_GOLDEN_H

#include "harness/session.h"

/* What golden.json says. */
struct golden {
    char folder[FILE_PATH];
    char model[FILE_PATH]; /* "synth:FOLDER/config.json?seed=N&latent_gain=G" */
    struct tokens tokens;
    int64_t prompt; /* leading tokens that the greedy continuation starts from */
    struct tokens greedy;
};

/* Reads fixtures/NAME, or fails the test. */
void golden_open(struct golden *g, const char *name);
void golden_close(struct golden *g);

/* Runs the reference over the case's tokens, every tap as float64. `model` NULL: the synthetic one.
 * The caller closes the dump. */
void golden_run(const struct golden *g, const char *model, const struct session_options *o,
                struct forced *forced, struct dump *out);
/* FOLDER/golden.safetensors or another file of the case. */
void golden_dump(const struct golden *g, const char *file, struct dump *out);

/* Every tap of the case's golden, none left out, at least taps_min: relative RMS <= 5e-5, of each
 * row <= 2e-4, experts identical. `model` NULL: the synthetic one. Fails the test. */
void golden_check(const char *name, enum precision precision, const char *model, int64_t taps_min);
/* Prefill, then one token a step from the cache: the golden's tokens. */
void golden_check_greedy(const char *name);

#endif
