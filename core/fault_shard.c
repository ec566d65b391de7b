/* fault_shard.c: see fault_shard.h. */
#include "core/fault_shard.h"

#include "core/fault_edits.h"

#include <string.h>

enum edit { LOST_SUM, DOUBLE_SUM, BF16_SUM, SWAPPED, MAP_SHIFT, LOST_TOKEN, COMBINE_ORDER, EDITS };

/* `over`: what must be cut for the fault to change anything. */
static const struct {
    const char *id;
    enum { OVER_ANY, OVER_TP, OVER_EP } over;
} edits[EDITS] = {
    [LOST_SUM] = {"tp.partial_sum_lost", OVER_ANY}, [DOUBLE_SUM] = {"tp.double_reduce", OVER_ANY},
    [BF16_SUM] = {"tp.reduce_bf16", OVER_ANY},      [SWAPPED] = {"tp.shard_swapped", OVER_TP},
    [MAP_SHIFT] = {"ep.expert_map_shift", OVER_EP}, [LOST_TOKEN] = {"ep.token_lost", OVER_EP},
    [COMBINE_ORDER] = {"ep.combine_order", OVER_EP}};

/* EDITS: none of these. */
static enum edit edit_named(const char *id, size_t length)
{
    for (int i = 0; i < EDITS; i++) {
        if (strlen(edits[i].id) == length && strncmp(edits[i].id, id, length) == 0)
            return (enum edit)i;
    }
    return EDITS;
}

static enum edit edit_of(const struct shard_fault *f)
{
    return edit_named(f->use.row->id, strlen(f->use.row->id));
}

bool fault_is_of_ranks(const char *text)
{
    return edit_named(text, strcspn(text, "@")) != EDITS;
}

/* ---- parsing ---- */

/* The value of a key that this fault may lack; -1: not given. */
static int64_t site_value(const struct shard_fault *f, const char *key)
{
    for (int k = 0; k < FAULT_KEYS && f->use.row->keys[k].name; k++) {
        if (strcmp(f->use.row->keys[k].name, key) == 0) return (int64_t)f->use.value[k];
    }
    return -1;
}

/* Key `ranks` is how many ranks a single process imitates: here it can only repeat the plan. */
static bool ranks_fit(const struct shard_fault *f, const struct shard_plan *p)
{
    for (int k = 0; k < FAULT_KEYS && f->use.row->keys[k].name; k++) {
        const struct fault_key *key = &f->use.row->keys[k];
        if (strcmp(key->name, "ranks") != 0) continue;
        int64_t given = (int64_t)f->use.value[k];
        return f->use.value[k] == key->dflt || given == p->tp || given == p->ep ||
               given == shard_world(p);
    }
    return true;
}

static enum err_code check_plan(const struct shard_fault *f, const struct shard_plan *p,
                                struct err *err)
{
    const char *id = f->use.row->id;
    enum edit e = edit_of(f);
    int64_t rank = site_value(f, "rank");
    if (shard_world(p) < 2 || (edits[e].over == OVER_TP && p->tp < 2) ||
        (edits[e].over == OVER_EP && p->ep < 2))
        return err_set(err, ERR_USAGE, "fault|%s|--tp %d --ep %d|%s", id, p->tp, p->ep,
                       edits[e].over == OVER_TP   ? "--tp 2 or more"
                       : edits[e].over == OVER_EP ? "--ep 2 or more"
                                                  : "two ranks or more");
    if (rank >= shard_world(p))
        return err_set(err, ERR_USAGE, "fault|%s: rank|%lld|0 to %d", id, (long long)rank,
                       shard_world(p) - 1);
    if (!ranks_fit(f, p))
        return err_set(err, ERR_USAGE, "fault|%s: ranks|%lld|none: the run has %d ranks", id,
                       (long long)site_value(f, "ranks"), shard_world(p));
    /* Ids ascend in every row, and so do their ranks. */
    if (e == COMBINE_ORDER && p->map == EXPERT_MAP_CONTIGUOUS && p->redundant == 0)
        return err_set(err, ERR_USAGE,
                       "fault|%s|--expert-map contiguous, in which the order of ranks is that of "
                       "ids|--expert-map round-robin",
                       id);
    return ERR_OK;
}

enum err_code shard_fault_parse(struct shard_fault *f, const char *text, const struct shard_plan *p,
                                struct err *err)
{
    *f = (struct shard_fault){0};
    if (fault_use_parse(&f->use, text, FAULT_OP, err) != ERR_OK) return err->code;
    if (edit_of(f) == EDITS)
        return err_set(err, ERR_USAGE,
                       "fault|%s|an edit of an op|one of ranks: tp.* or ep.* of `assay fault list`",
                       f->use.row->id);
    return check_plan(f, p, err);
}

