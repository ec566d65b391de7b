/* linear_few.cu: y = x W^T for few rows, bound by reading W once: tensor cores with the outputs as
 * their rows and the tokens as their columns. See linear.cuh.
 *
 * A block makes 16 outputs for all tokens; its warps take the columns of W in turns of 32. Lane
 * (g, t) = (lane / 4, lane % 4) reads 16 bytes, columns 8t..8t+7 of the 32, of rows g and g + 8 of
 * W and of token g. One m16n8k16 product wants four values a row from it (its columns 2t, 2t+1,
 * 2t+8, 2t+9), so the eight feed two: which column stands where does not matter, as long as W and
 * x agree. The warps' sums are added in ascending order: the bits depend on `in` and on how many
 * warps a block has, which follows from the shape and the card. */
#include "gpu/linear.cuh"

#include "gpu/vector.cuh"

enum { ROWS = 16, STEP = 32, AHEAD = 4 };

static_assert(LINEAR_FEW == 8, "the columns of one m16n8k16 product");

struct few {
    int64_t T, out, in;
    const bf16 *x, *w;
    void *y;
    bool wide; /* y is float32 */
};

__device__ static inline void multiply(float c[4], uint32_t a0, uint32_t a1, uint32_t a2,
                                       uint32_t a3, uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

/* 16 bytes of a row, or zeros. W is read once: it need not stay in a cache. */
__device__ static inline uint4 load_w(const bf16 *at, bool there)
{
    return there ? __ldcs((const uint4 *)at) : make_uint4(0, 0, 0, 0);
}

__device__ static inline uint4 load_x(const bf16 *at, bool there)
{
    return there ? __ldg((const uint4 *)at) : make_uint4(0, 0, 0, 0);
}

/* The sum of one warp's columns. */
template <int WARPS>
__device__ static inline void warp_sum(const struct few &p, int64_t row, int warp, int g, int t,
                                       float (&sum)[4])
{
    const bf16 *low = p.w + (row + g) * p.in, *high = low + 8 * p.in, *token = p.x + g * p.in;
    bool has_low = row + g < p.out, has_high = row + g + 8 < p.out, has_token = g < p.T;
    for (int64_t k = warp * STEP + 8 * t; k - 8 * t < p.in; k += (int64_t)AHEAD * WARPS * STEP) {
        uint4 a[AHEAD], b[AHEAD], x[AHEAD];
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            int64_t c = k + (int64_t)u * WARPS * STEP;
            bool in = c < p.in;
            a[u] = load_w(low + c, in && has_low);
            b[u] = load_w(high + c, in && has_high);
            x[u] = load_x(token + c, in && has_token);
        }
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            multiply(sum, a[u].x, b[u].x, a[u].y, b[u].y, x[u].x, x[u].y);
            multiply(sum, a[u].z, b[u].z, a[u].w, b[u].w, x[u].z, x[u].w);
        }
    }
}

template <int WARPS> __global__ static void __launch_bounds__(WARPS * 32) few_kernel(struct few p)
{
    __shared__ float part[WARPS][LINEAR_FEW][ROWS];
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
    int64_t row = (int64_t)blockIdx.x * ROWS;
    float sum[4] = {};
    warp_sum<WARPS>(p, row, warp, g, t, sum);
    part[warp][2 * t][g] = sum[0];
    part[warp][2 * t + 1][g] = sum[1];
    part[warp][2 * t][g + 8] = sum[2];
    part[warp][2 * t + 1][g + 8] = sum[3];
    __syncthreads();
    int r = (int)threadIdx.x % ROWS, token = (int)threadIdx.x / ROWS;
    if (token >= p.T || row + r >= p.out) return;
    float y = 0;
#pragma unroll
    for (int i = 0; i < WARPS; i++) y += part[i][token][r];
    int64_t at = token * p.out + row + r;
    if (p.wide)
        ((float *)p.y)[at] = y;
    else
        ((bf16 *)p.y)[at] = __float2bfloat16_rn(y);
}

bool linear_few_fits(int64_t T, const bf16 *x, const struct gpu_matrix *w)
{
    return T <= LINEAR_FEW && w->format == MATRIX_DENSE && w->data.dtype == DT_BF16 &&
           vector_fits(w->data.data, w->in) && vector_fits(x, w->in);
}

/* Enough warps that every multiprocessor has loads under way: a narrow matrix gives few blocks, and
 * a short row little to divide. Measured on an H200 (outputs x columns): 576 x 7168 to 2112 x 7168
 * take 32, 4096 x 7168 16, 7168 x 2048 and wider 8, 12288 x 1536 4. */
static int warps_for(const struct gpu *g, int64_t out, int64_t in)
{
    int64_t blocks = ceil_div(out, ROWS);
    if (blocks <= g->sms) return 32;
    if (blocks <= 2 * g->sms) return 16;
    return in <= 1536 ? 4 : 8;
}

enum err_code linear_few(struct gpu *g, int64_t T, const bf16 *x, const struct gpu_matrix *w,
                         void *y, enum dtype ytype, struct err *err)
{
    const struct few p = {T, w->out, w->in, x, (const bf16 *)w->data.data, y, ytype == DT_F32};
    int warps = warps_for(g, w->out, w->in);
    dim3 grid((unsigned)ceil_div(w->out, ROWS)), block((unsigned)warps * 32);
    if (warps == 32)
        return GPU_LAUNCH(g, err, "linear_few", "32 warps", grid, block, 0, few_kernel<32>, p);
    if (warps == 16)
        return GPU_LAUNCH(g, err, "linear_few", "16 warps", grid, block, 0, few_kernel<16>, p);
    if (warps == 8)
        return GPU_LAUNCH(g, err, "linear_few", "8 warps", grid, block, 0, few_kernel<8>, p);
    return GPU_LAUNCH(g, err, "linear_few", "4 warps", grid, block, 0, few_kernel<4>, p);
}
