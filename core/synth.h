/* synth.h: hash-random data, a pure function of (seed, name, index); version 1 of the synthetic
 * checkpoint.
 *
 *     GOLD    = 0x9E3779B97F4A7C15
 *     base    = fnv1a64(name) xor (seed * GOLD)
 *     x(i)    = mix(base + (i + 1) * GOLD)                         i = 0, 1, 2, ...
 *     u(i)    = (double)(x(i) >> 40) / 2^23 - 1                    in [-1, 1), exact in float32
 *     real(i) = f32(f32(u(i) * f32(scale)) + f32(offset)), then rounded to the dtype
 *
 * Any part can be made anywhere in any order. All integers modulo 2^64. Two float32 roundings: no
 * fused multiply-add (-ffp-contract=off). Test: tests/test_synth.c, against the published check
 * values. */
#ifndef ASSAY_CORE_SYNTH_H
#define ASSAY_CORE_SYNTH_H

#include "core/dtype.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

uint64_t synth_base(uint64_t seed, const char *name);
uint64_t synth_x(uint64_t base, int64_t i);
double synth_u(uint64_t base, int64_t i);

/* How the values of one tensor are made. */
enum synth_kind {
    SYNTH_REAL,  /* real(i); no offset where it is 0 */
    SYNTH_CODES, /* the bytes of x(0), x(1), ... little-endian: 16 codes of 4 bits a word */
    SYNTH_SCALE, /* f32(f32(u(i)*0.5 + 1) * scale) */
    SYNTH_SHAPE, /* (out, in) as int32 */
};

struct synth_rule {
    enum synth_kind kind;
    uint64_t base;
    float scale, offset;
    int64_t out, in; /* SYNTH_SHAPE */
};

/* Writes elements [first, first + n) of a tensor of type `dtype` to out. SYNTH_CODES wants DT_I32.
 */
void synth_fill(const struct synth_rule *rule, enum dtype dtype, int64_t first, int64_t n,
                void *out);

#ifdef __cplusplus
}
#endif
#endif
