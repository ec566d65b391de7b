/* mla.cuh: multi-head latent attention, ops mla.q, mla.kv, mla.core, mla.output on the device.
 * Contract: core/mla.h */
#ifndef ASSAY_GPU_MLA_CUH
#define ASSAY_GPU_MLA_CUH

#include "gpu/weights.cuh"

/* The paged latent cache on the device: core/cache.h's layout in bf16. */
struct gpu_cache {
    int64_t layers, sequences, block, blocks, blocks_max, width;
    int32_t *table; /* device [sequences][blocks_max] */
    bf16 *pool;     /* device [layers][blocks][block][width] */
};

/* The rows of one step on the device, and what the host knows of them (for grids and choices). */
struct gpu_rows {
    int64_t count;
    const int32_t *sequence;               /* device [count] */
    const int64_t *position, *slot, *span; /* device [count]; slot and span always set */
    const int64_t *extra;                  /* device [count][extra_max], or NULL */
    int64_t extra_max;
    int64_t context_max;     /* host: most tokens that a row sees */
    const struct rows *host; /* the same on the host; NULL in a captured graph */
};

/* rows as core/cache.h has them, sent as scratch. */
struct rows;
enum err_code gpu_rows_send(struct gpu *g, const struct rows *r, struct gpu_rows *out,
                            struct err *err) ERR_USED;

/* q [T, heads*(P+R)] before RoPE. a: NULL where there is no q_lora. */
enum err_code gpu_mla_q(struct gpu *g, int64_t T, const bf16 *x, const struct gpu_matrix *a,
                        const struct gpu_tensor *norm, const struct gpu_matrix *b, double eps,
                        bf16 *q, struct err *err) ERR_USED;
/* latent [T, L], k_rope [T, R]; position on the device. */
struct gpu_rope;
/* What both have between their projections: q [T, Q] = norm(q) in place, NULL: not; of both [T,
 * L + R], which the second one's projection gave, latent [T, L] = norm(its L columns) and k_rope
 * [T, R] = its R columns, roped; and both as the rows' entries in one layer of the cache, NULL: not
 * there. Slot -1 is not written. */
struct gpu_latents {
    int64_t T, Q, L;
    double eps;
    bf16 *q;
    const struct gpu_tensor *q_norm, *kv_norm;
    const bf16 *both;
    const int64_t *position; /* device [T] */
    const struct gpu_rope *table;
    bool interleaved;
    bf16 *latent, *k_rope;
    const struct gpu_cache *cache;
    int64_t layer;
    const struct gpu_rows *rows;
};
enum err_code gpu_mla_latents(struct gpu *g, const struct gpu_latents *op,
                              struct err *err) ERR_USED;
enum err_code gpu_mla_kv(struct gpu *g, int64_t T, int64_t L, int64_t R, const bf16 *x,
                         const struct gpu_matrix *a, const struct gpu_tensor *norm, double eps,
                         const int64_t *position, const struct gpu_rope *table, bool interleaved,
                         bf16 *latent, bf16 *k_rope, struct err *err) ERR_USED;
/* Writes the rows' entries [latent | k_rope] to their slots of one layer. Slot -1 is not written.
 */
enum err_code gpu_cache_write(struct gpu *g, const struct gpu_cache *c, int64_t layer,
                              const struct gpu_rows *rows, int64_t L, const bf16 *latent, int64_t R,
                              const bf16 *k_rope, struct err *err) ERR_USED;

struct gpu_mla_core {
    int64_t heads, P, R, V, L;
    double scale;
    bool absorbed;
    const struct gpu_rows *rows;
    const bf16 *q;                 /* [rows, heads, P + R], roped */
    const struct gpu_matrix *kv_b; /* [heads*(P+V), L] */
    const struct gpu_cache *cache;
    int64_t layer;
    bf16 *y; /* [rows, heads*V] */
};
/* Chooses a kernel by form and sizes. A row's bits depend on its own sequence, its context length
 * and the kernel, never on what the other rows of the batch hold; how many they are and how long
 * they may be has a part in the choice. */
enum err_code gpu_mla_core(struct gpu *g, const struct gpu_mla_core *op, struct err *err) ERR_USED;
/* The attention of the absorbed form without its projections: o_latent [rows, heads, L] from
 * q_latent [rows, heads, L] and the roped columns of op->q; kv_b and y are not used. */
enum err_code gpu_mla_attend(struct gpu *g, const struct gpu_mla_core *op, const bf16 *q_latent,
                             bf16 *o_latent, struct err *err) ERR_USED;

#endif
