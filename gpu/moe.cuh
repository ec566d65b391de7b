/* moe.cuh: the routed experts, op moe on the device. Contract: core/moe.h. Per expert: gate and up
 * round to bf16, silu(gate)*up once, the down projection once (RP_LINEAR); weight * row and the sum
 * over experts in ascending id in float32, times sum_scale, one rounding (RP_ROUTED):
 * deterministic, no atomics on values.
 *
 * Packed experts: every product of a row runs through k in ascending steps of 16 in one float32
 * accumulator, whichever kernel makes it, so a row's bits do not depend on the other rows, on T or
 * on the routing of others. This rests on mma.sync and wgmma adding alike, which was tested on an
 * H200 and is not documented; between cards of different generations bits may differ. One kernel
 * is apart, moe_fused.cu, which serves the fewest tokens of narrow experts: it adds chunks of k, so
 * a row alone may have other bits than in a batch that another kernel takes. Which kernel:
 * gpu/moe_choose.h, by T, top_k and sizes, or --tactic moe=NAME; experts of other formats have one
 * kernel and no choice. */
#ifndef ASSAY_GPU_MOE_CUH
#define ASSAY_GPU_MOE_CUH

#include "gpu/weights.cuh"

#include "core/moe.h"

/* The experts of one layer on the device. Packed INT4 (4 bits, symmetric, no group index, groups of
 * a multiple of 32 or whole rows, bf16 scales) is repacked once into the kernels' layout
 * (moe_pack.h), padded with codes of 0 to whole tiles; everything else stays as stored and is
 * computed by a slow exact kernel. */
struct gpu_experts {
    int64_t E, H, I;
    int64_t all; /* E, or of how many a rank holds these E: rows are routed over all of them */
    bool packed;
    void *w13, *w2;            /* packed: [E] x tiles, see moe_pack.h */
    size_t w13_step, w2_step;  /* bytes an expert */
    struct gpu_matrix *stored; /* host [E][gate, up, down], where !packed */
    struct gpu_view *view;     /* device [E][gate, up, down], where !packed */
    bool *present;             /* host [E]: which were loaded (op replay loads the chosen) */
};

/* Empty experts of these sizes; gives room. `packed` where the format fits. */
enum err_code gpu_experts_open(struct gpu *g, int64_t E, int64_t H, int64_t I, bool packed,
                               struct gpu_experts *out, struct err *err) ERR_USED;
/* Whether a triple can live in the packed layout. */
bool gpu_expert_packs(const struct expert *x);
/* Loads expert e: sends codes and scales, repacks on the device, checks by unpacking that the bytes
 * are the checkpoint's. */
enum err_code gpu_experts_load(struct gpu *g, struct gpu_experts *x, int64_t e,
                               const struct expert *from, struct err *err) ERR_USED;
void gpu_experts_close(struct gpu *g, struct gpu_experts *x);
/* Bytes on the device of one expert. */
int64_t gpu_expert_bytes(int64_t H, int64_t I, bool packed, const struct expert *from);

struct gpu_moe {
    int64_t T, top_k;
    const bf16 *x;        /* [T, H] */
    const int32_t *ids;   /* device [T, top_k] ascending in a row, each once; -1: none (padding) */
    const float *weights; /* device [T, top_k] */
    const struct gpu_experts *experts;
    const struct moe_plan *plan; /* NULL, or of these ids where it is made; then a launch lies
                                    between that lets the next begin when it has waited itself */
    double sum_scale;
    const bf16 *shared; /* NULL, or [T, H]: y = bf16(bf16(sum) + shared) */
    bf16 *routed;       /* NULL, or out [T, H]: bf16(sum), sum_scale in it */
    bf16 *y;            /* [T, H] */
    /* NULL, or out [T, H], and y, routed, shared are not used: the sum as it is, of the experts
     * that are here. A part of an expert's inner width gives rows rounded as whole ones are. */
    float *partial;
};
/* Scratch for the plan of T rows, which gpu_router() then makes where it can. */
struct moe_plan;
enum err_code gpu_moe_plan(struct gpu *g, const struct gpu_experts *x, int64_t T, int64_t top_k,
                           struct moe_plan *out, struct err *err) ERR_USED;
/* Permutation, both grouped products, SwiGLU, combine. No host reads: may be captured. One at a
 * time on a device: the launches of moe_fused.cu share what passes between their blocks. */
enum err_code gpu_moe(struct gpu *g, const struct gpu_moe *op, struct err *err) ERR_USED;

#endif
