/* rope.h: rotary position embedding, op "rope".
 *     angle a_i = f32(f32(t) * f32(f_i)),  i < R/2          model math 3.1, 4
 *     interleaved: (x[2i], x[2i+1])    -> (x[2i] cos - x[2i+1] sin, x[2i+1] cos + x[2i] sin)
 *     half-split:  (x[i],  x[i+R/2])   -> the same with the pair taken from the two halves
 * x, y [T, heads, stride] of which the columns [offset, offset + R) of every head are rotated in
 * place; position [T]. cos and sin are float64 of the float32 angle, times the attention factor A.
 * Rounds at RP_ROPE_TABLE, RP_ROPE_TERM, RP_ROPE. Errors: R odd or < 2, a position < 0. */
#ifndef ASSAY_CORE_ROPE_H
#define ASSAY_CORE_ROPE_H

#include "core/config.h"
#include "core/run.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Frequencies of one model: plain base^(-2i/R), or YaRN's mixture of it and its 1/factor, every
 * step in float32 as the engines do; powf is replaced by a correctly rounded pow. */
struct rope_table {
    int64_t R;
    float frequency[256]; /* [R/2] */
    double factor;        /* A: multiplies cos and sin; 1 for every model with equal mscales */
    double theta;         /* what it was made from */
    struct rope_scaling scaling;
};

/* Errors: R odd, < 2 or > 512; theta <= 1. */
enum err_code rope_table_make(const struct config *c, struct rope_table *out,
                              struct err *err) ERR_USED;

struct rope {
    int64_t T, heads, stride, offset;
    const int64_t *position; /* [T] */
    const struct rope_table *table;
    bool interleaved;
    double *x; /* [T, heads, stride], in place */
};

enum err_code rope_check(const struct rope *op, struct err *err) ERR_USED;
enum err_code rope_ref(const struct rope *op, struct run *run, struct err *err) ERR_USED;

#ifdef __cplusplus
}
#endif
#endif
