/* linear_cluster.cu: y = x W^T for some rows (9 to 128), bound by reading W once, of several
 * matrices of the same x in one launch, by wgmma. Compute capability 9.0 alone (sm_90a). See
 * linear.cuh.
 *
 * A cluster makes 64 outputs for all tokens, its strip: W's rows are the rows of the product, the
 * tokens its columns. Its blocks share the columns of W, neighbouring ones each, for one block a
 * strip would leave most of the card idle. In a block one warp lets the copy engine fill a ring of
 * stages, 64 columns of the strip and of the tokens, and a warpgroup multiplies. The blocks' sums
 * then lie in their shared memory, and each block adds those of some tokens, in ascending order of
 * the blocks: a row's bits depend on how many blocks there are, which is a matter of all outputs in
 * the launch, and not on T. Of gate and up a strip has 32 rows each, so that who adds has both.
 *
 * W is copied before the launch before has ended; x, which that makes, comes after it. The next
 * launch may begin when this one has waited (gpu/launch.cuh).
 *
 * Measured on an H200 (linear_choose.h has more): of 64 rows gate, up and router of Kimi-K2.5 (64
 * MB) take 22.5 us, of a shard of 256 columns (13 MB) 8.0, where three products of cuBLASLt and the
 * SwiGLU took 34.4 and 22.2; a decode step of 61 layers of that shard 21.8 ms instead of 23.6. The
 * router's part of it is 0.1 and 0.8. What limits it is x, as many bytes as W for 64 rows, which
 * every strip reads again: 16 rows take 20.2. Slower were, for those 64 rows: strips of 128 (24.4
 * and 10.0); two blocks a multiprocessor with rings of 100 KB (22.9 and 7.6, but 17.6 instead
 * of 13.3 for q_a and kv_a, whose last clusters then find no room), one with 200 KB (28.5 and 7.7);
 * stores of one value at a time (the shard's last product 7.2 instead of 3.8). */
#include "gpu/linear.cuh"

#include "gpu/launch.cuh"
#include "gpu/mla_tile.cuh"
#include "gpu/mla_wgmma.cuh"
#include "gpu/mlp.cuh"
#include "gpu/moe_barrier.cuh"
#include "gpu/tensor_map.cuh"

enum {
    STRIP = LINEAR_STRIP,
    HALF = STRIP / 2,
    STEP = BOX_COLUMNS,
    RING = 72 << 10, /* bytes of a block's ring, about: LINEAR_CLUSTER_AT_ONCE of them fit */
    STAGES = 16,     /* of it, at most */
    MULTIPLY = 128,  /* threads */
    THREADS = MULTIPLY + 32,
    SUMS = STRIP + 4, /* floats of a token's sums, so that lanes store in different banks */
    W_BYTES = STRIP * BOX_ROW
};

/* y [T, out]; gated: y = silu(x w^T) * x up^T, of HALF outputs a strip. */
struct cluster_part {
    CUtensorMap w, up;
    void *y;
    int64_t out;
    int end; /* first strip that is not its */
    bool gated;
    bool wide;    /* y is float32 */
    bool by_four; /* four columns of it can be stored at once */
};

struct cluster_job {
    CUtensorMap x;
    struct cluster_part part[LINEAR_SAME];
    int T, steps, each; /* of all columns; of a block */
    int blocks, stages; /* of a cluster, of a ring */
    bool every_lane;
};

#if WGMMA_HERE

struct cluster_barriers {
    uint64_t full[STAGES], empty[STAGES];
};

__device__ static inline int part_of(const struct cluster_job &j, int strip)
{
    int i = 0;
    while (strip >= j.part[i].end) i++;
    return i;
}

/* Until every thread of the cluster is here; what they wrote before is seen by all behind it. */
__device__ static inline void meet_cluster(void)
{
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

__device__ static inline void meet_multiplying(void)
{
    asm volatile("bar.sync 1, %0;" ::"n"((int)MULTIPLY) : "memory");
}

/* Four floats of this address in block `rank`. */
__device__ static inline float4 load_of(uint32_t at, int rank)
{
    uint32_t there;
    float4 v;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(rank));
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(there)
                 : "memory");
    return v;
}

