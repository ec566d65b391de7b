/* matrix.c: see matrix.h. */
#include "core/matrix.h"

#include "core/check.h"

#include <math.h>
#include <string.h>

static const char *name_of(const struct tensor *t)
{
    return t->name[0] ? t->name : "(unnamed)";
}

static enum err_code want_shape(const struct tensor *t, const char *role, int dims,
                                const int64_t *shape, struct err *err)
{
    char found[96], wanted[96];
    if (t->dims == dims && memcmp(t->shape, shape, (size_t)dims * sizeof *shape) == 0)
        return ERR_OK;
    return err_set(err, ERR_INPUT, "%s shape|%s|%s|%s", role, name_of(t),
                   st_shape_text(t->dims, t->shape, found, sizeof found),
                   st_shape_text(dims, shape, wanted, sizeof wanted));
}

static enum err_code want_dtype(const struct tensor *t, const char *role, bool fits,
                                const char *wanted, struct err *err)
{
    if (fits) return ERR_OK;
    return err_set(err, ERR_INPUT, "%s dtype|%s|%s|%s", role, name_of(t), dtype_name(t->dtype),
                   wanted);
}

static bool is_real(enum dtype t)
{
    return t == DT_BF16 || t == DT_F16 || t == DT_F32;
}

static enum err_code check_g_idx(const struct matrix *m, int64_t groups, struct err *err)
{
    const int64_t shape[1] = {m->in};
    if (want_shape(&m->g_idx, "group index", 1, shape, err) != ERR_OK ||
        want_dtype(&m->g_idx, "group index", m->g_idx.dtype == DT_I32, "I32", err) != ERR_OK)
        return err->code;
    for (int64_t c = 0; c < m->in; c++) {
        int32_t buf;
        const void *at = tensor_elements(&m->g_idx, c, 1, &buf);
        int64_t g = dtype_int_at(DT_I32, at, 0);
        /* -1 anywhere means "no index in use": columns then count groups in order. */
        if (g < -1 || g >= groups)
            return err_set(err, ERR_INPUT, "group index|%s[%lld]|%lld|-1 to %lld",
                           name_of(&m->g_idx), (long long)c, (long long)g, (long long)groups - 1);
    }
    return ERR_OK;
}

static enum err_code check_packed(const struct matrix *m, struct err *err)
{
    if (m->bits != 4 && m->bits != 8)
        return err_set(err, ERR_INPUT, "packed weight|%s|%d bits|4 or 8", name_of(&m->data),
                       m->bits);
    if (m->group < 0 || m->group > m->in)
        return err_set(
            err, ERR_INPUT,
            "packed weight|%s|group size %lld|1 to %lld columns, or 0 for one scale a row",
            name_of(&m->data), (long long)m->group, (long long)m->in);
    bool indexed = tensor_exists(&m->g_idx);
    if (m->group && m->in % m->group && !indexed)
        return err_set(
            err, ERR_INPUT,
            "packed weight|%s|%lld columns in groups of %lld|groups that divide the columns",
            name_of(&m->data), (long long)m->in, (long long)m->group);
    int64_t per_word = 32 / m->bits, groups = m->group ? ceil_div(m->in, m->group) : 1;
    const int64_t packed[2] = {m->out, ceil_div(m->in, per_word)}, scale[2] = {m->out, groups};
    const int64_t zero[2] = {ceil_div(m->out, per_word), groups};
    if (want_shape(&m->data, "packed weight", 2, packed, err) != ERR_OK ||
        want_dtype(&m->data, "packed weight", m->data.dtype == DT_I32, "I32", err) != ERR_OK ||
        want_shape(&m->scale, "scale", 2, scale, err) != ERR_OK ||
        want_dtype(&m->scale, "scale", is_real(m->scale.dtype), "BF16, F16 or F32", err) != ERR_OK)
        return err->code;
    if (tensor_exists(&m->zero) &&
        (want_shape(&m->zero, "zero point", 2, zero, err) != ERR_OK ||
         want_dtype(&m->zero, "zero point", m->zero.dtype == DT_I32, "I32", err) != ERR_OK))
        return err->code;
    return indexed ? check_g_idx(m, groups, err) : ERR_OK;
}

