/* mla_prefill_wgmma.cu: causal attention over expanded keys and values with the warpgroup products
 * and the copy engine of sm_90a. Contract: gpu/mla_core.cuh; elsewhere: gpu/mla_prefill.cu.
 *
 * One block a multiprocessor takes tile after tile of 128 queries (gpu/mla_prefill_order.h). One
 * thread of the first warpgroup has everything copied, keys and values 128 tokens at a time into
 * two places each; two warpgroups compute 64 rows each, from the last tokens to the first, with
 * queries, weights and sums in registers. A round of theirs begins the scores of the next tokens
 * and the weighted values of these, and makes weights of the scores while the values are added; the
 * next tile of queries begins under the last values of this one.
 *
 * Measured on an H200, 128 heads, 4096 and 16384 tokens (TFLOP/s, cold clock): 730 and 792. On the
 * way there: queries read from shared memory by every product, 2 and 6 % less; turns of the two
 * warpgroups in issuing their products, no gain; the next tile chosen when one begins, not near its
 * end, 3 % less (8 heads: 29 %); its queries and first keys fetched behind the last values, not
 * before, 4 %. A barrier tells that the place of the queries is free only after a product of them:
 * told behind the loads alone, the next ones overwrote rows that were still being loaded. */
#include "gpu/mla_prefill_load.cuh"

#if WGMMA_HERE

/* Registers of a thread, given back or taken: 168 at the launch for 384 threads. */
template <int N> __device__ static void registers_less(void)
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

template <int N> __device__ static void registers_more(void)
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

/* A warp arrives as a whole: all its lanes have waited for what they read. */
__device__ static void warp_arrive(const struct block &b, uint64_t *barrier)
{
    __syncwarp();
    if (threadIdx.x % 32 == 0 || b.job.every_lane) barrier_arrive(smem_of(barrier));
}

/* Keeps the compiler from moving what is made of x, or makes it, past a wait that stands there. */
template <int N> __device__ static void settle_sums(float (&x)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+f"(x[i])::"memory");
}

template <int N> __device__ static void settle_words(uint32_t (&x)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+r"(x[i])::"memory");
}

enum { STEPS = KEY / 16 };

/* A tile of queries as a thread of a warpgroup knows it. */
struct rows_at {
    struct prefill_tile tile;
    int left; /* tiles of tokens whose scores are not computed yet */
    int see;  /* tokens that the thread's first row sees, counted from the next tile of tokens */
};

struct group {
    int number;
    struct ring_place key, value;
    uint32_t round; /* of queries */
    struct rows_at at;
    struct prefill_row row;
    float keep[2];
    uint32_t q[STEPS][4];
};

/* Begins s [64, 128] = q keys^T over 192 columns. */
__device__ static void begin_scores(const struct block &b, const struct group &g, float (&s)[64])
{
    uint32_t keys = b.base + KEYS + g.key.slot * KEY_BYTES;
    wgmma_begin();
#pragma unroll
    for (int k = 0; k < STEPS; k++)
        wgmma_n128(s, g.q[k], wgmma_operand(keys + k / 4 * BOX + k % 4 * 32, 0), k > 0);
    wgmma_end();
}

/* Begins o [64, 128] = (add ? o : 0) + weights values. */
__device__ static void begin_values(const struct block &b, const struct group &g, float (&o)[64],
                                    const uint32_t (&w)[32], int add)
{
    uint32_t values = b.base + VALUES + g.value.slot * VALUE_BYTES;
    wgmma_begin();
#pragma unroll
    for (int k = 0; k < TOKENS / 16; k++)
        wgmma_n128_turned(o, w + 4 * k, wgmma_operand(values + k * 16 * BOX_ROW, BOX),
                          k > 0 || add);
    wgmma_end();
}

__device__ static void wait_keys(const struct block &b, const struct group &g)
{
    barrier_wait(smem_of(&b.state->key_full[g.key.slot]), g.key.phase);
}

__device__ static void wait_values(const struct block &b, const struct group &g)
{
    barrier_wait(smem_of(&b.state->value_full[g.value.slot]), g.value.phase);
}

__device__ static void free_keys(const struct block &b, struct group &g)
{
    warp_arrive(b, &b.state->key_empty[g.key.slot]);
    place_next<STAGES>(g.key);
}

