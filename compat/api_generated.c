/* api_generated.c: see api_generated.h. */
#include "compat/api_generated.h"

#include "compat/api_base.h"
#include "compat/api_reach.h"

#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 256 };

/* The decorator that marks dataclass_transform, among those of a function or class; NULL: none. */
static const char *transform_of(const struct api_texts *decorators)
{
    for (int i = 0; i < decorators->count; i++) {
        const char *text = decorators->text[i];
        size_t n = strcspn(text, "(");
        if (n >= 19 && strncmp(text + n - 19, "dataclass_transform", 19) == 0) return text;
    }
    return NULL;
}

/* The dataclass_transform on what `text` ("pkg.deco(x=1)") names; NULL: it is not marked. */
static const char *transform_named(const struct api *a, const char *text)
{
    char name[NAME_BYTES];
    struct api_result r;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text, "(["), text);
    api_find(a, name, &r);
    for (int i = 0; i < r.defs; i++) {
        const struct api_def *d = r.def[i];
        const char *marked = d->kind == API_DEF     ? transform_of(&d->function->decorators)
                             : d->kind == API_CLASS ? transform_of(&d->class_->decorators)
                                                    : NULL;
        if (d->kind == API_CLASS) api_note(a, d);
        if (marked) return marked;
    }
    return NULL;
}

/* The decorator or base class whose dataclass_transform covers the class; NULL: none does. */
static const char *transform_over(const struct api *a, const struct api_def *c)
{
    struct api_mro m;
    for (int i = 0; i < c->class_->decorators.count; i++) {
        const char *text = c->class_->decorators.text[i];
        const char *marked =
            api_decorator_of(text) == API_DECORATOR_UNKNOWN ? transform_named(a, text) : NULL;
        if (marked) return marked;
    }
    api_mro(a, c, &m);
    for (int i = 0; i < m.classes; i++) {
        const struct api_class *k = m.class_[i]->class_;
        const char *marked = i > 0 ? transform_of(&k->decorators) : NULL;
        for (int w = 0; !marked && w < k->keywords; w++) {
            if (strcmp(k->keyword[w].name, "metaclass") == 0)
                marked = transform_named(a, k->keyword[w].value);
        }
        if (marked) return marked;
    }
    return NULL;
}

static bool has_direct_base(const struct api_def *c, const char *last)
{
    for (int i = 0; i < c->class_->bases.count; i++) {
        const char *text = c->class_->bases.text[i];
        size_t n = strcspn(text, "[("), k = strlen(last);
        if (n >= k && strncmp(text + n - k, last, k) == 0) return true;
    }
    return false;
}

/* By the class' own decorators. *text: the one. */
static enum api_generator by_decorator(const struct api_def *c, const char **text)
{
    static const enum api_generator of[] = {
        [API_DECORATOR_PLAIN] = API_MADE_BY_NONE,
        [API_DECORATOR_DATACLASS] = API_MADE_BY_DATACLASS,
        [API_DECORATOR_PYDANTIC] = API_MADE_BY_PYDANTIC_DATACLASS,
        [API_DECORATOR_ATTRS] = API_MADE_BY_ATTRS,
        [API_DECORATOR_UNKNOWN] = API_MADE_BY_NONE,
    };
    for (int i = 0; i < c->class_->decorators.count; i++) {
        *text = c->class_->decorators.text[i];
        enum api_generator by = of[api_decorator_of(*text)];
        if (by != API_MADE_BY_NONE) return by;
    }
    return API_MADE_BY_NONE;
}

enum api_generator api_generator_of(const struct api *a, const struct api_def *c)
{
    struct api_mro m;
    const char *text;
    enum api_generator by = by_decorator(c, &text);
    if (by != API_MADE_BY_NONE) return api_says(text, "init", true) ? by : API_MADE_BY_NONE;
    api_mro(a, c, &m);
    if (m.traits & API_TRAIT_STRUCT) return API_MADE_BY_STRUCT;
    if (m.traits & API_TRAIT_PYDANTIC) return API_MADE_BY_PYDANTIC;
    if (has_direct_base(c, "NamedTuple")) return API_MADE_BY_NAMEDTUPLE;
    if (m.traits & API_TRAIT_TYPEDDICT) return API_MADE_BY_TYPEDDICT;
    return transform_over(a, c) ? API_MADE_BY_DATACLASS : API_MADE_BY_NONE;
}

/* Fields as parameters, in the order of their first definition. */
struct gather {
    struct pool *pool;
    struct err *err;
    enum api_generator by;
    struct api_param *param;
    bool *hidden; /* init=False: no parameter, but it keeps its place */
    bool *plain;  /* its default is a class attribute, no factory */
    int count, room;
    bool open;
};

static bool make_room(struct gather *g)
{
    if (g->count < g->room) return true;
    int room = g->room ? 2 * g->room : 32;
    struct api_param *param = pool_take(g->pool, (size_t)room, sizeof *param, g->err);
    bool *hidden = pool_take(g->pool, (size_t)room, sizeof *hidden, g->err);
    bool *plain = pool_take(g->pool, (size_t)room, sizeof *plain, g->err);
    if (!param || !hidden || !plain) return false;
    if (g->count) memcpy(param, g->param, (size_t)g->count * sizeof *param);
    if (g->count) memcpy(hidden, g->hidden, (size_t)g->count * sizeof *hidden);
    if (g->count) memcpy(plain, g->plain, (size_t)g->count * sizeof *plain);
    g->param = param;
    g->hidden = hidden;
    g->plain = plain;
    g->room = room;
    return true;
}

