/* model.cuh: a decoder on the device: its weights, its caches, one step of it, and the graphs of
 * its decode steps. The engine of core/engine.h is in engine.cu. Private to gpu/.
 *
 * Activations stay on the device in bf16 from embedding to logits; what a sink wants is fetched and
 * what it replaces sent back. While run->faults is set, every op goes through fault_call() by its
 * host adapter instead (gpu/ops.h): its inputs are fetched, its outputs sent. The bits are the same
 * either way. */
#ifndef ASSAY_GPU_MODEL_CUH
#define ASSAY_GPU_MODEL_CUH

#include "core/model.h"
#include "core/shard.h"
#include "gpu/cache.cuh"
#include "gpu/mla.cuh"
#include "gpu/moe.cuh"
#include "gpu/moe_plan.cuh"
#include "gpu/rope.cuh"

/* ---- weights ---- */

struct gpu_layer {
    bool loaded, moe;
    struct gpu_tensor attn_norm, mlp_norm, q_norm, kv_norm;
    struct gpu_matrix q_a, q_b, kv_a, kv_b, o;
    struct gpu_matrix gate, up, down; /* as struct layer's */
    struct gpu_matrix router;
    float *bias; /* [E], or NULL */
    struct gpu_experts experts;
};

struct gpu_graphs;
struct gpu_ranks;

struct gpu_model {
    struct gpu *g;
    const struct model *host;
    struct gpu_rope rope;
    struct gpu_tensor embed, norm; /* data NULL: not loaded */
    struct gpu_matrix head;
    struct gpu_layer *layers; /* host [config->layers] */
    struct gpu_graphs *graphs;
    struct gpu_ranks *ranks; /* of a shard (collective.cuh), or NULL: this is all of the model */
};

/* Of a shard: with every rank at once. */
enum err_code gpu_model_open(struct gpu *g, const struct model *host, struct gpu_model *m,
                             struct err *err) ERR_USED;
/* Safe on one that is all zero. */
void gpu_model_close(struct gpu_model *m);
/* Everything that this step reads and that is not there yet. Before the first byte: what it needs
 * and what is free. */
enum err_code gpu_model_load(struct gpu_model *m, const struct step *s, bool head, struct run *run,
                             struct err *err) ERR_USED;

/* ---- a step ---- */

/* Buffers of one step on the device, [T, width] each. */
struct gpu_pass {
    struct gpu_model *m;
    struct gpu *g;
    const struct step *step;
    struct run *run;
    const struct config *c;
    int64_t T, layer;
    bool apart;           /* somebody may change what is between two ops: none are fused */
    bool normed;          /* h holds norm(x) already */
    bool summed;          /* router_logits are there already */
    struct moe_plan plan; /* of the experts, where the router makes it */
    struct gpu_rows rows;
    const int64_t *token;
    struct gpu_cache *cache;
    bf16 *x;     /* residual stream */
    bf16 *h;     /* input of a block */
    bf16 *block; /* its output */
    bf16 *other; /* shared experts */
    bf16 *routed;
    void *partial;    /* of ranks: a block's output before it is summed, of gpu_partial_type() */
    int32_t *own_ids; /* of ranks: what this one's experts compute */
    bf16 *q, *latent, *k_rope, *core;
    bf16 *gated; /* of the shared experts: what their last product takes */
    float *router_logits, *weights, *logits;
    int32_t *ids, *forced;
    const int32_t *force; /* forced, or NULL */
};

/* Buffers in scratch. Its rows and tokens are the caller's to set. */
enum err_code gpu_pass_make(struct gpu_pass *p, bool logits, struct err *err) ERR_USED;
/* Embedding to head. */
enum err_code gpu_pass_run(struct gpu_pass *p, struct err *err) ERR_USED;
enum err_code gpu_model_step(struct gpu_model *m, const struct step *s, struct run *run,
                             struct err *err) ERR_USED;

/* A decode step by a captured graph, which gives what the launches it replays give. *done false:
 * this one cannot be, or not yet. */
enum err_code gpu_graph_step(struct gpu_model *m, const struct step *s, struct run *run, bool *done,
                             struct err *err) ERR_USED;
void gpu_graphs_close(struct gpu_model *m);
/* Those that read or write this cache. */
void gpu_graphs_forget(struct gpu_model *m, const struct gpu_cache *cache);

/* ---- taps: model_taps.cu ---- */

enum err_code gpu_emit(const struct gpu_pass *p, enum tap_kind kind, int64_t cols, bf16 *data,
                       struct err *err) ERR_USED;
