/* vector.cuh: eight bf16 at a time, 16 bytes where they are aligned; private to gpu/. Whether a
 * load is wide never changes who handles which element, and so no bit. */
#ifndef ASSAY_GPU_VECTOR_CUH
#define ASSAY_GPU_VECTOR_CUH

#include "gpu/context.cuh"

enum { VECTOR = 8 };

/* Rows of `ld` elements from `data` on can be read 16 bytes at a time. */
static inline bool vector_fits(const void *data, int64_t ld)
{
    return (uintptr_t)data % 16 == 0 && ld % VECTOR == 0;
}

#ifdef __CUDACC__
/* n of them, at most 8; the rest are 0. `wide`: the address is a multiple of 16. */
__device__ static inline void vector_load(const bf16 *x, int64_t n, bool wide, float out[VECTOR])
{
    if (wide && n >= VECTOR) {
        uint4 raw = *(const uint4 *)x;
        const uint32_t part[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            out[2 * i] = __uint_as_float(part[i] << 16);
            out[2 * i + 1] = __uint_as_float(part[i] & 0xffff0000u);
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < VECTOR; i++) out[i] = i < n ? __bfloat162float(x[i]) : 0.0f;
}

/* Each rounded once. */
__device__ static inline void vector_store(bf16 *y, int64_t n, bool wide, const float in[VECTOR])
{
    if (wide && n >= VECTOR) {
        uint4 raw;
        __nv_bfloat162 *pair = (__nv_bfloat162 *)&raw;
#pragma unroll
        for (int i = 0; i < 4; i++) pair[i] = __floats2bfloat162_rn(in[2 * i], in[2 * i + 1]);
        *(uint4 *)y = raw;
        return;
    }
#pragma unroll
    for (int i = 0; i < VECTOR; i++) {
        if (i < n) y[i] = __float2bfloat16_rn(in[i]);
    }
}
#endif

#endif
