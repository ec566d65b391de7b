/* case_simple.c: cases of the ops embed, norm, linear, int4 and logits: schema, data, draw. See
 * case.h. */
#include "core/check.h"
#include "core/embed.h"
#include "core/int4.h"
#include "core/linear.h"
#include "core/logits.h"
#include "core/norm.h"
#include "harness/case_make.h"

#include <math.h>
#include <string.h>

/* ---- embed ---- */

static const char *const words_embed_spoil[] = {"none", "id_high", "id_negative", NULL};

/* clang-format off */
static const struct param_row embed_params[] = {
    PARAM_T, PARAM_H("16"),
    INT_ROW("V", 1, 1 << 24, "11", "rows of the table"),
    WORD_ROW("table", "bf16", words_dense, "its type"),
    WORD_ROW("spoil", "none", words_embed_spoil, "what is made wrong on purpose"),
    PARAM_END,
};
/* clang-format on */

static enum err_code embed_make(const struct op_case *c, struct arena *a, struct case_data *out,
                                struct err *err)
{
    struct make m = make_begin(c, a, err);
    int64_t T = case_get_int(c, "T"), H = case_get_int(c, "H"), V = case_get_int(c, "V");
    struct embed *op = make_zeroed(&m, 1, sizeof *op, "case");
    struct tensor *table = make_zeroed(&m, 1, sizeof *table, "case");
    int64_t *id = make_zeroed(&m, T, sizeof *id, "ids");
    double *y = make_output(&m, out, "y", T, H);
    if (!op || !table || !id || !y) return err->code;
    uint64_t base = synth_base(m.seed, "id");
    for (int64_t t = 0; t < T; t++) id[t] = (int64_t)(synth_x(base, t) % (uint64_t)V);
    id[T / 2] = V - 1; /* the last row is read in every case */
    if (case_word_is(c, "spoil", "id_high")) id[T - 1] = V;
    if (case_word_is(c, "spoil", "id_negative")) id[T - 1] = -1;
    *table = make_tensor(&m, "table", make_dtype(case_word(c, "table")), V, H, sqrt(3.0), 0);
    *op = (struct embed){.T = T, .H = H, .V = V, .id = id, .table = table, .y = y};
    out->op = op;
    return ERR_OK;
}

static void embed_draw(struct op_case *c, struct draw *d)
{
    case_set_int(c, "T", draw_size(d, 9));
    case_set_int(c, "H", draw_size(d, 257));
    case_set_int(c, "V", draw_size(d, 129));
    case_set(c, "table", draw_word(d, words_dense));
}

/* ---- norm ---- */

static const char *const words_norm_spoil[] = {"none", "weight_int", NULL};

/* clang-format off */
static const struct param_row norm_params[] = {
    PARAM_T, PARAM_H("16"),
    REAL_ROW("eps", -1, 1, "1e-06", "added to the mean square"),
    WORD_ROW("w", "bf16", words_float, "type of the weight"),
    PARAM_GAIN("scale of x; small ones make eps matter"),
    INT_ROW("inplace", 0, 1, "0", "1: y is x"),
    WORD_ROW("spoil", "none", words_norm_spoil, "what is made wrong on purpose"),
    PARAM_END,
};
/* clang-format on */

static enum err_code norm_make(const struct op_case *c, struct arena *a, struct case_data *out,
                               struct err *err)
{
    struct make m = make_begin(c, a, err);
    int64_t T = case_get_int(c, "T"), H = case_get_int(c, "H");
    struct norm *op = make_zeroed(&m, 1, sizeof *op, "case");
    struct tensor *w = make_zeroed(&m, 1, sizeof *w, "case");
    double *x = make_values(&m, "x", T * H, case_get_real(c, "gain") * sqrt(3.0));
    double *y = make_output(&m, out, "y", T, H);
    if (!op || !w || !x || !y) return err->code;
    *w = make_tensor(&m, "w", make_dtype(case_word(c, "w")), H, 0, 0.25, 1);
    if (case_word_is(c, "spoil", "weight_int")) {
        w->dtype = DT_I32;
        w->rule.kind = SYNTH_CODES;
    }
    if (case_get_int(c, "inplace")) {
        memcpy(y, x, (size_t)(T * H) * sizeof *y);
        x = y;
    }
    *op = (struct norm){.T = T, .H = H, .eps = case_get_real(c, "eps"), .x = x, .y = y};
    op->w = case_word_is(c, "w", "none") ? NULL : w;
    out->op = op;
    return ERR_OK;
}

