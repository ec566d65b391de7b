/* chance.h: laws over token ids and the numbers that decide between them, reproducible.
 *
 * Every random number of a generation is a pure function of (seed, what it decides, position): what
 * draws a draft, the coin about a draft, and what draws a token are three streams that share
 * nothing. A position's numbers may be looked at again by a later round, when what they decided was
 * thrown away unseen. Test: tests/test_chance.c */
#ifndef ASSAY_HARNESS_CHANCE_H
#define ASSAY_HARNESS_CHANCE_H

#include <stdint.h>

/* Uniform in [0, 1), a multiple of 2^-53. `position` is that of the token which is decided. */
double chance_draft(uint64_t seed, int64_t position);
/* About the draft `token`: siblings have coins of their own. V: ids there are. */
double chance_coin(uint64_t seed, int64_t position, int64_t token, int64_t V);
double chance_draw(uint64_t seed, int64_t position);

/* law = softmax(logits / temperature), [V], in float64; may be `logits`. temperature > 0. */
void chance_law(const double *logits, int64_t V, double temperature, double *law);
/* The first id at which the cumulative sum passes u of the whole. */
int64_t chance_pick(const double *law, int64_t V, double u);

#endif
