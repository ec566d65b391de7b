/* linear_ring.cu: linear_few.cu's products, with its bits, by blocks that stay: one a
 * multiprocessor, whose ring in shared memory the copy engine keeps full of W from output to
 * output. Compute capability 9.0 and newer. See linear.cuh.
 *
 * A unit is 8 rows of W for all tokens; a block has every so many-th. One warp copies: a stage is
 * some columns of the unit's rows, a bulk copy a row. Eight warps multiply, each its 64 columns of
 * every 512, in linear_few.cu's order. x lies in shared memory whole. The first stages are copied
 * before the launch before has ended.
 *
 * No two blocks fit a multiprocessor. Those that begin early, where others have ended, would crowd
 * on a few of them: linear_few.cu's take 42 us for o_proj of Kimi-K2.5 (117 MB) in a layer at one
 * row, and 34 where all begin at once; these take 31 and 31.
 *
 * Measured on an H200, us for 1 and 8 rows of x, linear_few.cu's beside them: q_a and kv_a 11.2
 * (11.0), 12.4 (14.6); gate, up and router 19.4 (23.1), 20.8 (32.4); down 10.8 (10.8), 11.3 (20.3);
 * o_proj 31.0 (34.4), 32.4 (49.8); q_b 13.7 (14.4), 13.9 (26.8). Without multiplying o_proj takes
 * 30.4 instead of 32.6: it is the copies. Slower were: copies of 1 KB (50 us for o_proj); rings of
 * 40 and 60 KB (40 and 34); two groups of warps with a unit and a ring each (35); more of W fetched
 * into the far cache before the wait, by this launch (a layer 4 us more) or during the attention
 * before it (2 more). */
#include "gpu/linear_few.cuh"
#include "gpu/mma.cuh"
#include "gpu/moe_barrier.cuh"

enum {
    RING_WARPS = 8, /* that multiply */
    RING_THREADS = 32 * (RING_WARPS + 1),
    CHUNK = LINEAR_RING_CHUNK /* a pair of steps of every warp */
};

struct ring_job {
    struct few f;
    int units, per_unit;             /* stages of a unit */
    int columns, row, stage, stages; /* of a stage; bytes of its rows, its own; of a ring */
    bool every_lane;
};

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

struct ring_barriers {
    uint64_t full[LINEAR_RING_STAGES], empty[LINEAR_RING_STAGES], x;
};

__device__ static inline int part_of(const struct few &p, int unit, int *block)
{
    int i = 0;
    while ((unsigned)unit >= p.part[i].end) i++;
    *block = unit - (i ? (int)p.part[i - 1].end : 0);
    return i;
}

__device__ static inline void next_place(const struct ring_job &j, struct ring_place &p)
{
    if (++p.slot < j.stages) return;
    p.slot = 0;
    p.phase ^= 1;
}

/* ---- copying ---- */

/* Where the warp that copies stands: stage `k` of unit `unit`; lane r < 8 has row r. */
struct ring_feed {
    int unit, k;
    const bf16 *row;
    struct ring_place put;
};

__device__ static inline void feed_unit(const struct ring_job &j, struct ring_feed &f)
{
    int block, lane = (int)threadIdx.x % 32;
    f.k = 0;
    if (f.unit >= j.units) return;
    int i = part_of(j.f, f.unit, &block);
    f.row = lane < ROWS ? row_of(j.f.part[i], j.f.in, block, lane) : NULL;
}

__device__ static inline void feed_stage(const struct ring_job &j, struct ring_feed &f,
                                         struct ring_barriers *b, uint32_t ring)
{
    int lane = (int)threadIdx.x % 32, c = f.k * j.columns;
    uint32_t bytes = (uint32_t)(min(j.columns, j.f.in - c) * (int)sizeof(bf16));
    uint32_t rows = (uint32_t)__popc(__ballot_sync(~0u, f.row != NULL));
    uint32_t full = smem_of(&b->full[f.put.slot]);
    barrier_wait(smem_of(&b->empty[f.put.slot]), f.put.phase);
    if (lane == 0) barrier_expect(full, rows * bytes);
    __syncwarp();
    if (f.row) bulk_copy(ring + f.put.slot * j.stage + lane * j.row, f.row + c, bytes, full);
    next_place(j, f.put);
    if (++f.k < j.per_unit) return;
    f.unit += (int)gridDim.x;
    feed_unit(j, f);
}

__device__ static inline void copy_x(const struct ring_job &j, struct ring_barriers *b, uint32_t x)
{
    uint32_t bytes = (uint32_t)j.f.in * (uint32_t)sizeof(bf16), full = smem_of(&b->x);
    asm volatile("fence.proxy.async;" ::: "memory"); /* x was stored by ordinary stores */
    barrier_expect(full, bytes * (uint32_t)j.f.T);
    for (int i = 0; i < j.f.T; i++)
        bulk_copy(x + i * (bytes + PAD), j.f.x + (int64_t)i * j.f.in, bytes, full);
}

__device__ static inline void feed_all(const struct ring_job &j, struct ring_barriers *b,
                                       uint32_t ring)
{
    struct ring_feed f = {(int)blockIdx.x, 0, NULL, {0, 1}};
    int mine = (j.units - (int)blockIdx.x + (int)gridDim.x - 1) / (int)gridDim.x;
    int left = mine * j.per_unit, first = min(left, j.stages);
    feed_unit(j, f);
    for (int i = 0; i < first; i++) feed_stage(j, f, b, ring);
    wait_for_launch_before();
    let_next_launch();
    if (threadIdx.x % 32 == 0) copy_x(j, b, ring + j.stages * j.stage);
    for (left -= first; left > 0; left--) feed_stage(j, f, b, ring);
}

/* ---- multiplying ---- */

