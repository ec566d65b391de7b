/* moe_gemm_large.cu: grouped products with INT4 weights for many rows an expert, by wgmma; see
 * moe_parts.cuh and moe_pack.h. Compute capability 9.0 alone (sm_90a); older cards take
 * moe_gemm.cu.
 *
 * A block computes 256 rows of the matrix (four strips) for up to 128 tokens. Two warpgroups
 * multiply, each two strips: the codes become the register operand A of wgmma, warp w of a
 * warpgroup owning m16 block w; the tokens lie in shared memory as operand B. While one k16 step is
 * multiplied, the codes of the next become values. One warp loads. Blocks are persistent, and the
 * loader runs ahead into the next tile.
 *
 * Results go through shared memory, from which bulk copies take them: a warpgroup writes its part
 * of the tile there, says go, and begins the next. The second warpgroup begins two stages late, so
 * that one multiplies while the other turns sums into results.
 *
 * A stage of the ring is 64 columns. All of it comes as bulk copies: codes and scales because they
 * are packed in tiles, tokens because moe_swizzle() and the epilogue of w13 have put them into the
 * order in which the instruction wants them. Gathering them with cp.async instead saves that copy
 * (4 % of the time of 4096 rows), but its writes are those of ordinary stores: a fence that waits
 * for them stood in every stage, and cost more. */
#include "gpu/moe_barrier.cuh"
#include "gpu/moe_mma.cuh"
#include "gpu/moe_wgmma.cuh"

enum {
    LARGE_STRIPS = 4, /* of a block */
    LARGE_TOKENS = MOE_CAP_LARGE,
    LARGE_STAGES = 6,
    LARGE_B = LARGE_TOKENS * MOE_TILE_K * 2,
    LARGE_A = LARGE_STRIPS * MOE_TILE_BYTES,
    LARGE_ROW = 128 * 2 + 16, /* bytes of a token's results of a warpgroup: two strips, and 16 so
                                 that eight tokens lie in different banks */
    LARGE_OUT = LARGE_TOKENS * LARGE_ROW,
    LARGE_BARRIERS = LARGE_STAGES * (LARGE_A + LARGE_B) + 2 * LARGE_OUT, /* their offset */
    LARGE_SHARED = LARGE_BARRIERS + LARGE_STAGES * 16 + 1024,            /* and room to align */
    LARGE_LATE = 2,      /* stages that the second warpgroup begins late */
    LARGE_LOADERS = 128, /* a warpgroup, of which one warp works: registers go by warpgroups */
    LARGE_THREADS = 3 * 128,
    LARGE_WARPS = 8 /* that multiply */
};

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900 && defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define LARGE_HERE 1
#endif

/* Addresses in shared memory; full and empty barriers follow each other. */
struct large_ring {
    uint32_t b, a, out, full, empty;
};

#ifdef LARGE_HERE

/* ---- which tile ---- */

struct large_task {
    struct moe_tile tile;
    int32_t strip;  /* first of the block's */
    int32_t strips; /* that exist */
};

__device__ static inline struct large_task task_of(const struct moe_product &p, int32_t task)
{
    int32_t per_tile = (int32_t)(p.strips + LARGE_STRIPS - 1) / LARGE_STRIPS;
    struct large_task t;
    t.tile = p.tile[task / per_tile];
    t.strip = task % per_tile * LARGE_STRIPS;
    t.strips =
        (int32_t)p.strips - t.strip < LARGE_STRIPS ? (int32_t)p.strips - t.strip : LARGE_STRIPS;
    return t;
}

__device__ static inline int32_t task_count(const struct moe_product &p)
{
    return *p.tiles * ((int32_t)(p.strips + LARGE_STRIPS - 1) / LARGE_STRIPS);
}

/* ---- loading ---- */

