/* fault_router.c: wrong experts, wrong weights. Test: tests/test_fault_router.c */
#include "core/fault_edits.h"
#include "core/moe.h"
#include "core/router.h"

#include <math.h>
#include <string.h>

/* ---- edits of the question ---- */

typedef void edit_router(struct router *op);

static enum err_code with_router(struct fault_call *c, const void *arg, struct run *run,
                                 edit_router *edit, struct err *err)
{
    struct router op = *(const struct router *)arg;
    edit(&op);
    return fault_next(c, &op, run, err);
}

static void other_scoring(struct router *op)
{
    op->scoring = op->scoring == SCORING_SIGMOID ? SCORING_SOFTMAX : SCORING_SIGMOID;
}

static void forget_bias(struct router *op)
{
    op->bias = NULL;
}

static void forget_norm(struct router *op)
{
    op->norm_topk = false;
}

static void always_norm(struct router *op)
{
    op->norm_topk = true;
}

static void forget_groups(struct router *op)
{
    op->groups = op->top_groups = 1;
}

static void best_of_group(struct router *op)
{
    if (op->method == TOPK_NOAUX_TC) op->method = TOPK_GROUP_LIMITED;
}

#define WITH_ROUTER(name, edit)                                                                    \
    static enum err_code name(struct fault_call *c, const void *arg, struct run *run,              \
                              struct err *err)                                                     \
    {                                                                                              \
        return with_router(c, arg, run, edit, err);                                                \
    }

WITH_ROUTER(softmax, other_scoring)
WITH_ROUTER(no_bias, forget_bias)
WITH_ROUTER(no_topk_norm, forget_norm)
WITH_ROUTER(topk_norm_added, always_norm)
WITH_ROUTER(no_groups, forget_groups)
WITH_ROUTER(group_top1, best_of_group)

/* In the weights or, by the engine's convention, on the sum of the experts. */
static enum err_code no_scaling_factor(struct fault_call *c, const void *arg, struct run *run,
                                       struct err *err)
{
    if (strcmp(c->place->op, "router") == 0) {
        struct router op = *(const struct router *)arg;
        op.routed_scale = 1;
        return fault_next(c, &op, run, err);
    }
    struct moe op = *(const struct moe *)arg;
    op.sum_scale = 1;
    return fault_next(c, &op, run, err);
}

static enum err_code bf16_logits(struct fault_call *c, const void *arg, struct run *run,
                                 struct err *err)
{
    struct run rounded = *run;
    rounded.profile.rounds[RP_ROUTER_LOGITS] = true;
    rounded.act = DT_BF16;
    return fault_next(c, arg, &rounded, err);
}

static enum err_code bf16_bias(struct fault_call *c, const void *arg, struct run *run,
                               struct err *err)
{
    struct router op = *(const struct router *)arg;
    struct tensor bias;
    if (!op.bias || op.bias->dtype != DT_F32) return fault_next(c, arg, run, err);
    struct arena_block *mark = arena_mark(run->arena);
    bias = *op.bias;
    float *b = fault_own(run->arena, &bias, err);
    for (int64_t e = 0; b && e < op.E; e++) b[e] = bf16_to_f32(bf16_from_f32(b[e]));
    op.bias = &bias;
    if (b) (void)!fault_next(c, &op, run, err);
    arena_release(run->arena, mark);
    return err->code;
}

/* ---- edits of the choice and of the weights, row by row ---- */

struct choice {
    const struct router *op;
    const struct run *run;
    int64_t t;
    bool forced;                 /* the ids were given */
    double *scores, *keys;       /* [E], of this row */
    double *spare, *group_score; /* [E], [groups] */
    bool *kept;                  /* [groups] */
    int32_t *ids;                /* the row's, [top_k] */
    double *weights;
};

typedef void edit_choice(const struct fault_call *c, struct choice *x);

/* Every id of the row names an expert: another fault may have left it unwritten. */
static bool ids_name_experts(const struct choice *x)
{
    for (int64_t j = 0; j < x->op->top_k; j++) {
        if (x->ids[j] < 0 || x->ids[j] >= x->op->E) return false;
    }
    return true;
}

