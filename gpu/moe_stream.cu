/* moe_stream.cu: both grouped products with INT4 weights for few rows an expert in one launch,
 * compute capability 9.0 and newer; older cards take moe_gemm.cu, whose results are the same bits.
 * See moe_parts.cuh and moe_pack.h.
 *
 * Reading the weights is the whole cost, and what stands in its way are instructions: making values
 * of the codes takes fifteen for eight weights. So the four warps that multiply do nothing else; a
 * fifth fills the ring. A stage is several tiles of k of one strip or two: their codes and scales
 * come as one bulk copy a strip (they follow each other in memory), the tokens' rows as 16-byte
 * cp.async, a piece's number xor the token's, so that eight rows lie in different banks. Warp w
 * owns m16 block w of each strip for the whole of k. Of two strips the tokens are read once, and
 * where k is short (a shard's w2) a stage is full.
 *
 * A task is some strips of one tile: first all of w13, then all of w2. Blocks take the next one
 * from a counter, so none waits for the slowest, and the ring runs on from task to task. A task of
 * w2 needs the rows that every strip of w13 has made for its tile: the loader asks for the weights
 * first and then waits until as many warps have said so. Tasks are taken in order and those of w13
 * wait for nothing, so this ends however few blocks run at a time.
 *
 * `planned`: the router made the plan, and the launch between it and this one (the shared expert's
 * last product) touches nothing that w13 reads or writes. Then this waits for it at the end alone
 * and runs beside it: of a layer of Kimi-K2.5 at one row, 5 us less on an H200 than with the
 * alignment in between. Tasks of w2 from a counter, where the two are apart, change nothing. */
#include "gpu/moe_stream.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

/* ---- multiplying ---- */

/* One tile of k of every strip: 64 columns, four k16 steps. The addresses are this lane's. */
template <class F>
__device__ static inline void stream_multiply_tile(float (&acc)[F::strips][F::nb][4], int rows,
                                                   uint32_t codes, uint32_t scales, uint32_t x)
{
    int lane = threadIdx.x % 32;
    uint4 words[F::strips];
    uint2 pairs[F::strips];
#pragma unroll
    for (int s = 0; s < F::strips; s++) {
        words[s] = load_16(codes + s * F::codes_strip);
        pairs[s] = load_8(scales + s * F::codes_strip);
    }
#pragma unroll
    for (int group = 0; group < 2; group++) {
        uint32_t b[F::nb][4];
#pragma unroll
        for (int nb = 0; nb < F::nb; nb++) {
            if (nb > 0 && 8 * nb >= rows) continue;
            uint32_t piece = (uint32_t)(4 * group + lane / 8) ^ (uint32_t)(lane % 8);
            load_matrix(b[nb], x + nb * 8 * F::row + piece * 16);
        }
#pragma unroll
        for (int s = 0; s < F::strips; s++) {
            struct moe_scales scale = scales_of(group ? pairs[s].y : pairs[s].x);
#pragma unroll
            for (int j = 0; j < 2; j++) {
                uint32_t a[4];
                weigh_word(group ? (j ? words[s].w : words[s].z) : (j ? words[s].y : words[s].x),
                           scale, a);
#pragma unroll
                for (int nb = 0; nb < F::nb; nb++) {
                    if (nb > 0 && 8 * nb >= rows) continue;
                    mma_k16(acc[s][nb], a, b[nb][2 * j], b[nb][2 * j + 1]);
                }
            }
        }
    }
}

/* TILES tiles of a stage from tile `i` on, without a question between them. */
template <class F, int TILES>
__device__ static inline void stream_multiply_tiles(float (&acc)[F::strips][F::nb][4], int rows,
                                                    int first, uint32_t codes, uint32_t scales,
                                                    uint32_t x)
{
#pragma unroll
    for (int i = 0; i < TILES; i++)
        stream_multiply_tile<F>(acc, rows, codes + (first + i) * MOE_TILE_BYTES,
                                scales + (first + i) * MOE_TILE_BYTES,
                                x + (first + i) * MOE_TILE_K * 2);
}

