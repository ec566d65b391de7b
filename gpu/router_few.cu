/* router_few.cu: op router where a block chooses for a token; see router_choose.h. Reading W once
 * is all there is to do for few tokens, by the whole card. Logits that a linear made are taken, as
 * those of linear_few.cu beside another product of the same rows. Else: 384 experts are 12 blocks
 * of rows, so the columns are cut too (router_sum), in so many parts that a multiprocessor has one
 * block. The kernel that chooses (router_pick) adds the parts; it is placed while the one before
 * still runs.
 *
 * A block makes 32 experts' sums over a part of the columns for all tokens, by tensor cores: the
 * experts are their rows, the tokens their columns. Warp (m, q) = (warp % 2, warp / 2) has m16
 * block m and every eighth step of 32 columns. Lane (g, t) = (lane / 4, lane % 4) reads 16 bytes,
 * columns 8t..8t+7 of the 32, of rows g and g + 8 of W and of token g; which column stands where in
 * the products does not matter, as long as W and x agree. The sums of the warps are added in one
 * order (q + 4 to q, then ascending), and those of the parts ascending: a token's bits depend on
 * the shape of W alone.
 *
 * The choice: of a warp's 32 experts no more than top_k can be chosen, those for which fewer are
 * larger than top_k; then the same of all that are left, 96 of 384. Every thread counts for its own
 * expert. One warp that looked for the largest top_k times took 3.7 us at one row in a layer; this
 * takes 2.3.
 *
 * Of up to 128 tokens the block that comes last also makes the plan of the experts' rows
 * (moe_align.cuh), which then costs no launch and is there before the shared expert's last product
 * begins: 4.3 us for 32 rows on an H200, 5.4 to 6.6 for 64; in a decode step of 61 layers of a
 * shard of Kimi-K2.5, 64 rows, 22.3 ms instead of 22.7 with the alignment in a launch of its own.
 *
 * Tried: a cluster of blocks that choose by warps and hand the ids to the first block, which needs
 * no counter: 7.5 us for 32 rows where this took 7.3, 9.5 for 64 where this took 7.6, for its warps
 * share a multiprocessor. The choice behind the shared expert's last product, beside which it runs:
 * of 8.6 us 0.3 were left, but the experts then wait for it, which before they did not: a layer of
 * 64 rows took the same time (1760 us, 1758), the step of the shard 21.9 ms instead of 21.8. */
#include "gpu/launch.cuh"
#include "gpu/linear.cuh"
#include "gpu/mma.cuh"
#include "gpu/moe_align.cuh"
#include "gpu/router_parts.cuh"

#include <limits.h>
#include <math.h>

enum {
    ROWS = 32,    /* experts of a block */
    PARTS = 16,   /* of the columns at most */
    BLOCKS = 132, /* that run side by side: one a multiprocessor of an H100 or H200 */
    STEP = 32,
    GROUPS = 8, /* of warps, that take steps in turns */
    NB = 2,     /* blocks of eight tokens */
    AHEAD = 3,  /* steps that are loaded at a time */
    THREADS = 64 * GROUPS,
    PICK_EXPERTS = ROUTER_PICK_EXPERTS,
    PICK_CHOSEN = ROUTER_PICK_CHOSEN
};

/* sums [parts][T][E]: of each part of the columns, `steps` steps of 32. */
struct router_sum {
    int64_t T, H, E;
    int parts, steps;
    const bf16 *x, *w;
    float *sums;
};

/* parts 0: the logits are there. */
struct router_pick {
    struct gpu_router r;
    const float *sums;
    int parts;
    struct moe_plan plan; /* of no pairs: none is made */
};

