/* api_prune.c: see api_prune.h. */
#include "compat/api_prune.h"

#include "compat/api_find.h"
#include "compat/api_type.h"

#include <stdlib.h>
#include <string.h>

enum { DEFS = 1 << 16 };

enum err_code api_reach_name(const struct api *a, const char *name, struct err *err)
{
    struct api_result r;
    api_find(a, name, &r);
    if (r.found != API_FOUND)
        return err_set(err, ERR_INPUT, "record contract|--also|%s|a name that %s has", name,
                       a->library.name ? a->library.name : "the library");
    for (int i = 0; i < r.defs; i++) {
        if (r.def[i]->kind == API_CLASS) api_note(a, r.def[i]);
    }
    return ERR_OK;
}

/* The classes that an annotation names, whatever stands around them. */
static void reach_type(const struct api *a, const struct api_type *t)
{
    enum api_found found;
    for (; t; t = t->next) {
        bool named = t->kind == API_TYPE_NAME || t->kind == API_TYPE_SUB;
        if (named && strchr(t->name, '.') && api_is_inside(a, t->name))
            (void)api_find_class(a, t->name, &found);
        reach_type(a, t->arg);
    }
}

static void close_def(const struct api *a, const struct api_def *d, struct pool *p, struct err *err)
{
    const struct api_def *missing[API_MRO];
    struct api_signatures s;
    bool open;
    if (d->kind == API_CLASS) {
        api_constructor(a, d, p, &s, err);
        (void)api_abstract(a, d, missing, &open);
    } else if (d->kind == API_DEF) {
        reach_type(a, api_type_parse(d->function->returns, p, err));
    }
}

struct found {
    const struct api_def **def;
    int count;
};

/* Definitions reached, nested ones too. Those that the closure adds do not count. */
static void gather(const struct api *a, const struct api_names *names, struct found *f)
{
    for (int i = 0; i < names->count; i++) {
        bool named = api_reached(a->reach, &names->name[i]);
        for (int k = 0; k < names->name[i].defs; k++) {
            struct api_def *d = &names->name[i].def[k];
            if ((named || api_reached(a->reach, d)) && f->count < DEFS) f->def[f->count++] = d;
            if (d->kind == API_CLASS) gather(a, &d->class_->members, f);
        }
    }
}

void api_reach_close(const struct api *a, struct err *err)
{
    struct arena arena = ARENA_INIT;
    struct pool pool = {.arena = &arena};
    struct found f = {pool_take(&pool, DEFS, sizeof *f.def, err), 0};
    for (int i = 0; f.def && i < a->modules; i++) gather(a, &a->module[i].names, &f);
    for (int i = 0; i < f.count; i++) close_def(a, f.def[i], &pool, err);
    arena_release(&arena, NULL);
}

struct prune {
    const struct api *from;
    const struct api_reach *reach;
    struct pool pool;
    struct err *err;
};

static bool keeps_name(const struct prune *p, const struct api_name *n);

static bool keeps_class(const struct prune *p, const struct api_class *c)
{
    for (int i = 0; i < c->attrs; i++) {
        if (api_reached(p->reach, &c->attr[i])) return true;
    }
    for (int i = 0; i < c->members.count; i++) {
        if (keeps_name(p, &c->members.name[i])) return true;
    }
    return false;
}

static bool keeps_name(const struct prune *p, const struct api_name *n)
{
    if (api_reached(p->reach, n)) return true;
    for (int i = 0; i < n->defs; i++) {
        const struct api_def *d = &n->def[i];
        if (d->kind == API_CLASS && (api_reached(p->reach, d) || keeps_class(p, d->class_)))
            return true;
    }
    return false;
}

static bool prune_names(struct prune *p, const struct api_names *from, struct api_names *out);

