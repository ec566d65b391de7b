/* api_diff_function.c: two signatures compared; see api_diff.h. */
#include "compat/api_diff_parts.h"
#include "compat/api_type.h"

#include <stdio.h>
#include <string.h>

static bool is_positional(const struct api_param *p)
{
    return p->kind == API_POS || p->kind == API_ANY;
}

static const struct api_param *named(const struct api_params *all, const char *name)
{
    for (int i = 0; i < all->count; i++) {
        bool star = all->param[i].kind == API_STAR || all->param[i].kind == API_DSTAR;
        if (!star && strcmp(all->param[i].name, name) == 0) return &all->param[i];
    }
    return NULL;
}

static const struct api_param *of_kind(const struct api_params *all, enum api_param_kind kind)
{
    for (int i = 0; i < all->count; i++) {
        if (all->param[i].kind == kind) return &all->param[i];
    }
    return NULL;
}

/* The i-th parameter that takes a positional argument, or NULL. */
static const struct api_param *positional(const struct api_params *all, int i)
{
    return i < all->count && is_positional(&all->param[i]) ? &all->param[i] : NULL;
}

static bool same_text(const char *x, const char *y)
{
    return x == y || (x && y && strcmp(x, y) == 0);
}

static const char *kind_name(enum api_param_kind kind)
{
    static const char *const names[] = {[API_POS] = "positional-only",
                                        [API_ANY] = "positional or keyword",
                                        [API_KW] = "keyword-only",
                                        [API_STAR] = "*args",
                                        [API_DSTAR] = "**kwargs"};
    return names[kind];
}

/* Whoever passed it as before can no longer. */
static bool kind_narrows(enum api_param_kind was, enum api_param_kind is)
{
    return is != was && is != API_ANY;
}

/* Of two annotations; false where memory is short. */
static bool same_type(struct api_differ *d, const char *x, const char *y)
{
    const struct api_type *a = api_type_parse(x, d->pool, d->err);
    const struct api_type *b = api_type_parse(y, d->pool, d->err);
    return a && b && api_type_same(a, b);
}

static void diff_param(struct api_differ *d, const struct api_param *was,
                       const struct api_param *is)
{
    if (was->kind != is->kind)
        api_diff_add(d, kind_narrows(was->kind, is->kind) ? API_BREAKS : API_HARMLESS,
                     kind_name(was->kind), kind_name(is->kind), "parameter %s: kind", was->name);
    if (was->fallback && !is->fallback)
        api_diff_add(d, API_BREAKS, was->fallback, NULL, "parameter %s is required now", was->name);
    else if (!was->fallback && is->fallback)
        api_diff_add(d, API_HARMLESS, NULL, is->fallback, "parameter %s is optional now",
                     was->name);
    else if (!same_text(was->fallback, is->fallback))
        api_diff_add(d, API_DEFAULT, was->fallback, is->fallback, "parameter %s: default",
                     was->name);
    if (was->type && is->type && !same_type(d, was->type, is->type))
        api_diff_add(d, API_HARMLESS, was->type, is->type, "parameter %s: type", was->name);
}

/* A parameter at the same place, of the same type, whose name is new: a renaming. */
static const struct api_param *renamed(const struct api_params *was, int at,
                                       const struct api_params *is)
{
    const struct api_param *here = positional(is, at);
    if (!here || !is_positional(&was->param[at]) || named(was, here->name)) return NULL;
    bool alike = same_text(was->param[at].type, here->type) &&
                 (was->param[at].fallback == NULL) == (here->fallback == NULL);
    return alike ? here : NULL;
}

static void diff_removed(struct api_differ *d, const struct api_params *was, int at,
                         const struct api_params *is)
{
    const struct api_param *p = &was->param[at], *now = renamed(was, at, is);
    if (now)
        api_diff_add(d, p->kind == API_POS ? API_HARMLESS : API_BREAKS, NULL, NULL,
                     "parameter %s renamed %s", p->name, now->name);
    else if (p->kind != API_POS && of_kind(is, API_DSTAR))
        api_diff_add(d, API_HARMLESS, NULL, NULL, "parameter %s taken by **%s now", p->name,
                     of_kind(is, API_DSTAR)->name);
    else
        api_diff_add(d, API_BREAKS, NULL, NULL, "parameter %s removed", p->name);
}

static bool is_renaming(const struct api_params *was, const struct api_params *is,
                        const struct api_param *p)
{
    for (int i = 0; i < was->count; i++) {
        if (!named(is, was->param[i].name) && renamed(was, i, is) == p) return true;
    }
    return false;
}

