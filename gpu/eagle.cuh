/* eagle.cuh: the draft head of EAGLE-3 on the device: ops eagle.fc, eagle.layer, eagle.verify.
 * Contract: core/eagle.h. Private to gpu/.
 *
 * The layer's pieces round as those of the target do (profile gpu): norms once, linears once, rope
 * once, attention as flash attention, the residual stream once an addition. */
#ifndef ASSAY_GPU_EAGLE_CUH
#define ASSAY_GPU_EAGLE_CUH

#include "core/head.h"
#include "gpu/mla.cuh"
#include "gpu/rope.cuh"

/* A decoder layer of a head; what the head lacks has no data. Roles: core/head.h. */
struct gpu_head_layer {
    struct gpu_tensor embed_norm, hidden_norm, mlp_norm, q_head_norm, k_head_norm, q_norm, kv_norm;
    struct gpu_matrix q, k, v, q_a, q_b, kv_a, kv_b, o, gate, up, down;
};

struct gpu_head {
    const struct head *host; /* its config is read at every call */
    struct gpu_rope rope;
    struct gpu_matrix fc;
    struct gpu_tensor fc_input_norm, fc_norm[HEAD_AUX];
    struct gpu_head_layer layers[HEAD_LAYERS];
};

/* fc, its norms, all layers and the rope table; not the embedding, the last norm and lm_head. */
enum err_code gpu_head_send(struct gpu *g, const struct head *h, bool keep, struct gpu_head *out,
                            struct err *err) ERR_USED;
/* Parts of it, into a gpu_head of zeros. */
enum err_code gpu_head_send_fc(struct gpu *g, const struct head *h, bool keep, struct gpu_head *out,
                               struct err *err) ERR_USED;
enum err_code gpu_head_send_layer(struct gpu *g, const struct head *h, int64_t layer, bool keep,
                                  struct gpu_head *out, struct err *err) ERR_USED;
/* For heads that were sent with `keep`, whole or in part. */
void gpu_head_drop(struct gpu *g, struct gpu_head *h);

/* aux [T, aux_count * target_hidden], y [T, H]; aux stays as it is. */
enum err_code gpu_eagle_fc(struct gpu *g, const struct gpu_head *h, int64_t T, const bf16 *aux,
                           bf16 *y, struct err *err) ERR_USED;

struct gpu_eagle_layer {
    const struct gpu_head *head;
    int64_t layer; /* of the head and of the cache */
    const struct gpu_rows *rows;
    const bf16 *embed;             /* [T, H]; layer 0 only */
    const bf16 *hidden;            /* [T, H] */
    const struct gpu_cache *cache; /* gets the rows' entries */
    bf16 *y;                       /* [T, H]; may be `hidden` */
    float *y_sum;                  /* NULL, or [T, H]: y before its last rounding */
};
/* No host reads: may be captured. */
enum err_code gpu_eagle_layer(struct gpu *g, const struct gpu_eagle_layer *op,
                              struct err *err) ERR_USED;

/* Grouped-query attention over cache entries [k | v], each [kv_heads, head_dim], k roped: every row
 * over the slots that it sees, in their order; a row's bits depend on that list alone. head_dim
 * even, at most 512. */
struct gpu_eagle_attention {
    int64_t heads, kv_heads, head_dim;
    double scale;
    const struct gpu_rows *rows;
    const bf16 *q; /* [rows, heads, head_dim], roped */
    const struct gpu_cache *cache;
    int64_t layer;
    bf16 *y; /* [rows, heads * head_dim] */
};
enum err_code gpu_eagle_attention(struct gpu *g, const struct gpu_eagle_attention *op,
                                  struct err *err) ERR_USED;

/* core/eagle.h's struct eagle_verify with everything on the device. Greedy on float32 logits (or
 * float64 ones); the laws of sampling are float64, and their sums run in the reference's order. */
struct gpu_eagle_verify {
    int64_t nodes, V;
    const int32_t *parent; /* [nodes] */
    const int64_t *token;  /* [nodes] */
    const void *target;    /* [nodes, V] */
    enum dtype type;       /* of target: DT_F32 (greedy alone) or DT_F64 */
    bool greedy;
    const double *draft, *coin, *draw;
    int32_t *path;            /* out [nodes] */
    int64_t *accepted, *next; /* out; next is -1 where a NaN stands among greedy logits */
};
enum err_code gpu_eagle_verify(struct gpu *g, const struct gpu_eagle_verify *op,
                               struct err *err) ERR_USED;

#endif
