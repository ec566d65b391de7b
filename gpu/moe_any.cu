/* moe_any.cu: the experts' products in whatever format they are stored, exactly and slowly; see
 * moe_parts.cuh. A warp computes one output of up to eight rows of a tile: its lanes share k, each
 * weight is read once for the eight, and the lanes' sums are added in a fixed order. */
#include "gpu/moe_parts.cuh"

enum { ANY_ROWS = 8, ANY_THREADS = 256 };

/* One product of the stored matrices: part 0, 1 (gate, up) or 2 (down). */
struct any_job {
    const struct gpu_view *view; /* [E][3] */
    int64_t outs, K;
    const bf16 *x; /* [.., K] */
    const int32_t *gather;
    const struct moe_tile *tile;
    const int32_t *tiles;
    int64_t slices; /* of eight rows a tile */
    bf16 *y;        /* [rows, outs] */
};

/* Adds the products of column k on to the sums of the rows; a lane's k ascend. */
__device__ static inline void add_products(const struct gpu_view &w, int64_t out, int64_t K,
                                           const bf16 *const x[ANY_ROWS], int rows,
                                           float sum[ANY_ROWS])
{
    for (int64_t k = threadIdx.x % 32; k < K; k += 32) {
        float v = view_at(w, out, k);
#pragma unroll
        for (int r = 0; r < ANY_ROWS; r++) {
            if (r < rows) sum[r] = fmaf(__bfloat162float(x[r][k]), v, sum[r]);
        }
    }
#pragma unroll
    for (int r = 0; r < ANY_ROWS; r++) {
        for (int step = 16; step > 0; step /= 2) sum[r] += __shfl_xor_sync(~0u, sum[r], step);
    }
}

template <bool GATED> __global__ static void moe_any_product(const struct any_job j)
{
    int64_t warps = (int64_t)gridDim.x * (ANY_THREADS / 32), per_tile = j.slices * j.outs;
    int64_t n = *j.tiles * per_tile;
    for (int64_t i = blockIdx.x * (int64_t)(ANY_THREADS / 32) + threadIdx.x / 32; i < n;
         i += warps) {
        struct moe_tile tile = j.tile[i / per_tile];
        int64_t out = i % j.outs;
        int first = (int)(i % per_tile / j.outs) * ANY_ROWS;
        int rows = tile.rows - first < ANY_ROWS ? tile.rows - first : ANY_ROWS;
        const bf16 *x[ANY_ROWS];
        float gate[ANY_ROWS] = {}, up[ANY_ROWS] = {};
        if (rows <= 0) continue;
#pragma unroll
        for (int r = 0; r < ANY_ROWS; r++) {
            int64_t row = tile.first + (int64_t)(first + (r < rows ? r : 0));
            x[r] = j.x + (j.gather ? j.gather[row] : row) * j.K;
        }
        const struct gpu_view *w = j.view + 3 * (int64_t)tile.expert;
        add_products(w[GATED ? 0 : 2], out, j.K, x, rows, gate);
        if (GATED) add_products(w[1], out, j.K, x, rows, up);
#pragma unroll
        for (int r = 0; r < ANY_ROWS; r++) {
            if (threadIdx.x % 32 == r && r < rows)
                j.y[(tile.first + (int64_t)(first + r)) * j.outs + out] =
                    __float2bfloat16_rn(GATED ? swiglu_value(gate[r], up[r]) : gate[r]);
        }
    }
}

enum err_code moe_any(struct gpu *g, const struct gpu_moe *op, const struct moe_plan *p, bf16 *act,
                      bf16 *out, struct err *err)
{
    const struct gpu_experts *x = op->experts;
    struct any_job j = {};
    j.view = x->view;
    j.tile = p->tile;
    j.tiles = p->tiles;
    j.slices = p->cap / ANY_ROWS;
    dim3 grid((unsigned)(g->sms * 8)), block(ANY_THREADS);
    j.outs = x->I;
    j.K = x->H;
    j.x = op->x;
    j.gather = p->token_of;
    j.y = act;
    if (GPU_LAUNCH(g, err, "moe_any_w13", "as stored, 8 rows a warp", grid, block, 0,
                   moe_any_product<true>, j) != ERR_OK)
        return err->code;
    j.outs = x->H;
    j.K = x->I;
    j.x = act;
    j.gather = NULL;
    j.y = out;
    return GPU_LAUNCH(g, err, "moe_any_w2", "as stored, 8 rows a warp", grid, block, 0,
                      moe_any_product<false>, j);
}
