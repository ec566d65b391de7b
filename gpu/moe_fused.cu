/* moe_fused.cu: op moe of packed experts for a few tokens, all of it in one launch; compute
 * capability 9.0 and newer. See moe_parts.cuh and moe_pack.h.
 *
 * For a token of a shard the other kernels leave half of the card idle (64 strips of w13, each a
 * chain through all of k in one block) and pay for three launches more. Here a unit is 16 rows of a
 * matrix, one block a multiprocessor takes its part of all units, and its 16 warps cut k: a warp
 * multiplies a chunk of 256 columns, which it has asked for itself (FUSED_STAGES under way, without
 * a barrier), and leaves its sums in shared memory; they are added in ascending k. So w13's units
 * become activations; then the block takes its units of w2, of every chosen expert, rounds each
 * expert's sums and adds them up with their weights: nothing is left to do.
 *
 * Between the two every block needs what all have made. Activations go through global memory, two
 * in a word with the number of the launch, and who needs one looks until the number is there: one
 * way through the cache instead of the three of a counter (stores, count, loads). All blocks must
 * run at the same time for that: one a multiprocessor. Weights of w2 are on their way meanwhile.
 * The number is that of the launches of this kernel so far (mod 2^32: days of them), which the
 * first block advances when every block has read it. No plan is needed: a warp lists the experts.
 *
 * A row's bits do not depend on the other rows, T or the routing of others; they are not those of
 * the other kernels, which add k in one chain.
 *
 * `planned`: as in moe_stream.cu; ids and weights are then as old as the plan, and no launch of
 * this kernel before has anything left to do.
 *
 * On an H200, of a shard of 256 columns at hidden 7168, eight experts of 384 a token (25 MB of
 * weights a token), where moe_stream.cu with alignment and sum takes the time in brackets: one
 * token 13.6 us (27.6), two 23.8 (32.9), three 35.7 (40.5), four 45.2 (44.2); of all 2048 columns
 * 75 (58): there it is instructions that count, and this has more of them for each weight. A decode
 * step of 61 such layers at one row: 4.39 ms (5.31).
 * Of the 13.6 us 1.7 pass until the first weights are asked for, 5.9 until w13's have come, 1 to
 * make activations of the sums, 1 for the slowest block, 1.8 with the products of w2. What was
 * tried: tasks found one by one instead of 32 at a time by the lanes 15.4 us, and 17.9 with all of
 * it unrolled, 5000 instructions that every block fetches; sums added load by load 14.4. No gain
 * came of five chunks under way, of weights of w2 held back until w13's have come (14.7 to 15.9),
 * of warps that fetch activations each for its own task, w13's units dealt so that the first
 * experts are done early (14.7), of pauses between looks, of a dry run that fetches the
 * instructions of the adding while weights come (14.1). Reading quarters of tiles as cp.async costs
 * 2 % against whole ones by the copy engine: 200 MB in 48.7 us instead of 47.9. */
#include "gpu/moe_fused.cuh"

#include "core/check.h"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

/* ---- multiplying ---- */

/* One tile: 64 columns, four k16 steps; even and odd ones have a sum each. */
__device__ static inline void multiply_tile(float (&acc)[2][4], const uint4 &words,
                                            const uint2 &pairs, const uint4 &low, const uint4 &high)
{
#pragma unroll
    for (int j = 0; j < 4; j++) {
        uint32_t a[4];
        struct moe_scales scale = scales_of(j / 2 ? pairs.y : pairs.x);
        weigh_word(j == 0 ? words.x : j == 1 ? words.y : j == 2 ? words.z : words.w, scale, a);
        mma_k16(acc[j % 2], a,
                j == 0   ? low.x
                : j == 1 ? low.z
                : j == 2 ? high.x
                         : high.z,
                j == 0   ? low.y
                : j == 1 ? low.w
                : j == 2 ? high.y
                         : high.w);
    }
}

/* A task's sums: [token][row]. */
__device__ static inline void store_sums(int32_t T, const float (&acc)[2][4], float *to)
{
    int lane = threadIdx.x % 32, token = lane % 4 * 2, row = lane / 4;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if (token + i % 2 < T)
            to[(token + i % 2) * FUSED_ROWS + row + i / 2 * 8] = acc[0][i] + acc[1][i];
    }
}

/* rows: of x, or of the activations. Lanes of tokens that there are not, or that did not choose the
 * expert, multiply another row: nobody reads those columns. Tiles past the last are zeros. */