/* Runs the op, then edits each row. */
static enum err_code with_choice(struct fault_call *c, const void *arg, struct run *run,
                                 edit_choice *edit, struct err *err)
{
    const struct router *op = arg;
    if (fault_next(c, op, run, err) != ERR_OK) return err->code;
    struct arena_block *mark = arena_mark(run->arena);
    struct choice x = {
        .op = op,
        .run = run,
        .scores = arena_alloc(run->arena, op->E, sizeof(double), "router scores", err),
        .keys = arena_alloc(run->arena, op->E, sizeof(double), "router keys", err),
        .spare = arena_alloc(run->arena, op->E, sizeof(double), "router keys", err),
        .group_score = arena_alloc(run->arena, op->groups, sizeof(double), "group scores", err),
        .kept = arena_alloc(run->arena, op->groups, sizeof(bool), "groups kept", err),
    };
    for (x.t = 0; err->code == ERR_OK && x.t < op->T; x.t++) {
        x.ids = op->ids + x.t * op->top_k;
        x.weights = op->weights + x.t * op->top_k;
        x.forced = op->forced && op->forced[x.t * op->top_k] >= 0;
        router_keys(op, op->logits + x.t * op->E, x.scores, x.keys);
        if (ids_name_experts(&x)) edit(c, &x);
    }
    arena_release(run->arena, mark);
    return err->code;
}

#define WITH_CHOICE(name, edit)                                                                    \
    static enum err_code name(struct fault_call *c, const void *arg, struct run *run,              \
                              struct err *err)                                                     \
    {                                                                                              \
        return with_choice(c, arg, run, edit, err);                                                \
    }

/* Chooses anew by other keys, among all experts where not `grouped`. */
static void choose_again(struct choice *x, const double *keys, bool grouped)
{
    struct router op = *x->op;
    if (x->forced) return;
    if (!grouped) op.groups = op.top_groups = 1;
    router_choose(&op, keys, x->kept, x->group_score, x->ids);
    router_weigh(&op, x->run, x->scores, x->ids, x->weights);
}

static void weigh_by_keys(const struct fault_call *c, struct choice *x)
{
    (void)c;
    router_weigh(x->op, x->run, x->keys, x->ids, x->weights);
}

static void weigh_by_logits(const struct fault_call *c, struct choice *x)
{
    struct router op = *x->op;
    (void)c;
    op.norm_topk = false;
    router_weigh(&op, x->run, op.logits + x->t * op.E, x->ids, x->weights);
}

/* The chosen expert with the smallest key has no part. */
static void drop_last(const struct fault_call *c, struct choice *x)
{
    int64_t k = x->op->top_k, last = 0;
    double kept = 0, all = 0;
    (void)c;
    if (k < 2) return;
    for (int64_t j = 1; j < k; j++) {
        if (x->keys[x->ids[j]] <= x->keys[x->ids[last]]) last = j;
    }
    for (int64_t j = 0; j < k; j++) {
        all += x->scores[x->ids[j]];
        kept += j == last ? 0 : x->scores[x->ids[j]];
    }
    for (int64_t j = 0; j < k; j++) {
        if (x->op->norm_topk && kept > 0) x->weights[j] *= all / kept;
        if (j == last) x->weights[j] = 0;
        if (x->run->precision == PRECISION_F32) x->weights[j] = (double)(float)x->weights[j];
    }
}

/* A shared expert is put in the last slot, which is not the smallest key's. */
static void overwrite_last(const struct fault_call *c, struct choice *x)
{
    (void)c;
    x->weights[x->op->top_k - 1] = 0;
}

/* Experts of groups that were left out take part with a key of 0. */
static void mask_with_zero(const struct fault_call *c, struct choice *x)
{
    const struct router *op = x->op;
    (void)c;
    if (op->groups < 2 || x->forced) return;
    choose_again(x, x->keys, true);
    for (int64_t e = 0; e < op->E; e++)
        x->spare[e] = x->kept[e / (op->E / op->groups)] ? x->keys[e] : 0;
    choose_again(x, x->spare, false);
}

static void break_ties_by_index(const struct fault_call *c, struct choice *x)
{
    double step = fault_value(c->use, "step");
    for (int64_t e = 0; e < x->op->E; e++) x->spare[e] = x->keys[e] + step * (double)e;
    choose_again(x, x->spare, true);
}

/* What never exceeds the start value is never found. */
static void start_at_minus_one(const struct fault_call *c, struct choice *x)
{
    (void)c;
    for (int64_t e = 0; e < x->op->E; e++) x->spare[e] = fmax(x->keys[e], -1);
    choose_again(x, x->spare, true);
}

