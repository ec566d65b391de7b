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
    double *pool;    /* [layers][blocks][block][width]; NULL where the entries are an engine's */
    void *own;       /* NULL, or an engine's pool in memory of its own: engine.h */
};

struct cache_sizes {
    int64_t layers, sequences;
    const int64_t *lengths_max; /* [sequences]: tokens of each */
    int64_t block, width;
    uint64_t seed;
};

/* The tables alone: room for lengths_max[s] tokens of each sequence. Blocks are dealt out in a
 * shuffled order (a pure function of `seed`; 0 deals them in order), so that nothing can rely on
 * adjacency. */
enum err_code cache_plan(struct cache *c, struct arena *arena, const struct cache_sizes *sizes,
                         struct err *err) ERR_USED;
/* The pool of a planned cache; it starts as NaN. */
enum err_code cache_pool(struct cache *c, struct arena *arena, struct err *err) ERR_USED;
/* Both. */
enum err_code cache_make(struct cache *c, struct arena *arena, int64_t layers, int64_t sequences,
                         const int64_t *lengths_max, int64_t block, int64_t width, uint64_t seed,
                         struct err *err) ERR_USED;

/* Entry of token t < length of sequence s. Table entries are checked against the pool at every read
 * and write. */
const double *cache_read(const struct cache *c, int64_t layer, int64_t sequence, int64_t t);
double *cache_write(struct cache *c, int64_t layer, int64_t sequence, int64_t t);
/* Copies the entries of token `from` to token `to` in every layer: the accepted path of a tree
 * closes up behind the prefix. */
void cache_move(struct cache *c, int64_t sequence, int64_t from, int64_t to);

/* The rows that one step computes: row i is token position[i] of sequence[i]. Rows of one sequence
 * stand together.
 *
 * Plain: slot, span and extra are NULL. A row is cached as its sequence's token position[i] and
 * sees the tokens up to itself; positions ascend from the cached length.
 *
 * Otherwise (trees, self-fed draft rows) a row is cached at slot[i] and sees the slots [0, span[i])
 * and extra[i][..], which ascend from span[i] on; itself, where it stands among them. The order of
 * its sums is that of the slots, so a row of a tree has the bits that it has in a plain decode of
 * its path. */
struct rows {
    int64_t count;
    const int32_t *sequence; /* [count] */
    const int64_t *position; /* [count] */
    const int64_t *token;    /* [count] */
    const int64_t *dump_row; /* [count]: row of the concatenated batch */
    const int64_t *slot;     /* NULL, or [count] */
    const int64_t *span;     /* NULL, or [count] */
    const int64_t *extra;    /* NULL, or [count][extra_max]; -1: no further one */
    int64_t extra_max;
};

static inline int64_t rows_slot(const struct rows *r, int64_t i)
{
    return r->slot ? r->slot[i] : r->position[i];
}

/* One past the last slot that row i sees. */
int64_t rows_context(const struct rows *r, int64_t i);
/* Row i sees the slots [0, rows_span()) and then the rows_extras() slots of *list. */
int64_t rows_span(const struct rows *r, int64_t i);
int64_t rows_extras(const struct rows *r, int64_t i, const int64_t **list);
/* The rows extend their sequences' cached lengths, each by at most one: slots leave no gap. */
void rows_extend(const struct rows *r, struct cache *c);
/* Every row's slots lie inside its sequence's cached length, spans are not negative, extras ascend
 * and lie past the span. `what` names the op. */
enum err_code rows_check(const struct rows *r, const struct cache *c, const char *what,
                         struct err *err) ERR_USED;

#ifdef __cplusplus
}
#endif
#endif