__device__ static inline void multiply_task(const struct fused_job &job,
                                            const struct fused_lists &l, uint32_t note,
                                            uint32_t chunk, uint32_t rows, float *sums)
{
    int lane = threadIdx.x % 32, token = lane / 4;
    uint32_t tiles = note % NOTE_LAST, phase = note / NOTE_PHASE % 2;
    int32_t row = token < job.size.T ? token : 0;
    float acc[2][4] = {};
    if (tiles == 0) return;
    if (phase) row = max(0, l.pair[note >> 5 & 31][row]);
    uint32_t codes = chunk + lane * 16, scales = chunk + FUSED_TILES * 512 + lane / 4 * 8;
    uint32_t x =
        rows + row * job.m[phase].row_bytes + (note >> 20) * (MOE_TILE_K * 2) + lane % 4 * 32;
    const uint32_t zeros = smem_of(l.zeros);
#pragma unroll
    for (uint32_t i = 0; i < FUSED_TILES; i++) {
        uint32_t at = i < tiles ? x + i * (MOE_TILE_K * 2) : zeros;
        multiply_tile(acc, load_16(codes + i * 512), load_8(scales + i * 64), load_16(at),
                      load_16(at + 16));
    }
    store_sums(job.size.T, acc, sums + (note >> 10 & 255) * (job.size.T * FUSED_ROWS));
}

/* ---- w13's results ---- */

/* The sums of n tasks, `step` apart, of a gate row and of the up row of its number: every fourth
 * has a sum of its own. All loads of a turn are under way before the first is used. */
__device__ static inline float2 add_tasks(const float *from, int32_t n, int32_t step)
{
    enum { AT_ONCE = 8, SUMS = 4 };
    float gate[SUMS] = {}, up[SUMS] = {};
#pragma unroll 1
    for (int32_t k = 0; k < n; k += AT_ONCE, from += AT_ONCE * step) {
        float g[AT_ONCE], u[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            g[i] = k + i < n ? from[i * step] : 0.0f;
            u[i] = k + i < n ? from[i * step + 8] : 0.0f;
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            gate[i % SUMS] += g[i];
            up[i % SUMS] += u[i];
        }
    }
    return {(gate[0] + gate[1]) + (gate[2] + gate[3]), (up[0] + up[1]) + (up[2] + up[3])};
}

/* Of a batch, 8 columns of activations a unit and a warp. */
__device__ static inline void give_act(const struct fused_job &job, const struct fused_lists &l,
                                       uint32_t unit, uint32_t end, const float *sums)
{
    int lane = threadIdx.x % 32, token = lane / 8, row = lane % 8;
    int32_t step = job.size.T * FUSED_ROWS, tasks = (int32_t)job.m[0].chunks.n;
    uint32_t at = unit + threadIdx.x / 32;
    if (at >= end) return;
    const float *from = sums + (at - unit) * tasks * step + token * FUSED_ROWS + row;
    uint32_t e = divided(at, job.m[0].blocks), column = (at - e * job.m[0].blocks.n) * 8 + row;
    float v = 0;
    if (token < job.size.T && column < (uint32_t)job.size.I) {
        float2 sum = add_tasks(from, tasks, step);
        v = swiglu_value(unweigh(sum.x), unweigh(sum.y));
    }
    float next = __shfl_down_sync(~0u, v, 1);
    int32_t pair = token < job.size.T ? l.pair[e][token] : -1;
    if (row % 2 || pair < 0) return;
    post_word((pair * job.m[0].blocks.n * 8 + column) / 2, l.launch,
              bits_of(__floats2bfloat162_rn(v, next)));
}

/* All activations to shared memory, each as soon as it is there. */
__device__ static inline void gather_act(const struct fused_job &job, const struct fused_lists &l,
                                         char *rows)
{
    enum { AT_ONCE = 2 };
    uint32_t pieces = job.pieces.n;
#pragma unroll 1
    for (uint32_t first = threadIdx.x; first < job.size.pairs * pieces;
         first += AT_ONCE * FUSED_THREADS) {
        ulonglong2 v[AT_ONCE];
        bool there[AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            uint32_t i = first + j * FUSED_THREADS, pair = divided(i, job.pieces);
            there[j] = pair < (uint32_t)job.size.pairs && (l.pairs >> pair & 1);
            if (there[j]) v[j] = look_at_words(2 * i);
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            uint32_t i = first + j * FUSED_THREADS, pair = divided(i, job.pieces);
            if (!there[j]) continue;
            while ((uint32_t)(v[j].x >> 32) != l.launch || (uint32_t)(v[j].y >> 32) != l.launch) {
                v[j] = look_at_words(2 * i);
            }
            uint32_t *to = (uint32_t *)(rows + pair * job.m[1].row_bytes) +
                           fused_word_at((i - pair * pieces) * 2);
            to[0] = (uint32_t)v[j].x;
            to[8] = (uint32_t)v[j].y;
        }
    }
}

/* ---- w2's results ---- */

