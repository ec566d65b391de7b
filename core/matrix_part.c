/* matrix_part.c: see matrix_part.h. */
#include "core/matrix_part.h"

#include "core/check.h"

/* Whether a span of things that are stored `unit` at a time begins a unit and ends one, or the
 * things. */
static bool in_units(struct extent s, int64_t unit, int64_t all)
{
    return s.first % unit == 0 && (s.count % unit == 0 || s.first + s.count == all);
}

static bool inside_one(struct extent s, int64_t unit)
{
    return s.first / unit == (s.first + s.count - 1) / unit;
}

static enum err_code misfit(const struct matrix *m, const char *side, struct extent s,
                            const char *wanted, int64_t unit, struct err *err)
{
    return err_set(err, ERR_INPUT, "cut a matrix|%s|%s %lld to %lld|%s %lld", m->data.name, side,
                   (long long)s.first, (long long)(s.first + s.count - 1), wanted, (long long)unit);
}

static enum err_code check_span(const char *name, const char *side, struct extent s, int64_t all,
                                struct err *err)
{
    if (s.first >= 0 && s.count >= 1 && s.count <= all && s.first <= all - s.count) return ERR_OK;
    return err_set(err, ERR_INPUT, "cut a matrix|%s|%lld %s from %lld on|some of the %lld", name,
                   (long long)s.count, side, (long long)s.first, (long long)all);
}

/* The view of some rows and columns of a tensor of two sides. */
static struct tensor cut(const struct tensor *t, struct extent rows, struct extent columns)
{
    struct tensor out = *t;
    int64_t pitch = t->pitch ? t->pitch : t->shape[1];
    out.offset = t->offset + rows.first * pitch + columns.first;
    out.pitch = pitch;
    out.shape[0] = rows.count;
    out.shape[1] = columns.count;
    return out;
}

/* Units that a span touches. */
static struct extent units_of(struct extent s, int64_t unit)
{
    int64_t first = s.first / unit;
    return (struct extent){first, (s.first + s.count - 1) / unit - first + 1};
}

/* ---- packed ---- */

/* A stored group index with a -1 in it is not in use (core/int4.h). */
static bool uses_index(const struct matrix *m)
{
    if (!tensor_exists(&m->g_idx)) return false;
    for (int64_t c = 0; c < m->in; c++) {
        int32_t unused;
        if (dtype_int_at(DT_I32, tensor_elements(&m->g_idx, c, 1, &unused), 0) < 0) return false;
    }
    return true;
}

static enum err_code check_packed(const struct matrix *m, struct extent rows, struct extent columns,
                                  struct err *err)
{
    int64_t per_word = 32 / m->bits;
    bool all = columns.count == m->in;
    if (!all && uses_index(m))
        return err_set(
            err, ERR_INPUT,
            "cut a matrix|%s|columns %lld to %lld, with a group index in use|all columns: "
            "a group's lie anywhere",
            m->g_idx.name, (long long)columns.first,
            (long long)(columns.first + columns.count - 1));
    if (!in_units(columns, per_word, m->in))
        return misfit(m, "columns", columns, "whole words of", per_word, err);
    if (!all && m->group && (columns.first % m->group || columns.count % m->group) &&
        !inside_one(columns, m->group))
        return misfit(m, "columns", columns, "whole groups, or some of one group, of", m->group,
                      err);
    if (tensor_exists(&m->zero) && !in_units(rows, per_word, m->out))
        return misfit(m, "rows", rows, "whole words of zero points of", per_word, err);
    return ERR_OK;
}

static enum err_code packed_part(const struct matrix *m, struct extent rows, struct extent columns,
                                 struct matrix *out, struct err *err)
{
    if (check_packed(m, rows, columns, err) != ERR_OK) return err->code;
    int64_t per_word = 32 / m->bits;
    struct extent groups = {0, m->scale.shape[1]};
    if (columns.count < m->in) {
        out->g_idx = (struct tensor){0}; /* not in use */
        if (m->group) groups = units_of(columns, m->group);
        if (m->group && columns.count < m->group) out->group = 0; /* one scale a row */
    }
    out->data = cut(&m->data, rows, units_of(columns, per_word));
    out->scale = cut(&m->scale, rows, groups);
    if (tensor_exists(&m->zero)) out->zero = cut(&m->zero, units_of(rows, per_word), groups);
    return ERR_OK;
}

/* ---- FP8 ---- */

static enum err_code fp8_part(const struct matrix *m, struct extent rows, struct extent columns,
                              struct matrix *out, struct err *err)
{
    if (rows.first % m->block[0] && !inside_one(rows, m->block[0]))
        return misfit(m, "rows", rows, "from the first of a block on, or some of one, of",
                      m->block[0], err);
    if (columns.first % m->block[1] && !inside_one(columns, m->block[1]))
        return misfit(m, "columns", columns, "from the first of a block on, or some of one, of",
                      m->block[1], err);
    out->data = cut(&m->data, rows, columns);
    out->scale = cut(&m->scale, units_of(rows, m->block[0]), units_of(columns, m->block[1]));
    return ERR_OK;
}

enum err_code matrix_part(const struct matrix *m, struct extent rows, struct extent columns,
                          struct matrix *out, struct err *err)
{
    if (check_span(m->data.name, "rows", rows, m->out, err) != ERR_OK ||
        check_span(m->data.name, "columns", columns, m->in, err) != ERR_OK)
        return err->code;
    *out = *m;
    out->out = rows.count;
    out->in = columns.count;
    if (m->format == MATRIX_PACKED) return packed_part(m, rows, columns, out, err);
    if (m->format == MATRIX_FP8_BLOCK) return fp8_part(m, rows, columns, out, err);
    out->data = cut(&m->data, rows, columns);
    return ERR_OK;
}

enum err_code tensor_rows_part(const struct tensor *t, struct extent rows, struct tensor *out,
                               struct err *err)
{
    CHECK(t->dims == 1 || t->dims == 2);
    if (check_span(t->name, "rows", rows, t->shape[0], err) != ERR_OK) return err->code;
    if (t->dims == 2) {
        *out = cut(t, rows, (struct extent){0, t->shape[1]});
    } else {
        *out = *t;
        out->offset += rows.first;
        out->shape[0] = rows.count;
    }
    return ERR_OK;
}
