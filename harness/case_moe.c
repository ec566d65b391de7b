/* case_moe.c: cases of the ops router, moe, moe.shared and mlp: schema, data, draw. See case.h. */
#include "core/check.h"
#include "core/mlp.h"
#include "core/moe.h"
#include "core/router.h"
#include "harness/case_make.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- router ---- */

static const char *const words_method[] = {"noaux_tc", "greedy", "group_limited", NULL};
static const char *const words_scoring[] = {"sigmoid", "softmax", NULL};
static const char *const words_router_spoil[] = {"none", "forced_twice", "forced_high",
                                                 "forced_negative", NULL};

/* clang-format off */
static const struct param_row router_params[] = {
    PARAM_T, PARAM_H("32"),
    INT_ROW("E", 1, 4096, "8", "experts"),
    INT_ROW("k", 1, 4096, "2", "chosen a token"),
    INT_ROW("groups", 1, 4096, "1", "of experts, contiguous"),
    INT_ROW("top_groups", 1, 4096, "1", "groups kept"),
    WORD_ROW("method", "noaux_tc", words_method, "how experts are chosen"),
    WORD_ROW("scoring", "sigmoid", words_scoring, "logits to scores"),
    INT_ROW("norm", 0, 1, "1", "1: weights of a token sum to the scale"),
    REAL_ROW("scale", 0, 1e6, "2.827", "routed_scaling_factor"),
    INT_ROW("bias", 0, 1, "1", "1: with e_score_correction_bias"),
    WORD_ROW("w", "bf16", words_dense, "type of the gate"),
    INT_ROW("ties", 0, 3, "0", "1: expert 2i+1 equals 2i, 2: group 2j+1 equals 2j, 3: all"),
    INT_ROW("forced", 0, 1, "0", "1: every second token's choice is given"),
    WORD_ROW("spoil", "none", words_router_spoil, "what is made wrong on purpose"),
    PARAM_END,
};
/* clang-format on */

/* The expert whose row expert e repeats; itself where there are no ties. */
int64_t case_router_twin(const struct op_case *c, int64_t e)
{
    int64_t ties = case_get_int(c, "ties"), E = case_get_int(c, "E"),
            per_group = E / case_get_int(c, "groups");
    if (ties == 3) return 0;
    if (ties == 1) return e - e % 2;
    if (ties == 2 && per_group > 0 && e / per_group % 2 == 1) return e - per_group;
    return e;
}

/* Gate and bias become buffers, so that rows can be repeated. */
static enum err_code make_ties(struct make *m, struct matrix *w, struct tensor *bias)
{
    int size = dtype_size(w->data.dtype);
    unsigned char *rows = arena_alloc(m->arena, w->out * w->in, (size_t)size, "gate", m->err);
    float *b = arena_alloc(m->arena, w->out, sizeof *b, "bias", m->err);
    if (!rows || !b) return m->err->code;
    for (int64_t e = 0; e < w->out; e++) {
        int64_t from = case_router_twin(m->c, e);
        synth_fill(&w->data.rule, w->data.dtype, from * w->in, w->in, rows + e * w->in * size);
        synth_fill(&bias->rule, DT_F32, from, 1, b + e);
    }
    w->data.data = rows;
    bias->data = b;
    return ERR_OK;
}

/* Every second row is given: k distinct ids, ascending, spread over all experts; -1 begins a free
 * row. */
static void fill_forced(const struct op_case *c, int32_t *ids, int64_t T, int64_t k, int64_t E)
{
    for (int64_t t = 0; t < T; t++) {
        int64_t shift =
            (int64_t)(synth_x(synth_base((uint64_t)case_get_int(c, "seed"), "forced"), t) %
                      (uint64_t)E);
        bool taken[4096] = {false};
        for (int64_t j = 0; j < k; j++) taken[(shift + j * (E / k)) % E] = true;
        int64_t n = 0;
        for (int64_t e = 0; e < E && n < k; e++) {
            if (taken[e]) ids[t * k + n++] = (int32_t)e;
        }
        if (t % 2) ids[t * k] = -1;
    }
    if (case_word_is(c, "spoil", "forced_twice") && k > 1) ids[1] = ids[0];
    if (case_word_is(c, "spoil", "forced_high")) ids[k - 1] = (int32_t)E;
    if (case_word_is(c, "spoil", "forced_negative")) ids[k - 1] = -2;
}