/* A warp's columns of N chunks. WHOLE: none is past the last. */
template <int N, bool WHOLE>
__device__ static inline void multiply_chunks(const struct ring_job &j, uint32_t w, uint32_t x,
                                              bool has_x, int c, float (&sum)[4])
{
    uint4 a[2 * N], v[2 * N];
#pragma unroll
    for (int u = 0; u < 2 * N; u++) {
        const int here = u / 2 * CHUNK + u % 2 * STEP, at = here * (int)sizeof(bf16);
        bool in = WHOLE || c + here < j.f.in;
        v[u] = load_shared_or_zero(x + at, in && has_x);
        a[u] = load_shared_or_zero(w + at, in);
    }
#pragma unroll
    for (int u = 0; u < 2 * N; u++) {
        mma_k16(sum, v[u].x, 0, v[u].y, 0, a[u].x, a[u].y); /* no tokens in rows above 7 */
        mma_k16(sum, v[u].z, 0, v[u].w, 0, a[u].z, a[u].w);
    }
}

/* And of a stage's, whose first is column c. */
__device__ static inline void multiply_stage(const struct ring_job &j, uint32_t w, uint32_t x,
                                             int c, float (&sum)[4])
{
    const int chunk = CHUNK * (int)sizeof(bf16);
    bool has_x = (int)threadIdx.x % 32 / 4 < j.f.T;
    int n = min(j.columns, j.f.in - c), i = 0;
    c += (int)threadIdx.x / 32 * 2 * STEP + (int)threadIdx.x % 4 * 8;
    for (; i + 2 * CHUNK <= n; i += 2 * CHUNK, w += 2 * chunk, x += 2 * chunk)
        multiply_chunks<2, true>(j, w, x, has_x, c + i, sum);
    for (; i < n; i += CHUNK, w += chunk, x += chunk)
        multiply_chunks<1, false>(j, w, x, has_x, c + i, sum);
}

/* Those that multiply. */
__device__ static inline void meet_warps(void)
{
    asm volatile("bar.sync 1, %0;" ::"n"(32 * RING_WARPS) : "memory");
}

__device__ static inline void multiply_all(const struct ring_job &j, struct ring_barriers *b,
                                           uint32_t ring,
                                           float (*sums)[RING_WARPS][LINEAR_FEW][ROWS])
{
    int thread = (int)threadIdx.x, warp = thread / 32, lane = thread % 32;
    int g = lane / 4, t = lane % 4, turn = 0;
    uint32_t column = (uint32_t)(warp * 2 * STEP + 8 * t) * (uint32_t)sizeof(bf16);
    uint32_t x = ring + j.stages * j.stage + g * (j.f.in * (int)sizeof(bf16) + PAD) + column;
    uint32_t w = ring + g * j.row + column;
    struct ring_place at = {0, 0};
    barrier_wait(smem_of(&b->x), 0);
    for (int unit = (int)blockIdx.x; unit < j.units; unit += (int)gridDim.x, turn ^= 1) {
        float sum[4] = {};
        for (int k = 0; k < j.per_unit; k++) {
            int first = k * j.columns;
            barrier_wait(smem_of(&b->full[at.slot]), at.phase);
            multiply_stage(j, w + at.slot * j.stage, x + first * (int)sizeof(bf16), first, sum);
            __syncwarp();
            if (lane == 0 || j.every_lane) barrier_arrive(smem_of(&b->empty[at.slot]));
            next_place(j, at);
        }
        sums[turn][warp][g][2 * t] = sum[0];
        sums[turn][warp][g][2 * t + 1] = sum[1];
        meet_warps(); /* who gives has done so before the next time, two turns before these again */
        int block, i = part_of(j.f, unit, &block);
        give<RING_WARPS>(j.f, j.f.part[i], block, thread, sums[turn]);
    }
}

#endif

__global__ static void __launch_bounds__(RING_THREADS, 1)
    ring_kernel(const __grid_constant__ struct ring_job j)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    extern __shared__ __align__(128) char memory[];
    __shared__ struct ring_barriers b;
    __shared__ float sums[2][RING_WARPS][LINEAR_FEW][ROWS];
    static_assert(sizeof b + sizeof sums <= LINEAR_RING_BESIDE, "room beside the ring");
    uint32_t ring = smem_of(memory);
    if (threadIdx.x == 0) {
        for (int i = 0; i < j.stages; i++) {
            barrier_init(smem_of(&b.full[i]), 1);
            barrier_init(smem_of(&b.empty[i]), j.every_lane ? 32 * RING_WARPS : RING_WARPS);
        }
        barrier_init(smem_of(&b.x), 1);
        barrier_publish();
    }
    __syncthreads();
    if (threadIdx.x / 32 == RING_WARPS)
        feed_all(j, &b, ring);
    else
        multiply_all(j, &b, ring, sums);
#endif
}

enum err_code linear_ring(struct gpu *g, const struct few *f, int units,
                          const struct linear_variant *v, struct err *err)
{
    const struct linear_ring r = linear_ring_of(f->T, f->in, (int64_t)g->shared_max);
    struct ring_job j = {};
    j.f = *f;
    j.units = units;
    j.per_unit = (int)ceil_div(f->in, r.columns);
    j.columns = (int)r.columns;
    j.row = (int)r.row;
    j.stage = (int)r.stage;
    j.stages = (int)r.stages;
    j.every_lane = g->every_lane;
    if (gpu_shared(g, (const void *)ring_kernel, "linear_ring", (size_t)r.bytes, err) != ERR_OK)
        return err->code;
    unsigned blocks = (unsigned)(units < g->sms ? units : g->sms);
    return gpu_launch_early(g, err, "linear_ring", v->name, dim3(blocks), dim3(RING_THREADS),
                            (size_t)r.bytes, ring_kernel, j);
}
