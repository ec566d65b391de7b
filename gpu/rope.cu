/* rope.cu: rotary embedding; see rope.cuh. Test: assay op rope --sweep --on ref,gpu */
#include "gpu/rope.cuh"

#include "gpu/ops.h"

enum { ROPE_PAIRS_MAX = sizeof(((struct rope_table *)0)->frequency) / sizeof(float) };

struct rope_rows {
    int64_t heads, stride, offset;
    int half; /* pairs */
    float factor;
    const float *frequency;
    const int64_t *position;
    bool interleaved;
    bf16 *x;
};

/* One block a token: the angles are made once for all its heads. The angle is a product rounded to
 * float32 in every engine, and may be large: cosf and sinf reduce it exactly. */
__global__ static void rope_kernel(struct rope_rows p)
{
    __shared__ float cosine[ROPE_PAIRS_MAX], sine[ROPE_PAIRS_MAX];
    float position = __ll2float_rn(p.position[blockIdx.x]);
    for (int i = (int)threadIdx.x; i < p.half; i += (int)blockDim.x) {
        float angle = __fmul_rn(position, p.frequency[i]);
        cosine[i] = cosf(angle) * p.factor;
        sine[i] = sinf(angle) * p.factor;
    }
    __syncthreads();
    bf16 *row = p.x + (int64_t)blockIdx.x * p.heads * p.stride + p.offset;
    for (int64_t k = threadIdx.x; k < p.heads * p.half; k += blockDim.x) {
        int i = (int)(k % p.half);
        bf16 *x = row + k / p.half * p.stride;
        bf16 *a = p.interleaved ? x + 2 * i : x + i;
        bf16 *b = p.interleaved ? x + 2 * i + 1 : x + i + p.half;
        float a0 = __bfloat162float(*a), b0 = __bfloat162float(*b);
        *a = __float2bfloat16_rn(a0 * cosine[i] - b0 * sine[i]);
        *b = __float2bfloat16_rn(b0 * cosine[i] + a0 * sine[i]);
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
                       bf16 *x, struct err *err)
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
    int64_t pairs = heads * p.half;
    unsigned threads = pairs <= 64 ? 64 : pairs <= 128 ? 128 : 256;
    return GPU_LAUNCH(g, err, "rope", interleaved ? "interleaved" : "halves", dim3((unsigned)T),
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
        gpu_rope(g, op->T, op->heads, op->stride, op->offset, position, &table, op->interleaved, x,
                 err) == ERR_OK)
        (void)!gpu_fetch_act(g, op->x, x, op->T * width, "rope output", err);
    return gpu_leave(g, m, err);
}
