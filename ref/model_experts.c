/* model_experts.c: the feed-forward of a layer with experts: router, routed and shared experts; see
 * model_pass.h. Test: tests/test_golden.c, over several ranks tests/test_shard_step.c */
#include "core/mlp.h"
#include "core/moe.h"
#include "core/ops.h"
#include "core/router.h"
#include "ref/model_pass.h"

#include <string.h>

struct expert_source {
    const struct model *model;
    int64_t layer;
};

static enum err_code give_expert(const void *ctx, int64_t e, struct expert *out, struct err *err)
{
    const struct expert_source *from = ctx;
    return model_expert(from->model, from->layer, e, out, err);
}

static enum err_code route(struct pass *s, const struct layer *l, struct err *err)
{
    const struct config *c = s->c;
    const struct step *step = s->step;
    bool forced = step->forced && step->forced(step->forced_ctx, s->layer, step->rows, s->forced);
    const struct router op = {.T = s->T,
                              .H = c->hidden,
                              .E = c->experts,
                              .top_k = c->top_k,
                              .groups = c->groups,
                              .top_groups = c->top_groups,
                              .scoring = c->scoring,
                              .method = c->topk_method,
                              .norm_topk = c->norm_topk,
                              .routed_scale = s->run->profile.scale_after_sum ? 1 : c->routed_scale,
                              .x = s->h,
                              .w = &l->router,
                              .bias = tensor_exists(&l->bias) ? &l->bias : NULL,
                              .forced = forced ? s->forced : NULL,
                              .logits = s->router_logits,
                              .ids = s->ids,
                              .weights = s->weights};
    if (CALL(s, "router", TAP_ROUTER_LOGITS, router, &op, err) != ERR_OK ||
        pass_emit(s, TAP_ROUTER_LOGITS, c->experts, s->router_logits, err) != ERR_OK ||
        model_taps_give_ids(&s->taps, s->layer, c->top_k, s->ids, err) != ERR_OK)
        return err->code;
    if (!s->run->profile.scale_after_sum)
        return pass_emit(s, TAP_EXPERT_WEIGHTS, c->top_k, s->weights, err);
    /* The tap includes the factor wherever the engine applies it; the logits' buffer is free by
     * now. */
    for (int64_t i = 0; i < s->T * c->top_k; i++)
        s->router_logits[i] = s->weights[i] * c->routed_scale;
    if (pass_emit(s, TAP_EXPERT_WEIGHTS, c->top_k, s->router_logits, err) != ERR_OK)
        return err->code;
    for (int64_t i = 0; s->taps.replaces && i < s->T * c->top_k; i++)
        s->weights[i] = s->router_logits[i] / c->routed_scale;
    return ERR_OK;
}

/* Every rank must send a row to the same experts: each chose them for itself. */
static enum err_code deal_out(struct pass *s, struct err *err)
{
    char name[TAP_NAME];
    int64_t n = s->T * s->c->top_k;
    if (!s->shard) return ERR_OK;
    tap_format(TAP_EXPERTS, s->layer, name);
    if (collective_agree(s->shard->all, name, s->ids, n * (int64_t)sizeof *s->ids, err) != ERR_OK)
        return err->code;
    memcpy(s->own, s->ids, (size_t)n * sizeof *s->own);
    shard_route(s->shard, s->layer, s->step->rows, s->c->top_k, s->own);
    return ERR_OK;
}

static enum err_code routed(struct pass *s, struct err *err)
{
    const struct config *c = s->c;
    const struct expert_source from = {.model = s->step->model, .layer = s->layer};
    const struct moe moe = {.T = s->T,
                            .H = c->hidden,
                            .I = c->moe_intermediate,
                            .E = c->experts,
                            .top_k = c->top_k,
                            .x = s->h,
                            .ids = s->own,
                            .weights = s->weights,
                            .expert = give_expert,
                            .ctx = &from,
                            .sum_scale = s->run->profile.scale_after_sum ? c->routed_scale : 1,
                            .y = s->block,
                            .partial = s->shard != NULL,
                            .cut = pass_is_cut(s)};
    if (s->shard && s->shard->moe.count == 0) /* no part of any expert, and so none of the sum */
        memset(s->block, 0, (size_t)(s->T * c->hidden) * sizeof *s->block);
    else if (CALL(s, "moe", TAP_ROUTED, moe, &moe, err) != ERR_OK)
        return err->code;
    if (s->shard) {
        if (pass_add_up(s, "moe", s->block, err) != ERR_OK) return err->code;
        moe_round(s->run, moe.sum_scale, s->T * c->hidden, s->block);
    }
    return pass_emit(s, TAP_ROUTED, c->hidden, s->block, err);
}

enum err_code pass_experts(struct pass *s, const struct layer *l, struct err *err)
{
    const struct config *c = s->c;
    const struct mlp shared = {.T = s->T,
                               .x = s->h,
                               .gate = &l->gate,
                               .up = &l->up,
                               .down = &l->down,
                               .y = s->other,
                               .partial = pass_is_cut(s)};
    if (route(s, l, err) != ERR_OK || deal_out(s, err) != ERR_OK || routed(s, err) != ERR_OK)
        return err->code;
    if (c->shared_experts == 0) return ERR_OK;
    if (CALL(s, "moe.shared", TAP_SHARED, mlp, &shared, err) != ERR_OK ||
        pass_add_up_mlp(s, "moe.shared", &shared, err) != ERR_OK ||
        pass_emit(s, TAP_SHARED, c->hidden, s->other, err) != ERR_OK)
        return err->code;
    for (int64_t i = 0; i < s->T * c->hidden; i++) s->block[i] += s->other[i];
    run_round(s->run, RP_MOE, s->block, s->T * c->hidden);
    return ERR_OK;
}
