/* mla_project.cu: the two projections of the absorbed form, head by head: queries into the latent
 * space, results back. Contract: core/mla.h.
 *
 *   dense bf16, whole boxes   here, with mma.sync: one order of summation (columns ascending by 16)
 *                             whatever the number of rows, so that a row has the same bits alone
 *                             and in a batch
 *   dense bf16 otherwise      gpu_linear_batched()
 *   other stored formats      here, element by element */
#include "gpu/launch.cuh"
#include "gpu/linear.cuh"
#include "gpu/mla_core.cuh"
#include "gpu/mla_tile.cuh"

struct projection {
    int64_t heads, T, n, k;
    const bf16 *x; /* [T, heads, ldx]: k columns of a head */
    int64_t ldx;
    struct gpu_view w;   /* kv_b [heads * step, L] */
    int64_t first, step; /* rows of w: of the first head, and from head to head */
    bool turned;         /* y[n] = sum_k x[k] w[k][n]; otherwise w[n][k] */
    bf16 *y;             /* [T, heads, n] */
};

/* One block: 128 outputs of one head of one row. */
__global__ static void project_any(struct projection p)
{
    int64_t t = blockIdx.x, head = blockIdx.y, n = (int64_t)blockIdx.z * blockDim.x + threadIdx.x;
    const bf16 *x = p.x + (t * p.heads + head) * p.ldx;
    int64_t row = p.first + head * p.step;
    float sum = 0;
    if (n >= p.n) return;
    for (int64_t k = 0; k < p.k; k++) {
        float w = p.turned ? view_at(p.w, row + k, n) : view_at(p.w, row + n, k);
        sum = fmaf(__bfloat162float(x[k]), w, sum);
    }
    p.y[(t * p.heads + head) * p.n + n] = __float2bfloat16_rn(sum);
}

/* A block is ROWS rows by COLUMNS outputs of one head, 16 outputs a warp. Everything it needs is
 * copied at once: k / 64 boxes of x, then those of w. Weights are copied while the kernel before
 * still runs. */
template <int ROWS, int COLUMNS, bool TURNED> struct project_shape {
    enum {
        THREADS = COLUMNS * 2,
        ROW_STEP = THREADS / 8, /* rows from copy to copy of a thread */
        X_BOX = ROWS * BOX_ROW,
        W_BOX = TURNED ? 64 * BOX_ROW : COLUMNS * BOX_ROW,
        W_BESIDE = TURNED ? COLUMNS / BOX_COLUMNS : 1, /* boxes for the same 64 of k */
    };
};

template <int ROWS, int COLUMNS, bool TURNED>
__device__ static void copy_weights(const struct projection &p, uint32_t w_at)
{
    typedef project_shape<ROWS, COLUMNS, TURNED> shape;
    int chunk = threadIdx.x % 8, boxes = (int)p.k / BOX_COLUMNS;
    int64_t head = blockIdx.y, n0 = (int64_t)blockIdx.x * COLUMNS;
    const bf16 *w = (const bf16 *)p.w.data + (p.first + head * p.step) * p.w.in + chunk * 8;
    w += TURNED ? n0 : n0 * p.w.in;
    for (int b = 0; b < boxes * shape::W_BESIDE; b++) {
        for (int r = threadIdx.x / 8; r < shape::W_BOX / BOX_ROW; r += shape::ROW_STEP) {
            int k = b / shape::W_BESIDE * 64, n = b % shape::W_BESIDE * BOX_COLUMNS;
            const bf16 *from = w + (TURNED ? (k + r) * p.w.in + n : r * p.w.in + k);
            copy16(w_at + b * shape::W_BOX + box_chunk(r, chunk), from, true);
        }
    }
}