/* One warp: lane i < 4 brings strip i of the block, lane 4 the tokens. */
__device__ static inline void load_task(const struct moe_product &p, const struct large_task &t,
                                        const struct large_ring &ring, struct ring_place &put)
{
    int lane = threadIdx.x % 32;
    uint32_t tokens = (uint32_t)t.tile.rows * MOE_TILE_K * 2;
    uint32_t bytes = lane < LARGE_STRIPS ? MOE_TILE_BYTES : tokens;
    const char *from = lane < LARGE_STRIPS ? p.weights + t.tile.expert * p.step +
                                                 (t.strip + lane) * p.tiles_k * MOE_TILE_BYTES
                                           : (const char *)(p.x + t.tile.first * p.ldx);
    uint32_t to = lane < LARGE_STRIPS ? ring.a + lane * MOE_TILE_BYTES : ring.b;
    uint32_t step = lane < LARGE_STRIPS ? LARGE_A : LARGE_B;
    bool mine = lane < t.strips || lane == LARGE_STRIPS;
    for (int kt = 0; kt < (int)p.tiles_k; kt++) {
        uint32_t full = ring.full + put.slot * 8;
        barrier_wait(ring.empty + put.slot * 8, put.phase);
        if (lane == 0) barrier_expect(full, (uint32_t)t.strips * MOE_TILE_BYTES + tokens);
        __syncwarp();
        if (mine) bulk_copy(to + put.slot * step, from, bytes, full);
        from += bytes;
        place_next<LARGE_STAGES>(put);
    }
}

__device__ static inline void load_all(const struct moe_product &p, const struct large_ring &ring)
{
    struct ring_place put = {0, 1};
    int32_t tasks = task_count(p);
    for (int32_t task = blockIdx.x; task < tasks; task += gridDim.x)
        load_task(p, task_of(p, task), ring, put);
}

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
    uint64_t b = wgmma_b(ring.b + slot * LARGE_B);
#pragma unroll
    for (int j = 0; j < 4; j++) {
        uint32_t a[2][4];
#pragma unroll
        for (int s = 0; s < 2; s++) {
            __nv_bfloat162 low, high;
            spread_scales(j < 2 ? scales[s].x : scales[s].y, &low, &high);
            weigh_word(word_of(words[s], j), low, high, a[s]);
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
    store_matrices_4(out, bits_of(__floats2bfloat162_rn(low[0], low[1])),
                     bits_of(__floats2bfloat162_rn(low[2], low[3])),
                     bits_of(__floats2bfloat162_rn(high[0], high[1])),
                     bits_of(__floats2bfloat162_rn(high[2], high[3])));
}

/* The same of w13: rows g are gate, rows g + 8 up. */
__device__ static inline uint32_t gated_pair(const float *d, bool there)
{
    uint32_t v = bits_of(__floats2bfloat162_rn(swiglu_value(d[0], d[2]), swiglu_value(d[1], d[3])));
    return there ? v : 0; /* beyond I there are only padded rows: zeros, whatever x holds */
}

/* This warpgroup's results into `out`. Plain: a token's 128 columns in LARGE_ROW bytes. Gated: its
 * 64 columns in the order of moe_swizzle_at(). */
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
#pragma unroll
        for (int nb = 0; nb < N / 8; nb++)
            store_matrices_2(to + nb * 8 * 128, gated_pair(&d[0][4 * nb], column < p.cols),
                             gated_pair(&d[1][4 * nb], column + 32 < p.cols));
    } else {
        uint32_t to = out + token * LARGE_ROW + (matrix / 2 * 8 + warp * 2 + matrix % 2) * 16;
#pragma unroll
        for (int nb = 0; nb < N / 8; nb++)
            put_plain(to + nb * 8 * LARGE_ROW, &d[0][4 * nb], &d[1][4 * nb]);
    }
}

/* Lets bulk copies bring them to their place. Thread i < 128 of the warpgroup, strip `strip` its
 * first. */
template <bool GATED>
__device__ static __forceinline__ void send_results(const struct moe_product &p,
                                                    const struct large_task &t, uint32_t out, int i,
                                                    int64_t strip)
{
    if (GATED) {
        if (i == 0 && 32 * strip < p.ldy)
            bulk_store(p.y + moe_swizzle_at(t.tile, p.ldy, 0, 32 * strip), out,
                       (uint32_t)t.tile.rows * 128);
    } else {
        int64_t column = MOE_TILE_ROWS * strip, left = p.cols - column;
        if (i < t.tile.rows && left > 0)
            bulk_store(p.y + (t.tile.first + (int64_t)i) * p.ldy + column, out + i * LARGE_ROW,
                       (uint32_t)(left < 128 ? left : 128) * 2);
    }
    bulk_store_commit();
}

