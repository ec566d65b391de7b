/* moe_scale.h: the scale of an expert that the products do not take, found in the checkpoint: the
 * device counts them while it repacks, the host says where the first one is. Test:
 * tests/test_moe_scale.c */
#ifndef ASSAY_GPU_MOE_SCALE_H
#define ASSAY_GPU_MOE_SCALE_H

#include "core/dtype.h"
#include "core/error.h"
#include "core/weights.h"
#include "gpu/moe_pack.h"

/* m: packed, scales [rows, groups] of bf16 (group 0: one a row). ERR_OK where all of them fit;
 * ERR_INPUT names the first that does not: tensor, row, columns, value. */
static inline enum err_code moe_scales_check(const struct matrix *m, struct err *err)
{
    int64_t groups = m->group ? m->in / m->group : 1, columns = m->group ? m->group : m->in;
    for (int64_t i = 0; i < m->out * groups; i++) {
        uint16_t made;
        const uint16_t *bits = (const uint16_t *)tensor_elements(&m->scale, i, 1, &made);
        float scale = bf16_to_f32(*bits);
        if (moe_scale_fits(scale)) continue;
        int64_t row = i / groups, first = i % groups * columns;
        return err_set(
            err, ERR_INPUT,
            "repack expert|%s, row %lld, columns %lld to %lld|scale %g|one of size below "
            "%g, the end of what the products take",
            m->scale.name, (long long)row, (long long)first, (long long)(first + columns - 1),
            (double)scale, (double)MOE_SCALE_END);
    }
    return ERR_OK;
}

#endif
