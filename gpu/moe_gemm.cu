/* moe_gemm.cu: grouped products with INT4 weights for few rows an expert, by mma.sync; see
 * moe_parts.cuh and moe_pack.h. Streams weights: what counts is bytes in flight.
 *
 * A block of four warps computes a strip of 64 rows of the matrix for a tile of tokens; warp w owns
 * m16 block w for the whole of k, so the sum of an output runs through k in one accumulator. The
 * weights are the operand of 16 rows, the tokens that of 8 columns: one token costs one product.
 * Blocks walk over (tile, strip) with a fixed stride and never stop loading: the ring of stages
 * runs on from one strip into the next. A stage is two tiles of k: codes and scales in the order of
 * memory, then the tokens' rows, whose 16-byte pieces are swizzled by the token's number so that
 * eight rows lie in different banks. */
#include "gpu/moe_mma.cuh"

enum {
    MMA_THREADS = 128,
    MMA_STAGE_TILES = 2,
    MMA_STAGE_K = MMA_STAGE_TILES * MOE_TILE_K,
    MMA_CODES = MMA_STAGE_TILES * MOE_TILE_BYTES,
    MMA_TOKENS = 8 * MMA_STAGE_K * 2 /* bytes of 8 tokens in a stage */
};

/* Sizes by the number of 8-token blocks of a tile. */
template <int NB> struct mma_shape {
    static constexpr int stage = MMA_CODES + NB * MMA_TOKENS;
    static constexpr int stages = NB == 1 ? 8 : NB == 2 ? 6 : NB == 4 ? 4 : 3;
    static constexpr int blocks_per_sm = NB == 8 ? 3 : 4;
    static constexpr int shared = stage * stages;
};

/* A walk over the stages of this block's strips. */
struct mma_walk {
    int64_t task, tasks, steps; /* steps of k a task */
    int64_t step;
    int64_t strip;
    struct moe_tile tile;
};

__device__ static inline void walk_task(const struct moe_product &p, struct mma_walk &w)
{
    if (w.task >= w.tasks) return;
    w.tile = p.tile[w.task / p.strips];
    w.strip = w.task % p.strips;
}

/* What a thread copies: its lane's codes, for eight lanes of a warp also scales, and one 16-byte
 * piece of every eighth token. */
template <int NB> struct mma_loader {
    struct mma_walk walk;
    const char *codes, *scales;
    const bf16 *x[NB];
};

template <int NB>
__device__ static inline void loader_task(const struct moe_product &p, struct mma_loader<NB> &l)
{
    int tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
    walk_task(p, l.walk);
    if (l.walk.task >= l.walk.tasks) return;
    const char *strip =
        p.weights + l.walk.tile.expert * p.step + l.walk.strip * p.tiles_k * MOE_TILE_BYTES;
    l.codes = strip + 512 * warp + 16 * lane;
    l.scales = strip + lane / 4 * MOE_TILE_BYTES + MOE_CODE_BYTES + 64 * warp + 16 * (lane % 4);
#pragma unroll
    for (int nb = 0; nb < NB; nb++) {
        int at = 8 * nb + tid / 16;
        int64_t row = l.walk.tile.first + (int64_t)(at < l.walk.tile.rows ? at : 0);
        if (p.gather) row = p.gather[row];
        l.x[nb] = p.x + row * p.ldx + tid % 16 * 8;
    }
}

/* Issues the copies of the next stage into `to` (shared). */
template <int NB>
__device__ static inline void loader_step(const struct moe_product &p, struct mma_loader<NB> &l,
                                          uint32_t to)
{
    int tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
    if (l.walk.task >= l.walk.tasks) return;
    int64_t kt = l.walk.step * MMA_STAGE_TILES;
    bool second = kt + 1 < p.tiles_k;
    uint32_t codes = to + 512 * warp + 16 * lane;
    copy16(codes, l.codes, true);
    if (second) copy16(codes + MOE_TILE_BYTES, l.codes + MOE_TILE_BYTES, true);
    if (lane < 4 || (lane < 8 && second))
        copy16(to + lane / 4 * MOE_TILE_BYTES + MOE_CODE_BYTES + 64 * warp + 16 * (lane % 4),
               l.scales, true);
    if (tid % 16 < 8 || second) {
        uint32_t piece = (uint32_t)(tid % 16) ^ (uint32_t)(tid / 16);
        uint32_t x = to + MMA_CODES + tid / 16 * (MMA_STAGE_K * 2) + piece * 16;
#pragma unroll
        for (int nb = 0; nb < NB; nb++) {
            if (8 * nb + tid / 16 < l.walk.tile.rows)
                copy16(x + nb * MMA_TOKENS, l.x[nb] + kt * MOE_TILE_K, true);
        }
    }
    l.codes += MMA_CODES;
    l.scales += MMA_CODES;
    if (++l.walk.step < l.walk.steps) return;
    l.walk.step = 0;
    l.walk.task += gridDim.x;
    loader_task(p, l);
}

