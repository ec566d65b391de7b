/* moe_swizzle.cu: the rows that moe_gemm_large.cu multiplies, in the permuted order and as its
 * instruction wants them; see moe_swizzle_at(). */
#include "gpu/moe_parts.cuh"

enum { SWIZZLE_BLOCKS = 4 }; /* of 64 columns that a thread moves at once: loads under way */

/* Some blocks of 64 columns of a tile at a time; 8 threads a row. All tiles of some columns before
 * the next columns, and what is written makes room first: a row is read for each of its experts,
 * and those reads then find it in the far cache. 4096 tokens of 7168 on an H200: 183 us; tile after
 * tile 225. */
__global__ static void moe_swizzle_rows(const struct moe_plan p, const bf16 *x, int64_t ld,
                                        bf16 *out)
{
    int64_t blocks = ld / MOE_TILE_K, turns = (blocks + SWIZZLE_BLOCKS - 1) / SWIZZLE_BLOCKS;
    for (int64_t i = blockIdx.x; i < *p.tiles * turns; i += gridDim.x) {
        struct moe_tile tile = p.tile[i % *p.tiles];
        int64_t first = i / *p.tiles * SWIZZLE_BLOCKS;
        for (int row = threadIdx.x / 8; row < tile.rows; row += blockDim.x / 8) {
            int64_t column = first * MOE_TILE_K + threadIdx.x % 8 * 8;
            const bf16 *from = x + p.token_of[tile.first + row] * ld + column;
            uint4 v[SWIZZLE_BLOCKS];
#pragma unroll
            for (int b = 0; b < SWIZZLE_BLOCKS; b++) {
                if (first + b < blocks) v[b] = *(const uint4 *)(from + b * MOE_TILE_K);
            }
#pragma unroll
            for (int b = 0; b < SWIZZLE_BLOCKS; b++) {
                if (first + b < blocks)
                    __stcs((uint4 *)(out + moe_swizzle_at(tile, ld, row, column + b * MOE_TILE_K)),
                           v[b]);
            }
        }
    }
}

enum err_code moe_swizzle(struct gpu *g, const struct moe_plan *p, const bf16 *x, int64_t ld,
                          bf16 *out, struct err *err)
{
    return GPU_LAUNCH(g, err, "moe_swizzle", "", dim3((unsigned)(g->sms * 8)), dim3(256), 0,
                      moe_swizzle_rows, *p, x, ld, out);
}