template <int ROWS, int COLUMNS, bool TURNED>
__device__ static void copy_rows(const struct projection &p, uint32_t x_at)
{
    typedef project_shape<ROWS, COLUMNS, TURNED> shape;
    int chunk = threadIdx.x % 8, boxes = (int)p.k / BOX_COLUMNS;
    int64_t head = blockIdx.y, t0 = (int64_t)blockIdx.z * ROWS;
    for (int b = 0; b < boxes; b++) {
        for (int r = threadIdx.x / 8; r < ROWS; r += shape::ROW_STEP) {
            bool valid = t0 + r < p.T;
            const bf16 *x = p.x + ((valid ? t0 + r : 0) * p.heads + head) * p.ldx + chunk * 8;
            copy16(x_at + b * shape::X_BOX + box_chunk(r, chunk), x + b * BOX_COLUMNS, valid);
        }
    }
}

template <int ROWS, int COLUMNS, bool TURNED>
__global__ static void __launch_bounds__(COLUMNS * 2) project_mma(struct projection p)
{
    typedef project_shape<ROWS, COLUMNS, TURNED> shape;
    extern __shared__ char shared[];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, steps = (int)p.k / 16;
    uint32_t x_at = smem_of(shared), w_at = x_at + (int)p.k / BOX_COLUMNS * shape::X_BOX;
    float c[ROWS / 16][2][4] = {};
    let_next_launch();
    copy_weights<ROWS, COLUMNS, TURNED>(p, w_at);
    wait_for_launch_before();
    copy_rows<ROWS, COLUMNS, TURNED>(p, x_at);
    copy_commit();
    copy_wait<0>();
    __syncthreads();
    for (int s = 0; s < steps; s++) {
        uint32_t a[4], b[4], box = w_at + s / 4 * shape::W_BESIDE * shape::W_BOX;
        if (TURNED)
            load_b_turned(b, box + warp / 4 * shape::W_BOX, s % 4 * 16, warp % 4);
        else
            load_b(b, box, warp * 16, s % 4);
#pragma unroll
        for (int m = 0; m < ROWS / 16; m++) {
            load_a(a, x_at + s / 4 * shape::X_BOX, m * 16, s % 4);
            mma_k16(c[m][0], a, b[0], b[1]);
            mma_k16(c[m][1], a, b[2], b[3]);
        }
    }
    /* Neighbouring lanes exchange, so that each stores four outputs side by side. */
    int odd = lane % 2;
    int64_t n = (int64_t)blockIdx.x * COLUMNS + warp * 16 + odd * 8 + lane % 4 / 2 * 4;
#pragma unroll
    for (int i = 0; i < ROWS / 8; i++) {
        int64_t t = (int64_t)blockIdx.z * ROWS + i / 2 * 16 + lane / 4 + i % 2 * 8;
        const float *v = &c[i / 2][0][i % 2 * 2], *u = &c[i / 2][1][i % 2 * 2];
        uint32_t low = pack_pair(v[0], v[1]), high = pack_pair(u[0], u[1]);
        uint32_t got = __shfl_xor_sync(0xffffffffu, odd ? low : high, 1);
        uint2 out = odd ? make_uint2(got, high) : make_uint2(low, got);
        if (t < p.T) *(uint2 *)(p.y + (t * p.heads + blockIdx.y) * p.n + n) = out;
    }
}

template <int ROWS, int COLUMNS, bool TURNED>
static enum err_code launch(struct gpu *g, const struct projection *p, struct err *err)
{
    typedef project_shape<ROWS, COLUMNS, TURNED> shape;
    size_t bytes = (size_t)(p->k / BOX_COLUMNS) * (shape::X_BOX + shape::W_BESIDE * shape::W_BOX);
    dim3 grid((unsigned)(p->n / COLUMNS), (unsigned)p->heads, (unsigned)ceil_div(p->T, ROWS));
    if (gpu_shared(g, (const void *)project_mma<ROWS, COLUMNS, TURNED>, "mla_project", bytes,
                   err) != ERR_OK)
        return err->code;
    const struct gpu_launch l = {
        "mla_project", TURNED ? "queries" : "values", grid, dim3(shape::THREADS), bytes, true};
    return gpu_launch(g, &l, err, project_mma<ROWS, COLUMNS, TURNED>, *p);
}

