/* tap.c: see tap.h. */
#include "core/tap.h"

#include "core/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where a tap exists: once, in every layer, in layers with experts, in a draft head's first step or
 * in each of them. */
enum place { ONCE_FIRST, EVERY_LAYER, MOE_LAYER, ONCE_LAST, DRAFT_FIRST, DRAFT_STEP };

static const struct {
    const char *name;
    enum place place;
    bool ints;
    const char *op, *op_moe;
    const char *shape;
} kinds[TAP_KINDS] = {
    [TAP_EMBED] = {"embed", ONCE_FIRST, false, "embed", "embed", "[T, H]"},
    [TAP_ATTN_NORM] = {"attn_norm", EVERY_LAYER, false, "norm", "norm", "[T, H]"},
    [TAP_Q] = {"q", EVERY_LAYER, false, "mla.q", "mla.q", "[T, h(P+R)]"},
    [TAP_KV_LATENT] = {"kv_latent", EVERY_LAYER, false, "mla.kv", "mla.kv", "[T, L]"},
    [TAP_K_ROPE] = {"k_rope", EVERY_LAYER, false, "mla.kv", "mla.kv", "[T, R]"},
    [TAP_ATTN_CORE] = {"attn_core", EVERY_LAYER, false, "mla.core", "mla.core", "[T, h V]"},
    [TAP_ATTN] = {"attn", EVERY_LAYER, false, "mla.output", "mla.output", "[T, H]"},
    [TAP_MLP_NORM] = {"mlp_norm", EVERY_LAYER, false, "norm", "norm", "[T, H]"},
    [TAP_ROUTER_LOGITS] = {"router_logits", MOE_LAYER, false, "router", "router", "[T, E]"},
    [TAP_EXPERTS] = {"experts", MOE_LAYER, true, "router", "router", "[T, k]"},
    [TAP_EXPERT_WEIGHTS] = {"expert_weights", MOE_LAYER, false, "router", "router", "[T, k]"},
    [TAP_ROUTED] = {"routed", MOE_LAYER, false, "moe", "moe", "[T, H]"},
    [TAP_SHARED] = {"shared", MOE_LAYER, false, "moe.shared", "moe.shared", "[T, H]"},
    [TAP_MLP] = {"mlp", EVERY_LAYER, false, "mlp", "moe", "[T, H]"},
    [TAP_OUTPUT] = {"output", EVERY_LAYER, false, "mlp", "moe", "[T, H]"},
    [TAP_FINAL_NORM] = {"final_norm", ONCE_LAST, false, "norm", "norm", "[T, H]"},
    [TAP_LOGITS] = {"logits", ONCE_LAST, false, "logits", "logits", "[T, V]"},
    [TAP_DRAFT_FUSED] = {"fused", DRAFT_FIRST, false, "eagle.fc", "eagle.fc", "[D, H]"},
    [TAP_DRAFT_HIDDEN] = {"hidden", DRAFT_STEP, false, "eagle.layer", "eagle.layer", "[D, H]"},
    [TAP_DRAFT_LOGITS] = {"logits", DRAFT_STEP, false, "eagle.layer", "eagle.layer", "[D, Vd]"},
    [TAP_DRAFT_TOKENS] = {"tokens", DRAFT_STEP, true, "eagle.layer", "eagle.layer", "[D, 1]"},
};

static int64_t columns(const struct config *c, enum tap_kind kind)
{
    switch (kind) {
    case TAP_Q:
        return c->heads * config_qk(c);
    case TAP_KV_LATENT:
        return c->kv_lora;
    case TAP_K_ROPE:
        return c->rope;
    case TAP_ATTN_CORE:
        return c->heads * c->v_head;
    case TAP_ROUTER_LOGITS:
        return c->experts;
    case TAP_EXPERTS:
    case TAP_EXPERT_WEIGHTS:
        return c->top_k;
    case TAP_LOGITS:
        return c->vocab;
    default:
        return c->hidden;
    }
}

const char *tap_shape(enum tap_kind kind)
{
    CHECK((unsigned)kind < TAP_KINDS);
    return kinds[kind].shape;
}

bool tap_is_ints(enum tap_kind kind)
{
    CHECK((unsigned)kind < TAP_KINDS);
    return kinds[kind].ints;
}

bool tap_is_draft(enum tap_kind kind)
{
    return kinds[kind].place == DRAFT_FIRST || kinds[kind].place == DRAFT_STEP;
}

/* What stands before the number in a name; NULL: there is none. */
static const char *group_of(enum tap_kind kind)
{
    bool once = kinds[kind].place == ONCE_FIRST || kinds[kind].place == ONCE_LAST;
    return once ? NULL : tap_is_draft(kind) ? "draft." : "layers.";
}

void tap_format(enum tap_kind kind, int64_t layer, char out[TAP_NAME])
{
    CHECK((unsigned)kind < TAP_KINDS);
    const char *group = group_of(kind);
    if (!group) {
        snprintf(out, TAP_NAME, "%s", kinds[kind].name);
    } else {
        snprintf(out, TAP_NAME, "%s%lld.%s", group, (long long)layer, kinds[kind].name);
    }
}