/* A stage of `tiles` tiles. */
template <class F>
__device__ static inline void stream_multiply(float (&acc)[F::strips][F::nb][4], int rows,
                                              int tiles, uint32_t stage)
{
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, i = 0;
    uint32_t codes = stage + 512 * warp + 16 * lane;
    uint32_t scales = stage + MOE_CODE_BYTES + 64 * warp + 8 * (lane / 4);
    uint32_t x = stage + F::codes + lane % 8 * F::row;
    if (tiles == F::tiles) {
        stream_multiply_tiles<F, F::tiles>(acc, rows, 0, codes, scales, x);
        return;
    }
    for (; F::tiles > 4 && i + 4 <= tiles; i += 4)
        stream_multiply_tiles<F, 4>(acc, rows, i, codes, scales, x);
    for (; i < tiles; i++) stream_multiply_tiles<F, 1>(acc, rows, i, codes, scales, x);
}

/* What a task's warp has summed goes out; of w13, who waits for it hears of it. */
template <class F, bool GATED>
__device__ static inline void stream_store(const struct moe_stream_job &job, const uint4 &note,
                                           const float (&acc)[F::strips][F::nb][4])
{
    int lane = threadIdx.x % 32;
    int64_t block = 4 * (int64_t)(note.z / 2) + threadIdx.x / 32;
    struct moe_tile tile = {0, (int32_t)note.x, (int32_t)note.y, 0};
#pragma unroll
    for (int s = 0; s < F::strips; s++) {
#pragma unroll
        for (int nb = 0; nb < F::nb; nb++) {
            if (8 * nb < tile.rows)
                store_block<GATED>(job.p[GATED ? 0 : 1], tile, acc[s][nb], block + 4 * s, 8 * nb,
                                   lane);
        }
    }
    if (!GATED || job.phase != STREAM_BOTH) return;
    __syncwarp();
    if (lane == 0) add_release(job.ready + 1 + note.w, 1);
}

/* Some strips of a task: the stages from `at` on. */
template <class S, class F, bool GATED>
__device__ static inline void stream_multiply_strips(const struct moe_stream_job &job,
                                                     const uint4 &note, uint32_t ring,
                                                     struct ring_place &at)
{
    float acc[F::strips][F::nb][4] = {};
    int lane = threadIdx.x % 32;
    for (int left = (int)job.p[GATED ? 0 : 1].tiles_k; left > 0; left -= F::tiles) {
        uint32_t full = ring + S::barriers + at.slot * STREAM_BARRIERS;
        barrier_wait(full, at.phase);
        stream_multiply<F>(acc, (int32_t)note.y, min(F::tiles, left), ring + at.slot * S::stage);
        __syncwarp();
        if (lane == 0 || job.every_lane) barrier_arrive(full + 8);
        place_next<S::stages>(at);
    }
    stream_store<F, GATED>(job, note, acc);
}

template <class S>
__device__ static inline void stream_multiply_all(const struct moe_stream_job &job, uint32_t ring)
{
    struct ring_place at = {0, 0};
    while (true) {
        barrier_wait(ring + S::barriers + at.slot * STREAM_BARRIERS, at.phase);
        const uint4 note = load_16(ring + S::notes + at.slot * 16);
        if (note.y == 0) return;
        if (note.z % 2)
            stream_multiply_strips<S, typename S::w2, false>(job, note, ring, at);
        else
            stream_multiply_strips<S, typename S::w13, true>(job, note, ring, at);
    }
}

#endif

template <class S>
__global__ static void __launch_bounds__(STREAM_THREADS, S::blocks)
    moe_stream(const __grid_constant__ struct moe_stream_job job)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    extern __shared__ __align__(128) char memory[];
    uint32_t ring = smem_of(memory);
    if (threadIdx.x == 0) {
        for (int s = 0; s < S::stages; s++) {
            uint32_t full = ring + S::barriers + s * STREAM_BARRIERS;
            barrier_init(full, 32 + 1); /* lanes, bulk copy */
            barrier_init(full + 8, job.every_lane ? 32 * STREAM_WARPS : STREAM_WARPS);
        }
        barrier_publish();
    }
    __syncthreads();
    bool later = job.phase == STREAM_DOWN || job.planned;
    if (!later) wait_for_launch_before();
    let_next_launch(); /* w2, which looks at the plan before it waits */
    if (threadIdx.x / 32 == STREAM_WARPS)
        stream_load_all<S>(job, ring);
    else
        stream_multiply_all<S>(job, ring);
    if (later) wait_for_launch_before();
