/* diagnose_values.c: the values at which a diagnosis tries a key of a fault; see diagnose_fit.h. */
#include "harness/diagnose_fit.h"

#include <math.h>
#include <string.h>

enum { SLOTS_BACK = 4 };

static double *add(double *list, int *n, double v)
{
    for (int i = 0; i < *n; i++) {
        if (list[i] == v) return list;
    }
    if (*n < FIT_VALUES) list[(*n)++] = v;
    return list;
}

static bool has_two_outputs(const char *op)
{
    return strcmp(op, "mla.kv") == 0 || strcmp(op, "router") == 0;
}

/* The first row that is wrong, and the few before it: a cached entry shows in the rows that weigh
 * it enough. */
static void add_slots(const struct fitter *f, double *list, int *n)
{
    const struct rerun *r = &f->rerun;
    for (int i = 0; i < FIT_PLACES; i++) {
        if (f->many && i > 0) return;
        for (int64_t back = 0; f->row[i] >= 0 && back < SLOTS_BACK; back++) {
            int64_t slot = r->position[f->row[i]] - back;
            if (slot >= 0) add(list, n, (double)slot);
        }
    }
}

/* The worst column. Heads lie one after another in the queries that rope turns as in what the
 * attention makes of them: there, the same place of the same head. */
static void add_cols(const struct fitter *f, const char *op, double *list, int *n)
{
    const struct config *c = f->diff->loaded.model.config;
    if (f->col < 0) return;
    add(list, n, (double)f->col);
    if (strcmp(op, "rope") == 0)
        add(list, n, (double)(f->col * c->heads * (c->nope + c->rope) / f->subject->cols));
}

int fit_values(const struct fitter *f, const struct fault_use *use, const char *op, int k,
               double *list)
{
    const struct fault_key *key = &use->row->keys[k];
    int n = 0;
    bool rank = strcmp(key->name, "rank") == 0;
    if (strcmp(key->name, "output") == 0 && !has_two_outputs(op)) {
        add(list, &n, key->dflt);
        return n;
    }
    if (f->diff->cut && strcmp(key->name, "ranks") == 0) { /* that is known */
        add(list, &n, shard_world(&f->diff->plan));
        return n;
    }
    if (!rank) add(list, &n, key->dflt);
    for (const double *t = key->tries; key->fit == FIT_TRY && t && !isnan(*t); t++)
        add(list, &n, *t);
    for (int i = 0; key->fit == FIT_WORD && key->words[i]; i++) {
        if (fault_word_fits(key, i, op)) add(list, &n, i);
    }
    if (key->fit != FIT_SITE) return n;
    if (strcmp(key->name, "expert") == 0) {
        for (int64_t i = 0; i < f->experts; i++) add(list, &n, (double)f->expert[i]);
    } else if (strcmp(key->name, "row") == 0) {
        for (int i = 0; i < (f->many ? 1 : FIT_PLACES); i++) {
            if (f->row[i] >= 0) add(list, &n, (double)f->row[i]);
        }
    } else if (strcmp(key->name, "slot") == 0) {
        add_slots(f, list, &n);
    } else if (strcmp(key->name, "col") == 0) {
        add_cols(f, op, list, &n);
    } else if (strcmp(key->name, "call") == 0 && strcmp(op, "norm") == 0) {
        for (int i = 0; i < 2; i++) add(list, &n, i); /* the norms of a layer */
    } else if (rank) {
        double ranks = 0;
        for (int i = 0; i < FAULT_KEYS && use->row->keys[i].name; i++) {
            if (strcmp(use->row->keys[i].name, "ranks") == 0) ranks = use->value[i];
        }
        for (double r = 0; r < ranks; r++) add(list, &n, r);
        add(list, &n, key->dflt); /* last: where it means one of them, that one is to be named */
    }
    return n;
}
