/* moe_mma.cuh: the pieces that the two INT4 kernels share: codes to a bf16 operand, products,
 * copies, the epilogue. Fragments as in the PTX manual: lane = 4g + t. Private to gpu/moe_gemm*.cu.
 */
#ifndef ASSAY_GPU_MOE_MMA_CUH
#define ASSAY_GPU_MOE_MMA_CUH

#include "gpu/mma.cuh"
#include "gpu/moe_parts.cuh"

/* ---- shared memory ---- */

__device__ static inline uint4 load_16(uint32_t from)
{
    uint4 v;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(from)
                 : "memory");
    return v;
}

__device__ static inline void store_16(uint32_t to, const uint4 &v)
{
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v.x), "r"(v.y), "r"(v.z),
                 "r"(v.w)
                 : "memory");
}

__device__ static inline uint32_t load_4(uint32_t from)
{
    uint32_t v;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(v) : "r"(from) : "memory");
    return v;
}

__device__ static inline void store_4(uint32_t to, uint32_t v)
{
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(v) : "memory");
}

__device__ static inline uint2 load_8(uint32_t from)
{
    uint2 v;
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(from) : "memory");
    return v;
}

/* ---- codes to values ---- */

__device__ static inline uint32_t bits_of(__nv_bfloat162 v)
{
    return *reinterpret_cast<uint32_t *>(&v);
}

__device__ static inline __nv_bfloat162 pair_of(uint32_t bits)
{
    return *reinterpret_cast<__nv_bfloat162 *>(&bits);
}

/* The scales of rows g (low half) and g + 8 (high) of a k32 group, as moe_pack.h has them. */
struct moe_scales {
    __nv_bfloat162 times, less;
};

__device__ static inline struct moe_scales scales_of(uint32_t pair)
{
    struct moe_scales s;
    s.times = __hmul2(pair_of(pair), __floats2bfloat162_rn(MOE_TIMES_LOW, MOE_TIMES_HIGH));
    s.less = __hmul2(pair_of(pair), __floats2bfloat162_rn(MOE_LESS, MOE_LESS));
    return s;
}

/* Two codes, one in each half, to values. */
__device__ static inline uint32_t weigh(uint32_t codes, __nv_bfloat162 times, __nv_bfloat162 less)
{
    return bits_of(__hfma2(pair_of(codes), times, less));
}

/* Register operand A of one k16 step from its word: rows g and g + 8, columns 2t and 2t + 8. */
__device__ static inline void weigh_word(uint32_t word, const struct moe_scales &s, uint32_t a[4])
{
    uint32_t next = word >> 8;
    __nv_bfloat162 low = __low2bfloat162(s.times), high = __high2bfloat162(s.times);
    __nv_bfloat162 low_less = __low2bfloat162(s.less), high_less = __high2bfloat162(s.less);
    a[0] = weigh(word & 0x000f000f, low, low_less);
    a[1] = weigh(word & 0x00f000f0, high, high_less);
    a[2] = weigh(next & 0x000f000f, low, low_less);
    a[3] = weigh(next & 0x00f000f0, high, high_less);
}

/* A sum of products with such weights. */
__device__ static inline float unweigh(float sum)
{
    return sum * MOE_UNIT;
}

/* ---- products ---- */

/* Two or four 8x8 matrices, each transposed: lane l gives where row l % 8 of matrix l / 8 goes; of
 * two, the lanes from 16 on give nothing. */
__device__ static inline void store_matrices_2(uint32_t to, uint32_t a, uint32_t b)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(to), "r"(a),
                 "r"(b)
                 : "memory");
}

__device__ static inline void store_matrices_4(uint32_t to, uint32_t a, uint32_t b, uint32_t c,
                                               uint32_t d)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
                 "r"(a), "r"(b), "r"(c), "r"(d)
                 : "memory");
}

/* ---- epilogue ---- */

/* An 8x8 matrix of which lane 4g + t holds (g, 2t) and (g, 2t + 1), transposed. */
__device__ static inline uint32_t transpose_8x8(uint32_t v)
{
    uint32_t out;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(out) : "r"(v));
    return out;
}

/* Stores columns column, column + 1 of one row; `two` where the row's address allows both at once.
 */
__device__ static inline void store_two(bf16 *row, int64_t column, int64_t cols, bool two,
                                        uint32_t bits)
{
    __nv_bfloat162 v = pair_of(bits);
    if (two && column + 1 < cols) {
        *reinterpret_cast<__nv_bfloat162 *>(row + column) = v;
        return;
    }
    if (column < cols) row[column] = v.x;
    if (column + 1 < cols) row[column + 1] = v.y;
}

/* Two sums of rows; of w13, where d[0], d[1] are gate and d[2], d[3] up, two activations. */
__device__ static inline uint32_t rounded_pair(float a, float b)
{
    return bits_of(__floats2bfloat162_rn(unweigh(a), unweigh(b)));
}

__device__ static inline uint32_t gated_pair(const float d[4])
{
    __nv_bfloat162 gate = __floats2bfloat162_rn(unweigh(d[0]), unweigh(d[1]));
    __nv_bfloat162 up = __floats2bfloat162_rn(unweigh(d[2]), unweigh(d[3]));
    return bits_of(__floats2bfloat162_rn(swiglu_rounded(__low2float(gate), __low2float(up)),
                                         swiglu_rounded(__high2float(gate), __high2float(up))));
}

/* One m16n8 block of results: m16 block `block` of the matrix' rows, tokens token .. token + 7 of
 * the tile. Lane 4g + t holds rows g (d[0], d[1]) and g + 8 (d[2], d[3]) at tokens 2t, 2t + 1;
 * after the transposition rows 2t, 2t + 1 at token g, which are neighbours in memory. */
__device__ static inline void store_plain(const struct moe_product &p, const struct moe_tile &tile,
                                          const float d[4], int64_t block, int token, int lane)
{
    int at = token + lane / 4;
    bf16 *row = p.y + (tile.first + (int64_t)at) * p.ldy;
    int64_t column = 16 * block + lane % 4 * 2;
    bool two = p.ldy % 2 == 0;
    uint32_t low = transpose_8x8(rounded_pair(d[0], d[1]));
    uint32_t high = transpose_8x8(rounded_pair(d[2], d[3]));
    if (at >= tile.rows) return;
    store_two(row, column, p.cols, two, low);
    store_two(row, column + 8, p.cols, two, high);
}

/* The same of w13: rows g are gate, rows g + 8 up. Beyond I there are only padded rows: zeros,
 * whatever x holds. ldy is a multiple of 64. */
__device__ static inline void store_gated(const struct moe_product &p, const struct moe_tile &tile,
                                          const float d[4], int64_t block, int token, int lane)
{
    int at = token + lane / 4;
    int64_t column = 8 * block + lane % 4 * 2;
    uint32_t v = transpose_8x8(gated_pair(d));
    if (column >= p.cols) v = 0;
    if (column + 1 >= p.cols) v &= 0xffffu;
    if (at >= tile.rows) return;
    *reinterpret_cast<uint32_t *>(p.y + (tile.first + (int64_t)at) * p.ldy + column) = v;
}

template <bool GATED>
__device__ static inline void store_block(const struct moe_product &p, const struct moe_tile &tile,
                                          const float d[4], int64_t block, int token, int lane)
{
    if (GATED)
        store_gated(p, tile, d, block, token, lane);
    else
        store_plain(p, tile, d, block, token, lane);
}

#endif