/* One tile of k: 64 columns, four k16 steps. `codes` and `x` are this lane's addresses. */
template <int NB>
__device__ static inline void multiply_tile(float acc[NB][4], int rows, uint32_t codes,
                                            uint32_t scales, uint32_t x, int lane)
{
    uint4 words = load_16(codes);
    uint2 pairs = load_8(scales);
#pragma unroll
    for (int group = 0; group < 2; group++) {
        uint32_t b[NB][4];
#pragma unroll
        for (int nb = 0; nb < NB; nb++) {
            if (nb > 0 && 8 * nb >= rows) continue;
            uint32_t piece = (uint32_t)(4 * group + lane / 8) ^ (uint32_t)(lane % 8);
            load_matrix(b[nb], x + nb * MMA_TOKENS + piece * 16);
        }
        struct moe_scales scale = scales_of(group ? pairs.y : pairs.x);
#pragma unroll
        for (int j = 0; j < 2; j++) {
            uint32_t a[4];
            weigh_word(group ? (j ? words.w : words.z) : (j ? words.y : words.x), scale, a);
#pragma unroll
            for (int nb = 0; nb < NB; nb++) {
                if (nb > 0 && 8 * nb >= rows) continue;
                mma_k16(acc[nb], a, b[nb][2 * j], b[nb][2 * j + 1]);
            }
        }
    }
}

template <int NB>
__device__ static inline void multiply_stage(float acc[NB][4], const struct moe_product &p,
                                             const struct mma_walk &w, uint32_t stage)
{
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    uint32_t codes = stage + 512 * warp + 16 * lane;
    uint32_t scales = stage + MOE_CODE_BYTES + 64 * warp + 8 * (lane / 4);
    uint32_t x = stage + MMA_CODES + lane % 8 * (MMA_STAGE_K * 2);
    multiply_tile<NB>(acc, w.tile.rows, codes, scales, x, lane);
    if (w.step * MMA_STAGE_TILES + 1 < p.tiles_k)
        multiply_tile<NB>(acc, w.tile.rows, codes + MOE_TILE_BYTES, scales + MOE_TILE_BYTES,
                          x + MOE_TILE_K * 2, lane);
}

template <int NB, bool GATED>
__global__ static void __launch_bounds__(MMA_THREADS, mma_shape<NB>::blocks_per_sm)
    moe_mma(const __grid_constant__ struct moe_product p)
{
    using shape = mma_shape<NB>;
    extern __shared__ __align__(128) char ring[];
    const uint32_t base = smem_of(ring);
    struct mma_loader<NB> loader;
    loader.walk.task = blockIdx.x;
    loader.walk.tasks = *p.tiles * p.strips;
    loader.walk.steps = (p.tiles_k + MMA_STAGE_TILES - 1) / MMA_STAGE_TILES;
    loader.walk.step = 0;
    struct mma_walk now = loader.walk;
    loader_task(p, loader);
    for (int s = 0; s < shape::stages - 1; s++) {
        loader_step(p, loader, base + s * shape::stage);
        copy_commit();
    }
    int read = 0, write = shape::stages - 1;
    for (; now.task < now.tasks; now.task += gridDim.x) {
        float acc[NB][4] = {};
        walk_task(p, now);
        for (now.step = 0; now.step < now.steps; now.step++) {
            copy_wait<shape::stages - 2>();
            __syncthreads();
            loader_step(p, loader, base + write * shape::stage);
            copy_commit();
            multiply_stage<NB>(acc, p, now, base + read * shape::stage);
            if (++read == shape::stages) read = 0;
            if (++write == shape::stages) write = 0;
        }
#pragma unroll
        for (int nb = 0; nb < NB; nb++) {
            if (8 * nb < now.tile.rows)
                store_block<GATED>(p, now.tile, acc[nb], 4 * now.strip + threadIdx.x / 32, 8 * nb,
                                   threadIdx.x % 32);
        }
    }
    copy_wait<0>();
}

/* ---- launch ---- */

/* The kernels by tokens a tile and by what they compute. */
struct mma_row {
    int32_t cap;
    const char *tactic;
    int shared, blocks_per_sm;
    void (*kernel[2])(const struct moe_product);
};

template <int NB> static struct mma_row row_of(const char *tactic)
{
    using shape = mma_shape<NB>;
    return {8 * NB,
            tactic,
            shape::shared,
            shape::blocks_per_sm,
            {moe_mma<NB, false>, moe_mma<NB, true>}};
}

enum err_code moe_product_mma(struct gpu *g, const struct moe_product *p, bool gated, int32_t cap,
                              struct err *err)
{
    static const struct mma_row rows[] = {
        row_of<1>("64 rows x 8 tokens, 8 stages"), row_of<2>("64 rows x 16 tokens, 6 stages"),
        row_of<4>("64 rows x 32 tokens, 4 stages"), row_of<8>("64 rows x 64 tokens, 3 stages")};
    const struct mma_row *row = &rows[0];
    while (row->cap < cap) row++;
    const char *label = gated ? "moe_mma_w13" : "moe_mma_w2";
    auto kernel = row->kernel[gated];
    if (gpu_shared(g, (const void *)kernel, label, (size_t)row->shared, err) != ERR_OK)
        return err->code;
    return GPU_LAUNCH(g, err, label, row->tactic, dim3((unsigned)(g->sms * row->blocks_per_sm)),
                      dim3(MMA_THREADS), (size_t)row->shared, kernel, *p);
}
