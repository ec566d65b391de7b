/* inspect_head_search.c: which wiring of a head explains samples best; see inspect_head.h.
 *
 * All combinations of what is either-or, with the states as given; then, from the best, one change
 * at a time, the states among them, until none helps. At the end each difference from the head's
 * own setting is taken back where that costs nothing that is sure. */
#include "harness/inspect_head.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 6 };

struct setting setting_of(const struct head *h)
{
    struct setting s = {.aux_count = h->config.aux_count,
                        .skip = -1,
                        .normed = h->config.norm_before_residual,
                        .fed = h->config.norm_output};
    for (int i = 0; i < s.aux_count; i++) s.aux[i] = h->config.aux[i];
    return s;
}

bool setting_same(const struct setting *a, const struct setting *b)
{
    if (a->skip != b->skip || a->swapped != b->swapped || a->normed != b->normed ||
        a->fed != b->fed || a->aux_count != b->aux_count)
        return false;
    for (int i = 0; i < a->aux_count; i++) {
        if (a->aux[i] != b->aux[i] && (a->skip < 0 || a->skip == i)) return false;
    }
    return true;
}

struct trial *trial_of(struct trials *t, const struct setting *set, struct err *err)
{
    for (int64_t i = 0; i < t->count; i++) {
        if (setting_same(&t->list[i].setting, set)) return &t->list[i];
    }
    if (t->count == t->room) {
        int64_t room = 2 * t->room + 64;
        struct trial *more = realloc(t->list, (size_t)room * sizeof *more);
        if (!more) {
            err_set(err, ERR_MEMORY, "try settings|%s|no memory", t->head->weights.path);
            return NULL;
        }
        t->list = more;
        t->room = room;
    }
    struct trial *n = &t->list[t->count++];
    n->setting = *set;
    progress_show(NULL, "settings", t->count, 0);
    bool good = head_score(t->head, t->samples, set, true, t->threads, &n->score, err) == ERR_OK;
    return good ? n : NULL;
}

void trials_free(struct trials *t)
{
    for (int64_t i = 0; i < t->count; i++) free(t->list[i].score.row_bits);
    free(t->list);
    t->list = NULL;
    t->count = t->room = 0;
}

double trial_sure(const struct trial *a, const struct trial *b)
{
    int64_t n = a->score.rows;
    double sum = 0, square = 0;
    if (n != b->score.rows || n < 2) return 0;
    for (int64_t i = 0; i < n; i++) {
        double d = a->score.row_bits[i] - b->score.row_bits[i];
        sum += d;
        square += d * d;
    }
    double mean = sum / (double)n, spread = square / (double)n - mean * mean;
    double error = sqrt((spread > 0 ? spread : 0) / (double)(n - 1));
    return mean == 0 ? 0 : error > 0 ? mean / error : mean > 0 ? INFINITY : -INFINITY;
}

/* ---- the search ---- */

struct climb {
    struct trials *t;
    struct setting best;
    double bits;
    bool moved;
};

static enum err_code consider(struct climb *c, const struct setting *s, struct err *err)
{
    const struct trial *n = trial_of(c->t, s, err);
    if (!n) return err->code;
    if (n->score.choice_bits < c->bits) {
        c->bits = n->score.choice_bits;
        c->best = *s;
        c->moved = true;
    }
    return ERR_OK;
}

static bool can_skip(const struct trials *t)
{
    return t->head->config.target_hidden == t->head->config.base.hidden;
}

/* Order, skip path and fc in all combinations. */
static enum err_code try_wiring(struct climb *c, struct err *err)
{
    struct setting from = c->best;
    int skips = can_skip(c->t) ? from.aux_count : 0;
    for (int i = 0; i < 4; i++) {
        for (int skip = -1; skip < skips; skip++) {
            struct setting s = from;
            s.swapped = (i & 1) != 0;
            s.normed = (i & 2) != 0;
            s.skip = skip;
            if (consider(c, &s, err) != ERR_OK) return err->code;
        }
    }
    return ERR_OK;
}

static bool ids_fit(const struct trials *t, const struct setting *s)
{
    for (int i = 0; i < s->aux_count; i++) {
        if (s->aux[i] < 0 || s->aux[i] > t->samples->truth.layers) return false;
    }
    return true;
}

static enum err_code try_ids(struct climb *c, const int64_t *id, struct err *err)
{
    struct setting s = c->best;
    memcpy(s.aux, id, (size_t)s.aux_count * sizeof *id);
    return ids_fit(c->t, &s) ? consider(c, &s, err) : ERR_OK;
}