#endif
}

/* ---- launch ---- */

/* The kernels. */
struct stream_row {
    int32_t cap;               /* most rows of a tile */
    enum moe_strips_by strips; /* that a warp works on at once */
    const char *tactic;
    int shared, strips_of[2]; /* of w13, of w2 */
    void (*kernel)(const struct moe_stream_job);
};

template <class S> static struct stream_row row_of(enum moe_strips_by strips, const char *tactic)
{
    return {8 * S::w13::nb, strips, tactic, S::shared, {S::w13::strips, S::w2::strips},
            moe_stream<S>};
}

using one8 = stream_form<1, 1, 8>;
using two8 = stream_form<1, 2, 4>;
using two16 = stream_form<2, 2, 4>;
using one32 = stream_form<4, 1, 2>;

/* A build without code for this card may run its code for an older one, where the kernel is empty:
 * it then needs next to no registers. */
bool moe_has_stream(const struct gpu *g)
{
    static int has = -1;
    cudaFuncAttributes a = {};
    if (has < 0)
        has = g->major >= 9 &&
              cudaFuncGetAttributes(&a, (const void *)moe_stream<stream_shape<one8, one8, 2, 4>>) ==
                  cudaSuccess &&
              a.numRegs > 32;
    return has != 0;
}

/* Lets the kernel use its shared memory; *blocks: that run at once. */
static enum err_code prepare(struct gpu *g, const struct stream_row *row, int *blocks,
                             struct err *err)
{
    if (gpu_shared(g, (const void *)row->kernel, "moe_stream", (size_t)row->shared, err) != ERR_OK)
        return err->code;
    (void)!gpu_call(g,
                    cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                        blocks, row->kernel, STREAM_THREADS, (size_t)row->shared),
                    "count the blocks of a multiprocessor", err);
    *blocks *= g->sms;
    return err->code;
}

enum err_code moe_products_stream(struct gpu *g, const struct moe_stream_job *job,
                                  const struct moe_variant *how, struct err *err)
{
    static const struct stream_row rows[] = {
        row_of<stream_shape<one8, one8, 2, 4>>(MOE_ONE, "64 rows x 8 tokens, 2 stages of 512"),
        row_of<stream_shape<one8, two8, 2, 4>>(MOE_ONE_TWO,
                                               "64, 128 rows x 8 tokens, 2 stages of 512, 256"),
        row_of<stream_shape<two8, two8, 2, 4>>(MOE_TWO, "128 rows x 8 tokens, 2 stages of 256"),
        row_of<stream_shape<two16, two16, 2, 4>>(MOE_TWO, "128 rows x 16 tokens, 2 stages of 256"),
        row_of<stream_shape<one32, one32, 4, 4>>(MOE_ONE, "64 rows x 32 tokens, 4 stages of 128")};
    const struct stream_row *row = &rows[0];
    struct moe_stream_job part = *job;
    int blocks = 0;
    while (row->cap != how->cap || row->strips != how->strips) row++;
    if (prepare(g, row, &blocks, err) != ERR_OK) return err->code;
    for (int i = 0; i < 2; i++) part.run[i] = (int32_t)moe_pad(part.run[i], row->strips_of[i]);
    dim3 grid((unsigned)blocks), block(STREAM_THREADS);
    if (!how->apart)
        return gpu_launch_early(g, err, "moe_stream", row->tactic, grid, block, (size_t)row->shared,
                                row->kernel, part);
    part.phase = STREAM_GATED;
    if (gpu_launch_early(g, err, "moe_stream_w13", row->tactic, grid, block, (size_t)row->shared,
                         row->kernel, part) != ERR_OK)
        return err->code;
    part.phase = STREAM_DOWN;
    return gpu_launch_early(g, err, "moe_stream_w2", row->tactic, grid, block, (size_t)row->shared,
                            row->kernel, part);
}
