/* case_eagle.c: cases of the ops eagle.fc and eagle.layer: schema, data, draw. See case.h.
 *
 * eagle.layer: `context=0:7,rows=2:1` as in case_mla.c. With view=plain a row sees all tokens up to
 * itself. With view=tree the new rows of a sequence are the nodes of a tree behind its context:
 * each is cached at its place, stands at the position of its depth and sees context, ancestors and
 * itself. */
#include "core/check.h"
#include "core/eagle.h"
#include "harness/case_make.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- eagle.fc ---- */

static const char *const words_fc_norm[] = {"none", "before", "each", "both", NULL};
static const char *const words_chain_spoil[] = {"none", "chain", NULL};

/* clang-format off */
static const struct param_row fc_params[] = {
    PARAM_T, PARAM_H("16"),
    INT_ROW("Ht", 1, 1 << 16, "12", "width of an aux state"),
    INT_ROW("aux", 0, 9, "3", "aux states"),
    WORD_ROW("norm", "none", words_fc_norm, "before: over all aux states; each: of every one"),
    REAL_ROW("eps", -1, 1, "1e-05", "of the norms"),
    WORD_ROW("w", "bf16", words_dense, "type of the weights"),
    PARAM_GAIN("scale of the aux states; small ones make eps matter"),
    WORD_ROW("spoil", "none", words_chain_spoil, "chain: shapes that do not fit"),
    PARAM_END,
};
/* clang-format on */

static enum err_code fc_make(const struct op_case *c, struct arena *a, struct case_data *out,
                             struct err *err)
{
    struct make m = make_begin(c, a, err);
    int64_t T = case_get_int(c, "T"), H = case_get_int(c, "H"), Ht = case_get_int(c, "Ht"),
            wide = case_get_int(c, "aux") * Ht;
    enum dtype t = make_dtype(case_word(c, "w"));
    struct eagle_fc *op = make_zeroed(&m, 1, sizeof *op, "case");
    struct head *head = make_zeroed(&m, 1, sizeof *head, "case");
    double *aux = make_values(&m, "aux", T * wide, case_get_real(c, "gain") * sqrt(3.0));
    double *y = make_output(&m, out, "y", T, H);
    if (!op || !head || !aux || !y) return err->code;
    head->config = (struct head_config){
        .base = {.hidden = H, .norm_eps = case_get_real(c, "eps")},
        .target_hidden = Ht,
        .aux_count = (int)case_get_int(c, "aux"),
        .norm_before_fc = case_word_is(c, "norm", "before") || case_word_is(c, "norm", "both"),
        .fc_norm = case_word_is(c, "norm", "each") || case_word_is(c, "norm", "both"),
    };
    head->fc_input_norm = make_tensor(&m, "input_norm", t, wide, 0, 0.25, 1);
    for (int i = 0; i < HEAD_AUX; i++) {
        char name[24];
        snprintf(name, sizeof name, "fc_norm.%d", i);
        head->fc_norm[i] = make_tensor(&m, name, t, Ht, 0, 0.25, 1);
    }
    head->fc = make_dense(&m, "fc", t, H, wide + case_word_is(c, "spoil", "chain"), 1);
    *op = (struct eagle_fc){.T = T, .head = head, .aux = aux, .y = y};
    out->op = op;
    return ERR_OK;
}

static void fc_draw(struct op_case *c, struct draw *d)
{
    static const char *const norms[] = {"none", "before", "each", NULL};
    case_set_int(c, "T", draw_size(d, 9));
    case_set_int(c, "H", draw_size(d, 129));
    case_set_int(c, "Ht", draw_size(d, 97));
    case_set_int(c, "aux", draw_one_in(d, 2) ? 3 : draw_int(d, 1, 8));
    case_set(c, "norm", draw_word(d, norms));
    draw_real(c, d, "eps", -7, -4);
    draw_real(c, d, "gain", -3, 1);
    case_set(c, "w", draw_word(d, words_dense));
}

/* ---- eagle.layer ---- */