/* The entries of the samples' own states, where all are known. */
static enum err_code try_stored(struct climb *c, struct err *err)
{
    int64_t id[HEAD_AUX];
    const json_t *found = c->t->samples->found;
    if ((int)json_array_size(found) != c->best.aux_count + 1) return ERR_OK;
    for (int i = 0; i < c->best.aux_count; i++) {
        const json_t *e = json_object_get(json_array_get(found, (size_t)i), "entry");
        if (!json_is_integer(e)) return ERR_OK;
        id[i] = json_integer_value(e);
    }
    return try_ids(c, id, err);
}

/* Ids that tools take by default, in both numberings (fact sheet 3.1). */
static enum err_code try_defaults(struct climb *c, struct err *err)
{
    int64_t n = c->t->samples->truth.layers;
    for (int64_t later = -1; later <= 1 && c->best.aux_count == 3; later++) {
        const int64_t id[3] = {2 + later, n / 2 + later, n - 3 + later};
        if (try_ids(c, id, err) != ERR_OK) return err->code;
    }
    return ERR_OK;
}

static enum err_code try_shifts(struct climb *c, struct err *err)
{
    const struct setting from = c->best;
    for (int64_t by = -1; by <= 1; by += 2) {
        int64_t id[HEAD_AUX];
        for (int i = 0; i < from.aux_count; i++) id[i] = from.aux[i] + by;
        if (try_ids(c, id, err) != ERR_OK) return err->code;
        for (int i = 0; i < from.aux_count; i++) {
            for (int64_t far = 1; far <= 2; far++) {
                memcpy(id, from.aux, sizeof id);
                id[i] += by * far;
                if (try_ids(c, id, err) != ERR_OK) return err->code;
            }
        }
    }
    return ERR_OK;
}

/* Every exchange of two states, and every rotation. */
static enum err_code try_orders(struct climb *c, struct err *err)
{
    const struct setting from = c->best;
    int64_t id[HEAD_AUX];
    for (int i = 0; i < from.aux_count; i++) {
        for (int j = 0; j < i; j++) {
            memcpy(id, from.aux, sizeof id);
            id[i] = from.aux[j];
            id[j] = from.aux[i];
            if (try_ids(c, id, err) != ERR_OK) return err->code;
        }
        for (int j = 0; j < from.aux_count; j++) id[j] = from.aux[(i + j) % from.aux_count];
        if (try_ids(c, id, err) != ERR_OK) return err->code;
    }
    return ERR_OK;
}

static enum err_code try_flags(struct climb *c, struct err *err)
{
    for (int i = 0; i < 3; i++) {
        struct setting s = c->best;
        s.swapped ^= i == 0;
        s.normed ^= i == 1;
        s.fed ^= i == 2;
        if (consider(c, &s, err) != ERR_OK) return err->code;
    }
    return ERR_OK;
}

/* ---- what is left of the differences ---- */

/* Difference number `i` between the best and the head's own setting, taken back in *s; false: there
 * is no such one. */
static bool take_back(const struct setting *own, int i, struct setting *s)
{
    const struct setting was = *s;
    if (i == 0) s->swapped = own->swapped;
    if (i == 1) s->normed = own->normed;
    if (i == 2) s->fed = own->fed;
    if (i == 3) s->skip = own->skip;
    if (i == 4) memcpy(s->aux, own->aux, sizeof s->aux);
    if (i > 4) s->aux[i - 5] = own->aux[i - 5];
    return !setting_same(&was, s);
}

static enum err_code prune(struct climb *c, struct err *err)
{
    const struct setting own = setting_of(c->t->head);
    for (int i = 0; i < 5 + own.aux_count; i++) {
        struct setting s = c->best;
        if (!take_back(&own, i, &s)) continue;
        if (!trial_of(c->t, &s, err)) return err->code;
        /* Looked up anew: the list may have moved. */
        const struct trial *back = trial_of(c->t, &s, err);
        const struct trial *best = trial_of(c->t, &c->best, err);
        if (back && best && !(trial_sure(back, best) > HEAD_SURE)) c->best = s;
    }
    return err->code;
}

enum err_code head_search(struct trials *t, struct setting *best, struct err *err)
{
    static enum err_code (*const moves[])(struct climb *, struct err *) = {
        try_flags, try_shifts, try_orders, try_stored, try_defaults};
    struct climb c = {.t = t, .best = setting_of(t->head), .bits = INFINITY};
    if (consider(&c, &c.best, err) != ERR_OK || try_wiring(&c, err) != ERR_OK) return err->code;
    for (int round = 0; round < ROUNDS; round++) {
        c.moved = false;
        for (size_t i = 0; i < sizeof moves / sizeof *moves; i++) {
            if (moves[i](&c, err) != ERR_OK) return err->code;
        }
        if (!c.moved) break;
    }
    if (prune(&c, err) != ERR_OK) return err->code;
    *best = c.best;
    return ERR_OK;
}
