/* cache.h: the paged latent cache of MLA and the rows of one step. Contract shared by both engines.
 *
 * One entry a token and layer, width L + R; post-norm, post-RoPE, interleaved, unscaled:
 *     [ normed latent c' : L | roped key k_pe : R ]
 * A sequence's token t lies in block table[t / block] at row t % block. Freed table entries may be
 * stale: what may be read is bounded by the sequence's length, never by what the table holds. Slot
 * -1 is not written. Test: tests/test_cache.c */
#ifndef ASSAY_CORE_CACHE_H
#define ASSAY_CORE_CACHE_H

#include "core/arena.h"
#include "core/error.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cache {
    int64_t layers, sequences, block, blocks; /* blocks: of the pool, shared by all sequences */
    int64_t blocks_max;                       /* entries of one table */
    int64_t width;                            /* L + R */
    int32_t *table;  /* [sequences][blocks_max]; -1 where nothing was assigned */
    int64_t *length; /* [sequences]: tokens that are valid, the same in every layer */
    double *pool;    /* [layers][blocks][block][width] */
};

/* Room for lengths_max[s] tokens of each sequence. Blocks are dealt out in a shuffled order (a pure
 * function of `seed`; 0 deals them in order), so that nothing can rely on adjacency; the pool
 * starts as NaN. */
enum err_code cache_make(struct cache *c, struct arena *arena, int64_t layers, int64_t sequences,
                         const int64_t *lengths_max, int64_t block, int64_t width, uint64_t seed,
                         struct err *err) ERR_USED;

/* Entry of token t < length of sequence s. Table entries are checked against the pool at every read
 * and write. */
const double *cache_read(const struct cache *c, int64_t layer, int64_t sequence, int64_t t);
double *cache_write(struct cache *c, int64_t layer, int64_t sequence, int64_t t);

/* The rows that one step computes: row i is token position[i] of sequence[i]. Within a sequence
 * positions ascend and begin at its cached length. */
struct rows {
    int64_t count;
    const int32_t *sequence; /* [count] */
    const int64_t *position; /* [count] */
    const int64_t *token;    /* [count] */
    const int64_t *dump_row; /* [count]: row of the concatenated batch */
};

#ifdef __cplusplus
}
#endif
#endif