static enum err_code router_make(const struct op_case *c, struct arena *a, struct case_data *out,
                                 struct err *err)
{
    struct make m = make_begin(c, a, err);
    int64_t T = case_get_int(c, "T"), H = case_get_int(c, "H"), E = case_get_int(c, "E"),
            k = case_get_int(c, "k");
    bool forced = case_get_int(c, "forced") != 0;
    if (forced && k > E)
        return err_set(err, ERR_USAGE, "case|forced|k=%lld of E=%lld|k <= E", (long long)k,
                       (long long)E);
    if (case_get_int(c, "groups") > 1 && case_word_is(c, "method", "greedy"))
        return err_set(err, ERR_USAGE,
                       "case|groups|%lld with method=greedy|1: greedy has no groups",
                       (long long)case_get_int(c, "groups"));
    if (k < 2 && case_word_is(c, "spoil", "forced_twice"))
        return err_set(err, ERR_USAGE, "case|spoil|forced_twice with k=1|k >= 2");
    if (!forced && !case_word_is(c, "spoil", "none"))
        return err_set(err, ERR_USAGE, "case|spoil|%s with forced=0|forced=1",
                       case_word(c, "spoil"));
    struct router *op = make_zeroed(&m, 1, sizeof *op, "case");
    struct matrix *w = make_zeroed(&m, 1, sizeof *w, "case");
    struct tensor *bias = make_zeroed(&m, 1, sizeof *bias, "case");
    int32_t *ids = make_zeroed(&m, T * k, sizeof *ids, "forced ids");
    double *x = make_values(&m, "x", T * H, sqrt(3.0));
    double *logits = make_output(&m, out, "logits", T, E);
    int32_t *chosen = make_output_of(&m, out, "ids", DT_I32, T, k);
    double *weights = make_output(&m, out, "weights", T, k);
    if (!op || !w || !bias || !ids || !x || !logits || !chosen || !weights) return err->code;
    *w = make_dense(&m, "gate", make_dtype(case_word(c, "w")), E, H, 2);
    *bias = make_tensor(&m, "bias", DT_F32, E, 0, 0.1, 0);
    if (case_get_int(c, "ties") && make_ties(&m, w, bias) != ERR_OK) return err->code;
    if (forced) fill_forced(c, ids, T, k, E);
    *op = (struct router){.T = T,
                          .H = H,
                          .E = E,
                          .top_k = k,
                          .groups = case_get_int(c, "groups"),
                          .top_groups = case_get_int(c, "top_groups"),
                          .norm_topk = case_get_int(c, "norm") != 0,
                          .routed_scale = case_get_real(c, "scale"),
                          .x = x,
                          .w = w,
                          .logits = logits,
                          .ids = chosen,
                          .weights = weights};
    op->scoring = case_word_is(c, "scoring", "softmax") ? SCORING_SOFTMAX : SCORING_SIGMOID;
    op->method = case_word_is(c, "method", "greedy")          ? TOPK_GREEDY
                 : case_word_is(c, "method", "group_limited") ? TOPK_GROUP_LIMITED
                                                              : TOPK_NOAUX_TC;
    op->bias = case_get_int(c, "bias") ? bias : NULL;
    op->forced = forced ? ids : NULL;
    out->op = op;
    return ERR_OK;
}

static void router_draw(struct op_case *c, struct draw *d)
{
    int64_t groups = draw_one_in(d, 2) ? 1 : draw_int(d, 2, 8);
    int64_t per_group = groups == 1 ? draw_size(d, 65) : draw_int(d, 2, 9);
    int64_t top_groups = draw_int(d, 1, groups), most = top_groups * per_group;
    case_set_int(c, "T",
                 draw_size(d, 33)); /* ties need many rows to be broken wrongly in one of them */
    case_set_int(c, "H", draw_size(d, 129));
    case_set_int(c, "E", groups * per_group);
    case_set_int(c, "groups", groups);
    case_set_int(c, "top_groups", top_groups);
    case_set_int(c, "k", draw_one_in(d, 4) ? most : draw_int(d, 1, most < 9 ? most : 9));
    /* Groups only exist for the two methods that have them. */
    case_set(c, "method",
             groups > 1 ? (draw_one_in(d, 2) ? "noaux_tc" : "group_limited")
                        : draw_word(d, words_method));
    case_set(c, "scoring", draw_word(d, words_scoring));
    case_set_int(c, "norm", draw_int(d, 0, 1));
    case_set_int(c, "bias", case_word_is(c, "method", "noaux_tc") && !draw_one_in(d, 4));
    case_set(c, "w", draw_word(d, words_dense));
    case_set_int(c, "forced", draw_one_in(d, 4));
    if (draw_one_in(d, 2)) return;
    int64_t k = case_get_int(c, "k"), ties = groups > 1          ? draw_int(d, 1, 2)
                                             : draw_one_in(d, 4) ? 3
                                                                 : 1;
    case_set_int(c, "ties", ties);
    /* An odd number cuts through a pair of equals; an even one takes both, and no tie decides
     * anything. */
    if (k % 2 == 0) case_set_int(c, "k", k - 1);
    if (ties != 2 || top_groups % 2 == 1) return;
    case_set_int(c, "top_groups", top_groups - 1);
    if (case_get_int(c, "k") > most - per_group) case_set_int(c, "k", most - per_group);
}

