/* weights.cu: tensors to the device, from a mapping or made there; see weights.cuh. */
#include "gpu/weights.cuh"

#include "core/check.h"

#include <cuda_fp16.h>
#include <stdlib.h>

/* ---- made on the device: core/synth.h, the same bits ---- */

#define GOLD 0x9E3779B97F4A7C15ull

__device__ static inline uint64_t mix_x(uint64_t base, int64_t i)
{
    uint64_t z = base + ((uint64_t)i + 1) * GOLD;
    z ^= z >> 30;
    z *= 0xBF58476D1CE4E5B9ull;
    z ^= z >> 27;
    z *= 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

/* Every step rounds by itself: nvcc would fuse plain operators. */
__device__ static inline float real_value(const struct synth_rule &r, int64_t i)
{
    float whole = __int2float_rn((int32_t)(mix_x(r.base, i) >> 40));
    float u = __fadd_rn(__fmul_rn(whole, 0x1p-23f), -1.0f);
    if (r.kind == SYNTH_SCALE) return __fmul_rn(__fadd_rn(__fmul_rn(u, 0.5f), 1.0f), r.scale);
    float v = __fmul_rn(u, r.scale);
    return r.offset != 0.0f ? __fadd_rn(v, r.offset) : v;
}

/* Which elements of a tensor to make, and where they lie in the larger one: tensor_place(). */
struct made {
    int64_t first, n, offset, pitch, columns;
};

__device__ static inline int64_t place_of(const struct made &m, int64_t i)
{
    return m.offset + (m.pitch == 0 ? i : i / m.columns * m.pitch + i % m.columns);
}

__global__ static void synth_make(struct synth_rule r, int type, struct made m, void *out)
{
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < m.n; i += step) {
        int64_t at = place_of(m, m.first + i);
        if (r.kind == SYNTH_CODES) {
            uint64_t x = mix_x(r.base, at / 2);
            ((uint32_t *)out)[i] = (uint32_t)(at & 1 ? x >> 32 : x);
        } else if (type == DT_BF16) {
            ((bf16 *)out)[i] = __float2bfloat16_rn(real_value(r, at));
        } else if (type == DT_F16) {
            ((__half *)out)[i] = __float2half_rn(real_value(r, at));
        } else {
            ((float *)out)[i] = real_value(r, at);
        }
    }
}

static enum err_code make_part(struct gpu *g, const struct tensor *t, int64_t first, int64_t n,
                               void *device, struct err *err)
{
    int32_t shape[2];
    if (t->rule.kind == SYNTH_SHAPE) {
        const void *host = tensor_elements(t, first, n, shape);
        return gpu_send(g, device, host, (size_t)n * sizeof *shape, t->name, err);
    }
    CHECK(t->rule.kind == SYNTH_CODES
              ? t->dtype == DT_I32
              : t->dtype == DT_BF16 || t->dtype == DT_F16 || t->dtype == DT_F32);
    int64_t blocks = (n + 255) / 256, most = (int64_t)g->sms * 16;
    /* Side by side or not, it is the place that a value is made from. */
    const struct made m = {first, n, t->offset, tensor_is_contiguous(t) ? 0 : t->pitch,
                           t->shape[t->dims - 1]};
    (void)!GPU_LAUNCH(g, err, "synth_make", "", dim3((unsigned)(blocks < most ? blocks : most)),
                      dim3(256), 0, synth_make, t->rule, (int)t->dtype, m, device);
    g->fresh = true;
    return err->code;
}

/* ---- copied ---- */

/* A piece at a time: tensor_watch() hears how far the load has come. */
static enum err_code copy_part(struct gpu *g, const struct tensor *t, int64_t first, int64_t n,
                               void *device, struct err *err)
{
    int64_t size = dtype_size(t->dtype), piece = (int64_t)GPU_STAGE_BYTES / size;
    if (piece > n) piece = n;
    /* Rows of a part lie apart: they are brought together first. */
    void *together = tensor_is_contiguous(t) ? NULL : malloc((size_t)(piece * size));
    if (!together && !tensor_is_contiguous(t))
        return err_set(err, ERR_MEMORY, "send weights|%s|no memory on the host|%lld bytes", t->name,
                       (long long)(piece * size));
    for (int64_t at = 0; at < n && err->code == ERR_OK; at += piece) {
        int64_t m = n - at < piece ? n - at : piece;
        const void *host = tensor_elements(t, first + at, m, together);
        (void)!gpu_send(g, (char *)device + at * size, host, (size_t)(m * size), t->name, err);
    }
    free(together);
    return err->code;
}

enum err_code gpu_tensor_send_part(struct gpu *g, const struct tensor *t, int64_t first, int64_t n,
                                   void *device, struct err *err)
{
    CHECK(first >= 0 && n >= 0 && first + n <= tensor_count(t));
    if (n == 0) return ERR_OK;
    return t->data ? copy_part(g, t, first, n, device, err)
                   : make_part(g, t, first, n, device, err);
}

