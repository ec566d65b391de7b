/* router.cuh: which experts with which weights, op router on the device. Contract: core/router.h.
 * Logits are summed in float32 and not rounded (profile gpu: no RP_ROUTER_LOGITS), scores, keys and
 * weights in float32; ties go to the lower id, groups too. A key that is NaN counts as the least:
 * ids are valid and distinct whatever the logits hold, and weights made of NaN are NaN. */
#ifndef ASSAY_GPU_ROUTER_CUH
#define ASSAY_GPU_ROUTER_CUH

#include "gpu/weights.cuh"

#include "core/router.h"

struct moe_plan;
struct gpu_router {
    int64_t T, H, E, top_k, groups, top_groups;
    enum scoring scoring;
    enum topk_method method;
    bool norm_topk;
    float routed_scale;
    const bf16 *x;              /* [T, H] */
    const struct gpu_matrix *w; /* [E, H] */
    const float *bias;          /* [E] or NULL */
    const int32_t *forced;      /* device [T, top_k] or NULL; -1 first: not forced; an id out of
                                   range becomes -1 with weight NaN */
    bool summed;                /* logits are there already, a linear's; sums make their own */
    float *logits;              /* [T, E] */
    int32_t *ids;               /* [T, top_k] ascending */
    float *weights;             /* [T, top_k] */
    struct moe_plan *plan;      /* NULL, or filled with the choice where that costs no launch of its
                                   own: then plan->made */
};
/* What of it the op on the host says too: all that is no pointer. */
struct gpu_router gpu_router_of(const struct router *op);
/* Whether it takes logits that a linear made before (summed). */
bool gpu_router_by_linear(const struct gpu_router *op);
/* --tactic router=NAME forces a variant of router_choose.h: ERR_USAGE where it cannot serve. */
enum err_code gpu_router(struct gpu *g, const struct gpu_router *op, struct err *err) ERR_USED;

#endif
