/* linear_any.cu: y = x W^T for every stored format and any shape: float32 sums in ascending
 * columns, one fused multiply-add each, so that a row's bits depend on its own values alone. Slow,
 * exact in what it reads. See linear.cuh. */
#include "gpu/linear.cuh"

enum { TILE = 64, DEPTH = 16, THREADS = 256, SIDE = 4 };

struct any {
    int64_t T, out, in, x_step, ldx, y_step, ldy;
    const bf16 *x;
    void *y;
    bool wide; /* y is float32 */
};

struct stored_weights {
    struct gpu_view view;
    __device__ float at(int64_t, int64_t o, int64_t k) const
    {
        return view_at(view, o, k);
    }
};

struct batched_weights {
    const bf16 *w;
    int64_t step, ld;
    bool transpose;
    __device__ float at(int64_t head, int64_t o, int64_t k) const
    {
        return __bfloat162float(w[head * step + (transpose ? o * ld + k : k * ld + o)]);
    }
};

/* Columns [k, k + DEPTH) of the block's tokens and outputs; zeros outside. */
template <class Weights>
__device__ static inline void load_tiles(const struct any &p, const Weights &w, int64_t token,
                                         int64_t out, int64_t k, float (&xs)[DEPTH][TILE + SIDE],
                                         float (&ws)[DEPTH][TILE + SIDE])
{
    int64_t head = blockIdx.z;
    for (int i = (int)threadIdx.x; i < TILE * DEPTH; i += THREADS) {
        int64_t t = token + i / DEPTH, o = out + i / DEPTH, c = k + i % DEPTH;
        xs[i % DEPTH][i / DEPTH] =
            t < p.T && c < p.in ? __bfloat162float(p.x[head * p.x_step + t * p.ldx + c]) : 0.0f;
        ws[i % DEPTH][i / DEPTH] = o < p.out && c < p.in ? w.at(head, o, c) : 0.0f;
    }
}

template <class Weights>
__global__ static void __launch_bounds__(THREADS, 1) any_kernel(struct any p, Weights w)
{
    __shared__ float xs[DEPTH][TILE + SIDE], ws[DEPTH][TILE + SIDE];
    int64_t token = (int64_t)blockIdx.y * TILE, out = (int64_t)blockIdx.x * TILE;
    int row = (int)threadIdx.x / (TILE / SIDE) * SIDE, column = (int)threadIdx.x % (TILE / SIDE);
    float sum[SIDE][SIDE] = {};
    for (int64_t k = 0; k < p.in; k += DEPTH) {
        load_tiles(p, w, token, out, k, xs, ws);
        __syncthreads();
        int depth = p.in - k < DEPTH ? (int)(p.in - k) : DEPTH;
        for (int c = 0; c < depth; c++) {
#pragma unroll
            for (int i = 0; i < SIDE; i++) {
#pragma unroll
                for (int j = 0; j < SIDE; j++)
                    sum[i][j] = fmaf(xs[c][row + i], ws[c][column + j * (TILE / SIDE)], sum[i][j]);
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < SIDE; i++) {
#pragma unroll
        for (int j = 0; j < SIDE; j++) {
            int64_t t = token + row + i, o = out + column + j * (TILE / SIDE);
            int64_t at = (int64_t)blockIdx.z * p.y_step + t * p.ldy + o;
            if (t >= p.T || o >= p.out) continue;
            if (p.wide)
                ((float *)p.y)[at] = sum[i][j];
            else
                ((bf16 *)p.y)[at] = __float2bfloat16_rn(sum[i][j]);
        }
    }
}

static dim3 grid_of(const struct any *p, int64_t batch)
{
    return dim3((unsigned)ceil_div(p->out, TILE), (unsigned)ceil_div(p->T, TILE), (unsigned)batch);
}

enum err_code linear_any(struct gpu *g, int64_t T, const bf16 *x, const struct gpu_matrix *w,
                         void *y, enum dtype ytype, struct err *err)
{
    static const char *const formats[] = {"dense", "packed", "fp8 blocks"};
    const struct any p = {T, w->out, w->in, 0, w->in, 0, w->out, x, y, ytype == DT_F32};
    const struct stored_weights weights = {gpu_view_of(w)};
    return GPU_LAUNCH(g, err, "linear_any", formats[w->format], grid_of(&p, 1), dim3(THREADS), 0,
                      any_kernel<struct stored_weights>, p, weights);
}

enum err_code linear_any_batched(struct gpu *g, const struct gpu_batched *b, struct err *err)
{
    const struct any p = {b->T,      b->n,   b->k, b->x_step, b->ldx,
                          b->y_step, b->ldy, b->x, b->y,      false};
    const struct batched_weights weights = {b->w, b->w_step, b->ldw, b->transpose};
    return GPU_LAUNCH(g, err, "linear_any", "heads", grid_of(&p, b->heads), dim3(THREADS), 0,
                      any_kernel<struct batched_weights>, p, weights);
}
