/* case_make.c: buffers and weights of cases; see case_make.h. Weights are rules wherever a rule of
 * core/synth.h can make them (dense types, packed codes, scales), so that a case of real size needs
 * no memory for them; fp8 codes and g_idx maps are buffers. Random codes also fill the padding of a
 * row's last word: it must not be read. */
#include "harness/case_make.h"

#include "core/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const words_format[] = {"bf16", "f16", "f32", "int4", "int4a", "int8", "fp8", NULL};
const char *const words_dense[] = {"bf16", "f16", "f32", NULL};
const char *const words_float[] = {"bf16", "f16", "f32", "none", NULL};

struct make make_begin(const struct op_case *c, struct arena *a, struct err *err)
{
    return (struct make){.c = c,
                         .arena = a,
                         .seed = (uint64_t)case_get_int(c, "seed"),
                         .x_bf16 = case_word_is(c, "x", "bf16"),
                         .err = err};
}

void *make_zeroed(struct make *m, int64_t n, size_t size, const char *what)
{
    void *p = arena_alloc(m->arena, n, size, what, m->err);
    if (p) memset(p, 0, (size_t)n * size);
    return p;
}

double *make_values(struct make *m, const char *name, int64_t n, double scale)
{
    double *x = arena_alloc(m->arena, n, sizeof *x, name, m->err);
    uint64_t base = synth_base(m->seed, name);
    for (int64_t i = 0; x && i < n; i++) {
        float v = (float)(synth_u(base, i) * scale);
        x[i] = (double)(m->x_bf16 ? bf16_to_f32(bf16_from_f32(v)) : v);
    }
    return x;
}

void *make_output_of(struct make *m, struct case_data *d, const char *name, enum dtype t,
                     int64_t rows, int64_t cols)
{
    CHECK(d->outputs < CASE_OUTPUTS);
    void *data = arena_alloc(m->arena, rows * cols, (size_t)dtype_size(t), name, m->err);
    if (!data) return NULL;
    for (int64_t i = 0; i < rows * cols; i++) {
        if (t == DT_F64)
            ((double *)data)[i] = NAN;
        else if (t == DT_I32)
            ((int32_t *)data)[i] = 2147480000;
        else if (t == DT_I64)
            ((int64_t *)data)[i] = 2147480000;
        else
            ((int8_t *)data)[i] = 0x5a;
    }
    d->output[d->outputs++] =
        (struct case_output){.name = name, .dtype = t, .rows = rows, .cols = cols, .data = data};
    return data;
}

double *make_output(struct make *m, struct case_data *d, const char *name, int64_t rows,
                    int64_t cols)
{
    return make_output_of(m, d, name, DT_F64, rows, cols);
}

enum dtype make_dtype(const char *word)
{
    return strcmp(word, "f16") == 0 ? DT_F16 : strcmp(word, "f32") == 0 ? DT_F32 : DT_BF16;
}

struct tensor make_tensor(const struct make *m, const char *name, enum dtype t, int64_t rows,
                          int64_t cols, double scale, double offset)
{
    struct tensor out = {.dtype = t, .dims = cols ? 2 : 1, .shape = {rows, cols}};
    snprintf(out.name, sizeof out.name, "%s", name);
    out.rule = (struct synth_rule){.kind = SYNTH_REAL,
                                   .base = synth_base(m->seed, name),
                                   .scale = (float)scale,
                                   .offset = (float)offset};
    return out;
}

struct matrix make_dense(const struct make *m, const char *name, enum dtype t, int64_t out,
                         int64_t in, double gain)
{
    struct matrix w = {.format = MATRIX_DENSE, .out = out, .in = in};
    w.data = make_tensor(m, name, t, out, in, gain * sqrt(3.0 / (double)in), 0);
    return w;
}

/* A part of a stored matrix with a rule of its own: "NAME.weight_scale". */
static struct tensor part(const struct make *m, const char *name, const char *suffix, enum dtype t,
                          int64_t rows, int64_t cols, enum synth_kind kind, double scale)
{
    char full[NAME_MAX_BYTES];
    snprintf(full, sizeof full, "%s.%s", name, suffix);
    struct tensor out = make_tensor(m, full, t, rows, cols, scale, 0);
    out.dims = 2;
    out.rule.kind = kind;
    return out;
}

