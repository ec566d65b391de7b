/* rope.cu: rotary embedding; see rope.cuh. Test: assay op rope --sweep --on ref,gpu */
#include "gpu/ops.h"
#include "gpu/rope_row.cuh"

enum { FEW = 16 };

struct rope_rows {
    int64_t heads, stride, offset;
    int half, each; /* pairs; heads of a block */
    float factor;
    const float *frequency;
    const int64_t *position;
    bool interleaved;
    bool soon;
    bf16 *x;
};

/* One block: some heads of a token. What follows it early (queries, then attention) reads the cache
 * before it waits: unless `soon` it begins when all before this has ended. */
__global__ static void rope_kernel(const struct rope_rows p)
{
    __shared__ struct rope_angles angles;
    int64_t first = (int64_t)blockIdx.y * p.each, heads = p.heads - first;
    if (heads > p.each) heads = p.each;
    if (p.soon) let_next_launch();
    rope_make(&angles, p.position[blockIdx.x], p.frequency, p.factor, p.half);
    __syncthreads();
    wait_for_launch_before();
    if (!p.soon) let_next_launch();
    bf16 *row = p.x + ((int64_t)blockIdx.x * p.heads + first) * p.stride + p.offset;
    for (int64_t k = threadIdx.x; k < heads * p.half; k += blockDim.x) {
        bf16 *x = row + k / p.half * p.stride;
        rope_turn(angles, (int)(k % p.half), p.half, p.interleaved, x, x);
    }
}

enum err_code gpu_rope_send(struct gpu *g, const struct rope_table *t, bool keep,
                            struct gpu_rope *out, struct err *err)
{
    int64_t half = t->R / 2;
    *out = (struct gpu_rope){t->R, (float)t->factor, NULL};
    if (half < 1 || half > ROPE_PAIRS_MAX)
        return err_set(err, ERR_INPUT, "rope table on gpu||width %lld|2 to %d", (long long)t->R,
                       2 * (int)ROPE_PAIRS_MAX);
    float *data = (float *)(keep ? gpu_keep(g, half, sizeof *data, "rope frequencies", err)
                                 : gpu_alloc(g, half, sizeof *data, "rope frequencies", err));
    if (!data) return err->code;
    if (gpu_send(g, data, t->frequency, (size_t)half * sizeof *data, "rope frequencies", err) ==
        ERR_OK) {
        out->frequency = data;
        return ERR_OK;
    }
    if (keep) gpu_drop(g, data);
    return err->code;
}

enum err_code gpu_rope(struct gpu *g, int64_t T, int64_t heads, int64_t stride, int64_t offset,
                       const int64_t *position, const struct gpu_rope *table, bool interleaved,
                       bool soon, bf16 *x, struct err *err)
{
    if (T == 0) return ERR_OK;
    struct rope_rows p = {};
    p.heads = heads;
    p.stride = stride;
    p.offset = offset;
    p.half = (int)(table->R / 2);
    p.factor = table->factor;
    p.frequency = table->frequency;
    p.position = position;
    p.interleaved = interleaved;
    p.x = x;
    p.soon = soon;
    /* A token by one block, or few tokens by more: a pair a thread. */
    p.each = T > FEW ? (int)heads : (int)ceil_div(256, p.half);
    int64_t pairs = (p.each < heads ? p.each : heads) * p.half;
    unsigned threads = pairs <= 64 ? 64 : pairs <= 128 ? 128 : 256;
    dim3 grid((unsigned)T, (unsigned)ceil_div(heads, p.each));
    return gpu_launch_early(g, err, "rope", interleaved ? "interleaved" : "halves", grid,
                            dim3(threads), 0, rope_kernel, p);
}

enum err_code rope_gpu(const struct rope *op, struct run *run, struct err *err)
{
    if (rope_check(op, err) != ERR_OK) return err->code;
    struct gpu *g = gpu_enter("rope", run, err);
    if (!g) return err->code;
    struct gpu_mark m = gpu_mark(g);
    struct gpu_rope table;
    int64_t width = op->heads * op->stride;
    bf16 *x = gpu_send_act(g, op->x, op->T, width, "rope input", err);
    int64_t *position = x ? gpu_new<int64_t>(g, op->T, "positions", err) : NULL;
    if (position &&
        gpu_send(g, position, op->position, (size_t)op->T * sizeof *position, "positions", err) ==
            ERR_OK &&
        gpu_rope_send(g, op->table, false, &table, err) == ERR_OK &&
        gpu_rope(g, op->T, op->heads, op->stride, op->offset, position, &table, op->interleaved,
                 false, x, err) == ERR_OK)
        (void)!gpu_fetch_act(g, op->x, x, op->T * width, "rope output", err);
    return gpu_leave(g, m, err);
}
