/* attend.h: what the attention of mla.core and of eagle.layer have in common: which rows of a step
 * share a sequence, and one head of one row over keys and values that are laid out; private to
 * ref/. Tests: tests/test_mla_core.c, tests/test_eagle.c */
#ifndef ASSAY_REF_ATTEND_H
#define ASSAY_REF_ATTEND_H

#include "core/cache.h"
#include "core/run.h"

/* A run of rows of one sequence; tokens: the slots that they see at most. */
struct row_span {
    int64_t sequence, tokens;
    int64_t first, count;
};

/* Rows of one sequence stand together; each run of them is one span. At most rows->count spans;
 * NULL: no memory. */
struct row_span *attend_spans(const struct rows *rows, struct arena *arena, int64_t *count,
                              struct err *err);

/* n rounded up to what kernel.h's mix() wants of a width. */
int64_t attend_pad(int64_t n);

/* Entries [a | b] of the cache for the rows of a step: a [rows, a_width], b [rows, b_width]. */
void attend_store(struct cache *cache, int64_t layer, const struct rows *rows, const double *a,
                  int64_t a_width, const double *b, int64_t b_width);

/* Keys transposed, [K][ld], so that the sum of a score runs over columns in order while
 * neighbouring tokens share a vector; values [tokens][attend_pad(W)]. Columns past the last token
 * take part in whole vectors, and their results are dropped. */
struct attend {
    int64_t K, W, ld;
    double scale;
    const double *keys, *values;
    double *score; /* scratch, [ld] */
};

/* mixed [attend_pad(W)] = sum over the slots that row i sees, ascending, of softmax(scale * query .
 * key) * value, in float64; rounds at RP_SCORE, RP_SCORE_SCALED, RP_PROB. */
void attend_row(const struct run *run, const struct attend *a, const struct rows *rows, int64_t i,
                const double *query, double *mixed);

#endif
