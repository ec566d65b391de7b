/* int4.c: packed codes to values, op int4. Contract: core/int4.h; twin gpu/int4.cu; test
 * tests/test_int4.c. */
#include "core/int4.h"

#include "core/check.h"
#include "ref/int4.h"
#include "ref/kernel.h"
#include "ref/matrix.h"

#include <string.h>

/* What one row needs; pointers lead into the mapping or into the scratch. */
struct packed_row {
    const uint32_t *words;
    const void *scale;
    const char *zero; /* row of zero words, or NULL */
    int64_t per_word, groups;
    int64_t zero_shift; /* bit of this row in a zero word */
};

static int64_t words_of(const struct matrix *m)
{
    return m->data.shape[1];
}

static int64_t groups_of(const struct matrix *m)
{
    return m->scale.shape[1];
}

int64_t int4_scratch(const struct matrix *m, int64_t n)
{
    (void)n; /* rows pass one at a time */
    return words_of(m) * 4 + groups_of(m) * 4 + (tensor_exists(&m->zero) ? groups_of(m) * 4 : 0) +
           m->in * 4 + 64;
}

static struct packed_row open_row(const struct matrix *m, int64_t row, char *scratch)
{
    struct packed_row p = {.per_word = 32 / m->bits, .groups = groups_of(m)};
    char *scale_at = scratch + words_of(m) * 4, *zero_at = scale_at + p.groups * 4;
    p.words = tensor_elements(&m->data, row * words_of(m), words_of(m), scratch);
    p.scale = tensor_elements(&m->scale, row * p.groups, p.groups, scale_at);
    if (tensor_exists(&m->zero))
        p.zero = tensor_elements(&m->zero, row / p.per_word * p.groups, p.groups, zero_at);
    p.zero_shift = row % p.per_word * m->bits;
    return p;
}

static int zero_point(const struct matrix *m, const struct packed_row *p, int64_t group)
{
    if (!p->zero) return 0;
    uint32_t word, mask = (1u << m->bits) - 1;
    memcpy(&word, p->zero + group * 4, sizeof word);
    return (int)((word >> p->zero_shift) & mask) - (1 << (m->bits - 1));
}

static float scale_at(const struct matrix *m, const struct packed_row *p, int64_t group)
{
    float s;
    dtype_to_f32(m->scale.dtype, (const char *)p->scale + group * dtype_size(m->scale.dtype), 1,
                 &s);
    return s;
}

static int code_at(const struct matrix *m, const struct packed_row *p, int64_t column)
{
    uint32_t word, mask = (1u << m->bits) - 1;
    memcpy(&word, (const char *)p->words + column / p->per_word * 4, sizeof word);
    return (int)((word >> (column % p->per_word * m->bits)) & mask) - (1 << (m->bits - 1));
}

/* Any width, group, scale type and group index. */
static void general_row(const struct matrix *m, const struct packed_row *p, const int32_t *g_idx,
                        float *out)
{
    int64_t last = -1;
    float scale = 0;
    int zero = 0;
    for (int64_t c = 0; c < m->in; c++) {
        int64_t g = g_idx ? g_idx[c] : m->group ? c / m->group : 0;
        if (g != last) {
            scale = scale_at(m, p, g);
            zero = zero_point(m, p, g);
            last = g;
        }
        out[c] =
            (float)dtype_round(m->scale.dtype, (double)((float)(code_at(m, p, c) - zero) * scale));
    }
}

/* The checkpoint's own case: 4 bits, bf16 scales, whole words a group. `zeros`: room for one a
 * group. */
static void fast_row(const struct matrix *m, const struct packed_row *p, int *zeros, float *out)
{
    for (int64_t g = 0; p->zero && g < p->groups; g++) zeros[g] = zero_point(m, p, g);
    int64_t group = m->group ? m->group : m->in;
    kernel_best()->int4_bf16(p->groups, group / 8, p->words, p->scale, p->zero ? zeros : NULL, out);
}

/* A stored group index, or NULL: absent, or a -1 in it says that it is not in use. */
static const int32_t *group_index(const struct matrix *m, int32_t *buf)
{
    if (!tensor_exists(&m->g_idx)) return NULL;
    memcpy(buf, tensor_elements(&m->g_idx, 0, m->in, buf), (size_t)m->in * sizeof *buf);
    for (int64_t c = 0; c < m->in; c++) {
        if (buf[c] < 0) return NULL;
    }
    return buf;
}

void int4_rows(const struct matrix *m, int64_t row, int64_t n, void *scratch, float *out,
               int64_t ld, int8_t *q)
{
    int64_t group = m->group ? m->group : m->in;
    char *index_at = (char *)scratch + int4_scratch(m, n) - m->in * 4 - 64;
    const int32_t *g_idx = group_index(m, (int32_t *)(void *)index_at);
    bool fast =
        m->bits == 4 && m->scale.dtype == DT_BF16 && group % 8 == 0 && m->in % group == 0 && !g_idx;
    for (int64_t r = 0; r < n; r++) {
        struct packed_row p = open_row(m, row + r, scratch);
        if (fast)
            fast_row(m, &p, (int *)(void *)index_at, out + r * ld);
        else
            general_row(m, &p, g_idx, out + r * ld);
        for (int64_t c = 0; q && c < m->in; c++) q[r * m->in + c] = (int8_t)code_at(m, &p, c);
    }
}

enum err_code int4_ref(const struct int4 *op, struct run *run, struct err *err)
{
    if (int4_check(op, err) != ERR_OK) return err->code;
    struct arena_block *mark = arena_mark(run->arena);
    int64_t ld = matrix_pad(op->w->in);
    float *row = arena_alloc(run->arena, ld, sizeof *row, "int4 row", err);
    void *scratch = arena_alloc(run->arena, matrix_scratch(op->w, 1), 1, "stored weights", err);
    for (int64_t i = 0; scratch && row && i < op->n; i++) {
        matrix_rows(op->w, op->row + i, 1, scratch, row, op->q ? op->q + i * op->w->in : NULL);
        for (int64_t c = 0; c < op->w->in; c++) op->y[i * op->w->in + c] = (double)row[c];
    }
    arena_release(run->arena, mark);
    return err->code;
}
