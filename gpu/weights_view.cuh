/* weights_view.cuh: stored elements as values, on the device; private to gpu/, included by
 * weights.cuh. The rules are those of core/weights.h and core/int4.h. */
#ifndef ASSAY_GPU_WEIGHTS_VIEW_CUH
#define ASSAY_GPU_WEIGHTS_VIEW_CUH

#include <cuda_fp16.h>
#include <cuda_fp8.h>

/* e4m3fn is exact in float16. */
__device__ static inline float e4m3_value(uint8_t code)
{
    return __half2float(__half(__nv_cvt_fp8_to_halfraw(code, __NV_E4M3)));
}

__device__ static inline float stored_float(const void *data, int type, int64_t i)
{
    if (type == DT_BF16) return __bfloat162float(((const bf16 *)data)[i]);
    if (type == DT_F16) return __half2float(((const __half *)data)[i]);
    return ((const float *)data)[i];
}

/* x rounded to the type of a scale, as the reference rounds it. */
__device__ static inline float round_as(int type, float x)
{
    if (type == DT_BF16) return __bfloat162float(__float2bfloat16_rn(x));
    if (type == DT_F16) return __half2float(__float2half_rn(x));
    return x;
}

/* The integer u - 2^(bits-1) at `column` of a row of packed words. */
__device__ static inline int packed_code(const int32_t *words, int bits, int64_t column)
{
    int per_word = 32 / bits;
    uint32_t word = (uint32_t)words[column / per_word];
    return (int)((word >> (column % per_word * bits)) & ((1u << bits) - 1)) - (1 << (bits - 1));
}

/* Zero points are packed along rows. */
__device__ static inline int packed_zero(const struct gpu_view &m, int64_t r, int64_t g)
{
    if (!m.zero) return 0;
    int per_word = 32 / m.bits;
    uint32_t word = (uint32_t)m.zero[r / per_word * m.groups + g];
    return (int)((word >> (r % per_word * m.bits)) & ((1u << m.bits) - 1)) - (1 << (m.bits - 1));
}

__device__ static inline float packed_at(const struct gpu_view &m, int64_t r, int64_t c)
{
    int64_t g = m.g_idx ? m.g_idx[c] : m.group ? c / m.group : 0;
    int q = packed_code((const int32_t *)m.data + r * m.words, m.bits, c) - packed_zero(m, r, g);
    float scale = stored_float(m.scale, m.scale_type, r * m.groups + g);
    return round_as(m.scale_type, __fmul_rn((float)q, scale));
}

__device__ static inline float fp8_at(const struct gpu_view &m, int64_t r, int64_t c)
{
    float scale = ((const float *)m.scale)[r / m.block0 * m.groups + c / m.block1];
    float code = e4m3_value(((const uint8_t *)m.data)[r * m.in + c]);
    return __bfloat162float(__float2bfloat16_rn(__fmul_rn(code, scale)));
}

__device__ static inline float view_at(const struct gpu_view &m, int64_t r, int64_t c)
{
    if (m.format == MATRIX_PACKED) return packed_at(m, r, c);
    if (m.format == MATRIX_FP8_BLOCK) return fp8_at(m, r, c);
    return stored_float(m.data, m.type, r * m.in + c);
}

#endif