static const char *const words_kind[] = {"llama", "mla", NULL};
static const char *const words_residual[] = {"hidden", "normed", NULL};
static const char *const words_view[] = {"plain", "tree", NULL};
static const char *const words_pairs[] = {"interleaved", "half", NULL};
static const char *const words_layer_spoil[] = {"none", "chain", "cache", "norm", "view", NULL};

/* clang-format off */
static const struct param_row layer_params[] = {
    WORD_ROW("kind", "llama", words_kind, "of attention"),
    INT_ROW("layer", 0, 2, "0", "0: the first, with embeddings; 1: a further one"),
    PARAM_H("32"),
    INT_ROW("heads", 1, 1024, "4", "query heads"),
    INT_ROW("kv_heads", 0, 1024, "2", "llama: key heads"),
    INT_ROW("hd", 1, 512, "8", "llama: width of a head"),
    INT_ROW("P", 1, 4096, "16", "mla: width of a head's part without position"),
    INT_ROW("R", 1, 512, "8", "mla: width of the rotated part"),
    INT_ROW("V", 1, 4096, "16", "mla: width of a head's value"),
    INT_ROW("L", 1, 1 << 16, "24", "mla: width of the latent"),
    INT_ROW("q_lora", 0, 1 << 16, "20", "mla: width of the query latent, 0: one plain linear"),
    INT_ROW("I", 1, 1 << 20, "48", "width of the mlp"),
    WORD_ROW("residual", "hidden", words_residual, "what the skip path of layer 0 starts at"),
    INT_ROW("qk_norm", 0, 1, "0", "llama: 1: a norm over each query and key head"),
    REAL_ROW("eps", -1, 1, "1e-05", "of the norms but the latents'"),
    WORD_ROW("w", "bf16", words_dense, "type of the weights"),
    WORD_ROW("pairs", "interleaved", words_pairs, "mla: which columns rotate together"),
    REAL_ROW("theta", 0, 1e12, "10000", "rope_theta"),
    INT_ROW("yarn", 0, 1, "0", "1: YaRN of factor 64 over 4096 positions"),
    LIST_ROW("context", 0, 1 << 20, "0", "tokens cached before the rows, for each sequence"),
    LIST_ROW("rows", 1, 1 << 16, "3", "new rows of each sequence"),
    WORD_ROW("view", "plain", words_view, "tree: rows are nodes that see their ancestors"),
    INT_ROW("position", 0, 1 << 30, "0", "tree: added to all positions"),
    INT_ROW("block", 1, 4096, "4", "tokens in a block of the cache"),
    WORD_ROW("spoil", "none", words_layer_spoil, "what is made wrong on purpose"),
    PARAM_END,
};
/* clang-format on */

static enum err_code make_config(struct make *m, struct head *h)
{
    const struct op_case *c = m->c;
    bool mla = case_word_is(c, "kind", "mla"), yarn = case_get_int(c, "yarn") != 0;
    int64_t hd = case_get_int(c, "hd");
    h->config = (struct head_config){
        .kind = mla ? HEAD_MLA : HEAD_LLAMA,
        .base = {.hidden = case_get_int(c, "H"),
                 .layers = 2,
                 .heads = case_get_int(c, "heads"),
                 .q_lora = mla ? case_get_int(c, "q_lora") : 0,
                 .kv_lora = mla ? case_get_int(c, "L") : 0,
                 .nope = mla ? case_get_int(c, "P") : 0,
                 .rope = mla ? case_get_int(c, "R") : hd,
                 .v_head = mla ? case_get_int(c, "V") : 0,
                 .norm_eps = case_get_real(c, "eps"),
                 .rope_theta = case_get_real(c, "theta"),
                 .rope_interleaved = mla && case_word_is(c, "pairs", "interleaved"),
                 .scaling = {.yarn = yarn,
                             .factor = yarn ? 64 : 1,
                             .beta_fast = 32,
                             .beta_slow = 1,
                             .mscale = 1,
                             .mscale_all_dim = 1,
                             .original_max_position = 4096}},
        .kv_heads = case_get_int(c, "kv_heads"),
        .head_dim = hd,
        .norm_before_residual = case_word_is(c, "residual", "normed"),
        .qk_norm = case_get_int(c, "qk_norm") != 0,
    };
    return rope_table_make(&h->config.base, &h->rope, m->err);
}