/* ---- copying ---- */

__device__ static inline void copy_w(const struct cluster_part &part, int strip, int step,
                                     uint32_t to, uint32_t full)
{
    int row = strip * (part.gated ? HALF : STRIP);
    tile_copy(to, part.w, step * STEP, 0, row, full);
    if (part.gated)
        tile_copy(to + HALF * BOX_ROW, part.up, step * STEP, 0, row, full);
    else
        tile_copy(to + HALF * BOX_ROW, part.w, step * STEP, 0, row + HALF, full);
}

/* Steps [first, first + n) of the block's strip, by one thread. */
template <int N>
__device__ static inline void feed_all(const struct cluster_job &j, struct cluster_barriers *b,
                                       uint32_t ring, int strip, int first, int n)
{
    const int bytes = W_BYTES + N * BOX_ROW;
    int which = part_of(j, strip), ahead = min(n, j.stages);
    const struct cluster_part &part = j.part[which];
    struct ring_place at = {0, 0};
    if (which) strip -= j.part[which - 1].end;
    for (int i = 0; i < ahead; i++) {
        barrier_expect(smem_of(&b->full[i]), bytes);
        copy_w(part, strip, first + i, ring + i * bytes, smem_of(&b->full[i]));
    }
    wait_for_launch_before();
    let_next_launch();
    asm volatile("fence.proxy.async;" ::: "memory"); /* x was stored by ordinary stores */
    for (int i = 0; i < ahead; i++)
        tile_copy(ring + i * bytes + W_BYTES, j.x, (first + i) * STEP, 0, 0, smem_of(&b->full[i]));
    for (int i = ahead; i < n; i++) {
        uint32_t full = smem_of(&b->full[at.slot]), to = ring + at.slot * bytes;
        barrier_wait(smem_of(&b->empty[at.slot]), at.phase);
        barrier_expect(full, bytes);
        copy_w(part, strip, first + i, to, full);
        tile_copy(to + W_BYTES, j.x, (first + i) * STEP, 0, 0, full);
        if (++at.slot == j.stages) at = {0, at.phase ^ 1};
    }
}

/* ---- multiplying ---- */

template <int N>
__device__ static inline void multiply_all(const struct cluster_job &j, struct cluster_barriers *b,
                                           uint32_t ring, int n, float (&sum)[N / 2])
{
    const int bytes = W_BYTES + N * BOX_ROW;
    struct ring_place at = {0, 0};
    uint32_t release = 0;
    bool tells = threadIdx.x % 32 == 0 || j.every_lane;
    for (int i = 0; i < n; i++) {
        uint32_t stage = ring + at.slot * bytes;
        barrier_wait(smem_of(&b->full[at.slot]), at.phase);
        uint64_t w = wgmma_operand(stage, 0), x = wgmma_operand(stage + W_BYTES, 0);
        wgmma_begin();
#pragma unroll
        for (int k = 0; k < STEP / 16; k++) wgmma_add(sum, w + 2 * k, x + 2 * k);
        wgmma_end();
        wgmma_wait<1>();
        __syncwarp();
        if (release && tells) barrier_arrive(release);
        release = smem_of(&b->empty[at.slot]);
        if (++at.slot == j.stages) at = {0, at.phase ^ 1};
    }
    wgmma_wait<0>();
#pragma unroll
    for (int i = 0; i < N / 2; i++) asm volatile("" : "+f"(sum[i])::"memory");
}

/* ---- adding ---- */

/* A thread's sums, of rows 16 w + g and 8 below, into [token][SUMS]. */
template <int N> __device__ static inline void put_sums(float *sums, const float (&sum)[N / 2])
{
    int lane = (int)threadIdx.x % 32, row = (int)threadIdx.x / 32 * 16 + lane / 4;
#pragma unroll
    for (int i = 0; i < N / 2; i++) {
        int token = i / 4 * 8 + lane % 4 * 2 + i % 2;
        sums[token * SUMS + row + i / 2 % 2 * 8] = sum[i];
    }
}

