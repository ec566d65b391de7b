/* case_mla.c: cases of the ops rope, mla.q, mla.kv, mla.core and mla.output: schema, data, draw.
 * See case.h.
 *
 * mla.core: `context=0:7,rows=2:1` is two sequences, the first with 2 new rows and nothing cached,
 * the second with one new row after 7 cached tokens. The cache holds layer 0 as NaN and layer 1
 * with the data; its blocks are dealt out shuffled; slots of the block table past a sequence's end
 * hold -1 and 2147480000 in turn. */
#include "core/check.h"
#include "core/mla.h"
#include "harness/case_make.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const words_pairs[] = {"interleaved", "half", NULL};
static const char *const words_form[] = {"expanded", "absorbed", NULL};
static const char *const words_position_spoil[] = {"none", "position", NULL};
static const char *const words_chain_spoil[] = {"none", "chain", NULL};

/* clang-format off: one row, one line */
#define PARAM_ROPE                                                                                 \
    INT_ROW("position", 0, 1 << 30, "0", "of the first token"),                                    \
        INT_ROW("step", 0, 1 << 20, "1", "between positions"),                                     \
        WORD_ROW("pairs", "interleaved", words_pairs, "which columns rotate together"),            \
        REAL_ROW("theta", 0, 1e12, "50000", "rope_theta"),                                         \
        INT_ROW("yarn", 0, 1, "0", "1: YaRN with the next six"),                                   \
        REAL_ROW("factor", 1, 1e6, "64", "stretch"),                                               \
        REAL_ROW("beta_fast", 0.001, 1e6, "32", "rotations above which nothing is stretched"),     \
        REAL_ROW("beta_slow", 0.001, 1e6, "1", "rotations below which all is"),                    \
        REAL_ROW("mscale", 0, 100, "1", "cos and sin: g(mscale) / g(mscale_all_dim)"),             \
        REAL_ROW("mscale_all_dim", 0, 100, "1", "see mscale"),                                     \
        INT_ROW("original", 1, 1 << 24, "4096", "original_max_position_embeddings"),               \
        WORD_ROW("spoil", "none", words_position_spoil, "position: a negative one")
#define PARAM_HEADS(dflt) INT_ROW("heads", 1, 1024, dflt, "attention heads")
#define PARAM_P INT_ROW("P", 1, 4096, "16", "width of a head's part without position")
#define PARAM_R INT_ROW("R", 1, 1024, "8", "width of the rotated part")
#define PARAM_L INT_ROW("L", 1, 1 << 16, "32", "width of the latent")
#define PARAM_EPS REAL_ROW("eps", -1, 1, "1e-06", "of the latent norm")
/* clang-format on */

/* ---- rope tables ---- */

static enum err_code make_rope(struct make *m, int64_t R, int64_t T, int64_t **position,
                               struct rope_table **table)
{
    const struct op_case *c = m->c;
    *position = make_zeroed(m, T, sizeof **position, "positions");
    *table = make_zeroed(m, 1, sizeof **table, "rope table");
    struct config *config = make_zeroed(m, 1, sizeof *config, "config");
    if (!*position || !*table || !config) return m->err->code;
    for (int64_t t = 0; t < T; t++)
        (*position)[t] = case_get_int(c, "position") + t * case_get_int(c, "step");
    if (case_word_is(c, "spoil", "position")) (*position)[T - 1] = -1;
    config->rope = R;
    config->rope_theta = case_get_real(c, "theta");
    config->rope_interleaved = case_word_is(c, "pairs", "interleaved");
    config->scaling =
        (struct rope_scaling){.yarn = case_get_int(c, "yarn") != 0,
                              .factor = case_get_int(c, "yarn") ? case_get_real(c, "factor") : 1,
                              .beta_fast = case_get_real(c, "beta_fast"),
                              .beta_slow = case_get_real(c, "beta_slow"),
                              .mscale = case_get_real(c, "mscale"),
                              .mscale_all_dim = case_get_real(c, "mscale_all_dim"),
                              .original_max_position = case_get_int(c, "original")};
    return rope_table_make(config, *table, m->err);
}

