/* mla_split.h: how the tokens that a row sees are cut into parts which run side by side and are
 * merged in ascending order; shared by the kernels and by what the host knows of them.
 *
 * A cut depends on the number of tokens seen and on nothing else: not on the other rows of a
 * batch, the number of heads, or the device. A row therefore has the same bits alone and in any
 * batch that the same kernel serves with the same cut. There are several cuts, and which one a
 * launch takes is a choice of time: more parts fill the card with fewer rows, but their partial
 * sums are written and read once more. 64 heads, 128 rows of 8192 in one, two, four or eight parts
 * each take 287, 315, 342, 395 us on an H200; 16 rows 208, 112, 66, 52. Test:
 * tests/test_mla_split.c */
#ifndef ASSAY_GPU_MLA_SPLIT_H
#define ASSAY_GPU_MLA_SPLIT_H

#include <stdint.h>

#ifdef __CUDACC__
#define MLA_BOTH __host__ __device__
#else
#define MLA_BOTH
#endif

enum {
    MLA_PAGE = 64,      /* tokens of a kernel's tile; a part is a whole number of them */
    MLA_PART_MIN = 256, /* tokens: less is not worth a merge */
    MLA_CHUNKED = 4096, /* tokens that chunks of one unit cover */
};

/* A cut into parts of like length: 2^halvings of them, but each at least MLA_PART_MIN and at most
 * 2^longest tokens. Contexts are below 2^31. */
struct mla_cut {
    int32_t halvings, longest;
};

/* Four parts, and more from a context of 8192 on. */
MLA_BOTH static inline struct mla_cut mla_cut_usual(void)
{
    const struct mla_cut cut = {2, 11};
    return cut;
}

/* Parts that a longest part asks for. */
MLA_BOTH static inline uint32_t mla_long_parts(struct mla_cut cut, uint32_t seen)
{
    return (seen + (1u << cut.longest) - 1) >> cut.longest;
}

/* Tokens of every part but the last, for a row that sees `seen`. Blocks begin with this: it divides
 * only where it must. */
MLA_BOTH static inline int64_t mla_part_tokens(struct mla_cut cut, int64_t seen)
{
    uint32_t n = (uint32_t)seen, few = 1u << cut.halvings, many = mla_long_parts(cut, n);
    uint32_t tokens = many > few ? (n + many - 1) / many : (n + few - 1) >> cut.halvings;
    tokens = (tokens + MLA_PAGE - 1) / MLA_PAGE * MLA_PAGE;
    if (tokens < MLA_PART_MIN) return MLA_PART_MIN;
    return tokens;
}

/* Parts of a row that sees `seen` tokens; 0 for none. */
MLA_BOTH static inline int64_t mla_parts(struct mla_cut cut, int64_t seen)
{
    if (seen <= 0) return 0;
    uint32_t few = 1u << cut.halvings, many = mla_long_parts(cut, (uint32_t)seen);
    uint32_t tokens = (uint32_t)mla_part_tokens(cut, seen), parts = many > few ? many : few;
    if (tokens == MLA_PART_MIN) return (seen + MLA_PART_MIN - 1) / MLA_PART_MIN;
    while ((parts - 1) * tokens >= (uint32_t)seen) parts--; /* whole pages left none for the last */
    return parts;
}

/* The most parts of any row that sees up to `context` tokens. */
MLA_BOTH static inline int64_t mla_parts_most(struct mla_cut cut, int64_t context)
{
    int64_t few = INT64_C(1) << cut.halvings;
    if (context <= few * MLA_PART_MIN) return mla_parts(cut, context);
    int64_t many = mla_long_parts(cut, (uint32_t)context);
    return many > few ? many : few;
}

/* Which of the items in order, long ones first, is the n-th of one of `blocks` blocks: they are
 * dealt out by turns, forth and back, so that all blocks have about as much. */
MLA_BOTH static inline int mla_deal(int block, int blocks, int n)
{
    return n * blocks + (n % 2 ? blocks - 1 - block : block);
}

/* Chunks: the cut of gpu/mla_decode_spread.cu, in units of `unit` tokens, a divisor of MLA_CHUNKED
 * and at least MLA_PAGE; like that into parts, it depends on nothing else than the number of tokens
 * seen. Tokens of every chunk but the last. */
MLA_BOTH static inline uint32_t mla_chunk_tokens(uint32_t seen, uint32_t unit)
{
    return (seen / MLA_CHUNKED + (seen % MLA_CHUNKED != 0)) * unit;
}

/* Chunks of a row that sees `seen` tokens; 0 for none. */
MLA_BOTH static inline uint32_t mla_chunks(uint32_t seen, uint32_t unit)
{
    return seen == 0 ? 0 : (seen - 1) / mla_chunk_tokens(seen, unit) + 1;
}

/* The most chunks of any row that sees up to `context` tokens. */
MLA_BOTH static inline int64_t mla_chunks_most(int64_t context, int64_t unit)
{
    return context < MLA_CHUNKED ? (context + unit - 1) / unit : MLA_CHUNKED / unit;
}

#endif