/* ---- moe ---- */

static const char *const words_moe_spoil[] = {"none", "id_high", "id_negative", "chain", NULL};

/* clang-format off */
static const struct param_row moe_params[] = {
    PARAM_T, PARAM_H("32"),
    INT_ROW("I", 1, 1 << 20, "24", "inner width of an expert"),
    INT_ROW("E", 1, 4096, "8", "experts"),
    INT_ROW("k", 1, 4096, "2", "chosen a token"),
    PARAM_FORMAT, PARAM_GROUP, PARAM_ORDER, PARAM_GAIN("scale of x; large ones make silu bend"),
    REAL_ROW("scale", 0, 1e6, "1", "of the sum"),
    WORD_ROW("spoil", "none", words_moe_spoil, "what is made wrong on purpose"),
    PARAM_END,
};
/* clang-format on */

static enum err_code moe_expert(const void *ctx, int64_t e, struct expert *out, struct err *err)
{
    return ((const struct expert *)ctx)[e].gate.out
               ? (*out = ((const struct expert *)ctx)[e], ERR_OK)
               : err_set(err, ERR_INPUT, "expert|%lld|not chosen|a chosen one", (long long)e);
}

static enum err_code make_expert(struct make *m, int64_t e, int64_t H, int64_t I,
                                 struct expert *out)
{
    char name[64];
    snprintf(name, sizeof name, "experts.%lld.gate_proj", (long long)e);
    if (make_matrix(m, name, I, H, 1, &out->gate) != ERR_OK) return m->err->code;
    snprintf(name, sizeof name, "experts.%lld.up_proj", (long long)e);
    if (make_matrix(m, name, I, H, 1, &out->up) != ERR_OK) return m->err->code;
    snprintf(name, sizeof name, "experts.%lld.down_proj", (long long)e);
    return make_matrix(m, name, H, I + case_word_is(m->c, "spoil", "chain"), 1, &out->down);
}

static enum err_code moe_make(const struct op_case *c, struct arena *a, struct case_data *out,
                              struct err *err)
{
    struct make m = make_begin(c, a, err);
    int64_t T = case_get_int(c, "T"), H = case_get_int(c, "H"), I = case_get_int(c, "I"),
            E = case_get_int(c, "E"), k = case_get_int(c, "k");
    if (k > E)
        return err_set(err, ERR_USAGE, "case|k|%lld of E=%lld|k <= E", (long long)k, (long long)E);
    struct moe *op = make_zeroed(&m, 1, sizeof *op, "case");
    struct expert *experts = make_zeroed(&m, E, sizeof *experts, "experts");
    int32_t *ids = make_zeroed(&m, T * k, sizeof *ids, "ids");
    double *weights = make_zeroed(&m, T * k, sizeof *weights, "routing weights");
    double *x = make_values(&m, "x", T * H, case_get_real(c, "gain") * sqrt(3.0));
    double *y = make_output(&m, out, "y", T, H);
    if (!op || !experts || !ids || !weights || !x || !y) return err->code;
    uint64_t base = synth_base(m.seed, "route");
    for (int64_t t = 0; t < T; t++) {
        /* Selection sampling: k of E, ascending, each set equally likely. Experts nobody chose stay
         * unmade. */
        for (int64_t e = 0, left = k; e < E; e++) {
            if ((int64_t)(synth_x(base, t * E + e) % (uint64_t)(E - e)) >= left) continue;
            int64_t at = t * k + k - left--;
            ids[at] = (int32_t)e;
            weights[at] = (double)(float)((synth_u(base, (T + t) * E + e) + 1.1) / 2);
            if (!experts[e].gate.out && make_expert(&m, e, H, I, &experts[e]) != ERR_OK)
                return err->code;
        }
    }
    /* A fault may read others than the chosen ones. */
    for (int64_t e = 0; case_fault(c) && e < E; e++) {
        if (!experts[e].gate.out && make_expert(&m, e, H, I, &experts[e]) != ERR_OK)
            return err->code;
    }
    if (case_word_is(c, "spoil", "id_high")) ids[T * k - 1] = (int32_t)E;
    if (case_word_is(c, "spoil", "id_negative")) ids[0] = -1;
    *op = (struct moe){.T = T,
                       .H = H,
                       .I = I,
                       .E = E,
                       .top_k = k,
                       .x = x,
                       .ids = ids,
                       .weights = weights,
                       .expert = moe_expert,
                       .ctx = experts,
                       .sum_scale = case_get_real(c, "scale"),
                       .y = y};
    out->op = op;
    return ERR_OK;
}

