/* diagnose_say.c: see diagnose_say.h; and a diagnosis as JSON. */
#include "harness/diagnose_say.h"

#include "core/check.h"
#include "harness/diagnose_part.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the shape ---- */

/* Row i of the subject beside row *at of the batch; false: it has no partner. */
static bool partner(const struct fitter *f, int64_t i, int64_t *at)
{
    *at = f->row_of[i];
    return *at >= 0;
}

/* The rows of a tap of the anchored profile run that stand beside subject rows, as the run went on
 * with them: the subject's own where it recorded the tap. */
static bool term_of(const struct fitter *f, enum tap_kind kind, const struct shape_input *in,
                    double *out)
{
    char name[TAP_NAME];
    const struct diff *d = f->diff;
    tap_format(kind, d->guilty.layer, name);
    const struct dump_tap *run = dump_find(&d->profile_run, name),
                          *own = anchor_tap(&d->anchor, name, in->cols);
    if (!run || run->cols != in->cols) return false;
    for (int64_t i = 0, n = 0, at; i < f->subject->rows; i++) {
        if (!partner(f, i, &at)) continue;
        const struct dump_tap *t = own ? own : run;
        const char *data = (const char *)t->tensor->data +
                           (own ? i : at) * in->cols * dtype_size(t->tensor->dtype);
        dtype_to_f64(t->tensor->dtype, data, in->cols, out + n++ * in->cols);
    }
    return true;
}

/* The block's output is the sum of two taps. */
static void add_terms(const struct fitter *f, struct shape_input *in, double *room)
{
    static const enum tap_kind terms[] = {TAP_ROUTED, TAP_SHARED};
    static const char *const names[] = {"routed", "shared"};
    if (f->diff->guilty.pair->truth->kind != TAP_MLP || !f->diff->guilty.pair->moe) return;
    for (int i = 0; i < 2; i++) {
        double *at = room + i * in->rows * in->cols;
        in->term[i] = at;
        in->term_name[i] = term_of(f, terms[i], in, at) ? names[i] : NULL;
        if (!in->term_name[i]) return;
    }
}

static int64_t heads_of(const struct config *c, enum tap_kind kind)
{
    return kind == TAP_Q || kind == TAP_ATTN_CORE ? c->heads : 0;
}

static bool gather(const struct fitter *f, struct shape_input *in, double *subject, double *clean,
                   int32_t *ids)
{
    const struct forced *forced = &f->diff->forced;
    const struct dump_tap *s = f->subject, *c = &f->clean.dump.taps[0];
    const double *from = c->tensor->data;
    bool finite = true;
    for (int64_t i = 0, at; i < s->rows; i++) {
        if (!partner(f, i, &at)) continue;
        int64_t n = in->rows++;
        dtype_to_f64(s->tensor->dtype,
                     (const char *)s->tensor->data + i * s->cols * dtype_size(s->tensor->dtype),
                     s->cols, subject + n * s->cols);
        memcpy(clean + n * s->cols, from + at * s->cols, (size_t)s->cols * sizeof *clean);
        if (in->ids)
            memcpy(ids + n * forced->top_k,
                   forced->ids + (f->diff->guilty.layer * forced->rows + at) * forced->top_k,
                   (size_t)forced->top_k * sizeof *ids);
        for (int64_t k = 0; k < s->cols; k++)
            finite &= isfinite(subject[n * s->cols + k]) && isfinite(clean[n * s->cols + k]);
    }
    return finite;
}

static enum err_code find_shape(const struct diff *d, const struct fitter *f,
                                const struct hypothesis *part, struct error_shape *out,
                                struct err *err)
{
    const struct config *c = d->loaded.model.config;
    enum tap_kind kind = d->guilty.pair->truth->kind;
    int64_t rows = f->subject->rows, cols = f->subject->cols, layer = d->guilty.layer;
    bool experts = layer >= 0 && config_is_moe(c, layer) && d->forced.count > 0 &&
                   (kind == TAP_ROUTED || kind == TAP_MLP || kind == TAP_OUTPUT);
    if (f->ids) return ERR_OK;
    double *all = calloc((size_t)(4 * rows * cols) + 1, sizeof *all);
    int32_t *ids = calloc((size_t)(rows * c->top_k) + 1, sizeof *ids);
    struct shape_input in = {.cols = cols,
                             .subject = all,
                             .clean = all + rows * cols,
                             .heads = heads_of(c, kind),
                             .ids = experts ? ids : NULL,
                             .top_k = c->top_k,
                             .experts = experts ? c->experts : 0,
                             .weighed = part_weighed(part)};
    if (!all || !ids) {
        err_set(err, ERR_MEMORY, "diagnose|shape of the error|no memory");
    } else if (gather(f, &in, all, all + rows * cols, ids)) {
        add_terms(f, &in, all + 2 * rows * cols);
        (void)!error_shape_find(&in, out, err);
    } else {
        snprintf(out->text, SHAPE_TEXT, "values that are NaN or infinite");
    }
    free(all);
    free(ids);
    return err->code;
}

