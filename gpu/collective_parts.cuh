/* collective_parts.cuh: the kernels of collective.cu, private to it. `done`: NULL, or where
 * `number` is written when the work is done. */
#ifndef ASSAY_GPU_COLLECTIVE_PARTS_CUH
#define ASSAY_GPU_COLLECTIVE_PARTS_CUH

#include "gpu/collective.cuh"

struct ranks_sum {
    const void *parts; /* [members], `apart` elements from one to the next */
    int64_t apart, n;
    int members;
    bf16 *y;
    volatile uint32_t *done;
    uint32_t number;
};

/* y [n] bf16 = the sum of the parts in their order, each step rounded to `type`, that of the parts.
 */
enum err_code ranks_add(struct gpu *g, enum dtype type, const struct ranks_sum *p,
                        struct err *err) ERR_USED;

struct ranks_columns {
    const void *parts; /* [members][T][width] */
    int64_t T, width;
    int members;
    void *y; /* [T][members * width] */
    volatile uint32_t *done;
    uint32_t number;
};

/* Elements of DT_F32 or DT_BF16. */
enum err_code ranks_join(struct gpu *g, enum dtype type, const struct ranks_columns *p,
                         struct err *err) ERR_USED;
enum err_code ranks_set_done(struct gpu *g, volatile uint32_t *done, uint32_t number,
                             struct err *err) ERR_USED;
/* own[i] = number[row of i modulo 2][ids[i]], -1 for no expert; n = rows * top_k. */
enum err_code ranks_own(struct gpu *g, int64_t n, int64_t top_k, int64_t E, const int32_t *number,
                        const int32_t *ids, int32_t *own, struct err *err) ERR_USED;

#endif