static void make_weights(struct make *m, struct head *h, int64_t layer)
{
    const struct head_config *c = &h->config;
    const struct config *b = &c->base;
    struct head_layer *l = &h->layers[layer];
    enum dtype t = make_dtype(case_word(m->c, "w"));
    int64_t H = b->hidden, in = layer == 0 ? 2 * H : H, I = case_get_int(m->c, "I"),
            kv = c->kv_heads * c->head_dim, wrong = case_word_is(m->c, "spoil", "chain");
    const struct {
        struct matrix *at;
        const char *name;
        int64_t out, in;
        bool exists;
    } matrices[] = {
        {&l->q, "q_proj", b->heads * c->head_dim, in + wrong, c->kind == HEAD_LLAMA},
        {&l->k, "k_proj", kv, in, c->kind == HEAD_LLAMA && kv > 0},
        {&l->v, "v_proj", kv, in, c->kind == HEAD_LLAMA && kv > 0},
        {&l->o, "o_proj", H, b->heads * c->head_dim, c->kind == HEAD_LLAMA},
        {&l->q_a, "q_a_proj", b->q_lora, in, b->q_lora > 0},
        {&l->q_b, "q_b_proj", b->heads * config_qk(b), b->q_lora ? b->q_lora : in,
         c->kind == HEAD_MLA},
        {&l->kv_a, "kv_a_proj_with_mqa", b->kv_lora + b->rope, in + wrong, c->kind == HEAD_MLA},
        {&l->kv_b, "kv_b_proj", b->heads * (b->nope + b->v_head), b->kv_lora, c->kind == HEAD_MLA},
        {&l->o, "o_proj", H, b->heads * b->v_head, c->kind == HEAD_MLA},
        {&l->gate, "gate_proj", I, H, true},
        {&l->up, "up_proj", I, H, true},
        {&l->down, "down_proj", H, I, true},
    };
    const struct {
        struct tensor *at;
        const char *name;
        int64_t n;
    } norms[] = {
        {&l->embed_norm, "input_layernorm", H},
        {&l->hidden_norm, "hidden_norm", H},
        {&l->mlp_norm, "post_attention_layernorm", H + case_word_is(m->c, "spoil", "norm")},
        {&l->q_head_norm, "q_norm", c->head_dim},
        {&l->k_head_norm, "k_norm", c->head_dim},
        {&l->q_norm, "q_a_layernorm", b->q_lora},
        {&l->kv_norm, "kv_a_layernorm", b->kv_lora},
        {&h->norm, "norm", H},
    };
    for (size_t i = 0; i < sizeof matrices / sizeof matrices[0]; i++) {
        if (matrices[i].exists)
            *matrices[i].at =
                make_dense(m, matrices[i].name, t, matrices[i].out, matrices[i].in, 1);
    }
    for (size_t i = 0; i < sizeof norms / sizeof norms[0]; i++) {
        if (norms[i].n > 0) *norms[i].at = make_tensor(m, norms[i].name, t, norms[i].n, 0, 0.25, 1);
    }
}