static bool in_layer(const struct config *c, enum tap_kind kind, int64_t layer)
{
    if (kinds[kind].place == EVERY_LAYER) return true;
    if (kinds[kind].place != MOE_LAYER || !config_is_moe(c, layer)) return false;
    return kind != TAP_SHARED || c->shared_experts > 0;
}

static void add(struct tap *taps, int64_t *n, const struct config *c, enum tap_kind kind,
                int64_t layer)
{
    struct tap *t = &taps[(*n)++];
    *t = (struct tap){
        .kind = kind, .layer = layer, .cols = columns(c, kind), .ints = kinds[kind].ints};
    tap_format(kind, layer, t->name);
}

enum err_code tap_list(const struct config *c, int64_t first, int64_t end, struct tap **out,
                       int64_t *count, struct err *err)
{
    CHECK(first >= 0 && first <= end && end <= c->layers);
    int64_t n = 0;
    struct tap *taps = calloc((size_t)((end - first) * TAP_KINDS + 3), sizeof *taps);
    if (!taps) return err_set(err, ERR_MEMORY, "list taps||no memory");
    if (first == 0) add(taps, &n, c, TAP_EMBED, -1);
    for (int64_t layer = first; layer < end; layer++) {
        for (int k = 0; k < TAP_KINDS; k++) {
            if (in_layer(c, (enum tap_kind)k, layer)) add(taps, &n, c, (enum tap_kind)k, layer);
        }
    }
    if (end == c->layers) {
        add(taps, &n, c, TAP_FINAL_NORM, -1);
        add(taps, &n, c, TAP_LOGITS, -1);
    }
    *out = taps;
    *count = n;
    return ERR_OK;
}

enum err_code tap_list_draft(int64_t steps, int64_t hidden, int64_t draft_vocab, struct tap **out,
                             int64_t *count, struct err *err)
{
    int64_t n = 0;
    struct tap *taps = calloc((size_t)(steps * TAP_KINDS + 1), sizeof *taps);
    if (!taps) return err_set(err, ERR_MEMORY, "list taps||no memory");
    for (int64_t step = 0; step < steps; step++) {
        for (int k = 0; k < TAP_KINDS; k++) {
            if (!tap_is_draft((enum tap_kind)k) || (kinds[k].place == DRAFT_FIRST && step > 0))
                continue;
            struct tap *t = &taps[n++];
            *t = (struct tap){.kind = (enum tap_kind)k, .layer = step, .ints = kinds[k].ints};
            t->cols = k == TAP_DRAFT_LOGITS ? draft_vocab : k == TAP_DRAFT_TOKENS ? 1 : hidden;
            tap_format(t->kind, step, t->name);
        }
    }
    *out = taps;
    *count = n;
    return ERR_OK;
}

/* Reads "GROUP.N." and returns what follows it, or NULL. */
static const char *parse_number(const char *name, const char *group, int64_t *number)
{
    size_t start = strlen(group);
    if (strncmp(name, group, start) != 0) return NULL;
    size_t digits = strspn(name + start, "0123456789");
    if (digits == 0 || digits > 9 || name[start + digits] != '.') return NULL;
    if (name[start] == '0' && digits > 1)
        return NULL; /* one spelling a layer: names are compared as text */
    *number = strtoll(name + start, NULL, 10);
    return name + start + digits + 1;
}

bool tap_parse(const char *name, enum tap_kind *kind, int64_t *layer)
{
    for (int k = 0; k < TAP_KINDS; k++) {
        const char *group = group_of((enum tap_kind)k);
        *layer = -1;
        const char *tail = group ? parse_number(name, group, layer) : name;
        if (!tail || strcmp(kinds[k].name, tail) != 0) continue;
        if (kinds[k].place == DRAFT_FIRST && *layer > 0) continue;
        *kind = (enum tap_kind)k;
        return true;
    }
    *layer = -1;
    return false;
}

int64_t tap_rank(enum tap_kind kind, int64_t layer)
{
    if (kinds[kind].place == ONCE_FIRST) return 0;
    if (kinds[kind].place == ONCE_LAST) return INT64_MAX / 2 + (int64_t)kind;
    if (tap_is_draft(kind)) return INT64_MAX / 2 + (1 + layer) * TAP_KINDS + (int64_t)kind;
    return 1 + layer * TAP_KINDS + (int64_t)kind;
}

enum dtype tap_dtype(enum tap_kind kind, enum dtype act)
{
    bool sums = kind == TAP_ROUTER_LOGITS || kind == TAP_EXPERT_WEIGHTS || kind == TAP_LOGITS ||
                kind == TAP_DRAFT_LOGITS;
    return sums ? DT_F32 : act;
}

const char *tap_op(enum tap_kind kind, bool moe)
{
    CHECK((unsigned)kind < TAP_KINDS);
    return moe ? kinds[kind].op_moe : kinds[kind].op;
}
