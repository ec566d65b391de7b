/* linear_few.cu: y = x W^T for few rows, bound by reading W once, of several matrices of the same x
 * in one launch. See linear.cuh.
 *
 * A block makes 8 outputs for all tokens, by tensor cores: tokens are the rows of a product,
 * outputs its columns. Its warps share the columns of W, pairs of 32 in turns. Lane (g, t) = (lane
 * / 4, lane % 4) reads 16 bytes, columns 8t..8t+7 of the 32, of row g of W and of token g. One
 * m16n8k16 product wants four values a row from it (its columns 2t, 2t+1, 2t+8, 2t+9), so the eight
 * feed two: which column stands where does not matter, as long as W and x agree. The warps' sums
 * are added in ascending order: the bits depend on `in` alone, not on the card, nor on what is
 * launched beside.
 *
 * What bounds it is bytes under way. A thread keeps AHEAD loads of 16 bytes of W on their way and
 * issues the next behind each product; the first of them it issues before the launch before has
 * ended, for W was there all along. x, which that launch makes, comes after it to shared memory:
 * whole, by the copy engine, where it is short; else each warp's own columns. Loads of a
 * multiprocessor return in the order of their issue, so other copies of x would wait for all of W
 * that is under way. The next launch may begin when this one has waited: what it then finds
 * complete, moe_stream.cu relies on.
 *
 * Measured on an H200 at one row, beside a block of 16 outputs that loads x with W: 28 to 29 us
 * instead of 33 for the shared expert (88 MB), 10.2 for 10.5 for q_a and kv_a (30 MB), 37 either
 * way for o_proj (117 MB). Bare loads in this order take 21, 7.5 and 27 of constant bytes. Slower
 * were: more of W fetched into the far cache before the wait; 16 warps; loads that the compiler may
 * not move. */
#include "core/check.h"
#include "gpu/launch.cuh"
#include "gpu/linear_few.cuh"
#include "gpu/mma.cuh"
#include "gpu/moe_barrier.cuh"

enum {
    AHEAD = 6,     /* even: a warp's steps come in pairs, 128 bytes of a row */
    AHEAD_ALL = 8, /* where x lies there whole, which takes fewer registers */
    ROOM = 64,     /* of a warp in shared memory: steps times tokens */
    THREADS = 1024 /* of a multiprocessor, at 64 registers each */
};

static_assert(AHEAD % 2 == 0 && ROOM / LINEAR_FEW >= AHEAD, "room for what is multiplied at once");

/* Steps of a warp, whole pairs; the last may reach past `in`. */
template <int WARPS> __host__ __device__ static constexpr int steps_of(int in)
{
    return (in + 2 * STEP * WARPS - 1) / (2 * STEP * WARPS) * 2;
}

/* Where a warp's step i begins, from its step 0 on. */
template <int WARPS> __device__ static constexpr int column_of(int i)
{
    return i / 2 * WARPS * 2 * STEP + i % 2 * STEP;
}

/* The tokens' columns of steps [first, first + n) of this warp, which begin at `column` for step 0:
 * [step][token][32 columns]. */