/* A shuffled map of columns to groups: every group keeps its number of columns. `unused`: a -1 in
 * it says that it is not in use. */
static enum err_code make_order(struct make *m, const char *name, int64_t in, int64_t group,
                                bool unused, struct tensor *out)
{
    int32_t *map = arena_alloc(m->arena, in, sizeof *map, "g_idx", m->err);
    if (!map) return m->err->code;
    *out = part(m, name, "weight_g_idx", DT_I32, in, 1, SYNTH_REAL, 0);
    out->dims = 1;
    out->shape[1] = 0;
    out->data = map;
    for (int64_t i = 0; i < in; i++) map[i] = (int32_t)(group ? i / group : 0);
    for (int64_t i = in - 1; i > 0; i--) {
        int64_t j = (int64_t)(synth_x(out->rule.base, i) % (uint64_t)(i + 1));
        int32_t t = map[i];
        map[i] = map[j];
        map[j] = t;
    }
    if (unused) map[in / 2] = -1;
    return ERR_OK;
}

enum err_code make_packed(struct make *m, const char *name, int64_t out, int64_t in, int bits,
                          int64_t group, enum dtype scale, bool zero, int64_t order,
                          struct matrix *w)
{
    int64_t per_word = bits > 0 && bits <= 32 ? 32 / bits : 1;
    int64_t scales = group ? (in + group - 1) / group : 1;
    /* Codes are uniform: standard deviation 4.6098 for 4 bits, 16 times that for 8. */
    double deviation = bits == 8 ? 73.9008 : 4.6098;
    *w = (struct matrix){
        .format = MATRIX_PACKED, .out = out, .in = in, .bits = bits, .group = group};
    w->data =
        part(m, name, "weight_packed", DT_I32, out, (in + per_word - 1) / per_word, SYNTH_CODES, 0);
    w->scale = part(m, name, "weight_scale", scale, out, scales, SYNTH_SCALE,
                    1.0 / (deviation * sqrt((double)in)));
    if (zero)
        w->zero = part(m, name, "weight_zero_point", DT_I32, (out + per_word - 1) / per_word,
                       scales, SYNTH_CODES, 0);
    return order ? make_order(m, name, in, group, order == 2, &w->g_idx) : ERR_OK;
}

/* Random e4m3 bytes without the two NaN codes; their standard deviation is about 100. */
static enum err_code make_fp8(struct make *m, const char *name, int64_t out, int64_t in,
                              int64_t block, struct matrix *w)
{
    if (block < 1)
        return err_set(m->err, ERR_USAGE, "case|group|0|at least 1, the block, for format=fp8");
    *w = (struct matrix){
        .format = MATRIX_FP8_BLOCK, .out = out, .in = in, .bits = 8, .block = {block, block}};
    w->data = part(m, name, "weight", DT_F8_E4M3, out, in, SYNTH_REAL, 0);
    uint8_t *code = arena_alloc(m->arena, out * in, 1, "fp8 codes", m->err);
    if (!code) return m->err->code;
    for (int64_t i = 0; i < out * in; i++) {
        uint8_t b = (uint8_t)(synth_x(w->data.rule.base, i) >> 56);
        code[i] = (b & 0x7f) == 0x7f ? (uint8_t)(b & 0x80) : b;
    }
    w->data.data = code;
    w->scale = part(m, name, "weight_scale_inv", DT_F32, (out + block - 1) / block,
                    (in + block - 1) / block, SYNTH_SCALE, 1.0 / (100.0 * sqrt((double)in)));
    return ERR_OK;
}

enum err_code make_matrix(struct make *m, const char *name, int64_t out, int64_t in, double gain,
                          struct matrix *w)
{
    const char *format = case_word(m->c, "format");
    int64_t group = case_get_int(m->c, "group");
    int64_t order = case_get_int(m->c, "order");
    bool packed = strncmp(format, "int", 3) == 0;
    if (order && (!packed || group == 0))
        return err_set(m->err, ERR_USAGE,
                       "case|order|%lld with format=%s, group=%lld|a packed format with groups",
                       (long long)order, format, (long long)group);
    if (packed)
        return make_packed(m, name, out, in, strcmp(format, "int8") == 0 ? 8 : 4, group, DT_BF16,
                           strcmp(format, "int4a") == 0, order, w);
    if (strcmp(format, "fp8") == 0) return make_fp8(m, name, out, in, group, w);
    *w = make_dense(m, name, make_dtype(format), out, in, gain);
    return ERR_OK;
}

