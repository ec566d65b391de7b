/* dtype.h: the element types of tensors, and their exact conversion to and from float32 and
 * float64. Names are those of the safetensors format. All roundings are to nearest, ties to even.
 * Test: tests/test_dtype.c */
#ifndef ASSAY_CORE_DTYPE_H
#define ASSAY_CORE_DTYPE_H

#include "core/error.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum dtype {
    DT_BOOL,
    DT_U8,
    DT_I8,
    DT_F8_E4M3,
    DT_F8_E5M2,
    DT_F8_E8M0,
    DT_I16,
    DT_U16,
    DT_F16,
    DT_BF16,
    DT_I32,
    DT_U32,
    DT_F32,
    DT_I64,
    DT_U64,
    DT_F64,
    DT_C64,
    DT_COUNT
};

/* "BF16"; "?" for a value outside the enum. */
const char *dtype_name(enum dtype t);
/* The type of a safetensors name; false when there is none. */
bool dtype_parse(const char *name, enum dtype *out);
/* Bytes of one element. */
int dtype_size(enum dtype t);
/* Floating-point types (C64 is not one: no op reads it). */
bool dtype_is_float(enum dtype t);
bool dtype_is_int(enum dtype t);
/* Unit roundoff of a float type: half the distance from 1 to the next value (bf16 2^-8, f16 2^-11,
 * f32 2^-24). */
double dtype_unit(enum dtype t);

uint32_t f32_bits(float x);
float f32_from_bits(uint32_t u);

/* bf16: the upper half of a float32. NaN stays NaN. */
uint16_t bf16_from_f32(float x);
float bf16_to_f32(uint16_t h);
uint16_t f16_from_f32(float x);
float f16_to_f32(uint16_t h);
/* e4m3fn: bias 7, largest 448, no infinity, NaN is 0x7F and 0xFF. e5m2: IEEE-like. e8m0: 2^(b-127),
 * 0xFF NaN. */
float e4m3_to_f32(uint8_t b);
float e5m2_to_f32(uint8_t b);
float e8m0_to_f32(uint8_t b);

/* Rounds x to dtype t (a float type of 16 bits or more) and back. Goes through float32 first, as
 * engines that accumulate in float32 do. DT_F64 gives x back. */
double dtype_round(enum dtype t, double x);

/* out[i] = element i of src as a float64 or float32, i < n. Integers convert; 64-bit integers above
 * 2^53 round. */
void dtype_to_f64(enum dtype t, const void *src, int64_t n, double *out);
void dtype_to_f32(enum dtype t, const void *src, int64_t n, float *out);
/* dst[i] = src[i] rounded to a float type of 16 bits or more. */
void dtype_from_f64(enum dtype t, const double *src, int64_t n, void *dst);
/* Element i of an integer or bool tensor. */
int64_t dtype_int_at(enum dtype t, const void *src, int64_t i);

#ifdef __cplusplus
}
#endif
#endif
