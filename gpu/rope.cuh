/* rope.cuh: rotary embedding, op rope on the device. Contract: core/rope.h. cos and sin of the
 * float32 angle in float32, the rotation in float32, one rounding at the output (profile gpu:
 * RP_ROPE alone). */
#ifndef ASSAY_GPU_ROPE_CUH
#define ASSAY_GPU_ROPE_CUH

#include "gpu/weights.cuh"

struct rope_table;

/* A model's frequencies on the device. */
struct gpu_rope {
    int64_t R;
    float factor;
    float *frequency; /* [R/2] */
};

enum err_code gpu_rope_send(struct gpu *g, const struct rope_table *t, bool keep,
                            struct gpu_rope *out, struct err *err) ERR_USED;
/* Rotates columns [offset, offset + R) of every head of x [T, heads, stride] in place; position [T]
 * on the device. `soon`: all before the launch before this has ended when that lets this begin, and
 * so the next may begin at once. */
enum err_code gpu_rope(struct gpu *g, int64_t T, int64_t heads, int64_t stride, int64_t offset,
                       const int64_t *position, const struct gpu_rope *table, bool interleaved,
                       bool soon, bf16 *x, struct err *err) ERR_USED;

#endif
