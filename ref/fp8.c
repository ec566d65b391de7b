/* fp8.c: see fp8.h. */
#include "ref/fp8.h"

void fp8_rows(const struct matrix *m, int64_t row, int64_t n, void *scratch, float *out, int64_t ld)
{
    float value[256];
    for (int b = 0; b < 256; b++) value[b] = e4m3_to_f32((uint8_t)b);
    char *scale_buffer = (char *)scratch + (m->in + 7) / 8 * 8; /* float32 values: aligned */
    for (int64_t r = 0; r < n; r++) {
        const uint8_t *code = tensor_elements(&m->data, (row + r) * m->in, m->in, scratch);
        int64_t blocks = m->scale.shape[1];
        const void *scale =
            tensor_elements(&m->scale, (row + r) / m->block[0] * blocks, blocks, scale_buffer);
        for (int64_t b = 0; b < blocks; b++) {
            float s;
            int64_t end = (b + 1) * m->block[1] < m->in ? (b + 1) * m->block[1] : m->in;
            dtype_to_f32(DT_F32, (const char *)scale + b * 4, 1, &s);
            for (int64_t c = b * m->block[1]; c < end; c++)
                out[r * ld + c] = bf16_to_f32(bf16_from_f32(value[code[c]] * s));
        }
    }
}
