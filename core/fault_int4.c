/* fault_int4.c: packed and FP8 weights read wrongly. The stored codes and scales of a copy are
 * edited, so that every reader of the format goes wrong as the engine did. Test:
 * tests/test_fault_int4.c
 */
#include "core/fault_edits.h"
#include "core/moe.h"

#include <math.h>
#include <string.h>

/* ---- codes ---- */

static uint32_t *own_words(const struct fault_stored *s, struct matrix *m, struct err *err)
{
    return fault_own(s->arena, &m->data, err);
}

static bool is_packed(const struct matrix *m, int bits)
{
    return m->format == MATRIX_PACKED && (bits == 0 || m->bits == bits);
}

static enum err_code swap_nibbles(const struct fault_stored *s, struct matrix *m, struct err *err)
{
    if (!is_packed(m, 4)) return ERR_OK;
    uint32_t *w = own_words(s, m, err);
    for (int64_t i = 0; w && i < tensor_count(&m->data); i++)
        w[i] = (w[i] & 0x0f0f0f0fu) << 4 | (w[i] >> 4 & 0x0f0f0f0fu);
    return err->code;
}

/* Column j of a word gets the code that stands at from[j]. */
static enum err_code reorder(const struct fault_stored *s, struct matrix *m, const int *from,
                             struct err *err)
{
    int n = 32 / m->bits;
    uint32_t *w = own_words(s, m, err), mask = (1u << m->bits) - 1;
    for (int64_t i = 0; w && i < tensor_count(&m->data); i++) {
        uint32_t out = 0;
        for (int j = 0; j < n; j++) out |= (w[i] >> (from[j] * m->bits) & mask) << (j * m->bits);
        w[i] = out;
    }
    return err->code;
}

static enum err_code reverse_words(const struct fault_stored *s, struct matrix *m, struct err *err)
{
    int from[8];
    if (!is_packed(m, 0)) return ERR_OK;
    for (int j = 0; j < 32 / m->bits; j++) from[j] = 32 / m->bits - 1 - j;
    return reorder(s, m, from, err);
}

