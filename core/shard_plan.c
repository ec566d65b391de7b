/* shard_plan.c: whether a model can be cut as a plan says; see shard.h. Told from the config alone:
 * matrices are made up as it promises them, and cut. Test: tests/test_shard.c */
#include "core/shard.h"

#include "core/check.h"
#include "core/shard_parts.h"

#include <stdio.h>
#include <string.h>

enum { NUMBERS = 96 };

/* What stands in the way: a width that does not divide, or a format that is cut through. */
struct obstacle {
    char where[160], found[96], wanted[96];
};

/* "1, 2 or 4": the numbers of ranks up to COLLECTIVE_RANKS that `fits` has no obstacle to. */
static const char *numbers(bool (*fits)(const struct config *c, int n), const struct config *c,
                           char out[NUMBERS])
{
    int last = 0;
    size_t used = 0;
    for (int n = 1; n <= COLLECTIVE_RANKS; n++) {
        if (fits(c, n)) last = n;
    }
    snprintf(out, NUMBERS, "none");
    for (int n = 1; n <= last && used < NUMBERS; n++) {
        if (!fits(c, n)) continue;
        const char *between = used == 0 ? "" : n == last ? " or " : ", ";
        used += (size_t)snprintf(out + used, NUMBERS - used, "%s%d", between, n);
    }
    return out;
}

/* ---- widths ---- */

static bool has_layers(const struct config *c, bool moe)
{
    for (int64_t i = 0; i < c->layers; i++) {
        if (config_is_moe(c, i) == moe) return true;
    }
    return false;
}

static bool widths_divide(const struct config *c, int tp, struct obstacle *o)
{
    bool dense = has_layers(c, false), moe = has_layers(c, true);
    const struct {
        const char *what;
        bool there;
        int64_t size;
    } widths[] = {
        {"attention heads", true, c->heads},
        {"width of a dense MLP", dense, c->intermediate},
        {"width of a routed expert", moe, c->moe_intermediate},
        {"width of the shared experts", moe && c->shared_experts > 0,
         c->moe_intermediate * c->shared_experts},
        {"vocabulary", true, c->vocab},
    };
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
        if (!widths[i].there || widths[i].size % tp == 0) continue;
        snprintf(o->where, sizeof o->where, "%s", widths[i].what);
        snprintf(o->found, sizeof o->found, "%lld over --tp %d", (long long)widths[i].size, tp);
        snprintf(o->wanted, sizeof o->wanted, "parts of one size");
        return false;
    }
    return true;
}

/* ---- formats ---- */

static struct tensor promised_tensor(const char *name, enum dtype dtype, int64_t rows,
                                     int64_t columns)
{
    struct tensor t = {.dtype = dtype, .dims = 2, .shape = {rows, columns}};
    snprintf(t.name, sizeof t.name, "%s", name);
    return t;
}

/* The matrix that the config promises under this name. Group indices are known when a tensor is
 * there: shard_model_open() sees those. */
static struct matrix promised(const struct config *c, const char *name, int64_t out, int64_t in)
{
    struct matrix m = {.format = MATRIX_DENSE, .out = out, .in = in};
    const struct quant *q = &c->quant;
    m.data = promised_tensor(name, DT_BF16, out, in);
    if (!config_is_quantised(c, name)) return m;
    if (q->kind == QUANT_FP8_BLOCK) {
        m.format = MATRIX_FP8_BLOCK;
        memcpy(m.block, q->block, sizeof m.block);
        m.scale =
            promised_tensor(name, DT_F32, ceil_div(out, q->block[0]), ceil_div(in, q->block[1]));
        return m;
    }
    int64_t per_word = 32 / q->bits, groups = q->group ? ceil_div(in, q->group) : 1;
    m.format = MATRIX_PACKED;
    m.bits = q->bits;
    m.group = q->group;
    m.data = promised_tensor(name, DT_I32, out, ceil_div(in, per_word));
    m.scale = promised_tensor(name, DT_BF16, out, groups);
    if (!q->symmetric) m.zero = promised_tensor(name, DT_I32, ceil_div(out, per_word), groups);
    return m;
}

static bool roles_fit(const struct config *c, int tp, int64_t layer, const char *prefix,
                      const struct shard_role *role, int n, struct obstacle *o)
{
    for (int i = 0; i < n; i++) {
        char name[NAME_MAX_BYTES];
        struct err err = ERR_INIT;
        struct matrix part;
        snprintf(name, sizeof name, "%smodel.layers.%lld.%s%s", c->prefix, (long long)layer, prefix,
                 role[i].name);
        const struct matrix whole = promised(c, name, role[i].out, role[i].in);
        if (shard_cut_matrix(&role[i], &whole, &part, &err) == ERR_OK) continue;
        snprintf(o->where, sizeof o->where, "%.120s", name);
        snprintf(o->found, sizeof o->found, "%.64s over --tp %d", err.found, tp);
        snprintf(o->wanted, sizeof o->wanted, "%.90s", err.wanted);
        return false;
    }
    return true;
}