static int by_text(const void *x, const void *y)
{
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

/* The attributes that were asked for, and the names of all that was not. */
static struct api_class *prune_class(struct prune *p, const struct api_class *c)
{
    struct api_class *out = pool_take(&p->pool, 1, sizeof *out, p->err);
    size_t most = (size_t)c->attrs + (size_t)c->members.count + 1;
    const char **others = pool_take(&p->pool, most, sizeof *others, p->err);
    struct api_attr *attr = pool_take(&p->pool, (size_t)c->attrs + 1, sizeof *attr, p->err);
    if (!out || !others || !attr) return NULL;
    *out = *c;
    out->order = NULL; /* it names definitions of the whole model */
    out->attr = attr;
    out->attrs = 0;
    out->partial = true;
    out->others = (struct api_texts){others, 0};
    if (!prune_names(p, &c->members, &out->members)) return NULL;
    for (int i = 0; i < c->attrs; i++) {
        const char *name = c->attr[i].name;
        if (api_reached(p->reach, &c->attr[i]))
            attr[out->attrs++] = c->attr[i];
        else if (!api_name(&out->members, name, strlen(name)) && !api_field(c, name))
            others[out->others.count++] = name;
    }
    for (int i = 0; i < c->members.count; i++) {
        const char *name = c->members.name[i].name;
        if (!api_name(&out->members, name, strlen(name)) && !api_attr(out, name))
            others[out->others.count++] = name;
    }
    qsort(others, (size_t)out->others.count, sizeof *others, by_text);
    int kept = 0;
    for (int i = 0; i < out->others.count; i++) {
        if (i == 0 || strcmp(others[i], others[kept - 1]) != 0) others[kept++] = others[i];
    }
    out->others.count = kept;
    return out;
}

static bool prune_names(struct prune *p, const struct api_names *from, struct api_names *out)
{
    *out = (struct api_names){
        pool_take(&p->pool, (size_t)from->count + 1, sizeof *out->name, p->err), 0, 0};
    for (int i = 0; out->name && i < from->count; i++) {
        const struct api_name *n = &from->name[i];
        if (!keeps_name(p, n)) continue;
        struct api_name *kept = &out->name[out->count++];
        *kept = *n;
        kept->def = pool_take(&p->pool, (size_t)n->defs, sizeof *kept->def, p->err);
        if (!kept->def) return false;
        memcpy(kept->def, n->def, (size_t)n->defs * sizeof *kept->def);
        for (int k = 0; k < n->defs; k++) {
            struct api_def *d = &kept->def[k];
            if (d->kind == API_CLASS && !(d->class_ = prune_class(p, d->class_))) return false;
        }
    }
    return out->name != NULL;
}

/* What was looked for in `holder` (NULL: modules) and proved not to be there. */
static bool prune_misses(struct prune *p, const void *holder, struct api_absent **out, int *count)
{
    *out = pool_take(&p->pool, (size_t)p->reach->misses + 1, sizeof **out, p->err);
    for (int i = 0; *out && i < p->reach->misses; i++) {
        const struct api_miss *m = &p->reach->miss[i];
        if (m->holder != holder) continue;
        struct api_texts now = {pool_take(&p->pool, (size_t)m->nows + 1, sizeof *now.text, p->err),
                                m->nows};
        if (!now.text) return false;
        for (int k = 0; k < m->nows; k++) now.text[k] = m->now[k];
        (*out)[(*count)++] = (struct api_absent){m->name, now};
    }
    return *out != NULL;
}

static bool prune_module(struct prune *p, const struct api_module *m, struct api_module *out)
{
    *out = *m;
    out->partial = true;
    out->absent = NULL;
    out->absents = out->lazies = out->all.count = 0;
    out->all.text = pool_take(&p->pool, (size_t)m->all.count + 1, sizeof(char *), p->err);
    out->lazy = pool_take(&p->pool, (size_t)m->lazies + 1, sizeof *out->lazy, p->err);
    if (!out->all.text || !out->lazy || !prune_names(p, &m->names, &out->names) ||
        !prune_misses(p, m, &out->absent, &out->absents))
        return false;
    for (int i = 0; i < m->all.count; i++) {
        const char *name = m->all.text[i];
        if (api_name(&out->names, name, strlen(name))) out->all.text[out->all.count++] = name;
    }
    for (int i = 0; i < m->lazies; i++) {
        if (api_reached(p->reach, &m->lazy[i])) out->lazy[out->lazies++] = m->lazy[i];
    }
    return true;
}

enum err_code api_prune(const struct api *a, const struct api_origin *consumer, struct arena *arena,
                        struct api *out, struct err *err)
{
    struct prune p = {.from = a, .reach = a->reach, .pool = {.arena = arena}, .err = err};
    *out = *a;
    out->reach = NULL;
    out->arena = arena;
    out->consumer = *consumer;
    out->modules = out->absents = 0;
    out->module = pool_take(&p.pool, (size_t)a->modules + 1, sizeof *out->module, err);
    if (a->reach->err.code != ERR_OK)
        return err_set(err, ERR_MEMORY, "record contract|memory|no room for what was reached|more");
    for (int i = 0; out->module && i < a->modules; i++) {
        struct api_module *m = &out->module[out->modules];
        if (!prune_module(&p, &a->module[i], m)) return err->code;
        bool asked = api_reached(a->reach, &a->module[i]);
        if (asked || m->names.count > 0) out->modules++;
    }
    if (!out->module || !prune_misses(&p, NULL, &out->absent, &out->absents)) return err->code;
    return api_finish(out, err);
}