/* Four sums that lie together, of all blocks. */
__device__ static inline void add_blocks(uint32_t at, int blocks, float (&sum)[4])
{
    float4 v[LINEAR_CLUSTER];
#pragma unroll
    for (int r = 0; r < LINEAR_CLUSTER; r++) {
        if (r < blocks) v[r] = load_of(at, r);
    }
#pragma unroll
    for (int i = 0; i < 4; i++) sum[i] = 0;
#pragma unroll
    for (int r = 0; r < LINEAR_CLUSTER; r++) {
        if (r >= blocks) break;
        sum[0] += v[r].x;
        sum[1] += v[r].y;
        sum[2] += v[r].z;
        sum[3] += v[r].w;
    }
}

/* Four columns of a token's y. */
__device__ static inline void put(const struct cluster_part &part, int64_t token, int64_t column,
                                  const float (&v)[4])
{
    int64_t at = token * part.out + column;
    if (part.by_four && part.wide) {
        if (column < part.out) *(float4 *)((float *)part.y + at) = {v[0], v[1], v[2], v[3]};
        return;
    }
    if (part.by_four) {
        if (column < part.out)
            *(uint2 *)((bf16 *)part.y + at) = {pack_pair(v[0], v[1]), pack_pair(v[2], v[3])};
        return;
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if (column + i >= part.out) return;
        if (part.wide)
            ((float *)part.y)[at + i] = v[i];
        else
            ((bf16 *)part.y)[at + i] = __float2bfloat16_rn(v[i]);
    }
}

/* Rows i to i + 3 of the strip and those HALF further on, of this block's tokens. */
template <int N>
__device__ static inline void give_all(const struct cluster_job &j, const float *sums, int strip,
                                       int rank)
{
    int which = part_of(j, strip), tokens = N / j.blocks;
    const struct cluster_part &part = j.part[which];
    if (which) strip -= j.part[which - 1].end;
    for (int i = (int)threadIdx.x; i < tokens * HALF / 4; i += MULTIPLY) {
        int token = rank * tokens + i / (HALF / 4), row = i % (HALF / 4) * 4;
        float low[4], high[4];
        if (token >= j.T) continue;
        uint32_t at = smem_of(&sums[token * SUMS + row]);
        add_blocks(at, j.blocks, low);
        add_blocks(at + HALF * 4, j.blocks, high);
        int64_t column = (int64_t)strip * (part.gated ? HALF : STRIP) + row;
        if (part.gated) {
#pragma unroll
            for (int k = 0; k < 4; k++) low[k] = swiglu_of(round_bf16(low[k]), round_bf16(high[k]));
        } else {
            put(part, token, column + HALF, high);
        }
        put(part, token, column, low);
    }
}

#endif

template <int N>
__global__ static void __launch_bounds__(THREADS)
    cluster_kernel(const __grid_constant__ struct cluster_job j)
{
#if WGMMA_HERE
    extern __shared__ __align__(1024) char memory[];
    __shared__ struct cluster_barriers b;
    int strip = (int)blockIdx.x / j.blocks, rank = (int)blockIdx.x % j.blocks;
    int first = rank * j.each, n = max(0, min(j.each, j.steps - first));
    uint32_t ring = smem_of(memory);
    if (threadIdx.x == 0) {
        for (int i = 0; i < j.stages; i++) {
            barrier_init(smem_of(&b.full[i]), 1);
            barrier_init(smem_of(&b.empty[i]), j.every_lane ? MULTIPLY : MULTIPLY / 32);
        }
        barrier_publish();
    }
    __syncthreads();
    if (threadIdx.x >= MULTIPLY) {
        if (threadIdx.x == MULTIPLY) feed_all<N>(j, &b, ring, strip, first, n);
        __syncwarp();
    } else {
        float sum[N / 2] = {};
        multiply_all<N>(j, &b, ring, n, sum);
        meet_multiplying(); /* nobody reads the ring any more */
        put_sums<N>((float *)memory, sum);
        __syncwarp();
    }
    meet_cluster();
    if (threadIdx.x < MULTIPLY) give_all<N>(j, (const float *)memory, strip, rank);
    __syncwarp();
    meet_cluster(); /* nobody reads here any more */
#endif
}

