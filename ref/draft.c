/* draft.c: one step of a draft head, composed of the ops. Contract: core/eagle.h; test
 * tests/test_golden_eagle.c.
 *
 *   h = fc(aux), or the state fed back;  h = layers(embed(token), h);  logits = head(norm(h)) */
#include "core/eagle.h"

#include "core/check.h"
#include "core/embed.h"
#include "core/fault.h"
#include "core/logits.h"
#include "core/norm.h"
#include "core/ops.h"

#include <string.h>

/* Buffers of one step, [T, H] each. */
struct state {
    const struct draft_step *step;
    const struct head *head;
    struct run run; /* the caller's, rounding to the head's type */
    int64_t T, H;
    double *embed, *x, *sum, *normed;
};

static enum err_code make_state(struct state *s, struct err *err)
{
    double **const buffers[] = {&s->embed, &s->x, &s->sum, &s->normed};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++) {
        *buffers[i] = arena_alloc(s->run.arena, s->T * s->H, sizeof(double), "draft states", err);
        if (!*buffers[i]) return err->code;
    }
    return ERR_OK;
}

/* Every op is called here: the one place where a fault can edit it. */
#define CALL(s, name, kind, stem, arg, err)                                                        \
    ((s)->run.faults ? call_faulted(s, name, kind, arg, err) : stem##_ref(arg, &(s)->run, err))

static enum err_code call_faulted(struct state *s, const char *op, enum tap_kind kind,
                                  const void *arg, struct err *err)
{
    const struct fault_place place = {
        .op = op, .tap = kind, .layer = -1, .draft = s->step, .side = ref_side()};
    return fault_call(&place, arg, &s->run, err);
}

static void give(const struct state *s, const double *x, double *out)
{
    if (out) memcpy(out, x, (size_t)(s->T * s->H) * sizeof *out);
}

/* The state that the first layer reads, and the embeddings beside it. */
static enum err_code begin(struct state *s, struct err *err)
{
    const struct draft_step *step = s->step;
    const struct eagle_fc fc = {.T = s->T, .head = s->head, .aux = step->aux, .y = s->x};
    const struct embed embed = {.T = s->T,
                                .H = s->H,
                                .V = s->head->config.base.vocab,
                                .id = step->rows->token,
                                .table = &s->head->embed,
                                .y = s->embed};
    if (CALL(s, "embed", TAP_DRAFT_HIDDEN, embed, &embed, err) != ERR_OK)
        return err_note(err, "the draft's token");
    if (!step->aux) {
        give(s, step->hidden, s->x);
        return ERR_OK;
    }
    if (CALL(s, "eagle.fc", TAP_DRAFT_FUSED, eagle_fc, &fc, err) != ERR_OK) return err->code;
    give(s, s->x, step->fused);
    if (step->replace) step->replace(step->replace_ctx, TAP_DRAFT_FUSED, step, s->x);
    return ERR_OK;
}

/* The unrounded sum stays where it rounds to the new value, which says no more. */
static void replace_output(struct state *s)
{
    s->step->replace(s->step->replace_ctx, TAP_DRAFT_HIDDEN, s->step, s->x);
    for (int64_t i = 0; i < s->T * s->H; i++) {
        if (run_round_one(&s->run, RP_RESIDUAL, s->sum[i]) != s->x[i]) s->sum[i] = s->x[i];
    }
}

static enum err_code run_layers(struct state *s, struct err *err)
{
    for (int64_t k = 0; k < s->head->config.base.layers; k++) {
        const struct eagle_layer layer = {.head = s->head,
                                          .layer = k,
                                          .rows = s->step->rows,
                                          .embed = k == 0 ? s->embed : NULL,
                                          .hidden = s->x,
                                          .sum = k == 0 ? NULL : s->sum,
                                          .cache = s->step->cache,
                                          .y = s->x,
                                          .y_sum = s->sum};
        if (CALL(s, "eagle.layer", TAP_DRAFT_HIDDEN, eagle_layer, &layer, err) != ERR_OK)
            return err_note(err, "draft layer %lld", (long long)k);
    }
    give(s, s->x, s->step->out);
    if (s->step->replace) replace_output(s);
    return ERR_OK;
}

static enum err_code run_head(struct state *s, struct err *err)
{
    const struct draft_step *step = s->step;
    const struct head_config *c = &s->head->config;
    const struct norm norm = {.T = s->T,
                              .H = s->H,
                              .eps = c->base.norm_eps,
                              .x = s->run.profile.norm_sees_unrounded ? s->sum : s->x,
                              .w = &s->head->norm,
                              .y = s->normed};
    const struct logits logits = {
        .T = s->T, .x = s->normed, .head = &s->head->lm_head, .y = step->logits};
    if (CALL(s, "norm", TAP_DRAFT_LOGITS, norm, &norm, err) != ERR_OK) return err->code;
    give(s, c->norm_output ? s->normed : s->x, step->feed);
    return step->logits ? CALL(s, "logits", TAP_DRAFT_LOGITS, logits, &logits, err) : ERR_OK;
}

enum err_code draft_step_ref(const struct draft_step *step, struct run *run, struct err *err)
{
    const struct head_config *c = &step->head->config;
    struct state s = {
        .step = step, .head = step->head, .run = *run, .T = step->rows->count, .H = c->base.hidden};
    CHECK(step->aux || step->hidden);
    if (!tensor_exists(&step->head->embed))
        return err_set(err, ERR_INPUT,
                       "draft step|the head|no embed_tokens|its own, or a target's");
    struct arena_block *mark = arena_mark(run->arena);
    s.run.act = c->base.dtype;
    rows_extend(step->rows, step->cache);
    if (make_state(&s, err) == ERR_OK && begin(&s, err) == ERR_OK && run_layers(&s, err) == ERR_OK)
        (void)!run_head(&s, err);
    arena_release(run->arena, mark);
    return err->code;
}
