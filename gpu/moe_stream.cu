/* moe_stream.cu: grouped products with INT4 weights for few rows an expert, compute capability 9.0
 * and newer; older cards take moe_gemm.cu, whose results are the same bits. See moe_parts.cuh and
 * moe_pack.h.
 *
 * Reading the weights is the whole cost, and what stands in its way are instructions: making values
 * of the codes takes fifteen for eight weights. So the four warps that multiply do nothing else; a
 * fifth fills the ring. A stage is several tiles of k of one strip: their codes and scales come as
 * one bulk copy (they follow each other in memory), the tokens' rows as 16-byte cp.async, a piece's
 * number xor the token's, so that eight rows lie in different banks. Warp w owns m16 block w of the
 * strip for the whole of k. Blocks walk over (tile, strip) with a fixed stride, and the loader runs
 * ahead into the next strip, whose tokens it has looked up meanwhile. */
#include "gpu/moe_barrier.cuh"
#include "gpu/moe_mma.cuh"

enum { STREAM_WARPS = 4, STREAM_THREADS = 32 * (STREAM_WARPS + 1) };

/* NB: blocks of 8 tokens in a tile. TILES: of k in a stage. STAGES: of the ring. BLOCKS: a
 * multiprocessor. */
template <int NB, int TILES, int STAGES, int BLOCKS> struct stream_shape {
    static constexpr int nb = NB, tiles = TILES, stages = STAGES, blocks = BLOCKS;
    static constexpr int codes = TILES * MOE_TILE_BYTES;
    static constexpr int row = TILES * MOE_TILE_K * 2; /* bytes of a token in a stage */
    static constexpr int stage = codes + 8 * NB * row;
    static constexpr int barriers = stage * STAGES;
    static constexpr int shared = barriers + STAGES * 16;
    static constexpr int pieces = TILES * MOE_TILE_K / 8; /* of 16 bytes in a row */
    static constexpr int at_once = 32 / pieces;           /* tokens that a warp copies at once */
    static_assert(32 % pieces == 0 && shared * BLOCKS <= 226 * 1024, "shape");
};

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

__device__ static inline int32_t stream_tasks(const struct moe_product &p)
{
    return *p.tiles * (int32_t)p.strips;
}

__device__ static inline struct moe_tile stream_tile(const struct moe_product &p, int32_t task)
{
    return p.tile[task / (int32_t)p.strips];
}

/* ---- loading ---- */

/* Lane i keeps where row i of the tile begins, in 16-byte pieces of x. */
__device__ static inline uint32_t stream_row(const struct moe_product &p,
                                             const struct moe_tile &tile)
{
    int lane = threadIdx.x % 32;
    int64_t row = tile.first + (int64_t)(lane < tile.rows ? lane : 0);
    if (p.gather) row = p.gather[row];
    return (uint32_t)(row * (p.ldx / 8));
}

/* Issues the copies of a stage's weights: `tiles` tiles from tile kt on. */
__device__ static inline void stream_load_codes(const char *codes, int kt, int tiles, uint32_t to,
                                                uint32_t full)
{
    if (threadIdx.x % 32) return;
    barrier_expect(full, (uint32_t)(tiles * MOE_TILE_BYTES));
    bulk_copy(to, codes + (int64_t)kt * MOE_TILE_BYTES, (uint32_t)(tiles * MOE_TILE_BYTES), full);
}

/* And of its tokens. */
template <class S>
__device__ static inline void stream_load_rows(const struct moe_product &p,
                                               const struct moe_tile &tile, uint32_t row, int kt,
                                               int tiles, uint32_t to, uint32_t full)
{
    int lane = threadIdx.x % 32, piece = lane % S::pieces;
    const uint4 *x = (const uint4 *)p.x + kt * (MOE_TILE_K / 8) + piece;
    for (int first = 0; first < tile.rows; first += S::at_once) {
        int token = first + lane / S::pieces;
        uint32_t from = __shfl_sync(~0u, row, token);
        if (token < tile.rows && piece < tiles * (MOE_TILE_K / 8))
            copy_16(to + S::codes + token * S::row + (piece ^ (token & 7)) * 16, x + from);
    }
    barrier_arrive_copied(full);
}

/* The strip of a task. */
__device__ static inline const char *stream_codes(const struct moe_product &p,
                                                  const struct moe_tile &tile, int32_t task)
{
    return p.weights + tile.expert * p.step + task % (int32_t)p.strips * p.tiles_k * MOE_TILE_BYTES;
}

/* Fills the ring with the first strip's weights before the kernel that makes x has ended. Returns
 * how many stages that were. */
