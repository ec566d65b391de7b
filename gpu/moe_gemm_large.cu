/* moe_gemm_large.cu: grouped products with INT4 weights for many rows an expert, by wgmma; see
 * moe_parts.cuh and moe_pack.h. Compute capability 9.0 alone (sm_90a); older cards take
 * moe_gemm.cu.
 *
 * A block computes 256 rows of the matrix (four strips) for up to 128 tokens. Two warpgroups
 * multiply, each two strips: the codes become the register operand A of wgmma, warp w of a
 * warpgroup owning m16 block w; the tokens lie in shared memory as operand B. While one k16 step is
 * multiplied, the codes of the next become values. Another warpgroup loads (moe_gemm_large.cuh).
 * Blocks are persistent and take tasks from a counter, the largest tiles first, and the loader runs
 * ahead into the next task.
 *
 * Results go through shared memory, from which the copy engine takes them: a warpgroup writes its
 * part of the tile there, says go, and begins the next. The second warpgroup begins two stages
 * late, so that one multiplies while the other turns sums into results.
 *
 * A stage of the ring is 64 columns. Codes and scales come as bulk copies, for they are packed in
 * tiles; so do tokens that moe_swizzle() and the epilogue of w13 have put into the order in which
 * the instruction wants them. Else they are gathered: see moe_choose.h for what that costs.
 *
 * On an H200, 4096 tokens, 384 experts, top 8; w13 of 2048 columns, then of a shard of 256:
 * one fused operation a value instead of two, ten instructions for eight codes instead of sixteen:
 * 3427 us to 3117, 467 to 438; division by its approximation, roundings two at a time: 3014, 416;
 * tasks from a counter, large ones first: 2955, 393. w2: one copy a strip for its results instead
 * of one a row: 1746 to 1551 us, 350 to 271. Then nothing but wgmma takes 412 of 416, and nothing
 * but loads 323: the clock (1.55 GHz under load) and shared memory are the limits.
 *
 * Tried, and slower: reading the codes a stage ahead (3136 us against 3036); rows gathered by one
 * box each (20 cycles a row: 724 us against 414); the same by a warp a stage (519), or with the
 * rows' addresses in shared memory (626), against 475 with them in registers; results by ordinary
 * stores (w2 365 us against 336). */
#include "gpu/moe_gemm_large.cuh"
#include "gpu/moe_wgmma.cuh"
#include "gpu/tensor_map.cuh"

enum { LARGE_THREADS = LARGE_LOADERS + 32 * LARGE_WARPS };

#ifdef LARGE_HERE

/* ---- multiplying ---- */

/* Where a lane finds its operands in stage 0 of a ring. */
struct large_lane {
    uint32_t codes, scales;
    bool tells; /* the loader that a stage is read: the first of its warp, or all */
};

__device__ static inline struct large_lane lane_of(const struct large_ring &ring, int tid,
                                                   bool every_lane)
{
    struct large_lane l;
    uint32_t tile = ring.a + 2 * (tid / 128) * MOE_TILE_BYTES;
    l.codes = tile + 512 * (tid / 32 % 4) + 16 * (tid % 32);
    l.scales = tile + MOE_CODE_BYTES + 64 * (tid / 32 % 4) + 8 * (tid % 32 / 4);
    l.tells = tid % 32 == 0 || every_lane;
    return l;
}

/* Word j of a lane's four. */
__device__ static inline uint32_t word_of(const uint4 &words, int j)
{
    return j == 0 ? words.x : j == 1 ? words.y : j == 2 ? words.z : words.w;
}

/* One stage, two strips: four k16 steps. The step before may be under way when this begins, the
 * last one is when it ends; `release` (0: none) is the empty barrier of the stage before. */