static void draw_rope(struct op_case *c, struct draw *d)
{
    case_set(c, "pairs", draw_word(d, words_pairs));
    case_set_int(c, "position", draw_one_in(d, 2) ? draw_int(d, 0, 40) : draw_int(d, 0, 262143));
    case_set_int(c, "step", draw_int(d, 1, 700));
    case_set(c, "theta", draw_one_in(d, 2) ? "50000" : "10000");
    if (!draw_one_in(d, 2)) return;
    case_set_int(c, "yarn", 1);
    case_set(c, "factor", draw_one_in(d, 2) ? "64" : "40");
    case_set(c, "beta_fast", draw_one_in(d, 2) ? "32" : "1");
    case_set(c, "mscale_all_dim", draw_one_in(d, 2) ? "1" : "0.707");
}

/* ---- rope ---- */

/* clang-format off */
static const struct param_row rope_params[] = {
    PARAM_T, PARAM_HEADS("2"), PARAM_R,
    INT_ROW("stride", 0, 1 << 16, "0", "columns of a head, 0: offset + R"),
    INT_ROW("offset", 0, 1 << 16, "0", "first rotated column"),
    PARAM_ROPE, PARAM_END,
};
/* clang-format on */

static enum err_code rope_make(const struct op_case *c, struct arena *a, struct case_data *out,
                               struct err *err)
{
    struct make m = make_begin(c, a, err);
    int64_t T = case_get_int(c, "T"), heads = case_get_int(c, "heads"), R = case_get_int(c, "R"),
            offset = case_get_int(c, "offset");
    int64_t stride = case_get_int(c, "stride") ? case_get_int(c, "stride") : offset + R;
    struct rope *op = make_zeroed(&m, 1, sizeof *op, "case");
    double *x = make_values(&m, "x", T * heads * stride, sqrt(3.0));
    double *y = make_output(&m, out, "x", T, heads * stride);
    int64_t *position;
    struct rope_table *table;
    if (!op || !x || !y || make_rope(&m, R, T, &position, &table) != ERR_OK) return err->code;
    memcpy(y, x,
           (size_t)(T * heads * stride) *
               sizeof *y); /* rotated in place; the other columns must stay */
    *op = (struct rope){.T = T,
                        .heads = heads,
                        .stride = stride,
                        .offset = offset,
                        .position = position,
                        .table = table,
                        .interleaved = case_word_is(c, "pairs", "interleaved"),
                        .x = y};
    out->op = op;
    return ERR_OK;
}

static void rope_draw(struct op_case *c, struct draw *d)
{
    int64_t R = 2 * draw_int(d, 1, 33), offset = draw_one_in(d, 2) ? 0 : draw_int(d, 1, 17);
    case_set_int(c, "T", draw_size(d, 9));
    case_set_int(c, "heads", draw_size(d, 5));
    case_set_int(c, "R", R);
    case_set_int(c, "offset", offset);
    case_set_int(c, "stride", draw_one_in(d, 2) ? 0 : offset + R + draw_int(d, 0, 5));
    draw_rope(c, d);
}

/* ---- mla.q ---- */

/* clang-format off */
static const struct param_row q_params[] = {
    PARAM_T, PARAM_H("32"), PARAM_HEADS("2"), PARAM_P, PARAM_R,
    INT_ROW("q_lora", 0, 1 << 16, "24", "width of the query latent, 0: one plain linear"),
    PARAM_EPS, PARAM_FORMAT, PARAM_GROUP, PARAM_ORDER,
    PARAM_GAIN("of the latent; small ones make eps matter"),
    WORD_ROW("spoil", "none", words_chain_spoil, "chain: shapes that do not fit"),
    PARAM_END,
};
/* clang-format on */

