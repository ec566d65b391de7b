/* mla_decode_letters.cuh: what a block of gpu/mla_decode_spread.cu leaves of a chunk for the
 * others, and how they put a row together. Private to it. */
#ifndef ASSAY_GPU_MLA_DECODE_LETTERS_CUH
#define ASSAY_GPU_MLA_DECODE_LETTERS_CUH

#include "gpu/mla_decode_spread.cuh"

/* Sums of eight heads and sixteen columns of a chunk, as the lanes of a warp hold them, with the
 * heads' statistics. What is written are inverted bits, of which none are zeros: a word that is
 * zero is not there yet. Who reads a letter leaves zeros. */
struct letter {
    uint4 sums[32];
    uint2 stat[8];
};

enum {
    LETTERS = 2 * LATENT / 16, /* of a block: of the first eight heads, then of the others */
    READ = 8,                  /* chunks whose letters a warp reads at once */
};
static_assert(MLA_CHUNKED / TOKENS <= WARPS * READ, "more chunks than a block can read");

/* What is put together of a letter, by warps that each take some of the chunks. In the tiles'
 * place. */
struct spread_heap {
    float4 sums[WARPS][32];
    float2 stat[WARPS][32];
};

#if WGMMA_HERE

/* Those of an item and this block's heads. */
__device__ static inline struct letter *letters_of(struct letter (*mail)[LETTERS], int item)
{
    return mail[item * (int)gridDim.x + (int)blockIdx.x];
}

/* Warps that read a letter of so many chunks. */
__device__ static inline int ways_of(int chunks)
{
    return chunks <= READ ? 1 : chunks <= 2 * READ ? 2 : chunks <= 4 * READ ? 4 : WARPS;
}

/* The one NaN that would be zero becomes another. */
__device__ static inline uint32_t word_of(float x)
{
    return max(~__float_as_uint(x), 1u);
}

__device__ static inline void post(uint4 *to, float4 v)
{
    asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(to), "r"(word_of(v.x)),
                 "r"(word_of(v.y)), "r"(word_of(v.z)), "r"(word_of(v.w))
                 : "memory");
}

__device__ static inline void post(uint2 *to, float x, float y)
{
    asm volatile("st.relaxed.gpu.global.v2.u32 [%0], {%1,%2};" ::"l"(to), "r"(word_of(x)),
                 "r"(word_of(y))
                 : "memory");
}

__device__ static inline uint4 look(const uint4 *at)
{
    uint4 v;
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(at)
                 : "memory");
    return v;
}

__device__ static inline uint2 look(const uint2 *at)
{
    uint2 v;
    asm volatile("ld.relaxed.gpu.global.v2.u32 {%0,%1}, [%2];"
                 : "=r"(v.x), "=r"(v.y)
                 : "l"(at)
                 : "memory");
    return v;
}

__device__ static inline bool is_there(uint4 v)
{
    return v.x && v.y && v.z && v.w;
}

__device__ static inline bool is_there(uint2 v)
{
    return v.x && v.y;
}

__device__ static inline float4 read(uint4 v)
{
    return make_float4(__uint_as_float(~v.x), __uint_as_float(~v.y), __uint_as_float(~v.z),
                       __uint_as_float(~v.w));
}

__device__ static inline float2 read(uint2 v)
{
    return make_float2(__uint_as_float(~v.x), __uint_as_float(~v.y));
}

/* A lane's share of one letter from `mine` chunks, `next` letters apart, relative to *largest.
 * Leaves zeros. */
__device__ static inline struct mla_sum read_letters(struct letter *letter, int64_t next, int mine,
                                                     float *largest)
{
    uint4 x[READ];
    uint2 stat[READ];
    int lane = threadIdx.x % 32;
    struct mla_sum s = {};
    bool missing = true;
#pragma unroll
    for (int i = 0; i < READ; i++) x[i] = make_uint4(0, 0, 0, 0), stat[i] = make_uint2(0, 0);
    while (missing) {
        missing = false;
#pragma unroll
        for (int i = 0; i < READ; i++) {
            if (i >= mine) continue;
            if (!is_there(x[i])) x[i] = look(&letter[i * next].sums[lane]);
            if (!is_there(stat[i])) stat[i] = look(&letter[i * next].stat[lane / 4]);
        }
#pragma unroll
        for (int i = 0; i < READ; i++)
            missing = missing || (i < mine && !(is_there(x[i]) && is_there(stat[i])));
    }
    __syncwarp(); /* four lanes read the same statistics, one of them clears them */
    *largest = -INFINITY;
#pragma unroll
    for (int i = 0; i < READ; i++)
        if (i < mine) *largest = fmaxf(*largest, read(stat[i]).x);
#pragma unroll
    for (int i = 0; i < READ; i++) {
        if (i >= mine) continue;
        mla_add_part(&s, read(stat[i]), *largest, read(x[i]));
        letter[i * next].sums[lane] = make_uint4(0, 0, 0, 0);
        if (lane % 4 == 0) letter[i * next].stat[lane / 4] = make_uint2(0, 0);
    }
    return s;
}

/* What the `ways` warps of a letter have read; all loads are on their way before the first is used.
 */
__device__ static inline struct mla_sum read_heap(const struct spread_heap *heap, int ways)
{
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float2 stat[WARPS];
    float4 x[WARPS];
    float largest = -INFINITY;
    struct mla_sum s = {};
#pragma unroll
    for (int w = 0; w < WARPS; w++)
        if (w < ways) stat[w] = heap->stat[warp + w][lane], x[w] = heap->sums[warp + w][lane];
#pragma unroll
    for (int w = 0; w < WARPS; w++)
        if (w < ways) largest = fmaxf(largest, stat[w].x);
#pragma unroll
    for (int w = 0; w < WARPS; w++)
        if (w < ways) mla_add_part(&s, stat[w], largest, x[w]);
    return s;
}

/* This block's share of the letters of the row and its heads, into y. mail: of the row's first
 * chunk. */
__device__ static inline void merge_row(const struct spread &b, struct spread_heap *heap,
                                        const struct chunk &c, struct letter *mail)
{
    int heads = (int)b.a.heads - first_of(b), letters = heads > 8 ? LETTERS : LETTERS / 2;
    int from = c.number * letters / c.of, to = (c.number + 1) * letters / c.of;
    int ways = ways_of(c.of), lane = threadIdx.x % 32, warp = threadIdx.x / 32, way = warp % ways;
    int64_t step = (int64_t)gridDim.x * LETTERS; /* from chunk to chunk */
#pragma unroll 1
    for (int first = from; first < to; first += WARPS / ways) {
        int at = first + warp / ways, mine = at < to ? (c.of - way + ways - 1) / ways : 0;
        float largest;
        struct mla_sum s = read_letters(mail + way * step + at, ways * step, mine, &largest);
        if (ways > 1) {
            heap->sums[warp][lane] = make_float4(s.v[0], s.v[1], s.v[2], s.v[3]);
            heap->stat[warp][lane] = make_float2(largest, s.sum);
            __syncthreads();
            if (way == 0) s = read_heap(heap, ways);
            if (first + WARPS / ways < to) __syncthreads();
        }
        int head = at / (LETTERS / 2) * 8 + lane / 4;
        int column = at % (LETTERS / 2) * 16 + lane_column();
        if (way == 0 && at < to && head < heads)
            mla_put_sum(&s, c.of,
                        b.a.y + (c.row * b.a.heads + first_of(b) + head) * LATENT + column);
    }
}

#endif
#endif