int shard_fault_ranks(const struct fault_use *u, const struct shard_plan *p, int rank[2])
{
    const struct shard_fault f = {.use = *u};
    int keys = 0, last = shard_world(p) - 1;
    while (keys < FAULT_KEYS && u->row->keys[keys].name && strcmp(u->row->keys[keys].name, "rank"))
        keys++;
    if (keys == FAULT_KEYS || !u->row->keys[keys].name || edit_of(&f) == EDITS) return 0;
    int64_t given = (int64_t)u->value[keys];
    if (given > last) return 0;
    bool all = given < 0 && edit_of(&f) != LOST_SUM && edit_of(&f) != SWAPPED;
    if (all) return 0; /* every rank, or one that differs from row to row */
    rank[0] = given < 0 ? last : (int)given;
    if (edit_of(&f) != SWAPPED) return 1;
    int tp = p->tp, other = rank[0] / tp * tp + (rank[0] % tp + 1) % tp;
    rank[1] = rank[0] > other ? rank[0] : other;
    rank[0] = rank[0] > other ? other : rank[0];
    return rank[0] == rank[1] ? 1 : 2;
}

/* ---- where ---- */

static bool here(const struct shard *s, enum edit e, int64_t layer)
{
    int64_t wanted = site_value(s->fault, "layer");
    return edit_of(s->fault) == e && (wanted < 0 || wanted == layer);
}

static bool sums(const struct shard *s, enum edit e, const char *op, int64_t layer)
{
    return here(s, e, layer) && fault_hosted_by(s->fault->use.row, op);
}

/* ---- sums ---- */

int fault_shard_sum(const struct shard *s, const struct shard_site *at, double *x,
                    enum dtype *dtype)
{
    int64_t rank = site_value(s->fault, "rank"), n = at->T * at->width;
    if (sums(s, LOST_SUM, at->op, at->layer) && s->rank == (rank < 0 ? s->world - 1 : rank)) {
        memset(x, 0, (size_t)n * sizeof *x);
        s->fault->edits++;
    }
    if (sums(s, BF16_SUM, at->op, at->layer)) {
        *dtype = DT_BF16;
        s->fault->edits++;
    }
    if (!sums(s, DOUBLE_SUM, at->op, at->layer)) return 1;
    s->fault->edits++;
    return 2;
}

/* ---- what a rank holds ---- */

int fault_shard_part(const struct shard *s, const char *op, int64_t layer)
{
    int tp = s->plan.tp;
    int64_t rank = site_value(s->fault, "rank");
    if (!sums(s, SWAPPED, op, layer)) return s->t;
    if (rank < 0) rank = s->world - 1;
    int a = (int)rank % tp, b = (a + 1) % tp;
    if (rank / tp != s->e || (s->t != a && s->t != b)) return s->t;
    s->fault->edits++;
    return s->t == a ? b : a;
}

int64_t fault_shard_expert(const struct shard *s, int64_t layer, int64_t e)
{
    int64_t rank = site_value(s->fault, "rank");
    if (!here(s, MAP_SHIFT, layer) || (rank >= 0 && rank != s->rank)) return e;
    s->fault->edits++;
    return (e + 1) % s->experts;
}

/* ---- rows on their way to the experts and back ---- */

/* The rank that computes the first expert of a row, where none is named. */
static int64_t rank_of_row(const struct shard *s, int64_t row, const int32_t *ids)
{
    int64_t rank = site_value(s->fault, "rank");
    return rank >= 0 ? rank : (int64_t)shard_computer(s, ids[0], row) * s->plan.tp;
}

static void lose_token(const struct shard *s, int64_t layer, const struct rows *rows, int64_t top_k,
                       int32_t *ids)
{
    const struct step step = {.rows = rows};
    const struct fault_place place = {.op = "moe", .layer = layer, .step = &step};
    const struct fault_call call = {.place = &place, .use = &s->fault->use};
    int64_t row = fault_row_of(&call, rows->count);
    if (row < 0) return;
    int32_t *own = ids + row * top_k;
    if (rank_of_row(s, row, own) != s->rank) return;
    bool lost = false;
    for (int64_t j = 0; j < top_k; j++) {
        lost |= own[j] >= 0 && shard_computer(s, own[j], row) == s->e;
        own[j] = -1;
    }
    s->fault->edits += lost;
}

/* What comes back rank by rank meets the weights in the order of ids: the ids of a row in that of
 * their ranks, the weights where they are. */
static void combine_by_rank(const struct shard *s, int64_t row, int64_t top_k, int32_t *ids)
{
    for (int64_t j = 1; j < top_k; j++) {
        int32_t id = ids[j];
        int64_t at = j;
        for (; at > 0 && shard_computer(s, ids[at - 1], row) > shard_computer(s, id, row); at--)
            ids[at] = ids[at - 1];
        ids[at] = id;
    }
}

void fault_shard_route(const struct shard *s, int64_t layer, const struct rows *rows, int64_t top_k,
                       int32_t *ids)
{
    if (here(s, LOST_TOKEN, layer)) lose_token(s, layer, rows, top_k, ids);
    if (!here(s, COMBINE_ORDER, layer)) return;
    for (int64_t t = 0; t < rows->count; t++) combine_by_rank(s, t, top_k, ids + t * top_k);
    s->fault->edits++;
}