__device__ static inline void sum_steps(const struct router_sum &p, float (&sum)[NB][4], int row,
                                        int first, int end)
{
    int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const bf16 *low = p.w + (int64_t)(row + g) * p.H + 8 * t, *high = low + 8 * p.H;
    const bf16 *token = p.x + g * p.H + 8 * t;
    bool has_low = row + g < p.E, has_high = row + g + 8 < p.E;
    for (int s = first; s < end; s += AHEAD * GROUPS) {
        uint4 a[AHEAD], b[AHEAD], x[AHEAD][NB];
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            int64_t c = (int64_t)(s + u * GROUPS) * STEP;
            bool in = s + u * GROUPS < end && c + 8 * t < p.H;
            a[u] = load_or_zero(low + c, in && has_low);
            b[u] = load_or_zero(high + c, in && has_high);
#pragma unroll
            for (int i = 0; i < NB; i++)
                x[u][i] = load_or_zero(token + 8 * i * p.H + c, in && 8 * i + g < p.T);
        }
        __syncwarp(); /* no load of memory that may be written moves past it */
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
#pragma unroll
            for (int i = 0; i < NB; i++) {
                mma_k16(sum[i], a[u].x, b[u].x, a[u].y, b[u].y, x[u][i].x, x[u][i].y);
                mma_k16(sum[i], a[u].z, b[u].z, a[u].w, b[u].w, x[u][i].z, x[u][i].w);
            }
        }
    }
}

/* The block's rows and columns of W on their way to the cache that all share: they were there all
 * along. */
__device__ static inline void fetch_weights(const struct router_sum &p, int first, int end)
{
    enum { LINES = THREADS / ROWS, LINE = 64 }; /* 128 bytes */
    int64_t row = (int64_t)blockIdx.x * ROWS + threadIdx.x / LINES;
    for (int64_t c = (int64_t)first * STEP + threadIdx.x % LINES * LINE;
         c < (int64_t)end * STEP && c < p.H && row < p.E; c += LINES * LINE)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(p.w + row * p.H + c));
}

/* Where a thread's sums of the block of eight tokens i stand. */
__device__ static inline float *place(float (&part)[8 * NB][ROWS], int i, int j)
{
    int lane = threadIdx.x % 32, row = threadIdx.x / 32 % 2 * 16 + lane / 4;
    return &part[8 * i + lane % 4 * 2 + j % 2][row + j / 2 * 8];
}

__global__ static void __launch_bounds__(THREADS) sum_kernel(const struct router_sum p)
{
    __shared__ float part[GROUPS / 2][8 * NB][ROWS];
    int group = threadIdx.x / 64, first = blockIdx.y * p.steps;
    int end = min(first + p.steps, (int)((p.H + STEP - 1) / STEP));
    float sum[NB][4] = {};
    let_next_launch();
    fetch_weights(p, first, end);
    wait_for_launch_before();
    sum_steps(p, sum, (int)blockIdx.x * ROWS + threadIdx.x / 32 % 2 * 16, first + group, end);
#pragma unroll
    for (int half = 1; half >= 0; half--) {
        if (group / (GROUPS / 2) == half) {
#pragma unroll
            for (int i = 0; i < NB; i++) {
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    float *at = place(part[group % (GROUPS / 2)], i, j);
                    *at = half ? sum[i][j] : sum[i][j] + *at;
                }
            }
        }
        __syncthreads();
    }
    for (int i = threadIdx.x; i < 8 * NB * ROWS; i += THREADS) {
        int token = i / ROWS, row = i % ROWS;
        int64_t e = (int64_t)blockIdx.x * ROWS + row;
        float y = 0;
        if (token >= p.T || e >= p.E) continue;
#pragma unroll
        for (int q = 0; q < GROUPS / 2; q++) y += part[q][token][row];
        p.sums[((int64_t)blockIdx.y * p.T + token) * p.E + e] = y;
    }
}

/* ---- choosing ---- */

/* Float32 as an integer that is ordered alike, above 0; no NaN. */
__device__ static inline uint32_t order_of(float key)
{
    uint32_t bits = __float_as_uint(key + 0.0f); /* -0 and 0 are equal */
    return bits ^ (bits >> 31 ? 0xffffffffu : 0x80000000u);
}

/* The sum of the parts, in ascending order. */
__device__ static inline float add_parts(const struct router_pick &p, int64_t t, int64_t e)
{
    float part[PARTS], sum = 0;
    const float *from = p.sums + t * p.r.E + e;
    const int64_t step = p.r.T * p.r.E;
#pragma unroll
    for (int i = 0; i < PARTS; i++) part[i] = i < p.parts ? from[i * step] : 0.0f;
#pragma unroll
    for (int i = 0; i < PARTS; i++) {
        if (i < p.parts) sum += part[i];
    }
    return sum;
}

/* Keys in order_of(), 0: none; by expert. Then of every warp's 32 the top_k largest, in ascending
 * id: more than those cannot be chosen. */