static void norm_draw(struct op_case *c, struct draw *d)
{
    case_set_int(c, "T", draw_size(d, 9));
    case_set_int(c, "H", draw_size(d, 257));
    draw_real(c, d, "eps", -7, -4);
    draw_real(c, d, "gain", -3, 1);
    case_set(c, "w", draw_word(d, words_float));
    case_set_int(c, "inplace", draw_one_in(d, 3));
}

/* ---- linear ---- */

/* clang-format off */
static const struct param_row linear_params[] = {
    PARAM_T,
    INT_ROW("in", 1, 1 << 20, "64", "columns of x and W (the sum's length)"),
    INT_ROW("out", 1, 1 << 20, "8", "rows of W"),
    PARAM_FORMAT, PARAM_GROUP, PARAM_ORDER, PARAM_GAIN("scale of x"), PARAM_END,
};
/* clang-format on */

static enum err_code linear_make(const struct op_case *c, struct arena *a, struct case_data *out,
                                 struct err *err)
{
    struct make m = make_begin(c, a, err);
    int64_t T = case_get_int(c, "T"), in = case_get_int(c, "in"), rows = case_get_int(c, "out");
    struct linear *op = make_zeroed(&m, 1, sizeof *op, "case");
    struct matrix *w = make_zeroed(&m, 1, sizeof *w, "case");
    double *x = make_values(&m, "x", T * in, case_get_real(c, "gain") * sqrt(3.0));
    double *y = make_output(&m, out, "y", T, rows);
    if (!op || !w || !x || !y || make_matrix(&m, "w", rows, in, 1, w) != ERR_OK) return err->code;
    *op = (struct linear){.T = T, .x = x, .w = w, .y = y, .point = RP_LINEAR};
    out->op = op;
    return ERR_OK;
}

static void linear_draw(struct op_case *c, struct draw *d)
{
    int64_t in = draw_one_in(d, 3) ? 32 * draw_int(d, 1, 16) : draw_size(d, 257);
    case_set_int(c, "T", draw_size(d, 17));
    case_set_int(c, "in", in);
    case_set_int(c, "out", draw_size(d, 129));
    draw_format(c, d, in);
}

/* ---- int4 ---- */

static const char *const words_int4_spoil[] = {
    "none",         "g_idx_high", "g_idx_negative", "scale_shape",
    "packed_shape", "zero_shape", "scale_type",     NULL};

/* clang-format off */
static const struct param_row int4_params[] = {
    INT_ROW("out", 1, 1 << 20, "8", "rows"),
    INT_ROW("in", 1, 1 << 20, "64", "columns"),
    INT_ROW("bits", 1, 32, "4", "of a code"),
    PARAM_GROUP,
    INT_ROW("zero", 0, 1, "0", "1: with zero points"),
    PARAM_ORDER,
    WORD_ROW("scale", "bf16", words_dense, "type of the scales"),
    INT_ROW("row", 0, 1 << 20, "0", "first row to write"),
    INT_ROW("n", 0, 1 << 20, "0", "rows to write, 0: all from the first on"),
    WORD_ROW("spoil", "none", words_int4_spoil, "what is made wrong on purpose"),
    PARAM_END,
};
/* clang-format on */

static void int4_spoil(const struct op_case *c, struct matrix *w)
{
    int32_t *map =
        (int32_t *)(uintptr_t)w->g_idx.data; /* our own buffer; tensors are read-only views */
    if (case_word_is(c, "spoil", "g_idx_high")) map[w->in / 2] = (int32_t)w->scale.shape[1];
    if (case_word_is(c, "spoil", "g_idx_negative")) map[w->in / 2] = -2;
    if (case_word_is(c, "spoil", "scale_shape")) w->scale.shape[1]++;
    if (case_word_is(c, "spoil", "packed_shape")) w->data.shape[1]++;
    if (case_word_is(c, "spoil", "zero_shape")) w->zero.shape[0]++;
    if (case_word_is(c, "spoil", "scale_type")) w->scale.dtype = DT_I32;
}