/* ---- launch ---- */

/* A build without code for this card may run its code for an older one, where the kernel is empty.
 */
bool linear_has_cluster(const struct gpu *g)
{
    static int has = -1;
    cudaFuncAttributes a = {};
    if (has < 0)
        has = g->major == 9 && gpu_map_encoder() &&
              cudaFuncGetAttributes(&a, (const void *)cluster_kernel<LINEAR_SOME>) == cudaSuccess &&
              a.numRegs > 32;
    return has != 0;
}

static enum err_code map_of(struct gpu *g, const bf16 *data, int64_t rows, int64_t in, int box,
                            CUtensorMap *out, struct err *err)
{
    const struct tensor_shape s = {data, rows, 1, in, in, in, box};
    return gpu_tensor_map(g, &s, out, err);
}

/* Of all products; *strips: how many there are. */
static enum err_code describe(struct gpu *g, const struct gpu_product *products, int n,
                              struct cluster_job *job, int *strips, struct err *err)
{
    *strips = 0;
    for (int i = 0; i < n && err->code == ERR_OK; i++) {
        const struct gpu_product *from = &products[i];
        const struct gpu_matrix *w = from->w, *up = from->up ? from->up : w;
        struct cluster_part *to = &job->part[i];
        to->y = from->y;
        to->out = w->out;
        to->gated = from->up != NULL;
        to->wide = from->type == DT_F32;
        to->by_four = w->out % 4 == 0 && (uintptr_t)to->y % 16 == 0;
        to->end = *strips += (int)ceil_div(w->out, to->gated ? HALF : STRIP);
        if (map_of(g, (const bf16 *)w->data.data, w->out, w->in, HALF, &to->w, err) == ERR_OK)
            (void)!map_of(g, (const bf16 *)up->data.data, w->out, w->in, HALF, &to->up, err);
    }
    return err->code;
}

/* The kernels, by the tokens that the instruction takes at once. */
struct cluster_row {
    int tokens;
    const char *tactic;
    void (*kernel)(const struct cluster_job);
};

enum err_code linear_cluster(struct gpu *g, int64_t T, const bf16 *x,
                             const struct gpu_product *products, int n, struct err *err)
{
    static const struct cluster_row rows[] = {{16, "16 tokens", cluster_kernel<16>},
                                              {32, "32 tokens", cluster_kernel<32>},
                                              {64, "64 tokens", cluster_kernel<64>},
                                              {128, "128 tokens", cluster_kernel<128>}};
    const struct cluster_row *row = rows;
    struct cluster_job job = {};
    int strips;
    int64_t in = products->w->in;
    while (row->tokens < T) row++;
    if (map_of(g, x, T, in, row->tokens, &job.x, err) != ERR_OK ||
        describe(g, products, n, &job, &strips, err) != ERR_OK)
        return err->code;
    int stage = W_BYTES + row->tokens * BOX_ROW, stages = RING / stage;
    job.T = (int)T;
    job.steps = (int)ceil_div(in, STEP);
    job.blocks = (int)linear_cluster_of(strips, in, g->sms);
    job.each = (int)ceil_div(job.steps, job.blocks);
    job.stages = stages < STAGES ? stages : STAGES;
    job.every_lane = g->every_lane;
    const struct gpu_launch l = {"linear_cluster",
                                 row->tactic,
                                 dim3((unsigned)(strips * job.blocks)),
                                 dim3(THREADS),
                                 (size_t)(job.stages * stage),
                                 true,
                                 (unsigned)job.blocks};
    if (gpu_shared(g, (const void *)row->kernel, "linear_cluster", l.shared, err) != ERR_OK)
        return err->code;
    return gpu_launch(g, &l, err, row->kernel, job);
}