__device__ static void free_values(const struct block &b, struct group &g)
{
    warp_arrive(b, &b.state->value_empty[g.value.slot]);
    place_next<STAGES>(g.value);
}

__device__ static int row_in_group(void)
{
    return threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
}

/* The thread's first row of a tile of queries; its second is eight further on. */
__device__ static int64_t first_row(const struct group &g, struct prefill_tile t)
{
    return (int64_t)t.block * PREFILL_ROWS + g.number * GROUP_ROWS + row_in_group();
}

/* The next tile of queries into registers. False: there is none. */
__device__ static bool take_queries(const struct block &b, struct group &g)
{
    barrier_wait(smem_of(&b.state->query_full), g.round);
    g.round ^= 1;
    struct prefill_tile t = b.state->tile;
    if (t.head == NONE) return false;
#pragma unroll
    for (int k = 0; k < STEPS; k++)
        load_a(g.q[k], b.base + k / 4 * BOX, g.number * GROUP_ROWS + threadIdx.x % 128 / 32 * 16,
               k % 4);
    g.at.tile = t;
    g.at.left = token_tiles(b.job, t.block);
    g.at.see = (int)(prefill_seen(b.job.p, first_row(g, t)) - (int64_t)(g.at.left - 1) * TOKENS);
    return true;
}

/* Scores of the next tile of tokens become weights. */
__device__ static void take_scores(const struct block &b, struct group &g, float (&s)[64])
{
    if (g.at.see - row_in_group() < TOKENS) { /* the warpgroup's first row does not see them all */
        const int seen[2] = {g.at.see, g.at.see + 8};
        prefill_mask(s, seen);
    }
    g.at.see += TOKENS;
    g.at.left--;
    prefill_raise(s, b.job.p.scale, &g.row, g.keep);
    prefill_weigh(s, b.job.p.scale, &g.row);
}

/* Behind the first scores of a tile of queries: only now are these in registers for certain, and
 * their place free. */
__device__ static void begin_rows(const struct block &b, struct group &g)
{
    warp_arrive(b, &b.state->query_empty);
    g.row = {{-INFINITY, -INFINITY}, {0, 0}};
}

/* The first scores of a block, with nothing beside them. */
__device__ static void first_scores(const struct block &b, struct group &g, float (&s)[64])
{
    (void)take_queries(b, g); /* a block has a tile at least */
    wait_keys(b, g);
    begin_scores(b, g, s);
    wgmma_wait<0>();
    settle_sums(s);
    free_keys(b, g);
    begin_rows(b, g);
    take_scores(b, g, s);
}

/* Of a tile of queries, once its last weights are made: where its result goes, what it is divided
 * by. */
struct rows_end {
    bool here; /* the weights at hand are its last */
    struct prefill_tile tile;
    float sum[2];
};

/* Where a tile of queries ends, the next one is taken; its head is NONE where there is none. */
__device__ static struct rows_end find_end(const struct block &b, struct group &g)
{
    struct rows_end e = {g.at.left == 0, g.at.tile, {g.row.sum[0], g.row.sum[1]}};
    if (e.here && !take_queries(b, g)) g.at.tile.head = NONE;
    return e;
}

__device__ static void put(const struct block &b, const struct group &g, const struct rows_end &e,
                           const float (&o)[64])
{
    put_rows(b.job.p, e.tile.head, first_row(g, e.tile), o, e.sum);
}

/* One round: scores of the next tile of tokens, of this tile of queries or of the next one, beside
 * the values of this tile of tokens; under these the weights of the next are made. A result is
 * whole in the round after its last values, and stored under the products of that. */