/* ---- the replay ---- */

struct line {
    const struct case_op *op;
    char *text;
    size_t used;
};

/* Adds key=value where the op has such a key. */
__attribute__((format(printf, 3, 4))) static void put(struct line *l, const char *key,
                                                      const char *format, ...)
{
    const struct param_row *row = NULL;
    va_list list;
    for (int i = 0; (row = case_param(l->op, i)) && strcmp(row->key, key) != 0; i++) {
    }
    if (!row || l->used >= CASE_LINE) return;
    l->used += (size_t)snprintf(l->text + l->used, CASE_LINE - l->used,
                                "%s%s=", strchr(l->text, '=') ? "," : " ", key);
    va_start(list, format);
    if (l->used < CASE_LINE)
        l->used += (size_t)vsnprintf(l->text + l->used, CASE_LINE - l->used, format, list);
    va_end(list);
}

static const struct matrix *weight_of(const struct layer *l, const char *op)
{
    const struct {
        const char *op;
        const struct matrix *m;
    } list[] = {{"mla.q", &l->q_b},    {"mla.kv", &l->kv_a},     {"mla.core", &l->kv_b},
                {"mla.output", &l->o}, {"moe.shared", &l->gate}, {"mlp", &l->gate}};
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        if (strcmp(list[i].op, op) == 0) return list[i].m;
    }
    return NULL;
}

static void put_format(struct line *l, const struct diff *d, const char *op)
{
    struct err e = ERR_INIT;
    struct expert expert;
    const struct model *model = &d->loaded.model;
    const struct matrix *m =
        d->guilty.layer >= 0 ? weight_of(&model->layers[d->guilty.layer], op) : NULL;
    if (strcmp(op, "moe") == 0 && model_expert(model, d->guilty.layer, 0, &expert, &e) == ERR_OK)
        m = &expert.gate;
    if (!m) return;
    if (m->format == MATRIX_PACKED) {
        put(l, "format", "%s", m->bits == 8 ? "int8" : tensor_exists(&m->zero) ? "int4a" : "int4");
        put(l, "group", "%lld", (long long)m->group);
        if (tensor_exists(&m->g_idx)) put(l, "order", "1");
    } else if (m->format == MATRIX_FP8_BLOCK) {
        put(l, "format", "fp8");
        put(l, "group", "%lld", (long long)m->block[0]);
    } else {
        put(l, "format", "%s",
            m->data.dtype == DT_F32   ? "f32"
            : m->data.dtype == DT_F16 ? "f16"
                                      : "bf16");
    }
}

static void put_rope(struct line *l, const struct config *c)
{
    put(l, "pairs", "%s", c->rope_interleaved ? "interleaved" : "halves");
    put(l, "theta", "%.9g", c->rope_theta);
    if (!c->scaling.yarn) return;
    put(l, "yarn", "1");
    put(l, "factor", "%.9g", c->scaling.factor);
    put(l, "beta_fast", "%.9g", c->scaling.beta_fast);
    put(l, "beta_slow", "%.9g", c->scaling.beta_slow);
    put(l, "mscale", "%.9g", c->scaling.mscale);
    put(l, "mscale_all_dim", "%.9g", c->scaling.mscale_all_dim);
    put(l, "original", "%lld", (long long)c->scaling.original_max_position);
}

static void put_router(struct line *l, const struct config *c, bool bias)
{
    static const char *const methods[] = {[TOPK_NOAUX_TC] = "noaux_tc",
                                          [TOPK_GREEDY] = "greedy",
                                          [TOPK_GROUP_LIMITED] = "group_limited"};
    put(l, "groups", "%lld", (long long)c->groups);
    put(l, "top_groups", "%lld", (long long)c->top_groups);
    put(l, "method", "%s", methods[c->topk_method]);
    put(l, "scoring", "%s", c->scoring == SCORING_SOFTMAX ? "softmax" : "sigmoid");
    put(l, "norm", "%d", c->norm_topk);
    put(l, "scale", "%.9g", c->routed_scale);
    put(l, "bias", "%d", bias);
}

