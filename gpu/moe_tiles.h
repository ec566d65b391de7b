/* moe_tiles.h: how the rows of an expert are cut into tiles, and how large the lists of a step can
 * become. Plain C, shared by the host, the kernels and the tests.
 *
 * Pairs are (token, slot), numbered token * top_k + slot. Rows are the pairs that have an expert,
 * by expert, then by number: the permutation is stable, and the same each run. An expert's rows are
 * cut into as few tiles of at most `cap` as they need, of equal size but for rounding up to 8 (the
 * step of the kernels in tokens). Test: tests/test_moe_pack.c */
#ifndef ASSAY_GPU_MOE_TILES_H
#define ASSAY_GPU_MOE_TILES_H

#include "gpu/moe_pack.h"

/* Rows [first, first + rows) of the permuted order, all of one expert. 16 bytes. */
struct moe_tile {
    int32_t expert, first, rows, unused;
};

enum {
    MOE_CHUNKS_MAX = 256,   /* chunks of pairs that are counted apart */
    MOE_CHUNK_MIN = 512,    /* pairs in one, at least */
    MOE_PAIRS_SMALL = 1024, /* up to here one block does it all */
    MOE_EXPERTS_MAX = 8192, /* what fits the shared memory of the counts */
    MOE_SIZES = 16          /* classes of a tile's size; a cap is at most 8 * MOE_SIZES */
};

/* Of the few rows that most experts have, without a division. */
MOE_BOTH int32_t moe_parts(int32_t rows, int32_t cap)
{
    return rows <= cap ? rows > 0 : (rows + cap - 1) / cap;
}

/* Rows of every part but the last, which has the rest (at least one row). cap is a multiple of 8.
 */
MOE_BOTH int32_t moe_part_rows(int32_t rows, int32_t cap)
{
    int32_t parts = moe_parts(rows, cap);
    return parts == 0 ? 0 : ((rows + parts - 1) / parts + 7) / 8 * 8;
}

/* Part i of an expert whose rows begin at `first`. */
MOE_BOTH struct moe_tile moe_part(int32_t expert, int32_t first, int32_t rows, int32_t cap,
                                  int32_t i)
{
    int32_t size = rows <= cap ? rows : moe_part_rows(rows, cap), left = rows - i * size;
    struct moe_tile tile = {expert, first + i * size, left < size ? left : size, 0};
    return tile;
}

/* Where the 8 elements from `column` on of row `row` of a tile begin, in a matrix of `ld` columns
 * that wgmma reads: blocks of 64 columns of all rows of the tile, each one bulk copy, a row 128
 * bytes, its 16-byte pieces swizzled by the row's number as the instruction wants them. */
MOE_BOTH int64_t moe_swizzle_at(struct moe_tile tile, int64_t ld, int32_t row, int64_t column)
{
    int64_t block = tile.first * ld + column / 64 * tile.rows * 64;
    return block + row * 64 + (column % 64 / 8 ^ row % 8) * 8;
}

/* The most tiles that any choice of experts can need. */
MOE_BOTH int64_t moe_tiles_max(int64_t pairs, int64_t E, int64_t cap)
{
    return pairs / cap + (E < pairs ? E : pairs);
}

/* The class of a tile's size, in eights of rows: 0 is the largest, of at most MOE_SIZES. */
MOE_BOTH int moe_size_class(int32_t rows, int32_t cap)
{
    return (cap - rows) / 8;
}

/* Pairs in a chunk, a multiple of 32, so that there are at most MOE_CHUNKS_MAX. */
MOE_BOTH int64_t moe_chunk(int64_t pairs)
{
    int64_t even = moe_pad((pairs + MOE_CHUNKS_MAX - 1) / MOE_CHUNKS_MAX, 32);
    return even < MOE_CHUNK_MIN ? (int64_t)MOE_CHUNK_MIN : even;
}

#endif