static enum err_code q_make(const struct op_case *c, struct arena *a, struct case_data *out,
                            struct err *err)
{
    struct make m = make_begin(c, a, err);
    int64_t T = case_get_int(c, "T"), H = case_get_int(c, "H"), lora = case_get_int(c, "q_lora");
    int64_t width = case_get_int(c, "heads") * (case_get_int(c, "P") + case_get_int(c, "R"));
    struct mla_q *op = make_zeroed(&m, 1, sizeof *op, "case");
    struct matrix *w = make_zeroed(&m, 2, sizeof *w, "case");
    struct tensor *norm = make_zeroed(&m, 1, sizeof *norm, "case");
    double *x = make_values(&m, "x", T * H, sqrt(3.0));
    double *q = make_output(&m, out, "q", T, width);
    if (!op || !w || !norm || !x || !q) return err->code;
    int64_t wrong = case_word_is(c, "spoil", "chain");
    *op = (struct mla_q){.T = T, .x = x, .b = &w[1], .eps = case_get_real(c, "eps"), .q = q};
    if (lora) {
        if (make_matrix(&m, "q_a_proj", lora, H, case_get_real(c, "gain"), &w[0]) != ERR_OK)
            return err->code;
        *norm = make_tensor(&m, "q_a_layernorm", DT_BF16, lora, 0, 0.25, 1);
        op->a = &w[0];
        op->norm = norm;
    }
    out->op = op;
    return make_matrix(&m, "q_b_proj", width, (lora ? lora : H) + wrong, 1, &w[1]);
}

static void q_draw(struct op_case *c, struct draw *d)
{
    int64_t H = draw_one_in(d, 2) ? 32 * draw_int(d, 1, 6) : draw_size(d, 193);
    int64_t lora = draw_one_in(d, 4)   ? 0
                   : draw_one_in(d, 2) ? 32 * draw_int(d, 1, 3)
                                       : draw_size(d, 97);
    case_set_int(c, "T", draw_size(d, 9));
    case_set_int(c, "H", H);
    case_set_int(c, "heads", draw_size(d, 5));
    case_set_int(c, "P", draw_size(d, 33));
    case_set_int(c, "R", 2 * draw_int(d, 1, 9));
    case_set_int(c, "q_lora", lora);
    draw_real(c, d, "eps", -7, -5);
    draw_format(c, d, H);
    int64_t group = case_get_int(c, "group");
    if (!case_word_is(c, "format", "fp8") && group && lora % group != 0) {
        case_set_int(c, "group", 0);
        case_set_int(c, "order", 0);
    }
    case_set(c, "gain", draw_one_in(d, 2) ? "1" : "0.01");
}

/* ---- mla.kv ---- */

/* clang-format off */
static const struct param_row kv_params[] = {
    PARAM_T, PARAM_H("32"), PARAM_L, PARAM_R, PARAM_EPS, PARAM_FORMAT, PARAM_GROUP, PARAM_ORDER,
    PARAM_GAIN("of the latent; small ones make eps matter"), PARAM_ROPE, PARAM_END,
};
/* clang-format on */

static enum err_code kv_make(const struct op_case *c, struct arena *a, struct case_data *out,
                             struct err *err)
{
    struct make m = make_begin(c, a, err);
    int64_t T = case_get_int(c, "T"), H = case_get_int(c, "H"), L = case_get_int(c, "L"),
            R = case_get_int(c, "R");
    struct mla_kv *op = make_zeroed(&m, 1, sizeof *op, "case");
    struct matrix *w = make_zeroed(&m, 1, sizeof *w, "case");
    struct tensor *norm = make_zeroed(&m, 1, sizeof *norm, "case");
    double *x = make_values(&m, "x", T * H, sqrt(3.0));
    double *latent = make_output(&m, out, "latent", T, L);
    double *k_rope = make_output(&m, out, "k_rope", T, R);
    int64_t *position;
    struct rope_table *table;
    if (!op || !w || !norm || !x || !latent || !k_rope) return err->code;
    if (make_rope(&m, R, T, &position, &table) != ERR_OK) return err->code;
    *norm = make_tensor(&m, "kv_a_layernorm", DT_BF16, L, 0, 0.25, 1);
    *op = (struct mla_kv){.T = T,
                          .L = L,
                          .R = R,
                          .x = x,
                          .a = w,
                          .norm = norm,
                          .eps = case_get_real(c, "eps"),
                          .position = position,
                          .table = table,
                          .interleaved = case_word_is(c, "pairs", "interleaved"),
                          .latent = latent,
                          .k_rope = k_rope};
    out->op = op;
    return make_matrix(&m, "kv_a_proj_with_mqa", L + R, H, case_get_real(c, "gain"), w);
}