__device__ static void run_group(const struct block &b, int number)
{
    struct group g = {};
    float o[64], s[64];
    uint32_t w[32];
    struct rows_end before = {true, {BEGIN, 0}, {}}, now;
    g.number = number;
    first_scores(b, g, s);
    for (now = find_end(b, g);; now = find_end(b, g)) {
        wgmma_wait<0>();
        settle_sums(o);
        settle_words(w);
        if (before.tile.head != BEGIN) free_values(b, g);
        prefill_round(s, w);
        if (g.at.tile.head == NONE) break;
        wait_keys(b, g);
        begin_scores(b, g, s);
        if (!before.here)
            prefill_scale(o, g.keep);
        else if (before.tile.head != BEGIN)
            put(b, g, before, o);
        wait_values(b, g);
        begin_values(b, g, o, w, !before.here);
        wgmma_wait<1>();
        settle_sums(s);
        free_keys(b, g);
        if (now.here) begin_rows(b, g);
        take_scores(b, g, s);
        settle_sums(s);
        before = now;
    }
    if (!before.here)
        prefill_scale(o, g.keep);
    else if (before.tile.head != BEGIN)
        put(b, g, before, o);
    wait_values(b, g);
    begin_values(b, g, o, w, !before.here);
    wgmma_wait<0>();
    settle_sums(o);
    settle_words(w);
    put(b, g, now, o);
}

#endif

__global__ static void __launch_bounds__(THREADS, 1)
    prefill_wgmma(const __grid_constant__ struct prefill_job job)
{
#if WGMMA_HERE
    extern __shared__ char shared[];
    const struct block b = {job, smem_of(shared), (struct prefill_state *)(shared + STATE)};
    int part = __shfl_sync(0xffffffffu, (int)threadIdx.x / 128, 0);
    if (b.base % 1024) __trap(); /* the swizzle counts from there */
    if (threadIdx.x == 0) make_barriers(b.state, job.every_lane);
    __syncthreads();
    if (part == 0) {
        registers_less<24>();
        if (threadIdx.x == 0) run_loader(b);
    } else {
        registers_more<240>();
        run_group(b, part - 1);
    }
#else
    (void)job;
    __trap(); /* mla_prefill_has_wgmma() said no */
#endif
}

bool mla_prefill_has_wgmma(const struct gpu *g)
{
    cudaFuncAttributes attributes;
    return g->major == 9 && g->minor == 0 && g->shared_max >= SHARED &&
           cudaFuncGetAttributes(&attributes, prefill_wgmma) == cudaSuccess &&
           attributes.ptxVersion >= 90;
}

static enum err_code make_maps(struct gpu *g, const struct mla_prefill *p, struct prefill_job *job,
                               struct err *err)
{
    const int64_t keys = p->heads * KEY, pairs = p->heads * KEY_AND_VALUE;
    const struct tensor_shape q = {p->q, p->T, p->heads, KEY, keys, KEY, PREFILL_ROWS};
    const struct tensor_shape kv = {p->kv, p->context,    p->heads, KEY_AND_VALUE,
                                    pairs, KEY_AND_VALUE, TOKENS};
    const struct tensor_shape rope = {p->rope,     p->context,  1,     BOX_COLUMNS,
                                      BOX_COLUMNS, BOX_COLUMNS, TOKENS};
    if (gpu_tensor_map(g, &q, &job->q, err) != ERR_OK ||
        gpu_tensor_map(g, &kv, &job->kv, err) != ERR_OK)
        return err->code;
    return gpu_tensor_map(g, &rope, &job->rope, err);
}

enum err_code mla_prefill_wgmma(struct gpu *g, const struct mla_prefill *p, struct err *err)
{
    struct prefill_job job = {};
    int64_t blocks = (p->T + PREFILL_ROWS - 1) / PREFILL_ROWS;
    job.p = *p;
    job.every_lane = g->every_lane;
    job.order = prefill_order_of(
        blocks, p->heads, p->context * KEY_AND_VALUE * (int64_t)sizeof(bf16), (int64_t)g->l2 / 2);
    job.taken = gpu_new<int>(g, 1, "tiles taken up", err);
    if (!job.taken ||
        gpu_call(g, cudaMemsetAsync(job.taken, 0, sizeof *job.taken, g->stream), "begin a count",
                 err) != ERR_OK ||
        make_maps(g, p, &job, err) != ERR_OK)
        return err->code;
    int tiles = prefill_tiles(job.order);
    if (gpu_shared(g, (const void *)prefill_wgmma, "mla_prefill_wgmma", SHARED, err) != ERR_OK)
        return err->code;
    return GPU_LAUNCH(g, err, "mla_prefill_wgmma", "128 rows, 128 tokens, 2 stages",
                      dim3((unsigned)(tiles < g->sms ? tiles : g->sms)), dim3(THREADS), SHARED,
                      prefill_wgmma, job);
}