struct pick_room {
    alignas(16) uint32_t order[PICK_EXPERTS], best[PICK_EXPERTS];
    uint32_t chosen[PICK_EXPERTS / 32];
    int32_t best_id[PICK_EXPERTS], id[PICK_CHOSEN];
    float score[PICK_EXPERTS];
};

/* How many of n keys, a multiple of 4, are larger. */
__device__ static inline int larger_than(const uint32_t *order, int n, uint32_t mine)
{
    int count = 0;
#pragma unroll 8
    for (int i = 0; i < n; i += 4) {
        uint4 four = *(const uint4 *)(order + i);
        count += (four.x > mine) + (four.y > mine) + (four.z > mine) + (four.w > mine);
    }
    return count;
}

/* And how many of the first n are equal. */
__device__ static inline int equal_to(const uint32_t *order, int n, uint32_t mine)
{
    int count = 0;
    for (int i = 0; i < n; i++) count += order[i] == mine;
    return count;
}

__device__ static inline unsigned lanes_below(void)
{
    return (1u << threadIdx.x % 32) - 1;
}

/* The k largest of this warp's 32 keys, in ascending id: of equal keys the lower ids. */
__device__ static inline void choose_in_warp(struct pick_room &room, uint32_t mine, int k)
{
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int rank = larger_than(room.order + 32 * warp, 32, mine);
    unsigned is = __ballot_sync(~0u, rank < k);
    if (__popc(is) != k) { /* equal ones at the limit */
        rank += __popc(__match_any_sync(~0u, mine) & lanes_below());
        is = __ballot_sync(~0u, rank < k);
    }
    if (rank >= k) return;
    int at = warp * k + __popc(is & lanes_below());
    room.best[at] = mine;
    room.best_id[at] = 32 * warp + lane;
}

/* The top_k largest of the token's keys, one a thread, in room.id in ascending order. All threads.
 */
__device__ static void choose(struct pick_room &room, uint32_t mine, int E, int k)
{
    int i = (int)threadIdx.x, warps = (E + 31) / 32, n = warps * k, padded = (n + 3) / 4 * 4;
    room.order[i] = mine;
    if (i >= n && i < padded) room.best[i] = 0;
    __syncwarp();
    if (i < 32 * warps) choose_in_warp(room, mine, k);
    __syncthreads();
    uint32_t best = i < n ? room.best[i] : 0;
    int rank = i < n ? larger_than(room.best, padded, best) : k;
    if (__syncthreads_count(rank < k) != k) rank += equal_to(room.best, min(i, n), best);
    unsigned is = __ballot_sync(~0u, rank < k);
    if (i % 32 == 0) room.chosen[i / 32] = is;
    __syncthreads();
    if (rank >= k) return;
    int at = __popc(is & lanes_below());
    for (int w = 0; w < i / 32; w++) at += __popc(room.chosen[w]);
    room.id[at] = room.best_id[i];
}

/* One warp gives a token's choice. Sums in ascending id, like the reference. */
__device__ static void give_choice(const struct gpu_router &r, int64_t t,
                                   const struct pick_room &room)
{
    int lane = threadIdx.x % 32;
    bool mine = lane < (int)r.top_k, norm = r.norm_topk && r.top_k > 1;
    int32_t id = mine ? room.id[lane] : 0;
    float w = mine ? room.score[id] : 0.0f, sum = 0;
    for (int j = 0; norm && j < (int)r.top_k; j++) sum += __shfl_sync(~0u, w, j);
    if (!mine) return;
    if (norm) w /= sum + 1e-20f;
    r.ids[t * r.top_k + lane] = id;
    r.weights[t * r.top_k + lane] = w * r.routed_scale;
}

/* A token's plan by the warp that chose: a tile an expert. */
__device__ static inline void plan_one(const struct moe_plan &p, const int32_t *chosen)
{
    int lane = threadIdx.x % 32;
    if (lane < (int)p.pairs) {
        p.tile[lane] = moe_part(chosen[lane], lane, 1, p.cap, 0);
        p.ready[1 + lane] = 0;
        p.row_of[lane] = lane;
        p.token_of[lane] = 0;
    }
    if (lane == 0) {
        *p.tiles = (int32_t)p.pairs;
        p.ready[0] = 0;
    }
}

/* Blocks of the launch that have given their choice; 0 between launches. */
__device__ static uint32_t pick_arrivals;