enum err_code gpu_emit_f32(const struct gpu_pass *p, enum tap_kind kind, int64_t cols, float *data,
                           struct err *err) ERR_USED;
enum err_code gpu_emit_ids(const struct gpu_pass *p, struct err *err) ERR_USED;
/* Of `cols` columns a rank, which are gathered where somebody looks; every rank's sink must look at
 * the same. */
enum err_code gpu_emit_columns(const struct gpu_pass *p, const char *op, enum tap_kind kind,
                               int64_t cols, bf16 *data, struct err *err) ERR_USED;
bool gpu_wants(const struct gpu_pass *p, enum tap_kind kind);

/* ---- ops: on the device, or by their adapters through the seam: model_ops.cu ---- */

struct gpu_normed {
    enum tap_kind tap;
    const struct gpu_tensor *w;
    const struct tensor *host;
};
enum err_code gpu_op_embed(struct gpu_pass *p, struct err *err) ERR_USED;
/* h = norm(x) */
enum err_code gpu_op_norm(struct gpu_pass *p, const struct gpu_normed *n, struct err *err) ERR_USED;
enum err_code gpu_op_q(struct gpu_pass *p, struct err *err) ERR_USED;
enum err_code gpu_op_kv(struct gpu_pass *p, struct err *err) ERR_USED;
/* Both, and the cache's entries, where nobody changes what lies between: the bits are the same. */
enum err_code gpu_op_front(struct gpu_pass *p, struct err *err) ERR_USED;
/* q in place */
enum err_code gpu_op_rope(struct gpu_pass *p, struct err *err) ERR_USED;
enum err_code gpu_op_core(struct gpu_pass *p, struct err *err) ERR_USED;
/* block = o(core) */
enum err_code gpu_op_output(struct gpu_pass *p, struct err *err) ERR_USED;
enum err_code gpu_op_router(struct gpu_pass *p, struct err *err) ERR_USED;
/* block = routed, or with `shared` [T, H] the sum of both, and routed apart where p->routed is */
enum err_code gpu_op_moe(struct gpu_pass *p, const bf16 *shared, struct err *err) ERR_USED;
/* y = down(act(gate h) * up h), of the dense MLP or the shared experts */
enum err_code gpu_op_mlp(struct gpu_pass *p, const char *op, enum tap_kind tap, bf16 *y,
                         struct err *err) ERR_USED;
/* Its two steps of the shared experts, where nobody changes what lies between: p->gated; and of few
 * rows the router's logits too, which gpu_op_router() then finds there. Then y. */
enum err_code gpu_op_gated(struct gpu_pass *p, struct err *err) ERR_USED;
enum err_code gpu_op_down(struct gpu_pass *p, bf16 *y, struct err *err) ERR_USED;
enum err_code gpu_op_logits(struct gpu_pass *p, struct err *err) ERR_USED;
/* Where we are, for what ranks do together. */
struct shard_site gpu_site(const struct gpu_pass *p, const char *op, int64_t width);
/* This model is cut over ranks that are added up (tp), or its experts are on several. */
bool gpu_is_cut(const struct gpu_pass *p);
bool gpu_has_ranks(const struct gpu_pass *p);

/* ---- host copies for the seam: seam.cu ---- */

/* In the run's arena; NULL with `err`. */
double *gpu_seam_act(struct gpu *g, struct run *run, const bf16 *x, int64_t n, const char *what,
                     struct err *err);
double *gpu_seam_f32(struct gpu *g, struct run *run, const float *x, int64_t n, const char *what,
                     struct err *err);
double *gpu_seam_room(struct run *run, int64_t n, const char *what, struct err *err);
/* To the device; refused where this path's types do not hold the values. */
enum err_code gpu_seam_put(struct gpu *g, bf16 *to, const double *x, int64_t n, const char *what,
                           struct err *err) ERR_USED;
enum err_code gpu_seam_put_f32(struct gpu *g, float *to, const double *x, int64_t n,
                               const char *what, struct err *err) ERR_USED;
/* What an op gave, back to the device. A fault may have edited it: it is rounded, in place, as this
 * path keeps it. */
enum err_code gpu_seam_back(struct gpu *g, bf16 *to, double *x, int64_t n,
                            struct err *err) ERR_USED;
enum err_code gpu_seam_back_f32(struct gpu *g, float *to, double *x, int64_t n,
                                struct err *err) ERR_USED;
/* Runs the op on gpu_side() under run->faults; where we were is restored after it. */
struct fault_place;
enum err_code gpu_seam_call(struct gpu *g, const struct fault_place *place, const void *arg,
                            struct run *run, struct err *err) ERR_USED;

#endif
