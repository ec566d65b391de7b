/* foreign_layout.c: see foreign_layout.h. */
#include "harness/foreign_layout.h"

#include <string.h>

enum err_code layout_slice(const struct st_tensor *t, int axis, int64_t i, struct arena *a,
                           struct st_tensor *out, struct err *err)
{
    int64_t size = dtype_size(t->dtype), outer = 1, inner = size;
    for (int k = 0; k < axis; k++) outer *= t->shape[k];
    for (int k = axis + 1; k < t->dims; k++) inner *= t->shape[k];
    *out = *t;
    out->dims = t->dims - 1;
    for (int k = axis; k < out->dims; k++) out->shape[k] = t->shape[k + 1];
    out->count = t->shape[axis] ? t->count / t->shape[axis] : 0;
    out->bytes = out->count * size;
    out->data = (const char *)t->data + i * inner;
    if (outer == 1) return ERR_OK;
    char *copy = arena_alloc(a, out->bytes, 1, "slice of a stack", err);
    for (int64_t o = 0; copy && o < outer; o++)
        memcpy(copy + o * inner, (const char *)t->data + (o * t->shape[axis] + i) * inner,
               (size_t)inner);
    out->data = copy;
    return err->code;
}

/* out = t with its axes in another order. */
static enum err_code permute(const struct st_tensor *t, const int *axes, struct arena *a,
                             struct st_tensor *out, struct err *err)
{
    int64_t size = dtype_size(t->dtype), stride[ST_DIMS], at[ST_DIMS] = {0};
    char *copy = arena_alloc(a, t->bytes, 1, "turned tensor", err);
    if (!copy) return err->code;
    *out = *t;
    for (int k = 0; k < t->dims; k++) {
        out->shape[k] = t->shape[axes[k]];
        stride[k] = size;
        for (int j = axes[k] + 1; j < t->dims; j++) stride[k] *= t->shape[j];
    }
    for (int64_t i = 0; i < t->count; i++) {
        int64_t from = 0;
        for (int k = 0; k < t->dims; k++) from += at[k] * stride[k];
        memcpy(copy + i * size, (const char *)t->data + from, (size_t)size);
        for (int k = t->dims - 1; k >= 0 && ++at[k] == out->shape[k]; k--) at[k] = 0;
    }
    out->data = copy;
    return ERR_OK;
}

/* Column c of a head in the taps' order: where it stands in the engine's. */
static int64_t engine_column(const struct map_rule *r, int64_t c)
{
    int64_t plain = r->head_dim - r->rope_dim, rope = c - plain;
    if (c < plain) return r->rope_first ? r->rope_dim + c : c;
    if (r->half_split) rope = rope % 2 ? r->rope_dim / 2 + rope / 2 : rope / 2;
    return r->rope_first ? rope : plain + rope;
}

static enum err_code reorder(struct matrix_view *v, const struct map_rule *r, struct arena *a,
                             struct err *err)
{
    int64_t size = dtype_size(v->dtype);
    if (v->cols % r->head_dim)
        return err_set(err, ERR_INPUT, "map layout||%lld columns|a multiple of head_dim %lld",
                       (long long)v->cols, (long long)r->head_dim);
    char *copy = arena_alloc(a, v->rows * v->cols * size, 1, "reordered tensor", err);
    for (int64_t i = 0; copy && i < v->rows * v->cols; i++) {
        int64_t c = i % r->head_dim;
        memcpy(copy + i * size, (const char *)v->data + (i - c + engine_column(r, c)) * size,
               (size_t)size);
    }
    v->data = copy;
    return err->code;
}

enum err_code layout_matrix(const struct st_tensor *t, const struct map_rule *rule, struct arena *a,
                            struct matrix_view *out, struct err *err)
{
    static const int swapped[] = {1, 0};
    char shape[96];
    struct st_tensor turned = *t;
    int want = rule->transpose ? 2 : rule->axis_count;
    if (want && t->dims != want)
        return err_set(err, ERR_INPUT, "map layout||%s|%d axes, as the rule says",
                       st_shape_text(t->dims, t->shape, shape, sizeof shape), want);
    if (want && permute(t, rule->transpose ? swapped : rule->axes, a, &turned, err) != ERR_OK)
        return err->code;
    int first = 0;
    while (first < turned.dims - 2 && turned.shape[first] == 1) first++;
    *out = (struct matrix_view){.dtype = t->dtype,
                                .rows = turned.dims ? turned.shape[first] : 1,
                                .cols = 1,
                                .data = turned.data};
    for (int k = first + 1; k < turned.dims; k++) out->cols *= turned.shape[k];
    if (rule->rope_dim && (rule->half_split || rule->rope_first)) return reorder(out, rule, a, err);
    return ERR_OK;
}