static void diff_added(struct api_differ *d, const struct api_params *was,
                       const struct api_params *is)
{
    for (int i = 0; i < is->count; i++) {
        const struct api_param *p = &is->param[i];
        bool star = p->kind == API_STAR || p->kind == API_DSTAR;
        if (star || named(was, p->name) || is_renaming(was, is, p)) continue;
        if (p->fallback)
            api_diff_add(d, API_HARMLESS, NULL, p->fallback, "parameter %s added, optional",
                         p->name);
        else
            api_diff_add(d, API_BREAKS, NULL, p->type, "parameter %s added, required", p->name);
    }
}

/* The first place at which a positional argument goes to another parameter. */
static void diff_order(struct api_differ *d, const struct api_params *was,
                       const struct api_params *is)
{
    for (int i = 0; i < was->count; i++) {
        const struct api_param *w = positional(was, i), *n = positional(is, i);
        if (!w || !n) return;
        if (strcmp(w->name, n->name) == 0 || renamed(was, i, is) == n) continue;
        api_diff_add(d, API_SHIFTS, w->name, n->name, "positional argument %d goes elsewhere",
                     i + 1);
        return;
    }
}

void api_diff_params(struct api_differ *d, const struct api_params *was,
                     const struct api_params *is)
{
    for (int i = 0; i < was->count; i++) {
        const struct api_param *p = &was->param[i];
        if (p->kind == API_STAR || p->kind == API_DSTAR) {
            if (!of_kind(is, p->kind))
                api_diff_add(d, API_BREAKS, NULL, NULL, "%s%s removed",
                             p->kind == API_STAR ? "*" : "**", p->name);
            continue;
        }
        const struct api_param *now = named(is, p->name);
        if (now)
            diff_param(d, p, now);
        else
            diff_removed(d, was, i, is);
    }
    diff_added(d, was, is);
    diff_order(d, was, is);
}

void api_diff_types(struct api_differ *d, const char *of, const char *was, const char *is)
{
    if (!was || same_text(was, is)) return; /* nothing was said of it before */
    if (is && same_type(d, was, is)) return;
    struct api_type *before = api_type_parse(was, d->pool, d->err);
    struct api_type *now = api_type_parse(is ? is : "typing.Any", d->pool, d->err);
    if (!before || !now) return;
    bool narrows = is && api_type_narrows(before, now);
    api_diff_add(d, narrows ? API_HARMLESS : API_SHIFTS, was, is ? is : "nothing said", "%s", of);
}

static const char *shapes_text(struct api_differ *d, const struct api_function *f)
{
    const char *text = "";
    for (int i = 0; text && i < f->shapes; i++) {
        text =
            pool_format(d->pool, d->err, "%s%s%s%s%s", text, i ? ", " : "", f->shape[i].shape,
                        f->shape[i].when ? " if " : "", f->shape[i].when ? f->shape[i].when : "");
    }
    return text;
}

static bool is_read(enum api_binding b)
{
    return b == API_PROPERTY || b == API_CACHED_PROPERTY;
}

/* The receiver is no parameter of a call. */
static struct api_params called(const struct api_def *d)
{
    struct api_params p = d->function->params;
    bool bound = d->owner && d->function->binding != API_STATIC;
    if (bound && p.count > 0 && is_positional(&p.param[0])) {
        p.param++;
        p.count--;
    }
    return p;
}

void api_diff_functions(struct api_differ *d, const struct api_def *was, const struct api_def *is)
{
    const struct api_function *w = was->function, *n = is->function;
    struct api_params before = called(was), now = called(is);
    if (is_read(w->binding) != is_read(n->binding))
        api_diff_add(d, API_BREAKS, is_read(w->binding) ? "a property" : "a method",
                     is_read(n->binding) ? "a property" : "a method", "kind");
    if (w->async != n->async)
        api_diff_add(d, API_BREAKS, w->async ? "async" : "not async",
                     n->async ? "async" : "not async", "kind");
    if (w->wrapped == n->wrapped && !is_read(n->binding)) api_diff_params(d, &before, &now);
    api_diff_types(d, is_read(n->binding) ? "type" : "return type", w->returns, n->returns);
    const char *shape = shapes_text(d, w), *shape_now = shapes_text(d, n);
    if (shape && shape_now && shape[0] && strcmp(shape, shape_now) != 0)
        api_diff_add(d, API_SHIFTS, shape, shape_now, "return shape");
}