double case_tensor_value(const struct tensor *t, int64_t i)
{
    unsigned char buf[8];
    double v;
    dtype_to_f64(t->dtype, tensor_elements(t, i, 1, buf), 1, &v);
    return v;
}

/* Code `i` of a row of words. */
static int64_t packed_code(const struct tensor *t, int64_t row, int64_t cols, int64_t i, int bits)
{
    int32_t word;
    int64_t per_word = 32 / bits;
    const void *p = tensor_elements(t, row * cols + i / per_word, 1, &word);
    uint32_t u = (uint32_t)dtype_int_at(DT_I32, p, 0) >> (bits * (i % per_word));
    return (int64_t)(u & ((1u << bits) - 1)) - (1 << (bits - 1));
}

/* A -1 anywhere in a g_idx says that columns count groups in order. */
static bool order_used(const struct matrix *w)
{
    int32_t buf;
    if (!tensor_exists(&w->g_idx)) return false;
    for (int64_t c = 0; c < w->in; c++) {
        if (dtype_int_at(DT_I32, tensor_elements(&w->g_idx, c, 1, &buf), 0) == -1) return false;
    }
    return true;
}

static double packed_value(const struct matrix *w, int64_t row, int64_t col, bool ordered)
{
    int64_t scales = w->scale.shape[1], words = w->data.shape[1], per_word = 32 / w->bits;
    int64_t g = w->group ? col / w->group : 0;
    int32_t buf;
    if (ordered) g = dtype_int_at(DT_I32, tensor_elements(&w->g_idx, col, 1, &buf), 0);
    int64_t q = packed_code(&w->data, row, words, col, w->bits);
    if (tensor_exists(&w->zero)) {
        const void *p = tensor_elements(&w->zero, row / per_word * scales + g, 1, &buf);
        uint32_t u = (uint32_t)dtype_int_at(DT_I32, p, 0) >> (w->bits * (row % per_word));
        q -= (int64_t)(u & ((1u << w->bits) - 1)) - (1 << (w->bits - 1));
    }
    return dtype_round(w->scale.dtype, (double)q * case_tensor_value(&w->scale, row * scales + g));
}

void case_matrix_row(const struct matrix *w, int64_t row, double *out)
{
    bool ordered = w->format == MATRIX_PACKED && order_used(w);
    for (int64_t c = 0; c < w->in; c++) {
        if (w->format == MATRIX_PACKED) {
            out[c] = packed_value(w, row, c, ordered);
        } else {
            out[c] = case_tensor_value(&w->data, row * w->in + c);
            if (w->format == MATRIX_FP8_BLOCK)
                out[c] = dtype_round(
                    DT_BF16,
                    out[c] * case_tensor_value(&w->scale, row / w->block[0] * w->scale.shape[1] +
                                                              c / w->block[1]));
        }
    }
}

enum err_code make_rows(struct make *m, const int64_t *context, const int64_t *count, int n,
                        struct rows *out)
{
    int64_t total = 0;
    for (int s = 0; s < n; s++) total += count[s];
    int32_t *sequence = make_zeroed(m, total, sizeof *sequence, "rows");
    int64_t *position = make_zeroed(m, total, sizeof *position, "rows");
    int64_t *token = make_zeroed(m, total, sizeof *token, "rows");
    int64_t *dump_row = make_zeroed(m, total, sizeof *dump_row, "rows");
    if (!sequence || !position || !token || !dump_row) return m->err->code;
    for (int64_t s = 0, i = 0; s < n; s++) {
        for (int64_t t = 0; t < count[s]; t++, i++) {
            sequence[i] = (int32_t)s;
            position[i] = context[s] + t;
            dump_row[i] = i;
        }
    }
    *out = (struct rows){.count = total,
                         .sequence = sequence,
                         .position = position,
                         .token = token,
                         .dump_row = dump_row};
    return ERR_OK;
}