WITH_CHOICE(bias_in_weights, weigh_by_keys)
WITH_CHOICE(raw_logits, weigh_by_logits)
WITH_CHOICE(k_off_by_one, drop_last)
WITH_CHOICE(last_slot_overwritten, overwrite_last)
WITH_CHOICE(group_mask_zero, mask_with_zero)
WITH_CHOICE(tie_epsilon, break_ties_by_index)
WITH_CHOICE(max_from_minus_one, start_at_minus_one)

/* The slots of one row keep what the buffer held. */
static enum err_code unwritten_ids(struct fault_call *c, const void *arg, struct run *run,
                                   struct err *err)
{
    const struct router *op = arg;
    int64_t row = fault_row_of(c, op->T);
    if (fault_next(c, op, run, err) != ERR_OK || row < 0) return err->code;
    for (int64_t j = 0; j < op->top_k; j++) op->ids[row * op->top_k + j] = 99999;
    return ERR_OK;
}

static const double tries_step[] = {3e-7, 1e-6, 1e-5, NAN};

#define ROUTER .hosts = {"router"}, .detector = "diff"

/* A fault of the router that has no key but the layer. */
#define ROUTER_ROW(name, function, seen, what)                                                     \
    {                                                                                              \
        .id = name, ROUTER, .keys = {KEY_LAYER}, .edit = what, .source = seen, .wrap = function    \
    }

const struct fault_row fault_rows_router[] = {
    ROUTER_ROW("router.softmax", softmax, "model math 11.12",
               "softmax scores where the model has sigmoid ones, and back"),
    ROUTER_ROW("router.no_bias", no_bias, "model math 11.10",
               "experts are chosen without the bias"),
    ROUTER_ROW("router.bias_in_weights", bias_in_weights, "B062",
               "weights are taken from the biased scores"),
    ROUTER_ROW("router.no_topk_norm", no_topk_norm, "B068", "weights are not divided by their sum"),
    ROUTER_ROW("router.topk_norm_added", topk_norm_added, "model math 11.13",
               "weights are divided by their sum though the config says not to"),
    {.id = "router.no_scaling_factor",
     .hosts = {"router", "moe"},
     .keys = {KEY_LAYER},
     .wrap = no_scaling_factor,
     .detector = "diff",
     .edit = "nobody multiplies by routed_scaling_factor",
     .source = "B065, B066"},
    ROUTER_ROW("router.no_groups", no_groups, "model math 11.19",
               "experts of every group can be chosen"),
    ROUTER_ROW("router.group_top1", group_top1, "B063",
               "a group's score is its best key, not the sum of the best two"),
    ROUTER_ROW("router.group_mask_zero", group_mask_zero, "B061",
               "groups that are left out get keys of 0, not of minus infinity"),
    ROUTER_ROW("router.k_off_by_one", k_off_by_one, "our own", "one expert too few takes part"),
    ROUTER_ROW("router.last_slot_overwritten", last_slot_overwritten, "B072",
               "the last slot is given to a shared expert: the highest id has no part"),
    ROUTER_ROW("router.bf16_logits", bf16_logits, "model math 11.16",
               "logits are rounded to bf16 before the scores"),
    ROUTER_ROW("router.bf16_bias", bf16_bias, "model math 11.17", "the bias is kept in bf16"),
    ROUTER_ROW("router.raw_logits", raw_logits, "B067", "logits stand as weights, not normalised"),
    {.id = "router.tie_epsilon",
     ROUTER,
     .wrap = tie_epsilon,
     .keys = {KEY_LAYER,
              {.name = "step",
               .dflt = 3e-7,
               .fit = FIT_TRY,
               .tries = tries_step,
               .about = "added to a key, times the expert's index"}},
     .edit = "ties are broken by a step that is larger than real gaps",
     .source = "B073, B071"},
    ROUTER_ROW("router.max_from_minus_one", max_from_minus_one, "B074",
               "the running maximum starts at -1, so that smaller keys are never found"),
    {.id = "router.unwritten_ids",
     .hosts = {"router"},
     .wrap = unwritten_ids,
     .detector = "exit status",
     .keys = {KEY_LAYER, KEY_SITE("row", "row; one by hash")},
     .edit = "the ids of a row are never written: 99999 stays",
     .source = "B070"},
    {0},
};
