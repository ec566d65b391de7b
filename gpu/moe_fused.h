/* moe_fused.h: how moe_fused.cu divides its work, and what it has room for. Plain C, shared by the
 * choice, the kernel and the tests. Test: tests/test_moe_choose.c */
#ifndef ASSAY_GPU_MOE_FUSED_H
#define ASSAY_GPU_MOE_FUSED_H

#include "gpu/moe_pack.h"

enum {
    FUSED_WARPS = 16, /* of a block; one block a multiprocessor */
    FUSED_THREADS = 32 * FUSED_WARPS,
    FUSED_ROWS = 16,              /* of a matrix: a unit */
    FUSED_TILES = 4,              /* of k, of 16 rows: a chunk, which one warp multiplies */
    FUSED_CHUNK = MOE_TILE_BYTES, /* its bytes: a quarter of four tiles of 64 rows */
    FUSED_STAGES = 3,             /* chunks of a warp under way */
    FUSED_RING = FUSED_STAGES * FUSED_WARPS * FUSED_CHUNK, /* bytes of them all */
    FUSED_NOTES = FUSED_STAGES * FUSED_WARPS * 4,          /* a word of each */
    FUSED_TASKS = 64,       /* chunks whose sums wait to be added up, where a unit has fewer */
    FUSED_TOKENS = 4,       /* at most */
    FUSED_PAIRS = 32,       /* tokens x experts of one, at most: a lane each */
    FUSED_HIDDEN = 1 << 16, /* columns of a result, at most */
    FUSED_WORDS = 8192,     /* pairs of activations, at most */
    FUSED_LISTS = 2048      /* bytes of shared memory for what the block knows */
};

/* Chunks of a row of K columns. */
MOE_BOTH int32_t fused_chunks(int64_t K)
{
    return (int32_t)((moe_tiles_k(K) + FUSED_TILES - 1) / FUSED_TILES);
}

/* Steps for so many tasks; one where there are none, in which no warp has any. */
MOE_BOTH uint32_t fused_steps(uint32_t tasks)
{
    return tasks ? (tasks + FUSED_WARPS - 1) / FUSED_WARPS : 1;
}

/* Bytes of a token's row of K columns in shared memory: 16 more than it has, so that tokens begin
 * in different banks. */
MOE_BOTH int32_t fused_row_bytes(int64_t K)
{
    return (int32_t)moe_pad(K, MOE_TILE_K) * 2 + 16;
}

/* What a launch is of. */
struct fused_size {
    int32_t T, pairs, H, I;
};

/* Tasks whose sums are kept until they are added up: at least those of one unit. */
MOE_BOTH int32_t fused_room(struct fused_size s)
{
    int32_t w13 = fused_chunks(s.H), w2 = s.pairs * fused_chunks(s.I);
    int32_t most = w13 > w2 ? w13 : w2;
    return most > FUSED_TASKS ? most : FUSED_TASKS;
}

/* Floats of one set of them. */
MOE_BOTH int32_t fused_sums(struct fused_size s)
{
    return fused_room(s) * s.T * FUSED_ROWS;
}

/* Bytes of the tokens, and after them of the activations in the same place. */
MOE_BOTH int32_t fused_rows_bytes(struct fused_size s)
{
    int32_t x = s.T * fused_row_bytes(s.H), act = s.pairs * fused_row_bytes(s.I);
    return x > act ? x : act;
}

/* Shared memory of a block: lists, ring, notes, rows, two sets of sums. */
MOE_BOTH int32_t fused_shared(struct fused_size s)
{
    return FUSED_LISTS + FUSED_RING + FUSED_NOTES + fused_rows_bytes(s) + 2 * fused_sums(s) * 4;
}

/* Where word i of a token's row (columns 2i and 2i + 1) stands in shared memory, in words: a
 * lane's operands of a tile of 64 columns follow each other there. Columns 16 j + 8 p + 2 t of the
 * tile are lane t's operand p of step j. */
MOE_BOTH uint32_t fused_word_at(uint32_t i)
{
    return i / 32 * 32 + i % 4 * 8 + i % 32 / 8 * 2 + i % 8 / 4;
}

#endif