/* AWQ keeps column j of eight at place (0 4 1 5 2 6 3 7)[j]: model math 6.3. */
static enum err_code awq_words(const struct fault_stored *s, struct matrix *m, struct err *err)
{
    static const int from[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    return is_packed(m, 4) ? reorder(s, m, from, err) : ERR_OK;
}

/* A code as a signed number of its own is the code minus 2^(b-1) of the code with its top bit
 * inverted. */
static enum err_code sign_codes(const struct fault_stored *s, struct matrix *m, struct err *err)
{
    if (!is_packed(m, 0)) return ERR_OK;
    uint32_t *w = own_words(s, m, err), top = m->bits == 4 ? 0x88888888u : 0x80808080u;
    for (int64_t i = 0; w && i < tensor_count(&m->data); i++) w[i] ^= top;
    return err->code;
}

/* ---- zero points ---- */

/* A symmetric matrix gets a stored zero point: 2^(b-1) is the right one, `less` is what it lacks.
 */
static enum err_code offset_codes(const struct fault_stored *s, struct matrix *m, uint32_t less,
                                  struct err *err)
{
    if (!is_packed(m, 0) || tensor_exists(&m->zero)) return ERR_OK;
    int64_t rows = ceil_div(m->out, 32 / m->bits), groups = m->scale.shape[1];
    uint32_t *z = arena_alloc(s->arena, rows * groups, sizeof *z, "zero points", err);
    uint32_t half = 1u << (m->bits - 1), word = 0;
    if (!z) return err->code;
    for (int b = 0; b < 32; b += m->bits) word |= (less < half ? half - less : 0) << b;
    for (int64_t i = 0; i < rows * groups; i++) z[i] = word;
    m->zero = m->data;
    m->zero.shape[0] = rows;
    m->zero.shape[1] = groups;
    tensor_hold(&m->zero, z);
    return ERR_OK;
}

static enum err_code offset_by_one(const struct fault_stored *s, struct matrix *m, struct err *err)
{
    return offset_codes(s, m, 1, err);
}

static enum err_code no_offset(const struct fault_stored *s, struct matrix *m, struct err *err)
{
    return offset_codes(s, m, UINT32_MAX, err);
}

typedef uint32_t new_zero(uint32_t stored, uint32_t mask);

static enum err_code edit_zeros(const struct fault_stored *s, struct matrix *m, new_zero *edit,
                                struct err *err)
{
    if (!is_packed(m, 0) || !tensor_exists(&m->zero)) return ERR_OK;
    uint32_t *z = fault_own(s->arena, &m->zero, err), mask = (1u << m->bits) - 1;
    for (int64_t i = 0; z && i < tensor_count(&m->zero); i++) {
        uint32_t out = 0;
        for (int b = 0; b < 32; b += m->bits) out |= edit(z[i] >> b & mask, mask) << b;
        z[i] = out;
    }
    return err->code;
}

static uint32_t one_less(uint32_t stored, uint32_t mask)
{
    (void)mask;
    return stored > 0 ? stored - 1 : 0;
}

static uint32_t wrapped(uint32_t stored, uint32_t mask)
{
    return stored == 0 ? mask : stored;
}

static enum err_code zeros_less_one(const struct fault_stored *s, struct matrix *m, struct err *err)
{
    return edit_zeros(s, m, one_less, err);
}

static enum err_code zeros_wrap(const struct fault_stored *s, struct matrix *m, struct err *err)
{
    return edit_zeros(s, m, wrapped, err);
}

static enum err_code zeros_left_out(const struct fault_stored *s, struct matrix *m, struct err *err)
{
    (void)s;
    (void)err;
    if (is_packed(m, 0)) m->zero = (struct tensor){0};
    return ERR_OK;
}

/* ---- scales ---- */

/* What a shift takes where nothing is stored next to a scale. */
enum edge {
    EDGE_MEMORY, /* the order in memory goes on; the last keep their own */
    EDGE_AROUND, /* the other end: of the row of groups, of the column of rows */
    EDGE_OWN,    /* groups do not leave their row: the edge keeps its own */
    EDGE_ROLLED  /* the order in memory goes on, from the last to the first */
};

/* Where the scale of place i in the stored order is taken from; a place past either end: the last
 * one at that end. */
typedef int64_t scale_place(const struct matrix *m, int64_t i, int64_t by, enum edge edge);

static enum err_code move_scales(const struct fault_stored *s, struct matrix *m, scale_place *from,
                                 int64_t by, enum edge edge, struct err *err)
{
    if (m->format == MATRIX_DENSE) return ERR_OK;
    int64_t n = tensor_count(&m->scale), size = dtype_size(m->scale.dtype); /* of one scale */
    struct tensor stored = m->scale;
    const char *old = fault_own(s->arena, &stored, err);
    char *moved = old ? fault_own(s->arena, &m->scale, err) : NULL;
    for (int64_t i = 0; moved && i < n; i++) {
        int64_t at = from(m, i, by, edge);
        at = at < 0 ? 0 : at >= n ? n - 1 : at;
        memcpy(moved + i * size, old + at * size, (size_t)size);
    }
    return err->code;
}

/* i + by, counted around within the n places that hold i. */
static int64_t around(int64_t i, int64_t by, int64_t n)
{
    int64_t at = (i + by) % n;
    return at < 0 ? at + n : at;
}

static int64_t next_group(const struct matrix *m, int64_t i, int64_t by, enum edge edge)
{
    int64_t groups = m->scale.shape[1], first = i / groups * groups, g = i - first;
    if (edge == EDGE_AROUND) return first + around(g, by, groups);
    if (edge == EDGE_OWN && (g + by < 0 || g + by >= groups)) return i;
    if (edge == EDGE_ROLLED) return around(i, by, tensor_count(&m->scale));
    return i + by;
}

static int64_t next_row(const struct matrix *m, int64_t i, int64_t by, enum edge edge)
{
    int64_t groups = m->scale.shape[1], n = tensor_count(&m->scale), at = i + by * groups;
    if (edge == EDGE_AROUND) return around(i, by * groups, n);
    return at < 0 || at >= n ? i : at;
}

/* [row][group] of a table that is read as [group][row]. */
static int64_t across(const struct matrix *m, int64_t i, int64_t by, enum edge edge)
{
    int64_t rows = m->scale.shape[0], groups = m->scale.shape[1];
    (void)by;
    (void)edge;
    return i % groups * rows + i / groups;
}

static int64_t step_of(const struct fault_stored *s)
{
    return (int64_t)lround(fault_value(s->call->use, "by"));
}

static enum edge edge_of(const struct fault_stored *s)
{
    return (enum edge)fault_value(s->call->use, "edge");
}

static enum err_code shift_groups(const struct fault_stored *s, struct matrix *m, struct err *err)
{
    return move_scales(s, m, next_group, step_of(s), edge_of(s), err);
}

static enum err_code shift_rows(const struct fault_stored *s, struct matrix *m, struct err *err)
{
    return move_scales(s, m, next_row, step_of(s), edge_of(s), err);
}

static enum err_code transpose_scales(const struct fault_stored *s, struct matrix *m,
                                      struct err *err)
{
    return move_scales(s, m, across, 0, EDGE_OWN, err);
}

/* bf16 bits as f16 and back: the same sixteen bits. */
static enum err_code retype_scales(const struct fault_stored *s, struct matrix *m, struct err *err)
{
    (void)s;
    (void)err;
    if (!is_packed(m, 0)) return ERR_OK;
    if (m->scale.dtype == DT_BF16)
        m->scale.dtype = DT_F16;
    else if (m->scale.dtype == DT_F16)
        m->scale.dtype = DT_BF16;
    return ERR_OK;
}

/* ---- groups: a group index makes any reading of them storable ---- */

/* Group of a column, when the stored one is `stored`. */
typedef int64_t group_place(const struct fault_stored *s, const struct matrix *m, int64_t column,
                            int64_t stored);

static enum err_code regroup(const struct fault_stored *s, struct matrix *m, group_place *of,
                             struct err *err)
{
    if (!is_packed(m, 0) || m->group == 0) return ERR_OK;
    int32_t *map = arena_alloc(s->arena, m->in, sizeof *map, "group index", err), buf;
    if (!map) return err->code;
    for (int64_t c = 0; c < m->in; c++) {
        int64_t g = c / m->group, last = m->scale.shape[1] - 1;
        if (tensor_exists(&m->g_idx)) {
            int64_t given = dtype_int_at(DT_I32, tensor_elements(&m->g_idx, c, 1, &buf), 0);
            g = given < 0 ? g : given;
        }
        g = of(s, m, c, g);
        map[c] = (int32_t)(g > last ? last : g);
    }
    m->g_idx = m->data;
    m->g_idx.dims = 1;
    m->g_idx.shape[0] = m->in;
    tensor_hold(&m->g_idx, map);
    return ERR_OK;
}

static int64_t of_other_size(const struct fault_stored *s, const struct matrix *m, int64_t column,
                             int64_t stored)
{
    int64_t size = (int64_t)fault_value(s->call->use, "size");
    (void)column;
    return size < 1 ? stored : stored * m->group / size;
}

static enum err_code resize_groups(const struct fault_stored *s, struct matrix *m, struct err *err)
{
    return regroup(s, m, of_other_size, err);
}

/* A rank that holds 1/ranks of the columns and all the scales takes them for groups of 1/ranks the
 * size. */
static int64_t of_uncut_scales(const struct fault_stored *s, const struct matrix *m, int64_t column,
                               int64_t stored)
{
    int64_t ranks = (int64_t)fault_value(s->call->use, "ranks"), own = m->in / ranks;
    (void)stored;
    return column % own * ranks / m->group;
}

static enum err_code keep_all_scales(const struct fault_stored *s, struct matrix *m,
                                     struct err *err)
{
    int64_t ranks = (int64_t)fault_value(s->call->use, "ranks");
    bool alone =
        strcmp(s->call->place->op, "int4") == 0 || strcmp(s->call->place->op, "linear") == 0;
    if ((s->part != PART_DOWN && !alone) || ranks < 1 || m->in % ranks || m->in / ranks < 1)
        return ERR_OK;
    return regroup(s, m, of_uncut_scales, err);
}

/* ---- scales of other experts ---- */

/* The scales of expert e begin `group` and not `groups` rows of groups after those of e - 1. */
static enum err_code step_scales(const struct fault_stored *s, struct matrix *m, struct err *err)
{
    if (!is_packed(m, 0) || !s->moe || m->group == 0) return ERR_OK;
    int64_t rows = m->scale.shape[0], groups = m->scale.shape[1];
    int64_t size = dtype_size(m->scale.dtype);
    char *mine = fault_own(s->arena, &m->scale, err), one[8];
    for (int64_t g = 0; mine && g < groups; g++) {
        struct expert other;
        int64_t flat = s->expert * m->group + g, e = flat / groups < s->moe->E ? flat / groups : 0;
        if (s->moe->expert(s->moe->ctx, e, &other, err) != ERR_OK) return err->code;
        const struct matrix *const part[] = {&other.gate, &other.up, &other.down};
        for (int64_t r = 0; r < rows; r++) {
            const void *at =
                tensor_elements(&part[s->part]->scale, r * groups + flat % groups, 1, one);
            memcpy(mine + (r * groups + g) * size, at, (size_t)size);
        }
    }
    return err->code;
}

/* ---- FP8 ---- */

static enum err_code invert_scales(const struct fault_stored *s, struct matrix *m, struct err *err)
{
    if (m->format != MATRIX_FP8_BLOCK) return ERR_OK;
    float *scale = fault_own(s->arena, &m->scale, err);
    for (int64_t i = 0; scale && i < tensor_count(&m->scale); i++) scale[i] = 1 / scale[i];
    return err->code;
}

static enum err_code shift_blocks(const struct fault_stored *s, struct matrix *m, struct err *err)
{
    if (m->format != MATRIX_FP8_BLOCK) return ERR_OK;
    return move_scales(s, m, next_row, step_of(s), edge_of(s), err);
}

/* ---- rows ---- */

#define WRAP(name, edit)                                                                           \
    static enum err_code name(struct fault_call *c, const void *arg, struct run *run,              \
                              struct err *err)                                                     \
    {                                                                                              \
        return fault_with_matrices(c, arg, run, edit, NULL, err);                                  \
    }

WRAP(nibble_swap, swap_nibbles)
WRAP(word_reversed, reverse_words)
WRAP(awq_order, awq_words)
WRAP(twos_complement, sign_codes)
WRAP(zero_point_7, offset_by_one)
WRAP(zero_point_0, no_offset)
WRAP(zero_point_minus_one, zeros_less_one)
WRAP(zero_point_wraps, zeros_wrap)
WRAP(zero_point_ignored, zeros_left_out)
WRAP(scale_group_shift, shift_groups)
WRAP(scale_row_shift, shift_rows)
WRAP(scale_transposed, transpose_scales)
WRAP(scale_dtype, retype_scales)
WRAP(group_size, resize_groups)
WRAP(scales_not_cut, keep_all_scales)
WRAP(expert_scale_step, step_scales)
WRAP(fp8_scale_divided, invert_scales)
WRAP(fp8_block_row, shift_blocks)

static const double tries_by[] = {1, -1, NAN};
static const double tries_edge[] = {EDGE_MEMORY, EDGE_AROUND, EDGE_OWN, EDGE_ROLLED, NAN};
static const double tries_row_edge[] = {EDGE_MEMORY, EDGE_AROUND, NAN};
static const double tries_size[] = {16, 32, 64, 128, NAN};

#define PACKED                                                                                     \
    "moe", "int4", "linear", "mlp", "moe.shared", "mla.q", "mla.kv", "mla.core", "mla.output"
#define SITE KEY_LAYER, KEY_EXPERT
#define KEY_BY                                                                                     \
    {                                                                                              \
        .name = "by", .dflt = 1, .fit = FIT_TRY, .tries = tries_by, .about = "places"              \
    }
#define KEY_ROW_EDGE                                                                               \
    KEY_TRY("edge", EDGE_MEMORY, tries_row_edge, "at the last: 0 its own, 1 the first one's")

/* A fault of any packed matrix that has no keys but its site and which matrix. */
#define PACKED_ROW(name, function, seen, what)                                                     \
    {                                                                                              \
        .id = name, .hosts = {PACKED}, .keys = {SITE, KEY_MATRIX}, .edit = what, .source = seen,   \
        .detector = "diff", .wrap = function                                                       \
    }

const struct fault_row fault_rows_int4[] = {
    PACKED_ROW("int4.nibble_swap", nibble_swap, "model math 11.2",
               "the two codes of every byte are exchanged"),
    PACKED_ROW("int4.word_reversed", word_reversed, "model math 11.1",
               "the codes of every word are read from the high bits down"),
    PACKED_ROW("int4.awq_order", awq_order, "model math 11.7",
               "the eight codes of a word are read in AWQ's order"),
    PACKED_ROW("int4.twos_complement", twos_complement, "model math 11.3",
               "a code is taken as a signed number of its own, without the offset"),
    PACKED_ROW("int4.zero_point_7", zero_point_7, "B044",
               "the offset is one less than it is: 7 for 8 (symmetric)"),
    PACKED_ROW("int4.zero_point_0", zero_point_0, "model math 11.4",
               "no offset is subtracted (symmetric)"),
    PACKED_ROW("int4.zero_point_minus_one", zero_point_minus_one, "B044",
               "a stored zero point is read as one that was stored plus one (asymmetric)"),
    PACKED_ROW("int4.zero_point_wraps", zero_point_wraps, "B045",
               "a zero point of 0 comes out as the largest code (asymmetric)"),
    PACKED_ROW("int4.zero_point_ignored", zero_point_ignored, "B056",
               "stored zero points are not unpacked, the symmetric offset is used (asymmetric)"),
    {.id = "int4.scale_group_shift",
     .hosts = {PACKED},
     .keys = {SITE, KEY_BY,
              KEY_TRY("edge", EDGE_MEMORY, tries_edge,
                      "at a row's end: 0 on in memory, 1 the row's first, 2 its own, 3 as 0, and "
                      "the very last has the very first"),
              KEY_MATRIX},
     .wrap = scale_group_shift,
     .edit = "a group takes the scale that is stored next to its own",
     .source = "model math 11.5",
     .detector = "diff"},
    {.id = "int4.scale_row_shift",
     .hosts = {PACKED},
     .keys = {SITE, KEY_BY, KEY_ROW_EDGE, KEY_MATRIX},
     .wrap = scale_row_shift,
     .edit = "a row takes the scales of the next row",
     .source = "B043",
     .detector = "diff"},
    PACKED_ROW("int4.scale_transposed", scale_transposed, "model math 11.6, B040",
               "the table of scales is read as [group][row]"),
    PACKED_ROW("int4.scale_dtype", scale_dtype, "B041",
               "the bits of a bf16 scale are read as f16, or the other way"),
    {.id = "int4.group_size",
     .hosts = {PACKED},
     .wrap = group_size,
     .keys = {SITE, KEY_TRY("size", 128, tries_size, "columns that are taken for a group"),
              KEY_MATRIX},
     .edit = "columns are counted in groups of another size",
     .source = "B039",
     .detector = "diff"},
    {.id = "int4.scales_not_cut",
     .wrap = scales_not_cut,
     .hosts = {"moe", "mlp", "moe.shared", "mla.output", "int4", "linear"},
     .keys = {SITE, KEY_RANKS(2)},
     .edit = "a row-parallel weight is cut over the ranks, its scales are not",
     .source = "B038, B039, B041, B125",
     .detector = "diff"},
    {.id = "int4.expert_scale_step",
     .hosts = {"moe"},
     .keys = {SITE, KEY_MATRIX},
     .wrap = expert_scale_step,
     .edit = "the step from one expert's scales to the next is the group size, not the groups",
     .source = "B043",
     .detector = "diff"},
    PACKED_ROW("fp8.scale_divided", fp8_scale_divided, "model math 11.36",
               "weights are divided by the block's scale"),
    {.id = "fp8.block_row",
     .hosts = {PACKED},
     .keys = {SITE, KEY_BY, KEY_ROW_EDGE, KEY_MATRIX},
     .wrap = fp8_block_row,
     .edit = "a block takes the scale of the block below it",
     .source = "model math 11.36",
     .detector = "diff"},
    {0},
};
