/* moe_pack.h: how the CUDA path stores an expert's INT4 matrices. Plain C, shared by the host, the
 * kernels and the tests.
 *
 * A matrix [rows, K] is cut into tiles of 64 rows x 64 columns of 2304 bytes: 2048 of codes, then
 * 256 of scales. Tiles of one strip of 64 rows follow each other in k, strips follow each other:
 *     tile(strip, kt) = (strip * tiles_k + kt) * 2304
 * Rows are padded to 128 (two strips), columns to 64, with the code of 0 and scale 0.
 *
 * Codes. The order is that of a register operand A of mma.m16n8k16 (and of one warp of wgmma
 * m64k16): warp block w = r/16, row in it g + 8h, k16 step j = k/16, column in it 8p + 2t + e;
 * lane = 4g + t. Lane's word of step j lies at 512 w + 16 lane + 4 j: one 16-byte load gives a lane
 * its four steps. In the word, the nibble 2p + h + 4e:
 *     | p1 h1 e1 | p1 h0 e1 | p0 h1 e1 | p0 h0 e1 | p1 h1 e0 | p1 h0 e0 | p0 h1 e0 | p0 h0 e0 |
 * so that shifts by 4 (2p + h) bring the pair e = 0, 1 of each of the four registers to the low
 * bits of the two halves. Codes are offset binary, u = q + 8, as in the checkpoint.
 *
 * Scales. bf16 [w][g][k / 32][h]: a lane's four scales of a tile are eight bytes.
 *
 * Values. In the lowest eight bits of a bf16 the bits are the value, subnormal or just above: a
 * code u in bits 0 to 3 is u * 2^-133, in bits 4 to 7 u * 2^-129. So one fused operation gives (u -
 * 8) * scale / MOE_UNIT = u' * (scale * MOE_TIMES_LOW or _HIGH) + scale * MOE_LESS rounded once: 8
 * * scale is exact. That is the value that the checkpoint's decompressor gives, in another unit,
 * for 2^133 is beyond bf16; sums take it back. (Over the bits of 128, as is usual, two operations
 * are needed: 136 * scale does not fit bf16.) Exact for scales that are 0, or from 2^-94 up and
 * below MOE_SCALE_END; larger ones are refused (moe_scale.h).
 *
 * gate and up are one matrix, interleaved by 8: rows 16b .. 16b+7 are gate rows 8b .. 8b+7, rows
 * 16b+8 .. 16b+15 the up rows of the same numbers; a thread that holds a gate value holds its up
 * value too. Test: tests/test_moe_pack.c */
#ifndef ASSAY_GPU_MOE_PACK_H
#define ASSAY_GPU_MOE_PACK_H

#include <float.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__
#define MOE_BOTH __host__ __device__ static inline
#else
#define MOE_BOTH static inline
#endif

enum {
    MOE_TILE_ROWS = 64,
    MOE_TILE_K = 64,
    MOE_CODE_BYTES = 2048,
    MOE_TILE_BYTES = 2304,
    MOE_TILE_WORDS = MOE_CODE_BYTES / 4,
    MOE_TILE_SCALES = (MOE_TILE_BYTES - MOE_CODE_BYTES) / 2,
    MOE_SCALE_K = 32, /* columns a scale */
    MOE_ROW_PAD = 128 /* rows are padded to this */
};

#define MOE_ZERO_WORD 0x88888888u /* eight codes of 0 */
#define MOE_SCALE_END 0x1p27f
#define MOE_UNIT 0x1p32f
#define MOE_TIMES_LOW 0x1p101f
#define MOE_TIMES_HIGH 0x1p97f
#define MOE_LESS (-0x1p-29f)

/* n rounded up to a multiple of `to`. */
MOE_BOTH int64_t moe_pad(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

/* Whether a scale is one that the fused operation takes. Infinities and NaN are: what they multiply
 * is not finite, in the reference as here, and the op says so. */
MOE_BOTH bool moe_scale_fits(float scale)
{
    float size = scale < 0 ? -scale : scale;
    return !(size >= MOE_SCALE_END) || size > FLT_MAX;
}

MOE_BOTH int64_t moe_strips(int64_t rows)
{
    return moe_pad(rows, MOE_ROW_PAD) / MOE_TILE_ROWS;
}

MOE_BOTH int64_t moe_tiles_k(int64_t K)
{
    return moe_pad(K, MOE_TILE_K) / MOE_TILE_K;
}

MOE_BOTH int64_t moe_packed_bytes(int64_t rows, int64_t K)
{
    return moe_strips(rows) * moe_tiles_k(K) * MOE_TILE_BYTES;
}

/* Rows of the joined matrix of gate and up with I rows each: I is padded to a tile of the columns
 * of the matrix that reads it. */
MOE_BOTH int64_t moe_w13_rows(int64_t I)
{
    return 2 * moe_pad(I, MOE_TILE_K);
}

/* Row of the joined matrix that holds row i of gate, or of up; and the reverse. */
MOE_BOTH int64_t moe_w13_row(int64_t i, bool up)
{
    return i / 8 * 16 + (up ? 8 : 0) + i % 8;
}

MOE_BOTH int64_t moe_w13_source(int64_t row, bool *up)
{
    *up = row % 16 >= 8;
    return row / 16 * 8 + row % 8;
}

MOE_BOTH int64_t moe_tile_at(int64_t r, int64_t k, int64_t tiles_k)
{
    return (r / MOE_TILE_ROWS * tiles_k + k / MOE_TILE_K) * MOE_TILE_BYTES;
}

/* Byte offset of the 32-bit word that holds the code of (r, k), and which of its eight nibbles. */
MOE_BOTH int64_t moe_word_at(int64_t r, int64_t k, int64_t tiles_k)
{
    int64_t w = r % 64 / 16, lane = 4 * (r % 8) + k % 8 / 2, j = k % 64 / 16;
    return moe_tile_at(r, k, tiles_k) + 512 * w + 16 * lane + 4 * j;
}

MOE_BOTH int moe_nibble_of(int64_t r, int64_t k)
{
    int h = (int)(r % 16 / 8), p = (int)(k % 16 / 8), e = (int)(k % 2);
    return 2 * p + h + 4 * e;
}

/* Byte offset of the scale of (r, k). */
MOE_BOTH int64_t moe_scale_at(int64_t r, int64_t k, int64_t tiles_k)
{
    int64_t w = r % 64 / 16, g = r % 8, h = r % 16 / 8, group = k % 64 / MOE_SCALE_K;
    return moe_tile_at(r, k, tiles_k) + MOE_CODE_BYTES + 2 * (16 * 2 * w + 4 * g + 2 * group + h);
}

/* The reverse: word `word` of a tile (0 to 511) holds, for h, p of 0 and 1 and e = 0, 1, the code
 * of row moe_word_row() and column moe_word_k() + e of the tile. */
MOE_BOTH int moe_word_row(int word, int h)
{
    return word / 128 * 16 + 8 * h + word % 128 / 16;
}

MOE_BOTH int moe_word_k(int word, int p)
{
    return word % 4 * 16 + 8 * p + 2 * (word / 4 % 4);
}

/* And scale `s` of a tile (0 to 127). */
MOE_BOTH int moe_scale_row(int s)
{
    return s / 32 * 16 + s % 2 * 8 + s / 4 % 8;
}

MOE_BOTH int moe_scale_k(int s)
{
    return s / 2 % 2 * MOE_SCALE_K;
}

#endif