template <int N>
__device__ static __forceinline__ void multiply_stage(float (&d)[2][N / 2],
                                                      const struct large_ring &ring,
                                                      const struct large_lane &l, int slot,
                                                      uint32_t release)
{
    uint4 words[2];
    uint2 scales[2];
#pragma unroll
    for (int s = 0; s < 2; s++) {
        uint32_t tile = slot * LARGE_A + s * MOE_TILE_BYTES;
        words[s] = load_16(l.codes + tile);
        scales[s] = load_8(l.scales + tile);
    }
    struct moe_scales scale[2];
    uint64_t b = wgmma_b(ring.b + slot * LARGE_B);
#pragma unroll
    for (int j = 0; j < 4; j++) {
        uint32_t a[2][4];
#pragma unroll
        for (int s = 0; s < 2; s++) {
            if (j % 2 == 0) scale[s] = scales_of(j ? scales[s].y : scales[s].x);
            weigh_word(word_of(words[s], j), scale[s], a[s]);
        }
        wgmma_fence();
        wgmma_k16<N>::run(d[0], a[0], b + 2 * j);
        wgmma_k16<N>::run(d[1], a[1], b + 2 * j);
        wgmma_commit();
        wgmma_wait<1>();
        if (j == 0) __syncwarp();
        if (j == 0 && release && l.tells) barrier_arrive(release);
    }
}

/* The thread's number, asked for anew: what follows from it is not kept in registers through the
 * main loop, which has none to spare. */
__device__ static inline int thread_again(void)
{
    int tid;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(tid));
    return tid - LARGE_LOADERS;
}

/* Waits for this warpgroup alone. */
__device__ static inline void warpgroup_sync(int group)
{
    asm volatile("bar.sync %0, 128;" ::"r"(1 + group) : "memory");
}

/* One m64n8 block of both strips, transposed: of a token 16 bytes (8 columns) from each matrix.
 * `out`: where this lane's row of its matrix begins. */
__device__ static inline void put_plain(uint32_t out, const float *low, const float *high)
{
    store_matrices_4(out, rounded_pair(low[0], low[1]), rounded_pair(low[2], low[3]),
                     rounded_pair(high[0], high[1]), rounded_pair(high[2], high[3]));
}

/* This warpgroup's results into `out`, 64 columns a token in 128 bytes, as moe_swizzle_at() and the
 * copy engine's 128-byte swizzle have them. Plain: of the first strip, then of the second. Gated:
 * of both together; beyond I there are only padded rows: zeros, whatever x holds. */
template <int N, bool GATED>
__device__ static __forceinline__ void put_results(const struct moe_product &p,
                                                   const struct large_task &t, uint32_t out,
                                                   int tid, const float (&d)[2][N / 2])
{
    int warp = tid / 32 % 4, lane = tid % 32, matrix = lane / 8, token = lane % 8;
    if (GATED) {
        /* Matrix 0 is of the first strip, 1 of the second; lanes 16 to 31 give no address. */
        uint32_t piece = (uint32_t)((matrix % 2 * 4 + warp) ^ token);
        uint32_t to = out + token * 128 + piece * 16;
        int64_t column = 32 * (int64_t)(t.strip + 2 * (tid / 128)) + 8 * warp + lane / 4;
        uint32_t first = column < p.cols ? ~0u : 0, second = column + 32 < p.cols ? ~0u : 0;
#pragma unroll
        for (int nb = 0; nb < N / 8; nb++)
            store_matrices_2(to + nb * 8 * 128, gated_pair(&d[0][4 * nb]) & first,
                             gated_pair(&d[1][4 * nb]) & second);
    } else {
        /* Matrices 0 and 1 are of the first strip, 2 and 3 of the second. */
        uint32_t piece = (uint32_t)((warp * 2 + matrix % 2) ^ token);
        uint32_t to = out + matrix / 2 * LARGE_STRIP + token * 128 + piece * 16;
#pragma unroll
        for (int nb = 0; nb < N / 8; nb++)
            put_plain(to + nb * 8 * 128, &d[0][4 * nb], &d[1][4 * nb]);
    }
}

/* Lets bulk copies bring them to their place. Thread i < 128 of the warpgroup, strip `strip` its
 * first. Plain: a box of 128 rows of which the map cuts off all but the tile's (large_map()). */