template <int N, bool GATED>
__device__ static __forceinline__ void store_strips(const struct moe_product &p,
                                                    const struct large_task &t,
                                                    const struct large_ring &ring,
                                                    const float (&d)[2][N / 2])
{
    int tid = thread_again(), group = tid / 128;
    uint32_t out = ring.out + group * LARGE_OUT;
    bulk_store_wait_read();
    warpgroup_sync(group);
    put_results<N, GATED>(p, t, out, tid, d);
    publish_to_copies();
    warpgroup_sync(group);
    send_results<GATED>(p, t, out, tid % 128, t.strip + 2 * group);
}

/* A warpgroup's two strips of one tile: the whole of k. */
template <int N, bool GATED>
__device__ static __forceinline__ void multiply(const struct moe_product &p,
                                                const struct large_task &t,
                                                const struct large_ring &ring,
                                                const struct large_lane &l, struct ring_place &at)
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
    store_strips<N, GATED>(p, t, ring, d);
}

template <bool GATED>
__device__ static __forceinline__ void multiply_all(const struct moe_product &p,
                                                    const struct large_ring &ring, int tid)
{
    struct large_lane l = lane_of(ring, tid, p.every_lane);
    struct ring_place at = {0, 0};
    int32_t tasks = task_count(p);
    if (tid >= 128 && (int32_t)blockIdx.x < tasks)
        barrier_wait(ring.full + (LARGE_LATE < p.tiles_k ? LARGE_LATE : 0) * 8, 0);
    for (int32_t task = blockIdx.x; task < tasks; task += gridDim.x) {
        struct large_task t = task_of(p, task);
        switch ((t.tile.rows + 7) / 8) {
        case 1:
        case 2:
            multiply<16, GATED>(p, t, ring, l, at);
            break;
        case 3:
        case 4:
            multiply<32, GATED>(p, t, ring, l, at);
            break;
        case 5:
        case 6:
            multiply<48, GATED>(p, t, ring, l, at);
            break;
        case 7:
        case 8:
            multiply<64, GATED>(p, t, ring, l, at);
            break;
        case 9:
        case 10:
            multiply<80, GATED>(p, t, ring, l, at);
            break;
        case 11:
            multiply<88, GATED>(p, t, ring, l, at);
            break;
        case 12:
            multiply<96, GATED>(p, t, ring, l, at);
            break;
        default:
            multiply<128, GATED>(p, t, ring, l, at);
            break;
        }
    }
    bulk_store_wait();
}

__device__ static inline struct large_ring ring_of(const char *memory)
{
    struct large_ring ring;
    ring.b = (smem_of(memory) + 1023) / 1024 * 1024;
    ring.a = ring.b + LARGE_STAGES * LARGE_B;
    ring.out = ring.a + LARGE_STAGES * LARGE_A;
    ring.full = ring.b + LARGE_BARRIERS;
    ring.empty = ring.full + LARGE_STAGES * 8;
    return ring;
}

#endif

template <bool GATED>
__global__ static void __launch_bounds__(LARGE_THREADS, 1)
    moe_large(const __grid_constant__ struct moe_product p)
{
#ifdef LARGE_HERE
    extern __shared__ char memory[];
    struct large_ring ring = ring_of(memory);
    if (threadIdx.x == 0) {
        for (int s = 0; s < LARGE_STAGES; s++) {
            barrier_init(ring.full + s * 8, 1); /* and the bulk copies */
            barrier_init(ring.empty + s * 8, p.every_lane ? 32 * LARGE_WARPS : LARGE_WARPS);
        }
        barrier_publish();
    }
    __syncthreads();
    if (threadIdx.x < LARGE_LOADERS) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        if (threadIdx.x < 32) load_all(p, ring);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
        multiply_all<GATED>(p, ring, threadIdx.x - LARGE_LOADERS);
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
              cudaFuncGetAttributes(&a, (const void *)moe_large<true>) == cudaSuccess &&
              a.numRegs > 32;
    return has != 0;
}

enum err_code moe_product_large(struct gpu *g, const struct moe_product *p, bool gated,
                                struct err *err)
{
    const char *label = gated ? "moe_large_w13" : "moe_large_w2";
    auto kernel = gated ? moe_large<true> : moe_large<false>;
    if (gpu_shared(g, (const void *)kernel, label, LARGE_SHARED, err) != ERR_OK) return err->code;
    return GPU_LAUNCH(g, err, label, "wgmma, 256 rows x up to 128 tokens, 6 stages",
                      dim3((unsigned)g->sms), dim3(LARGE_THREADS), (size_t)LARGE_SHARED, kernel,
                      *p);
}
