/* mla_latents.cu: what lies between mla.q's and mla.kv's first projections and the rest of
 * attention, of all rows in one launch: the norms of both latents, the rotation of the keys, the
 * cache's entries. See mla.cuh. A block does one of the three for one row; each has the bits that
 * norm.cu and rope.cu give. */
#include "gpu/mla.cuh"
#include "gpu/norm_row.cuh"
#include "gpu/rope_row.cuh"

struct latents {
    struct norm_rows part[2]; /* of the cached latent, of the query's */
    int64_t L, R;
    float factor;
    const float *frequency;
    const int64_t *position;
    bool interleaved;
    const bf16 *both;
    bf16 *k_rope;
    struct gpu_cache cache; /* pool NULL: nothing is written there */
    int64_t layer;
    const int32_t *sequence;
    const int64_t *slot;
};

/* Of a row; NULL where it has none. */
__device__ static inline bf16 *entry_of(const struct latents &p, int64_t row)
{
    const struct gpu_cache &c = p.cache;
    int64_t slot = c.pool ? p.slot[row] : -1;
    if (slot < 0) return NULL;
    int64_t b = c.table[p.sequence[row] * c.blocks_max + slot / c.block];
    return c.pool + ((p.layer * c.blocks + b) * c.block + slot % c.block) * c.width;
}

__device__ static inline void turn_key(const struct latents &p, int64_t row, bf16 *entry)
{
    __shared__ struct rope_angles angles;
    int half = (int)p.R / 2;
    const bf16 *x = p.both + row * (p.L + p.R) + p.L;
    rope_make(&angles, p.position[row], p.frequency, p.factor, half);
    __syncthreads();
    wait_for_launch_before();
    for (int i = (int)threadIdx.x; i < half; i += (int)blockDim.x) {
        rope_turn(angles, i, half, p.interleaved, x, p.k_rope + row * p.R);
        if (entry) rope_turn(angles, i, half, p.interleaved, x, entry + p.L);
    }
}

template <bool ONCE>
__global__ static void __launch_bounds__(NORM_THREADS) latents_kernel(const struct latents p)
{
    int64_t row = blockIdx.x;
    let_next_launch();
    bf16 *entry = blockIdx.y < 2 ? entry_of(p, row) : NULL;
    if (blockIdx.y == 0) {
        turn_key(p, row, entry);
        return;
    }
    struct norm_rows part = p.part[blockIdx.y - 1];
    part.also = entry;
    norm_row<ONCE>(part, row);
}

/* `also_wide` of a row whose entries may go 16 bytes at a time. */
static struct norm_rows rows_of(const bf16 *x, int64_t ldx, int64_t H, double eps,
                                const struct gpu_tensor *w, bf16 *y)
{
    struct norm_rows p = {};
    p.H = p.ldy = H;
    p.ldx = ldx;
    p.eps = (float)eps;
    p.x = (bf16 *)x; /* only read: there is no block */
    p.w = w->data;
    p.w_type = w->dtype;
    p.y = y;
    p.wide = vector_fits(x, ldx) && vector_fits(y, H) && vector_fits(p.w, 0);
    return p;
}

enum err_code gpu_mla_latents(struct gpu *g, const struct gpu_latents *op, struct err *err)
{
    struct latents p = {};
    if (op->T == 0) return ERR_OK;
    p.L = op->L;
    p.R = op->table->R;
    p.part[0] = rows_of(op->both, p.L + p.R, p.L, op->eps, op->kv_norm, op->latent);
    if (op->q) p.part[1] = rows_of(op->q, op->Q, op->Q, op->eps, op->q_norm, op->q);
    p.factor = op->table->factor;
    p.frequency = op->table->frequency;
    p.position = op->position;
    p.interleaved = op->interleaved;
    p.both = op->both;
    p.k_rope = op->k_rope;
    if (op->cache) {
        p.cache = *op->cache;
        p.layer = op->layer;
        p.sequence = op->rows->sequence;
        p.slot = op->rows->slot;
        p.part[0].also_wide = vector_fits(p.cache.pool, p.cache.width);
    }
    int64_t longest = op->q && op->Q > p.L ? op->Q : p.L;
    unsigned threads = norm_threads(longest);
    bool once = longest <= (int64_t)threads * VECTOR;
    return gpu_launch_early(g, err, "mla_latents", op->cache ? "with the cache" : "",
                            dim3((unsigned)op->T, op->q ? 3 : 2), dim3(threads), 0,
                            once ? latents_kernel<true> : latents_kernel<false>, p);
}