template <class S>
__device__ static inline int stream_begin_early(const struct moe_product &p, uint32_t ring,
                                                const char *codes)
{
    int sent = 0;
    if (!p.overlap) return 0;
    for (int kt = 0; kt < (int)p.tiles_k && sent < S::stages; kt += S::tiles, sent++)
        stream_load_codes(codes, kt, min(S::tiles, (int)p.tiles_k - kt), ring + sent * S::stage,
                          ring + S::barriers + sent * 16);
    asm volatile("griddepcontrol.wait;" ::: "memory");
    return sent;
}

template <class S>
__device__ static inline void stream_load_all(const struct moe_product &p, uint32_t ring)
{
    struct ring_place put = {0, 1};
    int32_t task = blockIdx.x, tasks = stream_tasks(p), tiles_k = (int32_t)p.tiles_k;
    if (task >= tasks) return;
    struct moe_tile tile = stream_tile(p, task), next_tile = tile;
    int sent = stream_begin_early<S>(p, ring, stream_codes(p, tile, task));
    uint32_t row = stream_row(p, tile), next_row = row;
    while (task < tasks) {
        const char *codes = stream_codes(p, tile, task);
        task += gridDim.x;
        for (int kt = 0; kt < tiles_k; kt += S::tiles) {
            uint32_t to = ring + put.slot * S::stage, full = ring + S::barriers + put.slot * 16;
            int tiles = min(S::tiles, tiles_k - kt);
            barrier_wait(full + 8, put.phase);
            if (sent > 0)
                sent--;
            else
                stream_load_codes(codes, kt, tiles, to, full);
            stream_load_rows<S>(p, tile, row, kt, tiles, to, full);
            place_next<S::stages>(put);
            /* What the next task needs is asked for a stage before it is used. */
            if (kt == 0 && task < tasks) next_tile = stream_tile(p, task);
            if (kt == S::tiles) next_row = stream_row(p, next_tile);
        }
        tile = next_tile;
        row = tiles_k > S::tiles ? next_row : stream_row(p, tile);
    }
}

/* ---- multiplying ---- */

/* One tile of k: 64 columns, four k16 steps. The addresses are this lane's. */
template <class S>
__device__ static inline void stream_multiply_tile(float (&acc)[S::nb][4], int rows, uint32_t codes,
                                                   uint32_t scales, uint32_t x)
{
    int lane = threadIdx.x % 32;
    uint4 words = load_16(codes);
    uint2 pairs = load_8(scales);
#pragma unroll
    for (int group = 0; group < 2; group++) {
        uint32_t b[S::nb][4];
#pragma unroll
        for (int nb = 0; nb < S::nb; nb++) {
            if (nb > 0 && 8 * nb >= rows) continue;
            uint32_t piece = (uint32_t)(4 * group + lane / 8) ^ (uint32_t)(lane % 8);
            load_matrices(x + nb * 8 * S::row + piece * 16, b[nb]);
        }
        __nv_bfloat162 low, high;
        spread_scales(group ? pairs.y : pairs.x, &low, &high);
#pragma unroll
        for (int j = 0; j < 2; j++) {
            uint32_t a[4];
            weigh_word(group ? (j ? words.w : words.z) : (j ? words.y : words.x), low, high, a);
#pragma unroll
            for (int nb = 0; nb < S::nb; nb++) {
                if (nb > 0 && 8 * nb >= rows) continue;
                mma_k16(acc[nb], a, b[nb][2 * j], b[nb][2 * j + 1]);
            }
        }
    }
}

/* A stage of `tiles` tiles; whole stages without a question between tiles. */
template <class S>
__device__ static inline void stream_multiply(float (&acc)[S::nb][4], int rows, int tiles,
                                              uint32_t stage)
{
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    uint32_t codes = stage + 512 * warp + 16 * lane;
    uint32_t scales = stage + MOE_CODE_BYTES + 64 * warp + 8 * (lane / 4);
    uint32_t x = stage + S::codes + lane % 8 * S::row;
    if (tiles == S::tiles) {
#pragma unroll
        for (int i = 0; i < S::tiles; i++)
            stream_multiply_tile<S>(acc, rows, codes + i * MOE_TILE_BYTES,
                                    scales + i * MOE_TILE_BYTES, x + i * MOE_TILE_K * 2);
    } else {
#pragma unroll 1
        for (int i = 0; i < tiles; i++)
            stream_multiply_tile<S>(acc, rows, codes + i * MOE_TILE_BYTES,
                                    scales + i * MOE_TILE_BYTES, x + i * MOE_TILE_K * 2);
    }
}