/* Many rows want wide blocks: 128 rows of 64 heads, values, in 10 us instead of 16 on an H200. */
template <int COLUMNS, int WIDE, bool TURNED>
static enum err_code launch_rows(struct gpu *g, const struct projection *p, struct err *err)
{
    typedef project_shape<64, WIDE, TURNED> wide;
    size_t bytes = (size_t)(p->k / BOX_COLUMNS) * (wide::X_BOX + wide::W_BESIDE * wide::W_BOX);
    if (p->T <= 16) return launch<16, COLUMNS, TURNED>(g, p, err);
    if (p->T <= 32) return launch<32, COLUMNS, TURNED>(g, p, err);
    if (p->n % WIDE == 0 && bytes <= g->shared_max) return launch<64, WIDE, TURNED>(g, p, err);
    return launch<64, COLUMNS, TURNED>(g, p, err);
}

/* Whole boxes whose operands fit where a block may have 99 KB, and a grid's third dimension. */
static bool fits_mma(const struct projection *p)
{
    int64_t columns = p->turned ? 64 : 32;
    return p->k % BOX_COLUMNS == 0 && p->k <= (p->turned ? 256 : 512) && p->n % columns == 0 &&
           p->ldx % 8 == 0 && p->w.in % 8 == 0 && p->T <= 65535 * 64 &&
           ((uintptr_t)p->x | (uintptr_t)p->w.data | (uintptr_t)p->y) % 16 == 0;
}

static enum err_code project_batched(struct gpu *g, const struct projection *p, struct err *err)
{
    struct gpu_batched b = {};
    b.heads = p->heads;
    b.T = p->T;
    b.n = p->n;
    b.k = p->k;
    b.x = p->x;
    b.x_step = p->ldx;
    b.ldx = p->heads * p->ldx;
    b.w = (const bf16 *)p->w.data + p->first * p->w.in;
    b.w_step = p->step * p->w.in;
    b.ldw = p->w.in;
    b.transpose = !p->turned;
    b.y = p->y;
    b.y_step = p->n;
    b.ldy = p->heads * p->n;
    return gpu_linear_batched(g, &b, err);
}

static enum err_code project(struct gpu *g, const struct gpu_matrix *m, const struct projection *p,
                             struct err *err)
{
    if (m->format != MATRIX_DENSE || m->data.dtype != DT_BF16) {
        dim3 grid((unsigned)p->T, (unsigned)p->heads, (unsigned)ceil_div(p->n, 128));
        return GPU_LAUNCH(g, err, "mla_project_any", "", grid, dim3(128), 0, project_any, *p);
    }
    if (!fits_mma(p)) return project_batched(g, p, err);
    return p->turned ? launch_rows<64, 256, true>(g, p, err)
                     : launch_rows<32, 128, false>(g, p, err);
}

enum err_code mla_project_queries(struct gpu *g, const struct gpu_mla_core *op, bf16 *q_latent,
                                  struct err *err)
{
    const struct projection p = {op->heads,     op->rows->count,       op->L, op->P,         op->q,
                                 op->P + op->R, gpu_view_of(op->kv_b), 0,     op->P + op->V, true,
                                 q_latent};
    return project(g, op->kv_b, &p, err);
}

enum err_code mla_project_values(struct gpu *g, const struct gpu_mla_core *op, const bf16 *o_latent,
                                 struct err *err)
{
    const struct projection p = {op->heads, op->rows->count,       op->V, op->L,         o_latent,
                                 op->L,     gpu_view_of(op->kv_b), op->P, op->P + op->V, false,
                                 op->y};
    return project(g, op->kv_b, &p, err);
}
