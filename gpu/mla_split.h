/* mla_split.h: how the tokens that a row sees are cut into parts which run side by side and are
 * merged in ascending order; shared by the kernels and by what the host knows of them.
 *
 * The cut depends on the number of tokens seen and on nothing else: not on the other rows of a
 * batch, the number of heads, or the device. A row therefore has the same bits alone and in any
 * batch that the same kernel serves. The price: what would be one part in a full batch is up to
 * MLA_PARTS, whose partial sums are written and read once more. With 8 parts of at most 1024 one
 * context of 4096 takes 26 us instead of 42 on an H200, and 32 of them 71 instead of 61: full
 * batches were preferred. Test: tests/test_mla_split.c */
#ifndef ASSAY_GPU_MLA_SPLIT_H
#define ASSAY_GPU_MLA_SPLIT_H

#include <stdint.h>

#ifdef __CUDACC__
#define MLA_BOTH __host__ __device__
#else
#define MLA_BOTH
#endif

enum {
    MLA_PAGE = 64,       /* tokens of a kernel's tile; a part is a whole number of them */
    MLA_PARTS = 4,       /* of a context between the two limits */
    MLA_PART_MIN = 256,  /* tokens: less is not worth a merge */
    MLA_PART_MAX = 2048, /* tokens: more parts than MLA_PARTS from a context of 8192 on */
    MLA_CHUNKED = 4096,  /* tokens that chunks of one unit cover */
};

/* Tokens of every part but the last, for a row that sees `seen`. */
MLA_BOTH static inline int64_t mla_part_tokens(int64_t seen)
{
    int64_t pages = (seen + MLA_PARTS * MLA_PAGE - 1) / (MLA_PARTS * MLA_PAGE);
    int64_t tokens = pages * MLA_PAGE;
    if (tokens < MLA_PART_MIN) return MLA_PART_MIN;
    return tokens > MLA_PART_MAX ? MLA_PART_MAX : tokens;
}

/* Parts of a row that sees `seen` tokens; 0 for none. */
MLA_BOTH static inline int64_t mla_parts(int64_t seen)
{
    if (seen <= 0) return 0;
    int64_t tokens = mla_part_tokens(seen);
    return (seen + tokens - 1) / tokens;
}

/* The most parts of any row that sees up to `context` tokens. */
MLA_BOTH static inline int64_t mla_parts_most(int64_t context)
{
    if (context <= MLA_PARTS * MLA_PART_MIN) return mla_parts(context);
    int64_t long_ones = (context + MLA_PART_MAX - 1) / MLA_PART_MAX;
    return long_ones > MLA_PARTS ? long_ones : MLA_PARTS;
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