template <int WARPS>
__device__ static inline void load_tokens(const struct few &p, int column, int first, int n,
                                          uint32_t rows)
{
    int lane = (int)threadIdx.x % 32, pieces = n * p.T * 4;
    __syncwarp();
    for (int i = lane; i < pieces; i += 32) {
        int step = i / (4 * p.T), token = i / 4 - step * p.T;
        int c = column + column_of<WARPS>(first + step) + i % 4 * 8;
        copy16(rows + i * 16, p.x + (c < p.in ? (int64_t)token * p.in + c : 0), c < p.in);
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncwarp();
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

/* All of x by the copy engine, whose copies do not queue behind the loads of W as others do:
 * [token][in], PAD apart. By one thread; `full` has one round for all. */
__device__ static inline void copy_tokens(const struct few &p, uint32_t rows, uint32_t full)
{
    uint32_t bytes = (uint32_t)p.in * (uint32_t)sizeof(bf16);
    asm volatile("fence.proxy.async;" ::: "memory"); /* x was stored by ordinary stores */
    barrier_expect(full, bytes * (uint32_t)p.T);
    for (int i = 0; i < p.T; i++)
        bulk_copy(rows + i * (bytes + PAD), p.x + (int64_t)i * p.in, bytes, full);
}

#endif

/* Begins it, and waits for it. All threads, once. */
__device__ static inline void load_whole(const struct few &p, uint32_t rows)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    __shared__ uint64_t barrier;
    uint32_t full = smem_of(&barrier);
    if (threadIdx.x == 0) {
        barrier_init(full, 1);
        barrier_publish();
    }
    __syncthreads();
    wait_for_launch_before();
    let_next_launch();
    if (threadIdx.x == 0) copy_tokens(p, rows, full);
    barrier_wait(full, 0);
#endif
}

/* The sum of one warp's columns of a row, NULL: of zeros. ALL: x lies in shared memory whole. */
template <int WARPS, bool ALL, int N>
__device__ static inline void warp_sum(const struct few &p, const bf16 *row, uint32_t rows,
                                       float (&sum)[4])
{
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
    int steps = steps_of<WARPS>(p.in), c = warp * 2 * STEP + 8 * t;
    const int end = row ? p.in : 0, x_end = g < p.T ? p.in : 0;
    const bf16 *at = row + c;
    uint32_t mine = 0;
    uint4 w[N];
#pragma unroll
    for (int u = 0; u < N; u++) {
        const int next = column_of<WARPS>(u);
        w[u] = load_once_or_zero(at + next, c + next < end);
    }
    if (ALL) {
        load_whole(p, rows);
        mine = rows + g * (p.in * (int)sizeof(bf16) + PAD) + c * (int)sizeof(bf16);
    } else {
        wait_for_launch_before();
        let_next_launch();
    }
    for (int i = 0; i < steps; i += N) {
        if (!ALL && i % p.room == 0) {
            load_tokens<WARPS>(p, warp * 2 * STEP, i, min(p.room, steps - i), rows);
            mine = rows + g * 64 + t * 16;
        }
#pragma unroll
        for (int u = 0; u < N; u++) {
            const int here = column_of<WARPS>(u), next = column_of<WARPS>(N + u);
            const int apart = ALL ? here * (int)sizeof(bf16) : u * p.T * 64;
            uint4 x = load_shared_or_zero(mine + apart, c + here < x_end);
            mma_k16(sum, x.x, 0, x.y, 0, w[u].x, w[u].y); /* no tokens in rows above 7 */
            mma_k16(sum, x.z, 0, x.w, 0, w[u].z, w[u].w);
            w[u] = load_once_or_zero(at + next, c + next < end);
        }
        at += column_of<WARPS>(N);
        c += column_of<WARPS>(N);
        mine += ALL ? column_of<WARPS>(N) * (int)sizeof(bf16) : N * p.T * 64;
    }
}

/* Which part this block is of, and its number there. Read anew where it is needed: in between the
 * registers are for loads. */
__device__ static inline int find_part(const struct few &p, int64_t *block)
{
    uint32_t number;
    int i = 0;
    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(number));
    while (number >= p.part[i].end) i++;
    *block = number - (i ? p.part[i - 1].end : 0);
    return i;
}

template <int WARPS, bool ALL>
__global__ static void __launch_bounds__(WARPS * 32, THREADS / (WARPS * 32))
    few_kernel(const __grid_constant__ struct few p)
{
    extern __shared__ __align__(16) uint4 tokens[];
    __shared__ float sums[WARPS][LINEAR_FEW][ROWS];
    int warp = (int)threadIdx.x / 32, g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
    int64_t block;
    float sum[4] = {};
    int i = find_part(p, &block);
    uint32_t rows = smem_of(tokens);
    if (!ALL) rows += warp * min(p.room, steps_of<WARPS>(p.in)) * p.T * 64;
    warp_sum<WARPS, ALL, ALL ? AHEAD_ALL : AHEAD>(p, row_of(p.part[i], p.in, block, g), rows, sum);
    sums[warp][g][2 * t] = sum[0];
    sums[warp][g][2 * t + 1] = sum[1];
    __syncthreads();
    int64_t unit;
    i = find_part(p, &unit);
    give<WARPS>(p, p.part[i], unit, (int)threadIdx.x, sums);
}

template <int WARPS>
static enum err_code launch(struct gpu *g, const struct few *p, unsigned blocks,
                            const struct linear_variant *v, struct err *err)
{
    int steps = steps_of<WARPS>(p->in), room = steps < p->room ? steps : p->room;
    size_t part = (size_t)(WARPS * room * p->T) * STEP * sizeof(bf16);
    if (v->whole)
        return gpu_launch_early(g, err, "linear_few", v->name, dim3(blocks), dim3(WARPS * 32),
                                (size_t)linear_whole_bytes(p->T, p->in), few_kernel<WARPS, true>,
                                *p);
    return gpu_launch_early(g, err, "linear_few", v->name, dim3(blocks), dim3(WARPS * 32), part,
                            few_kernel<WARPS, false>, *p);
}

enum err_code linear_few(struct gpu *g, int64_t T, const bf16 *x,
                         const struct gpu_product *products, int n, struct err *err)
{
    struct few p = {};
    unsigned blocks = 0;
    p.in = (int)products->w->in;
    p.x = x;
    p.T = (int)T;
    p.room = ROOM / (int)T / AHEAD * AHEAD;
    for (int i = 0; i < n; i++) {
        const struct gpu_product *from = &products[i];
        struct few_part *to = &p.part[i];
        to->w = (const bf16 *)from->w->data.data;
        to->up = from->up ? (const bf16 *)from->up->data.data : NULL;
        to->y = from->y;
        to->out = from->w->out;
        to->wide = from->type == DT_F32;
        to->end = blocks += (unsigned)ceil_div(to->out, to->up ? ROWS / 2 : ROWS);
    }
    const struct linear_variant *v = linear_few_variant(g, T, x, products->w, blocks);
    CHECK(v);
    if (v->ring) return linear_ring(g, &p, (int)blocks, v, err);
    return v->warps == 8 ? launch<8>(g, &p, blocks, v, err) : launch<4>(g, &p, blocks, v, err);
}