static enum err_code int4_make(const struct op_case *c, struct arena *a, struct case_data *out,
                               struct err *err)
{
    struct make m = make_begin(c, a, err);
    int64_t rows = case_get_int(c, "out"), in = case_get_int(c, "in"), row = case_get_int(c, "row"),
            n = case_get_int(c, "n");
    int64_t order = case_get_int(c, "order");
    bool zero = case_get_int(c, "zero") != 0;
    if (row >= rows || row + n > rows)
        return err_set(err, ERR_USAGE, "case|row, n|rows %lld to %lld|inside 0 to %lld",
                       (long long)row, (long long)(row + n), (long long)rows);
    if (order != 1 && strncmp(case_word(c, "spoil"), "g_idx", 5) == 0)
        return err_set(err, ERR_USAGE, "case|spoil|%s without order=1|order=1",
                       case_word(c, "spoil"));
    if (!zero && case_word_is(c, "spoil", "zero_shape"))
        return err_set(err, ERR_USAGE, "case|spoil|zero_shape with zero=0|zero=1");
    if (n == 0) n = rows - row;
    struct int4 *op = make_zeroed(&m, 1, sizeof *op, "case");
    struct matrix *w = make_zeroed(&m, 1, sizeof *w, "case");
    double *y = make_output(&m, out, "y", n, in);
    int8_t *q = make_output_of(&m, out, "q", DT_I8, n, in);
    if (!op || !w || !y || !q) return err->code;
    if (make_packed(&m, "w", rows, in, (int)case_get_int(c, "bits"), case_get_int(c, "group"),
                    make_dtype(case_word(c, "scale")), zero, order, w) != ERR_OK)
        return err->code;
    int4_spoil(c, w);
    *op = (struct int4){.w = w, .row = row, .n = n, .q = q, .y = y};
    out->op = op;
    return ERR_OK;
}

static void int4_draw(struct op_case *c, struct draw *d)
{
    static const int64_t group_sizes[] = {0, 8, 16, 32, 64, 128, 3};
    int64_t out = draw_size(d, 33), group = group_sizes[draw_int(d, 0, 6)];
    int64_t in = group ? group * draw_int(d, 1, 5) : draw_size(d, 257);
    case_set_int(c, "out", out);
    case_set_int(c, "in", in);
    case_set_int(c, "bits", draw_one_in(d, 3) ? 8 : 4);
    case_set_int(c, "group", group);
    case_set_int(c, "zero", draw_one_in(d, 2));
    case_set_int(c, "order", group && draw_one_in(d, 2) ? draw_int(d, 1, 2) : 0);
    case_set(c, "scale", draw_word(d, words_dense));
    if (!draw_one_in(d, 2)) return;
    int64_t row = draw_int(d, 0, out - 1);
    case_set_int(c, "row", row);
    case_set_int(c, "n", draw_int(d, 1, out - row));
}

/* ---- logits ---- */

/* clang-format off */
static const struct param_row logits_params[] = {
    PARAM_T, PARAM_H("64"),
    INT_ROW("V", 1, 1 << 24, "97", "rows of the head"),
    WORD_ROW("w", "bf16", words_dense, "type of the head"),
    PARAM_END,
};
/* clang-format on */

static enum err_code logits_make(const struct op_case *c, struct arena *a, struct case_data *out,
                                 struct err *err)
{
    struct make m = make_begin(c, a, err);
    int64_t T = case_get_int(c, "T"), H = case_get_int(c, "H"), V = case_get_int(c, "V");
    struct logits *op = make_zeroed(&m, 1, sizeof *op, "case");
    struct matrix *head = make_zeroed(&m, 1, sizeof *head, "case");
    double *x = make_values(&m, "x", T * H, sqrt(3.0));
    double *y = make_output(&m, out, "y", T, V);
    if (!op || !head || !x || !y) return err->code;
    *head = make_dense(&m, "head", make_dtype(case_word(c, "w")), V, H, 2);
    *op = (struct logits){.T = T, .x = x, .head = head, .y = y};
    out->op = op;
    return ERR_OK;
}

static void logits_draw(struct op_case *c, struct draw *d)
{
    case_set_int(c, "T", draw_size(d, 5));
    case_set_int(c, "H", draw_size(d, 257));
    case_set_int(c, "V", draw_size(d, 257));
    case_set(c, "w", draw_word(d, words_dense));
}

const struct case_op case_ops_simple[] = {
    {"embed", embed_params, embed_make, embed_draw},
    {"norm", norm_params, norm_make, norm_draw},
    {"linear", linear_params, linear_make, linear_draw},
    {"int4", int4_params, int4_make, int4_draw},
    {"logits", logits_params, logits_make, logits_draw},
    {0},
};
