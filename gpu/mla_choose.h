/* mla_choose.h: how long a decode kernel of sm_90a takes for a launch, by a model whose numbers
 * were measured on an H200 (gpu/mla_decode_choose.cu); shared by the choice and its test. A row has
 * the same bits from each kernel, so the choice is one of time alone. Test: tests/test_mla_choose.c
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
};

/* Of a kernel: microseconds of a wave before and after its tiles, and of each `tiles` tiles of
 * MLA_PAGE tokens. */
struct mla_decode_cost {
    const char *name;
    double begin, step;
    int64_t tiles;
    int64_t blocks; /* that share a part */
    bool merges;    /* puts the parts of a row together itself, and has room for so many: */
    int64_t room;   /* blocks of rows that have come to the merge */
};

/* Blocks of 64 heads. */
static inline int64_t mla_head_blocks(int64_t heads)
{
    return (heads + 63) / 64;
}

/* Parts of 64 heads that the kernel is launched for; one that merges has a place for each part that
 * a row may have. */
static inline int64_t mla_decode_items(const struct mla_decode_cost *c,
                                       const struct mla_decode_size *s)
{
    return (c->merges ? s->rows * s->most : s->parts) * mla_head_blocks(s->heads);
}

static inline bool mla_decode_serves(const struct mla_decode_cost *c,
                                     const struct mla_decode_size *s)
{
    int64_t meetings = s->rows * mla_head_blocks(s->heads) * c->blocks;
    return !c->merges || (s->most <= MLA_PARTS && meetings <= c->room);
}

/* at_once: parts that run side by side. A merge that follows takes 2 microseconds, and what it
 * reads was written before, both at 4300 GB/s. */
static inline double mla_decode_microseconds(const struct mla_decode_cost *c,
                                             const struct mla_decode_size *s, int64_t at_once)
{
    int64_t tiles = (s->longest + MLA_PAGE - 1) / MLA_PAGE;
    int64_t waves = (mla_decode_items(c, s) + at_once - 1) / at_once;
    int64_t steps = (tiles + c->tiles - 1) / c->tiles;
    double us = (double)waves * (c->begin + (double)steps * c->step);
    double partial = (double)(s->parts * s->heads) * 512 * 4 * 2;
    return c->merges || s->most <= 1 ? us : us + 2 + partial / 4.3e6;
}

#endif