/* Adds one; what was written before it is seen by whoever finds it counted. */
__device__ static inline uint32_t arrive(uint32_t *at)
{
    uint32_t before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;"
                 : "=r"(before)
                 : "l"(at)
                 : "memory");
    return before;
}

/* The block that comes last knows all ids and makes the plan. The first warp gave this block's. */
__device__ static void make_plan(const struct router_pick &p)
{
    __shared__ struct align_room room;
    __shared__ bool last;
    __syncwarp();
    if (threadIdx.x == 0) {
        last = arrive(&pick_arrivals) == gridDim.x - 1;
        if (last) pick_arrivals = 0;
    }
    __syncthreads();
    if (last) align_sets(p.plan, (int32_t)p.r.top_k, p.r.ids, room);
}

/* A block a token: every thread a score, then one warp. */
__global__ static void __launch_bounds__(PICK_EXPERTS)
    pick_kernel(const __grid_constant__ struct router_pick p)
{
    __shared__ struct pick_room room;
    const struct gpu_router &r = p.r;
    int64_t t = blockIdx.x, e = threadIdx.x;
    float bias = r.bias && e < r.E ? r.bias[e] : 0.0f;
    uint32_t order = 0;
    let_next_launch();
    wait_for_launch_before();
    if (e < r.E) {
        float logit = p.parts ? add_parts(p, t, e) : r.logits[t * r.E + e],
              s = 1.0f / (1.0f + expf(-logit)), k = s + bias;
        if (p.parts) r.logits[t * r.E + e] = logit;
        room.score[e] = s;
        order = order_of(isnan(k) ? -INFINITY : k); /* the least of all */
    }
    choose(room, order, (int)r.E, (int)r.top_k);
    __syncthreads();
    if (threadIdx.x < 32) give_choice(r, t, room);
    if (p.plan.pairs == 0) return;
    if (gridDim.x > 1)
        make_plan(p);
    else if (threadIdx.x < 32)
        plan_one(p.plan, room.id);
}

/* ---- launch ---- */

static int parts_of(int64_t E, int64_t H, int *steps)
{
    int64_t all = ceil_div(H, STEP), parts = BLOCKS / ceil_div(E, ROWS);
    if (parts < 1) parts = 1;
    if (parts > PARTS) parts = PARTS;
    *steps = (int)ceil_div(all, parts);
    return (int)ceil_div(all, *steps);
}

static enum err_code make_logits(struct gpu *g, const struct gpu_router *op, struct err *err)
{
    return op->summed ? ERR_OK : gpu_linear(g, op->T, op->x, op->w, op->logits, DT_F32, err);
}

static enum err_code make_sums(struct gpu *g, const struct gpu_router *op,
                               const struct router_variant *v, struct router_pick *pick,
                               struct err *err)
{
    struct router_sum sum = {};
    sum.T = op->T;
    sum.H = op->w->in;
    sum.E = op->E;
    sum.x = op->x;
    sum.w = (const bf16 *)op->w->data.data;
    sum.parts = pick->parts = parts_of(sum.E, sum.H, &sum.steps);
    sum.sums = gpu_new<float>(g, sum.parts * op->T * op->E, "parts of logits", err);
    pick->sums = sum.sums;
    if (!sum.sums) return err->code;
    return gpu_launch_early(g, err, "router_sum", v->name,
                            dim3((unsigned)ceil_div(sum.E, ROWS), (unsigned)sum.parts),
                            dim3(THREADS), 0, sum_kernel, sum);
}

enum err_code router_few(struct gpu *g, const struct gpu_router *op, const struct router_variant *v,
                         struct err *err)
{
    struct router_pick pick = {};
    struct gpu_mark m = gpu_mark(g);
    pick.r = *op;
    if (op->plan && op->T <= ALIGN_TOKENS && op->plan->pairs <= ALIGN_PAIRS) {
        op->plan->made = true;
        pick.plan = *op->plan;
    }
    if ((v->sums ? make_sums(g, op, v, &pick, err) : make_logits(g, op, err)) == ERR_OK)
        (void)!gpu_launch_early(g, err, "router_pick",
                                pick.plan.made ? "block, with the plan" : "block",
                                dim3((unsigned)op->T), dim3(PICK_EXPERTS), 0, pick_kernel, pick);
    gpu_release(g, m);
    return err->code;
}