static void kv_draw(struct op_case *c, struct draw *d)
{
    int64_t H = draw_one_in(d, 2) ? 32 * draw_int(d, 1, 6) : draw_size(d, 193);
    case_set_int(c, "T", draw_size(d, 9));
    case_set_int(c, "H", H);
    case_set_int(c, "L", draw_size(d, 65));
    case_set_int(c, "R", 2 * draw_int(d, 1, 17));
    draw_real(c, d, "eps", -7, -5);
    draw_format(c, d, H);
    case_set(c, "gain", draw_one_in(d, 2) ? "1" : "0.01");
    draw_rope(c, d);
}

/* ---- mla.core ---- */

/* clang-format off */
static const struct param_row core_params[] = {
    PARAM_HEADS("2"), PARAM_P, PARAM_R,
    INT_ROW("V", 1, 4096, "16", "width of a head's value"),
    PARAM_L,
    LIST_ROW("context", 0, 1 << 20, "0", "tokens cached before the rows, for each sequence"),
    LIST_ROW("rows", 1, 1 << 16, "3", "new rows of each sequence"),
    INT_ROW("block", 1, 4096, "4", "tokens in a block of the cache"),
    WORD_ROW("form", "expanded", words_form, "which of the two equal formulas"),
    PARAM_FORMAT, PARAM_GROUP, PARAM_ORDER,
    PARAM_GAIN("of the scale (P+R)^-1/2; large ones make softmax sharp"),
    WORD_ROW("spoil", "none", words_chain_spoil, "chain: shapes that do not fit"),
    PARAM_END,
};
/* clang-format on */

/* The cache: NaN but for the tokens of layer 1; table slots past a sequence's end are poison. */
static enum err_code make_cache(struct make *m, const int64_t *context, const int64_t *rows, int n,
                                struct cache *cache)
{
    int64_t width = case_get_int(m->c, "L") + case_get_int(m->c, "R"),
            block = case_get_int(m->c, "block"), room[CASE_LIST];
    for (int s = 0; s < n; s++) room[s] = context[s] + rows[s] + 2 * block;
    if (cache_make(cache, m->arena, 2, n, room, block, width, m->seed + 1, m->err) != ERR_OK)
        return m->err->code;
    uint64_t base = synth_base(m->seed, "cache");
    for (int s = 0, at = 0; s < n; s++) {
        int64_t tokens = context[s] + rows[s];
        cache->length[s] = tokens;
        for (int64_t t = 0; t < tokens; t++) {
            double *entry = cache_write(cache, 1, s, t);
            for (int64_t i = 0; i < width; i++, at++) {
                float v = (float)(synth_u(base, at) * sqrt(3.0));
                entry[i] = (double)(m->x_bf16 ? bf16_to_f32(bf16_from_f32(v)) : v);
            }
        }
        for (int64_t b = (tokens + block - 1) / block; b < cache->blocks_max; b++)
            cache->table[s * cache->blocks_max + b] = b % 2 ? -1 : 2147480000;
    }
    return ERR_OK;
}

static enum err_code core_make(const struct op_case *c, struct arena *a, struct case_data *out,
                               struct err *err)
{
    struct make m = make_begin(c, a, err);
    int n, rows_items;
    const int64_t *context = case_list(c, "context", &n),
                  *count = case_list(c, "rows", &rows_items);
    if (n != rows_items)
        return err_set(err, ERR_USAGE, "case|context, rows|%d and %d items|one each a sequence", n,
                       rows_items);
    int64_t heads = case_get_int(c, "heads"), P = case_get_int(c, "P"), R = case_get_int(c, "R"),
            V = case_get_int(c, "V");
    int64_t L = case_get_int(c, "L");
    struct mla_core *op = make_zeroed(&m, 1, sizeof *op, "case");
    struct matrix *w = make_zeroed(&m, 1, sizeof *w, "case");
    struct cache *cache = make_zeroed(&m, 1, sizeof *cache, "case");
    struct rows *rows = make_zeroed(&m, 1, sizeof *rows, "case");
    if (!op || !w || !cache || !rows || make_rows(&m, context, count, n, rows) != ERR_OK)
        return err->code;
    if (make_cache(&m, context, count, n, cache) != ERR_OK) return err->code;
    double *q = make_values(&m, "q", rows->count * heads * (P + R), sqrt(3.0));
    double *y = make_output(&m, out, "y", rows->count, heads * V);
    if (!q || !y) return err->code;
    *op =
        (struct mla_core){.heads = heads,
                          .P = P,
                          .R = R,
                          .V = V,
                          .L = L,
                          .scale = case_get_real(c, "gain") / sqrt((double)(P + R)),
                          .form = case_word_is(c, "form", "absorbed") ? MLA_ABSORBED : MLA_EXPANDED,
                          .rows = rows,
                          .q = q,
                          .kv_b = w,
                          .cache = cache,
                          .layer = 1,
                          .y = y};
    out->op = op;
    return make_matrix(&m, "kv_b_proj", heads * (P + V) + case_word_is(c, "spoil", "chain"), L, 1,
                       w);
}