template <bool GATED>
__device__ static __forceinline__ void send_results(const struct moe_product &p,
                                                    const CUtensorMap &map,
                                                    const struct large_task &t, uint32_t out, int i,
                                                    int64_t strip)
{
    if (GATED) {
        if (i == 0 && 32 * strip < p.ldy)
            bulk_store(p.y + moe_swizzle_at(t.tile, p.ldy, 0, 32 * strip), out,
                       (uint32_t)t.tile.rows * 128);
    } else {
        int64_t column = MOE_TILE_ROWS * (strip + i / 32);
        if (i % 32 == 0 && i < 64 && column < p.cols)
            tile_store(map, (int)column, t.tile.first + t.tile.rows, LARGE_TOKENS - t.tile.rows,
                       out + i / 32 * LARGE_STRIP);
    }
    bulk_store_commit();
}

template <int N, bool GATED>
__device__ static __forceinline__ void store_strips(const struct moe_product &p,
                                                    const struct large_task &t,
                                                    const struct large_ring &ring,
                                                    const CUtensorMap &map,
                                                    const float (&d)[2][N / 2])
{
    int tid = thread_again(), group = tid / 128;
    uint32_t out = ring.out + group * LARGE_OUT;
    bulk_store_wait_read();
    warpgroup_sync(group);
    put_results<N, GATED>(p, t, out, tid, d);
    publish_to_copies();
    warpgroup_sync(group);
    send_results<GATED>(p, map, t, out, tid % 128, t.strip + 2 * group);
}

/* A warpgroup's two strips of one tile: the whole of k. */
template <int N, bool GATED>
__device__ static __forceinline__ void multiply(const struct moe_product &p,
                                                const struct large_task &t,
                                                const struct large_ring &ring,
                                                const CUtensorMap &map, const struct large_lane &l,
                                                struct ring_place &at)
{
    float d[2][N / 2] = {};
    uint32_t release = 0;
    /* The same in every lane, which the compiler must see: descriptors live in uniform registers.
     */
    at.slot = __shfl_sync(~0u, at.slot, 0);
    at.phase = __shfl_sync(~0u, at.phase, 0);
    for (int kt = 0; kt < (int)p.tiles_k; kt++) {
        barrier_wait(ring.full + at.slot * 8, at.phase);
        multiply_stage<N>(d, ring, l, at.slot, release);
        release = ring.empty + at.slot * 8;
        place_next<LARGE_STAGES>(at);
    }
    wgmma_wait<0>();
#pragma unroll
    for (int i = 0; i < N / 2; i++) asm volatile("" : "+f"(d[0][i]), "+f"(d[1][i])::"memory");
    __syncwarp();
    if (l.tells) barrier_arrive(release);
    store_strips<N, GATED>(p, t, ring, map, d);
}

/* The tile by the tokens that the instruction takes at once. Nine of them, eight where the loaders
 * leave fewer registers: with one more the compiler lets no two products be under way. */
template <bool GATED, bool GATHER>
__device__ static __forceinline__ void multiply_tile(
    const struct moe_product &p, const struct large_task &t, const struct large_ring &ring,
    const CUtensorMap &map, const struct large_lane &l, struct ring_place &at)
{
    int rows = t.tile.rows;
    if (rows <= 16)
        multiply<16, GATED>(p, t, ring, map, l, at);
    else if (rows <= 32)
        multiply<32, GATED>(p, t, ring, map, l, at);
    else if (rows <= 48)
        multiply<48, GATED>(p, t, ring, map, l, at);
    else if (rows <= 64)
        multiply<64, GATED>(p, t, ring, map, l, at);
    else if (rows <= 80)
        multiply<80, GATED>(p, t, ring, map, l, at);
    else if (rows <= 88)
        multiply<88, GATED>(p, t, ring, map, l, at);
    else if (rows <= 96)
        multiply<96, GATED>(p, t, ring, map, l, at);
    else if (!GATHER && rows <= 104)
        multiply<GATHER ? 96 : 104, GATED>(p, t, ring, map, l, at);
    else
        multiply<128, GATED>(p, t, ring, map, l, at);
}

