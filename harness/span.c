/* span.c: which recorded taps a tap was computed from, and over which ops; see anchor.h. */
#include "harness/anchor.h"
#include "harness/draft_hold.h"

#include <stdlib.h>
#include <string.h>

/* What a tap is made of. */
enum { STREAM = TAP_KINDS /* the residual stream as it enters the layer */, NONE = -1 };

static const struct {
    const char *op[2]; /* in execution order */
    int from[3];
} made[TAP_KINDS] = {
    [TAP_EMBED] = {{"embed"}, {NONE, NONE, NONE}},
    [TAP_ATTN_NORM] = {{"norm"}, {STREAM, NONE, NONE}},
    [TAP_Q] = {{"mla.q"}, {TAP_ATTN_NORM, NONE, NONE}},
    [TAP_KV_LATENT] = {{"mla.kv"}, {TAP_ATTN_NORM, NONE, NONE}},
    [TAP_K_ROPE] = {{"mla.kv"}, {TAP_ATTN_NORM, NONE, NONE}},
    [TAP_ATTN_CORE] = {{"rope", "mla.core"}, {TAP_Q, TAP_KV_LATENT, TAP_K_ROPE}},
    [TAP_ATTN] = {{"mla.output"}, {TAP_ATTN_CORE, NONE, NONE}},
    [TAP_MLP_NORM] = {{"norm"}, {STREAM, TAP_ATTN, NONE}},
    [TAP_ROUTER_LOGITS] = {{"router"}, {TAP_MLP_NORM, NONE, NONE}},
    [TAP_EXPERTS] = {{"router"}, {TAP_MLP_NORM, NONE, NONE}},
    [TAP_EXPERT_WEIGHTS] = {{"router"}, {TAP_MLP_NORM, NONE, NONE}},
    [TAP_ROUTED] = {{"moe"}, {TAP_MLP_NORM, TAP_EXPERTS, TAP_EXPERT_WEIGHTS}},
    [TAP_SHARED] = {{"moe.shared"}, {TAP_MLP_NORM, NONE, NONE}},
    [TAP_MLP] = {{"mlp"}, {TAP_MLP_NORM, NONE, NONE}},
    [TAP_OUTPUT] = {{NULL}, {STREAM, TAP_ATTN, TAP_MLP}},
    [TAP_FINAL_NORM] = {{"norm"}, {STREAM, NONE, NONE}},
    [TAP_LOGITS] = {{"logits"}, {TAP_FINAL_NORM, NONE, NONE}},
};

struct walk {
    struct span *span;
    const struct anchor *anchor;
    const struct config *c;
    bool *seen; /* [layers + 1][TAP_KINDS]; the last row: taps of no layer */
};

/* In a layer with experts the block's output is the sum of two. */
static int input_of(const struct walk *w, enum tap_kind kind, int64_t layer, int i)
{
    static const int sums[3] = {TAP_ROUTED, TAP_SHARED, NONE};
    bool moe = kind == TAP_MLP && config_is_moe(w->c, layer);
    int from = moe ? sums[i] : made[kind].from[i];
    return from == TAP_SHARED && w->c->shared_experts == 0 ? NONE : from;
}

static bool recorded(const struct walk *w, enum tap_kind kind, int64_t layer)
{
    char name[TAP_NAME];
    tap_format(kind, layer, name);
    const struct dump_tap *t = dump_find(w->anchor->subject, name);
    if (kind != TAP_EXPERTS) return t && anchor_tap(w->anchor, name, t->cols) == t;
    return t && dtype_is_int(t->tensor->dtype) && t->cols == w->c->top_k;
}

static void add_op(struct span *s, const char *op, int64_t layer)
{
    const struct span_op *last = s->ops > 0 ? &s->op[s->ops - 1] : NULL;
    if (last && last->layer == layer && strcmp(last->op, op) == 0) return; /* its second output */
    s->op[s->ops++] = (struct span_op){op, layer};
    if (s->first_layer < 0 || (layer >= 0 && layer < s->first_layer)) s->first_layer = layer;
    if (layer + 1 > s->end_layer) s->end_layer = layer + 1;
}

static void walk(struct walk *w, enum tap_kind kind, int64_t layer);

/* One input of a tap: where the subject has it, the span begins there. */
static void walk_input(struct walk *w, enum tap_kind kind, int64_t layer)
{
    bool *seen = &w->seen[(layer < 0 ? w->c->layers : layer) * TAP_KINDS + (int)kind];
    if (*seen) return;
    *seen = true;
    if (!recorded(w, kind, layer)) {
        w->span->rebuilt = true;
        walk(w, kind, layer);
        return;
    }
    struct tap *t = &w->span->from[w->span->froms++];
    *t = (struct tap){.kind = kind, .layer = layer};
    tap_format(kind, layer, t->name);
}

static void walk(struct walk *w, enum tap_kind kind, int64_t layer)
{
    bool once = kind == TAP_FINAL_NORM || kind == TAP_LOGITS;
    for (int i = 0; i < 3; i++) {
        int from = input_of(w, kind, layer, i);
        if (from == NONE) continue;
        int64_t at = layer;
        if (from == STREAM) at = (once ? w->c->layers : layer) - 1;
        if (from == STREAM) from = at < 0 ? TAP_EMBED : TAP_OUTPUT;
        walk_input(w, (enum tap_kind)from, at);
    }
    bool sum = kind == TAP_MLP && config_is_moe(w->c, layer);
    for (int i = 0; i < 2 && made[kind].op[i] && !sum; i++)
        add_op(w->span, made[kind].op[i], layer);
}

enum err_code span_make(struct span *s, const struct anchor *a, const struct config *c,
                        enum tap_kind kind, int64_t layer, struct err *err)
{
    int64_t rows = 1 + (tap_is_draft(kind) && layer >= c->layers ? layer : c->layers);
    size_t most = (size_t)rows * TAP_KINDS;
    struct walk w = {s, a, c, calloc(most, sizeof *w.seen)};
    *s = (struct span){.op = calloc(2 * most, sizeof *s->op),
                       .from = calloc(most, sizeof *s->from),
                       .first_layer = -1};
    if (!w.seen || !s->op || !s->from)
        err_set(err, ERR_MEMORY, "anchor|span of a tap|no memory");
    else if (tap_is_draft(kind))
        span_of_draft(s, a, kind, layer);
    else
        walk(&w, kind, layer);
    if (s->op && s->ops == 0) /* a sum of recorded taps: the name of the block that it ends */
        add_op(s, tap_op(kind, config_is_moe(c, layer)), layer);
    free(w.seen);
    return err->code;
}

void span_free(struct span *s)
{
    free(s->op);
    free(s->from);
    *s = (struct span){0};
}