static void core_draw(struct op_case *c, struct draw *d)
{
    int64_t L = draw_one_in(d, 2) ? 32 * draw_int(d, 1, 3) : draw_size(d, 65);
    char context[64] = "", rows[64] = "";
    size_t nc = 0, nr = 0;
    for (int64_t s = 0, n = draw_int(d, 1, 4); s < n; s++) {
        nc += (size_t)snprintf(context + nc, sizeof context - nc, "%s%lld", s ? ":" : "",
                               (long long)(draw_one_in(d, 2) ? 0 : draw_size(d, 65)));
        nr += (size_t)snprintf(rows + nr, sizeof rows - nr, "%s%lld", s ? ":" : "",
                               (long long)(draw_one_in(d, 2) ? 1 : draw_size(d, 9)));
    }
    case_set_int(c, "heads", draw_size(d, 5));
    case_set_int(c, "P", draw_size(d, 33));
    case_set_int(c, "R", 2 * draw_int(d, 1, 9));
    case_set_int(c, "V", draw_size(d, 33));
    case_set_int(c, "L", L);
    case_set(c, "context", context);
    case_set(c, "rows", rows);
    case_set_int(c, "block", draw_one_in(d, 3) ? 64 : draw_size(d, 17));
    case_set(c, "form", draw_word(d, words_form));
    draw_format(c, d, L);
    case_set(c, "gain", draw_one_in(d, 2) ? "1" : "2.0047");
}

/* ---- mla.output ---- */

/* clang-format off */
static const struct param_row output_params[] = {
    PARAM_T, PARAM_H("32"), PARAM_HEADS("2"),
    INT_ROW("V", 1, 4096, "16", "width of a head's value"),
    PARAM_FORMAT, PARAM_GROUP, PARAM_ORDER, PARAM_END,
};
/* clang-format on */

static enum err_code output_make(const struct op_case *c, struct arena *a, struct case_data *out,
                                 struct err *err)
{
    struct make m = make_begin(c, a, err);
    int64_t T = case_get_int(c, "T"), H = case_get_int(c, "H"),
            in = case_get_int(c, "heads") * case_get_int(c, "V");
    struct mla_output *op = make_zeroed(&m, 1, sizeof *op, "case");
    struct matrix *w = make_zeroed(&m, 1, sizeof *w, "case");
    double *x = make_values(&m, "x", T * in, sqrt(3.0));
    double *y = make_output(&m, out, "y", T, H);
    if (!op || !w || !x || !y || make_matrix(&m, "o_proj", H, in, 1, w) != ERR_OK) return err->code;
    *op = (struct mla_output){.T = T, .x = x, .o = w, .y = y};
    out->op = op;
    return ERR_OK;
}

static void output_draw(struct op_case *c, struct draw *d)
{
    int64_t heads = draw_size(d, 5),
            V = draw_one_in(d, 2) ? 32 * draw_int(d, 1, 2) : draw_size(d, 33);
    case_set_int(c, "T", draw_size(d, 9));
    case_set_int(c, "H", draw_size(d, 129));
    case_set_int(c, "heads", heads);
    case_set_int(c, "V", V);
    draw_format(c, d, heads * V);
}

const struct case_op case_ops_mla[] = {
    {"rope", rope_params, rope_make, rope_draw},
    {"mla.q", q_params, q_make, q_draw},
    {"mla.kv", kv_params, kv_make, kv_draw},
    {"mla.core", core_params, core_make, core_draw},
    {"mla.output", output_params, output_make, output_draw},
    {0},
};