/* H and I share one group size, so both are drawn as its multiples where there is one. */
static void draw_widths(struct op_case *c, struct draw *d, int64_t most)
{
    int64_t H = draw_one_in(d, 2) ? 32 * draw_int(d, 1, most / 32) : draw_size(d, most);
    int64_t I = draw_one_in(d, 2) ? 32 * draw_int(d, 1, most / 32) : draw_size(d, most);
    case_set_int(c, "H", H);
    case_set_int(c, "I", I);
    draw_format(c, d, H);
    int64_t group = case_get_int(c, "group");
    if (!case_word_is(c, "format", "fp8") && group && I % group != 0) {
        case_set_int(c, "group", 0);
        case_set_int(c, "order", 0);
    }
    case_set(c, "gain", draw_one_in(d, 2) ? "1" : "4");
}

static void moe_draw(struct op_case *c, struct draw *d)
{
    int64_t E = draw_size(d, 17);
    case_set_int(c, "T", draw_size(d, 9));
    case_set_int(c, "E", E);
    case_set_int(c, "k", draw_one_in(d, 4) ? E : draw_int(d, 1, E < 8 ? E : 8));
    draw_widths(c, d, 129);
    case_set(c, "scale", draw_one_in(d, 2) ? "1" : "2.827");
}

/* ---- mlp and moe.shared ---- */

static const char *const words_mlp_spoil[] = {"none", "chain", NULL};

/* clang-format off */
static const struct param_row mlp_params[] = {
    PARAM_T, PARAM_H("32"),
    INT_ROW("I", 1, 1 << 20, "24", "inner width"),
    PARAM_FORMAT, PARAM_GROUP, PARAM_ORDER, PARAM_GAIN("scale of x; large ones make silu bend"),
    WORD_ROW("spoil", "none", words_mlp_spoil, "what is made wrong on purpose"),
    PARAM_END,
};
/* clang-format on */

static enum err_code mlp_make(const struct op_case *c, struct arena *a, struct case_data *out,
                              struct err *err)
{
    struct make m = make_begin(c, a, err);
    int64_t T = case_get_int(c, "T"), H = case_get_int(c, "H"), I = case_get_int(c, "I");
    struct mlp *op = make_zeroed(&m, 1, sizeof *op, "case");
    struct expert *e = make_zeroed(&m, 1, sizeof *e, "case");
    double *x = make_values(&m, "x", T * H, case_get_real(c, "gain") * sqrt(3.0));
    double *y = make_output(&m, out, "y", T, H);
    if (!op || !e || !x || !y || make_expert(&m, 0, H, I, e) != ERR_OK) return err->code;
    *op = (struct mlp){.T = T, .x = x, .gate = &e->gate, .up = &e->up, .down = &e->down, .y = y};
    out->op = op;
    return ERR_OK;
}

static void mlp_draw(struct op_case *c, struct draw *d)
{
    case_set_int(c, "T", draw_size(d, 9));
    draw_widths(c, d, 193);
}

const struct case_op case_ops_moe[] = {
    {"router", router_params, router_make, router_draw},
    {"moe", moe_params, moe_make, moe_draw},
    {"moe.shared", mlp_params, mlp_make, mlp_draw},
    {"mlp", mlp_params, mlp_make, mlp_draw},
    {0},
};