/* ---- routed experts ---- */

static int64_t first_layer(const struct config *c, bool moe)
{
    int64_t layer = 0;
    while (layer < c->layers && config_is_moe(c, layer) != moe) layer++;
    return layer;
}

static const char expert_prefix[] = "mlp.experts.0.";

/* Whether the experts' format lets them be cut into these equal parts. */
static bool parts_fit(const struct config *c, int tp)
{
    struct obstacle unused;
    struct shard_role role[3];
    struct shard s = {.plan = {.tp = tp, .ep = 1}};
    int64_t count = c->moe_intermediate / tp, layer = first_layer(c, true);
    for (int t = 0; t < tp && layer < c->layers; t++) {
        s.moe = (struct extent){count * t, count};
        shard_expert_roles(&s, c, role);
        if (!roles_fit(c, tp, layer, expert_prefix, role, 3, &unused)) return false;
    }
    return true;
}

/* Columns and rows that can be cut off an expert: whole words and groups, or blocks. */
static int64_t format_unit(const struct config *c)
{
    const struct quant *q = &c->quant;
    int64_t a = q->kind == QUANT_FP8_BLOCK ? q->block[0] : 32 / q->bits;
    int64_t b = q->kind == QUANT_FP8_BLOCK ? q->block[1] : q->group ? q->group : a, unit = a;
    while (unit % b) unit += a;
    return unit;
}

struct extent shard_expert_width(const struct config *c, int tp, int t)
{
    int64_t width = c->moe_intermediate, even = width / tp;
    if (tp == 1 || c->quant.kind == QUANT_NONE || parts_fit(c, tp))
        return (struct extent){even * t, even};
    int64_t unit = format_unit(c), units = ceil_div(width, unit);
    int64_t least = units / tp, more = units % tp; /* the first `more` ranks have one more */
    int64_t first = unit * (least * t + (t < more ? t : more));
    int64_t end = first + unit * (least + (t < more));
    return (struct extent){first, (end < width ? end : width) - first};
}

/* One layer of each kind is as good as all. Experts are cut where their format lets them be. */
static bool formats_fit(const struct config *c, int tp, struct obstacle *o)
{
    struct shard_role role[SHARD_ROLES];
    struct shard s;
    const struct shard_plan p = {.tp = tp, .ep = 1, .reduce = DT_F64};
    for (int moe = 0; c->quant.kind != QUANT_NONE && moe < 2; moe++) {
        int64_t layer = first_layer(c, moe);
        for (int t = 0; t < tp && layer < c->layers; t++) {
            shard_of(&p, c, t, &s);
            int n = shard_roles(&s, c, moe, role);
            if (!roles_fit(c, tp, layer, "", role, n, o)) return false;
        }
    }
    return true;
}

static bool tp_fits(const struct config *c, int tp)
{
    struct obstacle unused;
    return widths_divide(c, tp, &unused) && formats_fit(c, tp, &unused);
}

static bool ep_fits(const struct config *c, int ep)
{
    return ep == 1 || (has_layers(c, true) && c->experts % ep == 0);
}

enum err_code shard_plan_check(const struct shard_plan *p, const struct config *c, struct err *err)
{
    char fit[NUMBERS];
    struct obstacle o;
    CHECK(p->reduce == DT_F64 || p->reduce == DT_F32 || p->reduce == DT_BF16);
    if (p->tp < 1 || p->ep < 1 || (int64_t)p->tp * p->ep > COLLECTIVE_RANKS)
        return err_set(err, ERR_INPUT, "shard plan|ranks|--tp %d --ep %d|1 to %d in all", p->tp,
                       p->ep, COLLECTIVE_RANKS);
    if (!widths_divide(c, p->tp, &o) || !formats_fit(c, p->tp, &o))
        return err_set(err, ERR_INPUT, "shard plan|%s|%s|%s: --tp %s", o.where, o.found, o.wanted,
                       numbers(tp_fits, c, fit));
    if (!ep_fits(c, p->ep))
        return err_set(err, ERR_INPUT, "shard plan|routed experts|%lld over --ep %d|--ep %s",
                       has_layers(c, true) ? (long long)c->experts : 0LL, p->ep,
                       numbers(ep_fits, c, fit));
    if (p->redundant < 0 || p->redundant > c->experts || (p->redundant > 0 && p->ep < 2))
        return err_set(err, ERR_INPUT, "shard plan|redundant experts|%lld of %lld, over --ep %d|%s",
                       (long long)p->redundant, (long long)c->experts, p->ep,
                       p->ep < 2 ? "--ep 2 or more" : "0 to all of them");
    return ERR_OK;
}
