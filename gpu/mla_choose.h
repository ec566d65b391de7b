/* mla_choose.h: how long a decode kernel of sm_90a takes for a launch, by a model whose numbers
 * were measured on an H200 (gpu/mla_decode_choose.cu); shared by the choice and its test. The
 * choice is one of time: it depends on the launch's rows, heads and tokens. Test:
 * tests/test_mla_choose.c
 */
#ifndef ASSAY_GPU_MLA_CHOOSE_H
#define ASSAY_GPU_MLA_CHOOSE_H

#include "gpu/mla_split.h"

#include <stdbool.h>

/* Of a launch, what the choice depends on. */
struct mla_decode_size {
    int64_t rows, heads;
    int64_t parts, most; /* of all rows; of one row, at most */
    int64_t longest;     /* tokens of a part, at most */
    int64_t seen;        /* tokens of a row, at most */
    int64_t tokens;      /* of all rows */
    bool even;           /* all rows see `seen`; those whose lengths are not known count so */
};

/* Of a kernel: microseconds of a launch, of a wave before and after its tiles, and of each tile;
 * GB/s at which it reads at most. */
struct mla_decode_cost {
    const char *name;
    double launch, begin, step, rate;
    int64_t heads;      /* of a block */
    int64_t tile;       /* tokens */
    int64_t unit;       /* of chunks; 0: cuts rows into parts, and a merge follows */
    int64_t room;       /* for the results of so many blocks of chunks */
    struct mla_cut cut; /* into parts */
};

/* Blocks of a launch along the heads. */
static inline int64_t mla_head_blocks(int64_t heads, int64_t of_block)
{
    return (heads + of_block - 1) / of_block;
}

/* Blocks of heads of parts or chunks that the kernel is launched for; each row has a place for as
 * many chunks as any. */
static inline int64_t mla_decode_items(const struct mla_decode_cost *c,
                                       const struct mla_decode_size *s)
{
    int64_t cut = c->unit ? s->rows * mla_chunks_most(s->seen, c->unit) : s->parts;
    return cut * mla_head_blocks(s->heads, c->heads);
}

/* Blocks that run side by side: those of chunks in whole rows of blocks along the heads. */
static inline int64_t mla_decode_at_once(const struct mla_decode_cost *c,
                                         const struct mla_decode_size *s, int64_t sms)
{
    int64_t across = mla_head_blocks(s->heads, c->heads);
    return c->unit ? sms / across * across : sms;
}

/* Parts: their numbers have 24 bits (gpu/mla_decode.cuh). */
static inline bool mla_decode_serves(const struct mla_decode_cost *c,
                                     const struct mla_decode_size *s, int64_t sms)
{
    if (!c->unit) return s->parts < (int64_t)1 << 24;
    return mla_decode_items(c, s) <= c->room && mla_decode_at_once(c, s, sms) > 0;
}

/* Tiles of the block that has most. Parts of rows of unlike length are dealt out so that this
 * is the mean and about a quarter of the longest part. */
static inline double mla_decode_tiles(const struct mla_decode_cost *c,
                                      const struct mla_decode_size *s, int64_t sms)
{
    int64_t at_once = mla_decode_at_once(c, s, sms);
    int64_t tokens =
        c->unit ? (int64_t)mla_chunk_tokens((uint32_t)s->seen, (uint32_t)c->unit) : s->longest;
    int64_t waves = (mla_decode_items(c, s) + at_once - 1) / at_once;
    double longest = (double)((tokens + c->tile - 1) / c->tile), most = (double)waves * longest;
    if (c->unit || s->even) return most;
    double mean =
        (double)(s->tokens * mla_head_blocks(s->heads, c->heads)) / (double)(at_once * c->tile);
    double dealt = mean + longest / 4 > longest ? mean + longest / 4 : longest;
    return dealt < most ? dealt : most;
}

/* The cache is read once, at most so fast. A merge that follows takes 2 microseconds, and what it
 * reads was written before, both at 4300 GB/s. */
static inline double mla_decode_microseconds(const struct mla_decode_cost *c,
                                             const struct mla_decode_size *s, int64_t sms)
{
    int64_t at_once = mla_decode_at_once(c, s, sms);
    int64_t waves = (mla_decode_items(c, s) + at_once - 1) / at_once;
    double tiles = mla_decode_tiles(c, s, sms) * c->step;
    double read = (double)s->tokens * (512 + 64) * 2 / (c->rate * 1e3);
    double us = c->launch + (double)waves * c->begin + (tiles > read ? tiles : read);
    double partial = (double)(s->parts * s->heads) * 512 * 4 * 2;
    return c->unit || s->most <= 1 ? us : us + 2 + partial / 4.3e6;
}

#endif