template <bool GATED, bool GATHER>
__device__ static __forceinline__ void multiply_all(const struct moe_product &p,
                                                    const struct large_ring &ring,
                                                    const CUtensorMap &map, int tid)
{
    struct large_lane l = lane_of(ring, tid, p.every_lane);
    struct ring_place at = {0, 0};
    int late = LARGE_LATE < p.tiles_k ? LARGE_LATE : 0;
    if (tid >= 128 && task_of(p, blockIdx.x).tile.rows) barrier_wait(ring.full + late * 8, 0);
    while (true) {
        barrier_wait(ring.full + at.slot * 8, at.phase);
        const uint4 note = load_16(ring.notes + at.slot * 16);
        if (note.y == 0) break;
        struct large_task t = {
            {0, (int32_t)note.x, (int32_t)note.y, 0}, (int32_t)note.z, (int32_t)note.w};
        multiply_tile<GATED, GATHER>(p, t, ring, map, l, at);
    }
    bulk_store_wait();
}

#endif

template <bool GATED, bool GATHER>
__global__ static void __launch_bounds__(LARGE_THREADS, 1)
    moe_large(const __grid_constant__ struct moe_product p, const __grid_constant__ CUtensorMap map)
{
#ifdef LARGE_HERE
    extern __shared__ char memory[];
    struct large_ring ring = ring_of(memory);
    if (threadIdx.x == 0) {
        for (int s = 0; s < LARGE_STAGES; s++) {
            /* The bulk copies, and of gathered rows each warp. */
            barrier_init(ring.full + s * 8, GATHER ? 1 + LARGE_LOAD_WARPS : 1);
            barrier_init(ring.empty + s * 8, p.every_lane ? 32 * LARGE_WARPS : LARGE_WARPS);
        }
        barrier_publish();
    }
    __syncthreads();
    if (threadIdx.x < LARGE_LOADERS) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(GATHER ? 40 : 24));
        if (GATHER)
            gather_all(p, ring);
        else
            load_all(p, ring);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(GATHER ? 232 : 240));
        multiply_all<GATED, GATHER>(p, ring, map, threadIdx.x - LARGE_LOADERS);
    }
#endif
}

/* Empty, and so almost without registers, where the build has no code for sm_90a. */
bool moe_has_large(const struct gpu *g)
{
    static int has = -1;
    cudaFuncAttributes a = {};
    if (has < 0)
        has = g->major == 9 && g->minor == 0 && g->shared_max >= LARGE_SHARED &&
              cudaFuncGetAttributes(&a, (const void *)moe_large<true, false>) == cudaSuccess &&
              a.numRegs > 32;
    return has != 0;
}

/* The rows of y [rows, cols] as tile_store() addresses them so that a box ends where a tile does:
 * row r < 128 of `middle` m is row m + r - 128 of y, and what a box has beyond r = 127 lies
 * outside. Before y there is room for 128 rows, which nobody touches. */
static enum err_code large_map(struct gpu *g, const struct moe_product *p, CUtensorMap *out,
                               struct err *err)
{
    struct tensor_shape s = {};
    s.data = p->y - LARGE_TOKENS * p->ldy;
    s.rows = s.tile_rows = LARGE_TOKENS;
    s.middle = p->rows + 1;
    s.columns = p->cols;
    s.row_step = s.middle_step = p->ldy;
    return gpu_tensor_map(g, &s, out, err);
}

enum err_code moe_product_large(struct gpu *g, const struct moe_product *p, bool gated,
                                struct err *err)
{
    const char *label = gated ? "moe_large_w13" : "moe_large_w2";
    const char *tactic = gated && p->gather
                             ? "wgmma, 256 rows x up to 128 tokens, gathered, 6 stages"
                             : "wgmma, 256 rows x up to 128 tokens, 6 stages";
    auto kernel = !gated      ? moe_large<false, false>
                  : p->gather ? moe_large<true, true>
                              : moe_large<true, false>;
    CUtensorMap map = {};
    if (!gated && large_map(g, p, &map, err) != ERR_OK) return err->code;
    if (gpu_shared(g, (const void *)kernel, label, LARGE_SHARED, err) != ERR_OK) return err->code;
    return GPU_LAUNCH(g, err, label, tactic, dim3((unsigned)g->sms), dim3(LARGE_THREADS),
                      (size_t)LARGE_SHARED, kernel, *p, map);
}