/* attrs takes `x` for the field `_x`; an alias is what a caller writes. */
static const char *parameter_name(struct gather *g, const struct api_field *f)
{
    if (f->alias) {
        g->open |= g->by != API_MADE_BY_ATTRS; /* a setting may allow both names */
        return f->alias;
    }
    if (g->by != API_MADE_BY_ATTRS) return f->name;
    return f->name + strspn(f->name, "_");
}

/* "list" made at construction is shown as "list()". */
static const char *default_text(struct gather *g, const struct api_field *f)
{
    if (!f->fallback || !f->factory) return f->fallback;
    bool plain = !strpbrk(f->fallback, " (");
    return pool_format(g->pool, g->err, plain ? "%s()" : "(%s)()", f->fallback);
}

static void add_field(struct gather *g, const struct api_field *f, bool kw_only, bool total)
{
    bool private = f->name[0] == '_' && g->by == API_MADE_BY_PYDANTIC;
    if (f->classvar || private) return;
    struct api_param p = {.name = parameter_name(g, f),
                          .kind = kw_only || f->kw_only ? API_KW : API_ANY,
                          .type = f->type,
                          .fallback = default_text(g, f)};
    if (g->by == API_MADE_BY_TYPEDDICT && (f->optional || !total) && !p.fallback)
        p.fallback = "...";
    int at = 0;
    while (at < g->count && strcmp(g->param[at].name, p.name) != 0) at++;
    if (at == g->count && !make_room(g)) return;
    /* A dataclass looks its default up as an attribute: one of a base is still there. */
    bool inherits = at < g->count && g->plain[at] && !p.fallback &&
                    (g->by == API_MADE_BY_DATACLASS || g->by == API_MADE_BY_PYDANTIC_DATACLASS);
    if (inherits) p.fallback = g->param[at].fallback;
    g->param[at] = p;
    g->hidden[at] = !f->init;
    g->plain[at] = p.fallback && !f->factory;
    if (at == g->count) g->count++;
}

/* The annotations of this class are fields of what is made for a subclass. */
static bool contributes(const struct api *a, const struct api_def *c, enum api_generator by)
{
    enum api_generator own = api_generator_of(a, c);
    const char *text;
    if (own == API_MADE_BY_NONE) /* @dataclass(init=False) still has fields */
        return by_decorator(c, &text) != API_MADE_BY_NONE;
    return by != API_MADE_BY_NAMEDTUPLE || own == by;
}

static bool class_says(const struct api_def *c, const char *keyword, bool dflt)
{
    for (int i = 0; i < c->class_->keywords; i++) {
        const struct api_keyword *k = &c->class_->keyword[i];
        if (strcmp(k->name, keyword) == 0) return strcmp(k->value, "True") == 0;
    }
    return dflt;
}

/* Positional ones first, each group in its order. */
static void order_params(struct gather *g, struct api_params *out)
{
    out->param = pool_take(g->pool, (size_t)g->count + 1, sizeof *out->param, g->err);
    if (!out->param) return;
    for (int kw = 0; kw < 2; kw++) {
        for (int i = 0; i < g->count; i++) {
            if (!g->hidden[i] && (g->param[i].kind == API_KW) == (kw == 1))
                out->param[out->count++] = g->param[i];
        }
    }
}

/* A setting of pydantic among the decorators or in model_config. */
static bool config_says(const struct api_mro *m, const char *word)
{
    for (int i = 0; i < m->classes; i++) {
        const struct api_class *c = m->class_[i]->class_;
        const struct api_name *n = api_name(&c->members, "model_config", 12);
        const struct api_field *f = api_field(c, "model_config");
        const char *text = n && n->def->kind == API_VALUE ? n->def->value.text : NULL;
        if (f) text = f->fallback;
        if (text && strstr(text, word)) return true;
        for (int k = 0; k < c->decorators.count; k++) {
            if (strstr(c->decorators.text[k], word)) return true;
        }
    }
    return false;
}

static bool ignores_extra(const struct api *a, const struct api_mro *m, enum api_generator by)
{
    if (by != API_MADE_BY_PYDANTIC && by != API_MADE_BY_PYDANTIC_DATACLASS) return false;
    for (int i = 0; i < m->classes; i++) {
        api_note(a, api_name(&m->class_[i]->class_->members, "model_config", 12));
    }
    return !config_says(m, "'forbid'") && !config_says(m, "\"forbid\"");
}

void api_generate(const struct api *a, const struct api_def *c, enum api_generator by,
                  struct pool *p, struct api_signature *out, bool *open, struct err *err)
{
    struct gather g = {.pool = p, .err = err, .by = by};
    struct api_mro m;
    api_mro(a, c, &m);
    *out = (struct api_signature){.from = c, .generated = true};
    for (int i = m.classes - 1; i >= 0; i--) {
        const struct api_def *k = m.class_[i];
        const char *transform = i > 0 && !contributes(a, k, by) ? NULL : transform_over(a, k);
        bool kw_only = by == API_MADE_BY_PYDANTIC || by == API_MADE_BY_TYPEDDICT ||
                       (transform && api_says(transform, "kw_only_default", false));
        if (i > 0 && !contributes(a, k, by)) continue;
        for (int f = 0; f < k->class_->fields; f++) {
            add_field(&g, &k->class_->field[f], kw_only, class_says(k, "total", true));
        }
    }
    order_params(&g, &out->params);
    out->ignores_extra = ignores_extra(a, &m, by);
    *open = g.open || (m.traits & API_TRAIT_UNKNOWN) != 0;
}