/* NaN but for the tokens before the rows; table slots past a sequence's end are poison. */
static enum err_code make_cache(struct make *m, const struct head_config *h, int64_t layer,
                                const int64_t *context, const int64_t *rows, int n,
                                struct cache *cache)
{
    int64_t block = case_get_int(m->c, "block"), room[CASE_LIST],
            width = head_cache_width(h) + case_word_is(m->c, "spoil", "cache");
    for (int s = 0; s < n; s++) room[s] = context[s] + rows[s] + 2 * block;
    if (width < 1) return err_set(m->err, ERR_USAGE, "case|kv_heads|0|at least 1, for kind=llama");
    if (cache_make(cache, m->arena, 2, n, room, block, width, m->seed + 1, m->err) != ERR_OK)
        return m->err->code;
    uint64_t base = synth_base(m->seed, "cache");
    for (int s = 0, at = 0; s < n; s++) {
        int64_t tokens = context[s] + rows[s];
        cache->length[s] = tokens;
        for (int64_t t = 0; t < context[s] && layer < 2; t++) {
            double *entry = cache_write(cache, layer, s, t);
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

enum { TREE_NODES = 512 };

/* Node `j` of a sequence's tree: its parent is one of the three nodes before it, or the context
 * (-1). Fills its row of what it sees; returns its depth. */
static int64_t make_node(const struct make *m, int64_t sequence, int64_t j, int64_t context,
                         int64_t *parent, int64_t *seen, int64_t seen_max)
{
    uint64_t base = synth_base(m->seed, "parent");
    int64_t depth = 0, path[TREE_NODES];
    parent[j] = j - 1 - (int64_t)(synth_x(base, sequence * 65536 + j) % 3);
    if (parent[j] < -1) parent[j] = -1;
    for (int64_t k = j; k >= 0 && depth < seen_max; k = parent[k]) path[depth++] = k;
    for (int64_t k = 0; k < seen_max; k++) seen[k] = k < depth ? context + path[depth - 1 - k] : -1;
    return depth;
}

static enum err_code make_tree(struct make *m, const int64_t *context, const int64_t *count, int n,
                               struct rows *r)
{
    int64_t widest = 0;
    for (int s = 0; s < n; s++) widest = count[s] > widest ? count[s] : widest;
    if (widest > TREE_NODES)
        return err_set(m->err, ERR_USAGE, "case|rows|%lld in a tree|at most %d", (long long)widest,
                       TREE_NODES);
    int64_t *slot = make_zeroed(m, r->count, sizeof *slot, "rows");
    int64_t *span = make_zeroed(m, r->count, sizeof *span, "rows");
    int64_t *extra = make_zeroed(m, r->count * widest, sizeof *extra, "rows");
    int64_t *parent = make_zeroed(m, widest, sizeof *parent, "rows");
    int64_t *position = make_zeroed(m, r->count, sizeof *position, "rows");
    if (!slot || !span || !extra || !parent || !position) return m->err->code;
    for (int64_t s = 0, i = 0; s < n; s++) {
        for (int64_t j = 0; j < count[s]; j++, i++) {
            slot[i] = context[s] + j;
            span[i] = context[s];
            position[i] = case_get_int(m->c, "position") + context[s] - 1 +
                          make_node(m, s, j, context[s], parent, extra + i * widest, widest);
        }
    }
    if (case_word_is(m->c, "spoil", "view")) extra[0] = slot[r->count - 1] + 9;
    r->position = position;
    r->slot = slot;
    r->span = span;
    r->extra = extra;
    r->extra_max = widest;
    return ERR_OK;
}

static enum err_code make_view(struct make *m, const int64_t *context, const int64_t *count, int n,
                               struct rows *out)
{
    if (make_rows(m, context, count, n, out) != ERR_OK) return m->err->code;
    return case_word_is(m->c, "view", "tree") ? make_tree(m, context, count, n, out) : ERR_OK;
}

static enum err_code layer_make(const struct op_case *c, struct arena *a, struct case_data *out,
                                struct err *err)
{
    struct make m = make_begin(c, a, err);
    int n, items;
    const int64_t *context = case_list(c, "context", &n), *count = case_list(c, "rows", &items);
    int64_t layer = case_get_int(c, "layer"), H = case_get_int(c, "H");
    if (n != items)
        return err_set(err, ERR_USAGE, "case|context, rows|%d and %d items|one each a sequence", n,
                       items);
    if (case_word_is(c, "view", "plain") &&
        (case_get_int(c, "position") || case_word_is(c, "spoil", "view")))
        return err_set(err, ERR_USAGE, "case|position, spoil|of a tree, with view=plain|view=tree");
    struct eagle_layer *op = make_zeroed(&m, 1, sizeof *op, "case");
    struct head *head = make_zeroed(&m, 1, sizeof *head, "case");
    struct cache *cache = make_zeroed(&m, 1, sizeof *cache, "case");
    struct rows *rows = make_zeroed(&m, 1, sizeof *rows, "case");
    if (!op || !head || !cache || !rows || make_config(&m, head) != ERR_OK ||
        make_view(&m, context, count, n, rows) != ERR_OK ||
        make_cache(&m, &head->config, layer, context, count, n, cache) != ERR_OK)
        return err->code;
    if (layer < 2) make_weights(&m, head, layer);
    double *embed = make_values(&m, "embed", rows->count * H, sqrt(3.0));
    double *hidden = make_values(&m, "hidden", rows->count * H, sqrt(3.0));
    double *y = make_output(&m, out, "y", rows->count, H);
    double *sum = make_output(&m, out, "y_sum", rows->count, H);
    if (!embed || !hidden || !y || !sum) return err->code;
    *op = (struct eagle_layer){.head = head,
                               .layer = layer,
                               .rows = rows,
                               .embed = layer == 0 ? embed : NULL,
                               .hidden = hidden,
                               .cache = cache,
                               .y = y,
                               .y_sum = sum};
    out->op = op;
    return ERR_OK;
}

static void draw_rows(struct op_case *c, struct draw *d)
{
    char context[64] = "", rows[64] = "";
    size_t nc = 0, nr = 0;
    for (int64_t s = 0, n = draw_int(d, 1, 3); s < n; s++) {
        nc += (size_t)snprintf(context + nc, sizeof context - nc, "%s%lld", s ? ":" : "",
                               (long long)(draw_one_in(d, 2) ? 0 : draw_size(d, 40)));
        nr += (size_t)snprintf(rows + nr, sizeof rows - nr, "%s%lld", s ? ":" : "",
                               (long long)(draw_one_in(d, 2) ? 1 : draw_size(d, 9)));
    }
    case_set(c, "context", context);
    case_set(c, "rows", rows);
    case_set_int(c, "block", draw_one_in(d, 3) ? 64 : draw_size(d, 17));
    case_set(c, "view", draw_word(d, words_view));
    if (case_word_is(c, "view", "tree") && draw_one_in(d, 2))
        case_set_int(c, "position", draw_int(d, 0, 200000));
}

static void layer_draw(struct op_case *c, struct draw *d)
{
    int64_t kv = draw_size(d, 5);
    case_set(c, "kind", draw_word(d, words_kind));
    case_set_int(c, "layer", draw_one_in(d, 3));
    case_set_int(c, "H", draw_size(d, 65));
    case_set_int(c, "heads", kv * draw_int(d, 1, 4));
    case_set_int(c, "kv_heads", kv);
    case_set_int(c, "hd", 2 * draw_int(d, 1, 17));
    case_set_int(c, "P", draw_size(d, 17));
    case_set_int(c, "R", 2 * draw_int(d, 1, 5));
    case_set_int(c, "V", draw_size(d, 17));
    case_set_int(c, "L", draw_size(d, 33));
    case_set_int(c, "q_lora", draw_one_in(d, 3) ? 0 : draw_size(d, 33));
    case_set_int(c, "I", draw_size(d, 65));
    case_set(c, "residual", draw_word(d, words_residual));
    case_set_int(c, "qk_norm", draw_one_in(d, 3));
    draw_real(c, d, "eps", -7, -4);
    case_set(c, "w", draw_word(d, words_dense));
    case_set(c, "pairs", draw_word(d, words_pairs));
    case_set(c, "theta", draw_one_in(d, 2) ? "1000000" : "10000");
    case_set_int(c, "yarn", draw_one_in(d, 3));
    draw_rows(c, d);
}

const struct case_op case_ops_eagle[] = {
    {"eagle.fc", fc_params, fc_make, fc_draw},
    {"eagle.layer", layer_params, layer_make, layer_draw},
    {0},
};