static void put_shape(struct line *l, const struct diff *d, const char *op)
{
    const struct config *c = d->loaded.model.config;
    bool mla = strcmp(op, "mla.q") == 0 || strcmp(op, "mla.kv") == 0;
    int64_t inner = strcmp(op, "mlp") == 0          ? c->intermediate
                    : strcmp(op, "moe.shared") == 0 ? c->moe_intermediate * c->shared_experts
                                                    : c->moe_intermediate;
    const struct {
        const char *key;
        int64_t value;
    } sizes[] = {{"T", d->tokens.count}, {"rows", d->tokens.count},
                 {"H", c->hidden},       {"V", op[0] == 'm' ? c->v_head : c->vocab},
                 {"heads", c->heads},    {"P", c->nope},
                 {"R", c->rope},         {"L", c->kv_lora},
                 {"q_lora", c->q_lora},  {"I", inner},
                 {"E", c->experts},      {"k", c->top_k}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        put(l, sizes[i].key, "%lld", (long long)sizes[i].value);
    put(l, "eps", "%.9g", mla ? 1e-6 : c->norm_eps);
    if (strcmp(op, "mla.kv") == 0 || strcmp(op, "rope") == 0) put_rope(l, c);
    if (strcmp(op, "router") == 0)
        put_router(l, c, tensor_exists(&d->loaded.model.layers[d->guilty.layer].bias));
}

/* The dimensions of the draft head. */
static void put_draft(struct line *l, const struct diff *d, const char *op)
{
    const struct head_config *h = &d->draft.head.config;
    const struct config *c = &h->base;
    bool mla = h->kind == HEAD_MLA, layer = strcmp(op, "eagle.layer") == 0;
    int64_t vocab = strcmp(op, "embed") == 0 ? c->vocab : h->draft_vocab;
    const struct {
        const char *key;
        int64_t value;
        bool fits;
    } sizes[] = {{"T", d->tokens.count - d->tokens.sequences, true},
                 {"H", c->hidden, true},
                 {"Ht", h->target_hidden, true},
                 {"aux", h->aux_count, true},
                 {"V", layer ? c->v_head : vocab, mla || !layer},
                 {"heads", c->heads, true},
                 {"kv_heads", h->kv_heads, !mla},
                 {"hd", h->head_dim, !mla},
                 {"P", c->nope, mla},
                 {"R", c->rope, mla},
                 {"L", c->kv_lora, mla},
                 {"q_lora", c->q_lora, mla},
                 {"I", c->intermediate, true},
                 {"rows", d->tokens.length[0] - 1, true},
                 {"qk_norm", h->qk_norm, true},
                 {"yarn", c->scaling.yarn, true}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (sizes[i].fits) put(l, sizes[i].key, "%lld", (long long)sizes[i].value);
    }
    if (layer) put(l, "kind", "%s", mla ? "mla" : "llama");
    put(l, "norm", "%s", h->norm_before_fc ? "before" : h->fc_norm ? "each" : "none");
    put(l, "residual", "%s", h->norm_before_residual ? "normed" : "hidden");
    put(l, "pairs", "%s", c->rope_interleaved ? "interleaved" : "half");
    put(l, "eps", "%.9g", c->norm_eps);
    put(l, "theta", "%.9g", c->rope_theta);
}

/* `assay op NAME CASE` with the dimensions of this layer; "" where such a case cannot be made. */
static void make_replay(const struct diff *d, struct diagnosis *g)
{
    struct err e = ERR_INIT;
    struct op_case check;
    char text[CASE_LINE + 1] = "";
    const struct hypothesis *h = g->claimed == 1 ? &g->list[g->claims[0].first] : NULL;
    const char *op = h && h->op ? h->op : d->guilty.op;
    struct line l = {case_op_find(op), text, 0};
    if (!l.op) return;
    l.used = (size_t)snprintf(text, sizeof text, "%s", op);
    if (tap_is_draft(d->guilty.pair->truth->kind)) {
        put_draft(&l, d, op);
    } else {
        put_shape(&l, d, op);
        put_format(&l, d, op);
    }
    if (h && g->claims[0].second < 0) {
        char fault[FAULT_TEXT];
        struct fault_use alone =
            g->claims[0].use[0]; /* an op on its own has no layer, no step, and one call */
        for (int k = 0; k < FAULT_KEYS && alone.row->keys[k].name; k++) {
            const char *key = alone.row->keys[k].name;
            if (strcmp(key, "layer") == 0 || strcmp(key, "call") == 0 ||
                strcmp(key, "draft_step") == 0)
                alone.value[k] = alone.row->keys[k].dflt;
        }
        fault_print(&alone, fault);
        for (char *c = fault; *c; c++) *c = *c == ',' ? ':' : *c; /* commas part the line's keys */
        put(&l, "fault", "%s", fault);
    }
    if (case_parse(&check, text, &e) != ERR_OK) return;
    char *space = strchr(text, ' ');
    if (space) *space = '\0';
    snprintf(g->replay, sizeof g->replay, "assay op %s%s%s%s", text, space ? " '" : "",
             space ? space + 1 : "", space ? "'" : "");
}

enum err_code diagnose_describe(const struct diff *d, const struct fitter *f,
                                const struct hypothesis *part, struct diagnosis *out,
                                struct err *err)
{
    if (find_shape(d, f, part, &out->shape, err) != ERR_OK) return err->code;
    make_replay(d, out);
    return ERR_OK;
}