/* As in moe_combine.cu. */
__device__ static inline void give_result(const struct fused_job &job, int64_t at, float sum)
{
    if (job.partial) {
        job.partial[at] = sum * job.sum_scale;
        return;
    }
    bf16 routed = __float2bfloat16_rn(sum * job.sum_scale), y = routed;
    if (job.shared)
        y = __float2bfloat16_rn(__bfloat162float(routed) + __bfloat162float(job.shared[at]));
    if (job.routed) job.routed[at] = routed;
    job.y[at] = y;
}

/* Of a batch: a thread a result, its experts in ascending id. */
__device__ static inline void give_sums(const struct fused_job &job, const struct fused_lists &l,
                                        uint32_t unit, uint32_t end, uint32_t thread,
                                        const float *sums)
{
    enum { AT_ONCE = 4 };
    int32_t step = job.size.T * FUSED_ROWS, chunks = (int32_t)job.m[1].chunks.n;
#pragma unroll 1
    for (uint32_t i = thread; i < (end - unit) * step; i += FUSED_THREADS) {
        uint32_t token = i / FUSED_ROWS, at = 0;
        while (token >= (uint32_t)job.size.T) token -= job.size.T, at++;
        uint32_t h = (unit + at) * FUSED_ROWS + i % FUSED_ROWS;
        const float *from =
            sums + (at * l.experts * chunks * job.size.T + token) * FUSED_ROWS + i % FUSED_ROWS;
        float sum = 0;
        if (h >= (uint32_t)job.size.H) continue;
#pragma unroll 1
        for (uint32_t e = 0; e < l.experts; e += AT_ONCE) {
            float v[AT_ONCE] = {};
#pragma unroll 1
            for (int32_t k = 0; k < chunks; k++, from += step) {
#pragma unroll
                for (int x = 0; x < AT_ONCE; x++)
                    v[x] += e + x < l.experts ? from[x * chunks * step] : 0.0f;
            }
            from += (AT_ONCE - 1) * chunks * step;
#pragma unroll
            for (int x = 0; x < AT_ONCE; x++) {
                if (e + x < l.experts && l.pair[e + x][token] >= 0)
                    sum = fmaf(l.weight[e + x][token], round_bf16(unweigh(v[x])), sum);
            }
        }
        give_result(job, (int64_t)token * job.size.H + h, sum);
    }
}

/* The next launch has the next number, when all blocks have read this one's. */
__device__ static inline void end_launch(uint32_t launch)
{
    while (load_acquire(&fused_readers) != gridDim.x) {
    }
    fused_readers = 0;
    fused_launches = launch;
}

/* ---- all of it ---- */

/* What a batch's sums are for. */
__device__ static inline void end_batch(const struct fused_job &job, const struct fused_lists &l,
                                        uint32_t phase, uint32_t unit, uint32_t turn,
                                        const float *sums)
{
    uint32_t end = min(unit + l.phase[phase].batch.units.n, l.phase[phase].end);
    __syncthreads();
    if (phase == 0)
        give_act(job, l, unit, end, sums);
    else
        give_sums(job, l, unit, end, (threadIdx.x - turn % FUSED_WARPS * 32) % FUSED_THREADS, sums);
}

/* The steps of a block: one is multiplied when the FUSED_STAGES after it are under way. */
__device__ static inline void fused_all(const struct fused_job &job, const struct fused_lists &l,
                                        uint32_t ring, char *rows, float *sums)
{
    const uint32_t all = l.phase[0].all + l.phase[1].all, warp = threadIdx.x / 32;
    const uint32_t notes = ring + FUSED_RING;
    uint32_t phase = 0, unit = l.phase[0].unit, batches = 0, stage = 0;
    struct fused_task mine = {};
#pragma unroll 1
    for (uint32_t i = 0; i < all + FUSED_STAGES; i++) {
        uint32_t place = stage * FUSED_WARPS + warp, chunk = ring + place * FUSED_CHUNK;
        if (i >= FUSED_STAGES) {
            copy_wait<FUSED_STAGES - 1>();
            __syncwarp();
            uint32_t note = load_4(notes + place * 4);
            if (note / NOTE_PHASE % 2 != phase) {
                phase = 1;
                unit = l.phase[1].unit;
                if (job.planned) wait_for_launch_before();
                gather_act(job, l, rows);
                __syncthreads();
            }
            float *set = sums + batches % 2 * job.sums;
            multiply_task(job, l, note, chunk, smem_of(rows), set);
            if (note & NOTE_LAST) {
                end_batch(job, l, phase, unit, batches++, set);
                unit += l.phase[phase].batch.units.n;
            }
            __syncwarp();
        }
        if (i < all) {
            if (i % 32 == 0) mine = task_of(job, l, i + threadIdx.x % 32);
            load_chunk(mine, i % 32, chunk, notes + place * 4);
        }
        copy_commit();
        stage = stage + 1 == FUSED_STAGES ? 0 : stage + 1;
    }
}