template <class S, bool GATED>
__device__ static inline void stream_multiply_all(const struct moe_product &p, uint32_t ring)
{
    struct ring_place at = {0, 0};
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int32_t tasks = stream_tasks(p), tiles_k = (int32_t)p.tiles_k;
    struct moe_tile next = {};
    if ((int32_t)blockIdx.x < tasks) next = stream_tile(p, blockIdx.x);
    for (int32_t task = blockIdx.x; task < tasks; task += gridDim.x) {
        float acc[S::nb][4] = {};
        struct moe_tile tile = next;
        int32_t strip = task % (int32_t)p.strips;
        if (task + (int32_t)gridDim.x < tasks) next = stream_tile(p, task + gridDim.x);
        for (int kt = 0; kt < tiles_k; kt += S::tiles) {
            uint32_t full = ring + S::barriers + at.slot * 16;
            barrier_wait(full, at.phase);
            stream_multiply<S>(acc, tile.rows, min(S::tiles, tiles_k - kt),
                               ring + at.slot * S::stage);
            __syncwarp();
            if (lane == 0 || p.every_lane) barrier_arrive(full + 8);
            place_next<S::stages>(at);
        }
#pragma unroll
        for (int nb = 0; nb < S::nb; nb++) {
            if (8 * nb < tile.rows)
                store_block<GATED>(p, tile, acc[nb], 4 * (int64_t)strip + warp, 8 * nb, lane);
        }
    }
}

#endif

template <class S, bool GATED>
__global__ static void __launch_bounds__(STREAM_THREADS, S::blocks)
    moe_stream(const __grid_constant__ struct moe_product p)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    extern __shared__ __align__(128) char memory[];
    uint32_t ring = shared_at(memory);
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    if (threadIdx.x == 0) {
        for (int s = 0; s < S::stages; s++) {
            barrier_init(ring + S::barriers + s * 16, 32 + 1); /* full: lanes, bulk copy */
            barrier_init(ring + S::barriers + s * 16 + 8,
                         p.every_lane ? 32 * STREAM_WARPS : STREAM_WARPS);
        }
        barrier_publish();
    }
    __syncthreads();
    if (threadIdx.x / 32 == STREAM_WARPS)
        stream_load_all<S>(p, ring);
    else
        stream_multiply_all<S, GATED>(p, ring);
#endif
}

/* ---- launch ---- */

struct stream_row {
    int32_t cap;
    const char *tactic;
    int shared, blocks;
    void (*kernel[2])(const struct moe_product);
};

template <class S> static struct stream_row row_of(const char *tactic)
{
    return {8 * S::nb, tactic, S::shared, S::blocks, {moe_stream<S, false>, moe_stream<S, true>}};
}

/* GPU_LAUNCH with the attribute that lets a kernel begin before the one before it has ended. */
static enum err_code launch(struct gpu *g, const struct stream_row *row, const char *label,
                            void (*kernel)(const struct moe_product), const struct moe_product *p,
                            struct err *err)
{
    cudaLaunchAttribute overlap = {};
    cudaLaunchConfig_t how = {};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    how.gridDim = dim3((unsigned)(g->sms * row->blocks));
    how.blockDim = dim3(STREAM_THREADS);
    how.dynamicSmemBytes = (size_t)row->shared;
    how.stream = g->stream;
    how.attrs = &overlap;
    how.numAttrs = p->overlap;
    if (gpu_before(g, label, row->tactic, how.gridDim, how.blockDim, how.dynamicSmemBytes, err) !=
        ERR_OK)
        return err->code;
    (void)cudaLaunchKernelEx(&how, kernel, *p); /* its error is the last one */
    return gpu_after(g, label, err);
}

/* A build without code for this card may run its code for an older one, where the kernel is empty:
 * it then needs next to no registers. */
bool moe_has_stream(const struct gpu *g)
{
    static int has = -1;
    cudaFuncAttributes a = {};
    if (has < 0)
        has = g->major >= 9 &&
              cudaFuncGetAttributes(&a, (const void *)moe_stream<stream_shape<1, 4, 4, 4>, true>) ==
                  cudaSuccess &&
              a.numRegs > 32;
    return has != 0;
}

enum err_code moe_product_stream(struct gpu *g, const struct moe_product *p, bool gated,
                                 int32_t cap, struct err *err)
{
    static const struct stream_row rows[] = {
        row_of<stream_shape<1, 4, 4, 4>>("64 rows x 8 tokens, 4 stages of 256"),
        row_of<stream_shape<2, 4, 3, 4>>("64 rows x 16 tokens, 3 stages of 256"),
        row_of<stream_shape<4, 2, 4, 4>>("64 rows x 32 tokens, 4 stages of 128")};
    const struct stream_row *row = &rows[0];
    while (row->cap < cap) row++;
    const char *label = gated ? "moe_stream_w13" : "moe_stream_w2";
    auto kernel = row->kernel[gated];
    if (gpu_shared(g, (const void *)kernel, label, (size_t)row->shared, err) != ERR_OK)
        return err->code;
    return launch(g, row, label, kernel, p, err);
}
