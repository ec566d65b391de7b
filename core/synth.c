/* synth.c: see synth.h. */
#include "core/synth.h"

#include "core/check.h"

#include <string.h>

#define GOLD 0x9E3779B97F4A7C15u

uint64_t synth_base(uint64_t seed, const char *name)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (const unsigned char *p = (const unsigned char *)name; *p; p++)
        h = (h ^ *p) * 0x100000001b3u;
    return h ^ (seed * GOLD);
}

uint64_t synth_x(uint64_t base, int64_t i)
{
    uint64_t z = base + ((uint64_t)i + 1) * GOLD;
    z ^= z >> 30;
    z *= 0xBF58476D1CE4E5B9u;
    z ^= z >> 27;
    z *= 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

double synth_u(uint64_t base, int64_t i)
{
    return (double)(synth_x(base, i) >> 40) / 8388608.0 - 1.0;
}

static float u32(uint64_t base, int64_t i)
{
    return (float)(int32_t)(synth_x(base, i) >> 40) * 0x1p-23f -
           1.0f; /* 24 bits: exact in float32 */
}

static void fill_codes(const struct synth_rule *r, int64_t first, int64_t n, uint32_t *out)
{
    for (int64_t i = 0; i < n; i++) {
        uint64_t x = synth_x(r->base, (first + i) / 2);
        out[i] = (uint32_t)((first + i) & 1 ? x >> 32 : x);
    }
}

static float real_value(const struct synth_rule *r, int64_t i)
{
    if (r->kind == SYNTH_SCALE) return (u32(r->base, i) * 0.5f + 1.0f) * r->scale;
    float v = u32(r->base, i) * r->scale;
    return r->offset != 0.0f ? v + r->offset : v;
}

void synth_fill(const struct synth_rule *r, enum dtype dtype, int64_t first, int64_t n, void *out)
{
    CHECK(first >= 0 && n >= 0);
    if (r->kind == SYNTH_CODES) {
        CHECK(dtype == DT_I32);
        fill_codes(r, first, n, out);
    } else if (r->kind == SYNTH_SHAPE) {
        CHECK(dtype == DT_I32 && first + n <= 2);
        const int32_t shape[2] = {(int32_t)r->out, (int32_t)r->in};
        memcpy(out, shape + first, (size_t)n * sizeof *shape);
    } else if (dtype == DT_BF16) {
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *)out)[i] = bf16_from_f32(real_value(r, first + i));
    } else if (dtype == DT_F16) {
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *)out)[i] = f16_from_f32(real_value(r, first + i));
    } else {
        CHECK(dtype == DT_F32);
        for (int64_t i = 0; i < n; i++) ((float *)out)[i] = real_value(r, first + i);
    }
}
