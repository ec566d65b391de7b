/* weights.cuh: a checkpoint's tensors on the device, as stored. Synthetic ones are made there by
 * the rule of core/synth.h and equal the host's bit for bit (explicit round-to-nearest multiply and
 * add: nvcc contracts otherwise). Private to gpu/. */
#ifndef ASSAY_GPU_WEIGHTS_CUH
#define ASSAY_GPU_WEIGHTS_CUH

#include "core/weights.h"
#include "gpu/context.cuh"

/* A tensor on the device. */
struct gpu_tensor {
    enum dtype dtype;
    int64_t count;
    void *data; /* NULL: there is none */
};

/* A matrix on the device; formats as in core/weights.h. */
struct gpu_matrix {
    enum matrix_format format;
    int64_t out, in;
    int bits;
    int64_t group, block[2];
    struct gpu_tensor data, scale, zero, g_idx;
};

/* Copies (or makes) t on the device. `keep`: gpu_keep() memory, else scratch. Host memory used is
 * bounded (a pinned staging buffer); the source may be a mapping. */
enum err_code gpu_tensor_send(struct gpu *g, const struct tensor *t, bool keep,
                              struct gpu_tensor *out, struct err *err) ERR_USED;
/* Elements [first, first + n) alone, in the same layout. */
enum err_code gpu_tensor_send_part(struct gpu *g, const struct tensor *t, int64_t first, int64_t n,
                                   void *device, struct err *err) ERR_USED;
enum err_code gpu_matrix_send(struct gpu *g, const struct matrix *m, bool keep,
                              struct gpu_matrix *out, struct err *err) ERR_USED;
void gpu_tensor_drop(struct gpu *g, struct gpu_tensor *t);
void gpu_matrix_drop(struct gpu *g, struct gpu_matrix *m);
/* Refuses a vector or table whose type no kernel reads: bf16, f16 and f32 alone. */
enum err_code gpu_want_real(const struct tensor *t, struct err *err) ERR_USED;
/* Bytes that gpu_matrix_send() will take. */
int64_t gpu_matrix_bytes(const struct matrix *m);

/* What a kernel needs to read any stored format, element by element: slow, exact. */
struct gpu_view {
    int format, type, scale_type, bits; /* enum matrix_format, enum dtype */
    int64_t out, in, group, block0, block1, words, groups;
    const void *data, *scale;
    const int32_t *zero, *g_idx;
};
struct gpu_view gpu_view_of(const struct gpu_matrix *m);

#ifdef __CUDACC__
/* One stored float element as float32. */
__device__ static inline float stored_float(const void *data, int type, int64_t i);
/* Element (r, c) as the reference's value in float32: model math 6. */
__device__ static inline float view_at(const struct gpu_view &m, int64_t r, int64_t c);
#include "gpu/weights_view.cuh"
#endif

#endif