enum err_code matrix_check(const struct matrix *m, struct err *err)
{
    if (m->out < 1 || m->in < 1)
        return err_set(err, ERR_INPUT, "matrix|%s|[%lld, %lld]|at least one row and column",
                       name_of(&m->data), (long long)m->out, (long long)m->in);
    const int64_t shape[2] = {m->out, m->in};
    if (m->format == MATRIX_PACKED) return check_packed(m, err);
    if (want_shape(&m->data, "weight", 2, shape, err) != ERR_OK) return err->code;
    if (m->format == MATRIX_DENSE)
        return want_dtype(&m->data, "weight", is_real(m->data.dtype), "BF16, F16 or F32", err);
    if (m->block[0] < 1 || m->block[1] < 1)
        return err_set(err, ERR_INPUT, "FP8 weight|%s|blocks of %lld x %lld|at least 1 x 1",
                       name_of(&m->data), (long long)m->block[0], (long long)m->block[1]);
    const int64_t scale[2] = {ceil_div(m->out, m->block[0]), ceil_div(m->in, m->block[1])};
    if (want_dtype(&m->data, "FP8 weight", m->data.dtype == DT_F8_E4M3, "F8_E4M3", err) != ERR_OK ||
        want_shape(&m->scale, "FP8 scale", 2, scale, err) != ERR_OK)
        return err->code;
    return want_dtype(&m->scale, "FP8 scale", m->scale.dtype == DT_F32, "F32", err);
}

enum err_code matrix_want(const struct matrix *m, const char *what, int64_t out, int64_t in,
                          struct err *err)
{
    if (!m)
        return err_set(err, ERR_INPUT, "%s||no weight|a matrix [%lld, %lld]", what, (long long)out,
                       (long long)in);
    if (m->out != out || m->in != in)
        return err_set(err, ERR_INPUT, "%s weight|%s|[%lld, %lld]|[%lld, %lld]", what,
                       name_of(&m->data), (long long)m->out, (long long)m->in, (long long)out,
                       (long long)in);
    return matrix_check(m, err);
}

enum err_code tensor_find_bad(const struct tensor *t, int64_t first, int64_t n, struct err *err)
{
    enum { CHUNK = 256 };
    char raw[CHUNK * 8];
    float value[CHUNK];
    for (int64_t i = 0; i < n; i += CHUNK) {
        int64_t m = n - i < CHUNK ? n - i : CHUNK;
        dtype_to_f32(t->dtype, tensor_elements(t, first + i, m, raw), m, value);
        for (int64_t k = 0; k < m; k++) {
            if (isfinite(value[k])) continue;
            /* Of the larger tensor, where this is part of one: what its file shows. */
            int64_t flat = tensor_place(t, first + i + k);
            int64_t cols = t->pitch ? t->pitch : t->dims > 1 ? t->shape[t->dims - 1] : 1;
            return err_set(err, ERR_INPUT,
                           "read tensor|%s row %lld, column %lld|%s|a finite number", name_of(t),
                           (long long)(flat / cols), (long long)(flat % cols),
                           isnan(value[k]) ? "NaN" : "infinity");
        }
    }
    return ERR_OK;
}

enum err_code matrix_find_bad(const struct matrix *m, struct err *err)
{
    if (m->format != MATRIX_PACKED &&
        tensor_find_bad(&m->data, 0, tensor_count(&m->data), err) != ERR_OK)
        return err->code;
    if (m->format == MATRIX_DENSE) return ERR_OK;
    return tensor_find_bad(&m->scale, 0, tensor_count(&m->scale), err);
}