enum err_code gpu_tensor_send(struct gpu *g, const struct tensor *t, bool keep,
                              struct gpu_tensor *out, struct err *err)
{
    *out = (struct gpu_tensor){t->dtype, tensor_count(t), NULL};
    const char *what = t->name[0] ? t->name : "a tensor";
    size_t size = (size_t)dtype_size(t->dtype);
    void *data =
        keep ? gpu_keep(g, out->count, size, what, err) : gpu_alloc(g, out->count, size, what, err);
    if (!data) return err->code;
    if (gpu_tensor_send_part(g, t, 0, out->count, data, err) == ERR_OK) {
        out->data = data;
        return ERR_OK;
    }
    if (keep) gpu_drop(g, data);
    return err->code;
}

void gpu_tensor_drop(struct gpu *g, struct gpu_tensor *t)
{
    gpu_drop(g, t->data);
    t->data = NULL;
}

enum err_code gpu_want_real(const struct tensor *t, struct err *err)
{
    if (t->dtype == DT_BF16 || t->dtype == DT_F16 || t->dtype == DT_F32) return ERR_OK;
    return err_set(err, ERR_INPUT, "weights on gpu|%s|%s|BF16, F16 or F32", t->name,
                   dtype_name(t->dtype));
}

/* ---- matrices ---- */

/* A stored group index with a -1 in it is not in use (core/int4.h). */
static bool uses_index(const struct matrix *m)
{
    if (m->format != MATRIX_PACKED || !tensor_exists(&m->g_idx)) return false;
    for (int64_t c = 0; c < m->in; c++) {
        int32_t buf;
        if (dtype_int_at(DT_I32, tensor_elements(&m->g_idx, c, 1, &buf), 0) < 0) return false;
    }
    return true;
}

/* Which tensors a format has, in the order of struct matrix. */
static int parts_of(const struct matrix *m, const struct tensor *parts[4])
{
    int n = 0;
    parts[n++] = &m->data;
    if (m->format == MATRIX_DENSE) return n;
    parts[n++] = &m->scale;
    if (m->format != MATRIX_PACKED) return n;
    if (tensor_exists(&m->zero)) parts[n++] = &m->zero;
    if (uses_index(m)) parts[n++] = &m->g_idx;
    return n;
}

enum err_code gpu_matrix_send(struct gpu *g, const struct matrix *m, bool keep,
                              struct gpu_matrix *out, struct err *err)
{
    const struct tensor *parts[4];
    *out = (struct gpu_matrix){};
    out->format = m->format;
    out->out = m->out;
    out->in = m->in;
    out->bits = m->bits;
    out->group = m->group;
    out->block[0] = m->block[0];
    out->block[1] = m->block[1];
    int n = parts_of(m, parts);
    for (int i = 0; i < n && err->code == ERR_OK; i++) {
        struct gpu_tensor *to = parts[i] == &m->data    ? &out->data
                                : parts[i] == &m->scale ? &out->scale
                                : parts[i] == &m->zero  ? &out->zero
                                                        : &out->g_idx;
        (void)!gpu_tensor_send(g, parts[i], keep, to, err);
    }
    if (err->code != ERR_OK && keep) gpu_matrix_drop(g, out);
    return err->code;
}

void gpu_matrix_drop(struct gpu *g, struct gpu_matrix *m)
{
    struct gpu_tensor *parts[] = {&m->g_idx, &m->zero, &m->scale, &m->data};
    for (struct gpu_tensor *t : parts) gpu_tensor_drop(g, t);
}

int64_t gpu_matrix_bytes(const struct matrix *m)
{
    const struct tensor *parts[4];
    int64_t bytes = 0;
    int n = parts_of(m, parts);
    for (int i = 0; i < n; i++) bytes += tensor_count(parts[i]) * dtype_size(parts[i]->dtype);
    return bytes;
}

struct gpu_view gpu_view_of(const struct gpu_matrix *m)
{
    struct gpu_view v = {};
    v.format = m->format;
    v.type = m->data.dtype;
    v.scale_type = m->scale.dtype;
    v.bits = m->bits;
    v.out = m->out;
    v.in = m->in;
    v.group = m->group;
    v.block0 = m->block[0];
    v.block1 = m->block[1];
    v.words = m->format == MATRIX_PACKED ? ceil_div(m->in, 32 / m->bits) : 0;
    v.groups = m->format == MATRIX_FP8_BLOCK ? ceil_div(m->in, m->block[1])
               : m->group                    ? ceil_div(m->in, m->group)
                                             : 1;
    v.data = m->data.data;
    v.scale = m->scale.data;
    v.zero = (const int32_t *)m->zero.data;
    v.g_idx = (const int32_t *)m->g_idx.data;
    return v;
}