#endif

__global__ static void __launch_bounds__(FUSED_THREADS, 1)
    moe_fused(const __grid_constant__ struct fused_job job)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    extern __shared__ __align__(128) char memory[];
    struct fused_lists &lists = *(struct fused_lists *)memory;
    char *ring = memory + FUSED_LISTS, *rows = ring + FUSED_RING + FUSED_NOTES;
    float *sums = (float *)(rows + job.rows);
    if (!job.planned) wait_for_launch_before();
    let_next_launch();
    if (threadIdx.x / 32 == 0)
        list_chosen(job, lists);
    else
        load_tokens(job, rows);
    if (threadIdx.x == FUSED_THREADS - 32) {
        lists.launch = load_acquire(&fused_launches) + 1;
        add_release(&fused_readers, 1);
    }
    __syncthreads();
    fused_all(job, lists, smem_of(ring), rows, sums);
    if (job.planned) wait_for_launch_before();
    if (blockIdx.x == 0 && threadIdx.x == 0) end_launch(lists.launch);
#endif
}

/* ---- launch ---- */

/* All blocks wait for each other, so they must run at the same time. */
static enum err_code prepare(struct gpu *g, int32_t shared, struct err *err)
{
    int blocks = 0;
    if (gpu_shared(g, (const void *)moe_fused, "moe_fused", (size_t)shared, err) != ERR_OK)
        return err->code;
    (void)!gpu_call(g,
                    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, moe_fused, FUSED_THREADS,
                                                                  (size_t)shared),
                    "count the blocks of a multiprocessor", err);
    if (err->code == ERR_OK && blocks < 1)
        return err_set(err, ERR_DEVICE, "run experts|op moe on gpu|no block of moe_fused fits|one");
    return err->code;
}

static struct fused_by by(int64_t n)
{
    return {(uint32_t)n, 0xffffffffu / (uint32_t)n + 1};
}

static struct fused_matrix matrix_of(const void *weights, size_t step, int64_t K, int64_t rows)
{
    return {(const char *)weights, (int64_t)step,       (int32_t)moe_tiles_k(K),
            fused_row_bytes(K),    by(fused_chunks(K)), by((rows + FUSED_ROWS - 1) / FUSED_ROWS)};
}

/* Units at a time as far as their sums have room and every warp has a unit's activations to make,
 * every thread a result. */
static struct fused_batch batch_of(struct fused_size size, int64_t tasks)
{
    int64_t units = fused_room(size) / tasks, most = FUSED_THREADS / (FUSED_ROWS * size.T);
    if (most > FUSED_WARPS) most = FUSED_WARPS;
    if (units > most) units = most;
    if (units < 1) units = 1;
    return {by(units), by(tasks), by(fused_steps((uint32_t)(units * tasks)))};
}

static struct fused_job job_of(const struct gpu *g, const struct gpu_moe *op)
{
    const struct gpu_experts *e = op->experts;
    struct fused_job job = {};
    job.m[0] = matrix_of(e->w13, e->w13_step, e->H, moe_w13_rows(e->I));
    job.m[1] = matrix_of(e->w2, e->w2_step, e->I, e->H);
    job.size = {(int32_t)op->T, (int32_t)(op->T * op->top_k), (int32_t)e->H, (int32_t)e->I};
    job.pieces = by(moe_pad(e->I, MOE_TILE_K) / 4);
    job.E = (int32_t)e->E;
    job.top_k = (int32_t)op->top_k;
    for (int32_t i = 0; i <= FUSED_PAIRS; i++)
        job.batch[i] = batch_of(job.size, i ? i * job.m[1].chunks.n : job.m[0].chunks.n);
    job.blocks = by(g->sms);
    job.sums = fused_sums(job.size);
    job.rows = fused_rows_bytes(job.size);
    job.x = op->x;
    job.ids = op->ids;
    job.weight = op->weights;
    job.wide = e->H % 8 == 0 && (uintptr_t)op->x % 16 == 0;
    job.planned = op->plan && op->plan->made;
    job.sum_scale = (float)op->sum_scale;
    job.shared = op->shared;
    job.routed = op->routed;
    job.y = op->y;
    job.partial = op->partial;
    return job;
}

enum err_code moe_fused_run(struct gpu *g, const struct gpu_moe *op, struct err *err)
{
    struct fused_job job = job_of(g, op);
    int32_t shared = fused_shared(job.size);
    if (prepare(g, shared, err) != ERR_OK) return err->code;
    return gpu_launch_early(g, err, "moe_fused", "3 chunks a warp", dim3((unsigned)g->sms),
                            dim3(FUSED_THREADS), (size_t)shared, moe_fused, job);
}
