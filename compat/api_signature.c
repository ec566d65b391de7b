/* api_signature.c: api_constructor(), api_instance_call() and api_signatures_of() of api_lookup.h.
 */
#include "compat/api_base.h"
#include "compat/api_generated.h"
#include "compat/api_reach.h"

#include <stdio.h>
#include <string.h>

static void not_known(struct api_signatures *out, const char *why)
{
    *out = (struct api_signatures){.is = API_CALL_UNKNOWN, .why = why, .name = out->name};
}

static void opened(struct api_signatures *out, const char *why)
{
    out->open = true;
    if (!out->why) out->why = why;
}

static struct api_signature *add(struct api_signatures *out)
{
    if (out->sigs == API_SIGNATURES) {
        opened(out, "more definitions than can be looked at");
        return NULL;
    }
    out->sig[out->sigs] = (struct api_signature){0};
    return &out->sig[out->sigs++];
}

static bool drops_first(const struct api_function *f, bool bound, bool on_class)
{
    if (f->binding == API_CLASSMETHOD) return true;
    return f->binding != API_STATIC && bound && !on_class;
}

static void add_function(struct api_signatures *out, const struct api_def *d, bool bound,
                         bool on_class)
{
    const struct api_function *f = d->function;
    struct api_signature *s = add(out);
    if (!s) return;
    *s = (struct api_signature){
        .params = f->params, .from = d, .overload = f->overload, .returns = f->returns};
    bool receiver = f->params.count > 0 &&
                    (f->params.param[0].kind == API_POS || f->params.param[0].kind == API_ANY);
    if (receiver && drops_first(f, bound, on_class)) {
        s->params.param++;
        s->params.count--;
    }
    if (f->wrapped) opened(out, "a decorator may change its signature");
}

void api_signatures_of(const struct api *a, const struct api_def *const *def, int defs, bool bound,
                       bool on_class, struct pool *p, struct api_signatures *out, struct err *err)
{
    (void)p, (void)err;
    *out = (struct api_signatures){.is = API_CALLABLE, .name = defs ? def[0]->name : ""};
    for (int i = 0; i < defs; i++) {
        bool property =
            def[i]->kind == API_DEF && (def[i]->function->binding == API_PROPERTY ||
                                        def[i]->function->binding == API_CACHED_PROPERTY);
        if (def[i]->kind == API_CLASS) api_note(a, def[i]);
        if (def[i]->kind == API_DEF && !property)
            add_function(out, def[i], bound, on_class);
        else
            opened(out, "what is called is the value of a name, not a function");
    }
    if (out->sigs == 0) not_known(out, out->why ? out->why : "no definition is known");
}

/* The member functions of one class under a name. False: none. */
static bool written(const struct api *a, const struct api_def *c, const char *name,
                    struct api_signatures *out)
{
    struct api_attribute at;
    if (!api_name(&c->class_->members, name, strlen(name)) &&
        !api_texts_have(&c->class_->others, name))
        return false;
    api_attribute(a, c, name, false, &at);
    *out = (struct api_signatures){.is = API_CALLABLE, .name = name};
    if (at.found == API_UNRECORDED) {
        not_known(out, at.why);
        return true;
    }
    for (int i = 0; i < at.defs; i++) {
        if (at.def[i]->kind == API_DEF)
            add_function(out, at.def[i], true, false);
        else
            opened(out, "it is the value of a name, not a function");
    }
    if (at.open) opened(out, "one of its definitions leads out of the library");
    if (out->sigs == 0) not_known(out, out->why);
    return true;
}

/* *args, **kwargs, or one of them. */
static void add_any(struct api_signatures *out, const struct api_def *c, bool keywords,
                    struct pool *p, struct err *err)
{
    struct api_signature *s = add(out);
    struct api_param *any = pool_take(p, 2, sizeof *any, err);
    if (!s || !any) return;
    any[0] = (struct api_param){.name = "args", .kind = API_STAR};
    any[1] = (struct api_param){.name = "kwargs", .kind = API_DSTAR};
    *s = (struct api_signature){.params = {any, keywords ? 2 : 1}, .from = c, .generated = true};
}

/* Enum members are looked up by value; more words make a new enum, which no consumer of a written
 * one does. */
static void add_enum(struct api_signatures *out, const struct api_def *c, struct pool *p,
                     struct err *err)
{
    struct api_signature *s = add(out);
    struct api_param *value = pool_take(p, 1, sizeof *value, err);
    if (!s || !value) return;
    *value = (struct api_param){.name = "value", .kind = API_ANY};
    *s = (struct api_signature){.params = {value, 1}, .from = c, .generated = true};
}

/* What the bases outside of the library make of a call when no class of the library says. */
static void from_bases(const struct api *a, const struct api_def *c, const struct api_mro *m,
                       struct pool *p, struct api_signatures *out, struct err *err)
{
    bool builtin = false;
    for (int i = 0; i < m->outsides; i++) {
        char name[256];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(m->outside[i], "["), m->outside[i]);
        const struct api_base *known = api_base_of(name);
        builtin |= known && known->traits == 0 && known->attributes[0];
    }
    *out = (struct api_signatures){.is = API_CALLABLE, .name = "__init__"};
    if (m->traits & API_TRAIT_ENUM) {
        add_enum(out, c, p, err);
        return;
    }
    for (int i = 0; i < m->classes; i++) {
        if (written(a, m->class_[i], "__new__", out)) return;
    }
    if (m->traits & API_TRAIT_UNKNOWN) {
        not_known(out, "the constructor of a base outside of the library is not known");
    } else if (m->traits & API_TRAIT_EXCEPTION) {
        add_any(out, c, false, p, err);
    } else if (builtin || (m->traits & API_TRAIT_MODULE)) {
        add_any(out, c, true, p, err);
    } else {
        struct api_signature *s = add(out);
        if (s) *s = (struct api_signature){.from = c, .generated = true};
    }
}

/* A metaclass may answer the call itself. */
static const char *metaclass_doubt(const struct api *a, const struct api_mro *m)
{
    for (int i = 0; i < m->classes; i++) {
        const struct api_class *c = m->class_[i]->class_;
        for (int k = 0; k < c->keywords; k++) {
            enum api_found found;
            struct api_attribute at;
            if (strcmp(c->keyword[k].name, "metaclass") != 0 ||
                api_has_word("abc.ABCMeta enum.EnumMeta enum.EnumType type", c->keyword[k].value))
                continue;
            const struct api_def *meta = api_find_class(a, c->keyword[k].value, &found);
            if (!meta) return "its metaclass is not known";
            api_attribute(a, meta, "__call__", false, &at);
            if (at.found == API_FOUND) return "its metaclass has a __call__";
        }
    }
    return NULL;
}

void api_constructor(const struct api *a, const struct api_def *c, struct pool *p,
                     struct api_signatures *out, struct err *err)
{
    struct api_mro m;
    api_mro(a, c, &m);
    *out = (struct api_signatures){.is = API_CALLABLE, .name = "__init__"};
    const char *doubt = metaclass_doubt(a, &m);
    bool done = false;
    for (int i = 0; i < m.classes && !done; i++) {
        if (written(a, m.class_[i], "__init__", out)) {
            done = true;
            continue;
        }
        enum api_generator by = api_generator_of(a, m.class_[i]);
        if (by == API_MADE_BY_NONE) continue;
        struct api_signature *s = add(out);
        bool open = false;
        if (s) api_generate(a, m.class_[i], by, p, s, &open, err);
        if (open) opened(out, "a setting or a base may allow other names");
        done = true;
    }
    if (!done) from_bases(a, c, &m, p, out, err);
    if (doubt) opened(out, doubt);
    for (int i = 0; i < m.classes; i++) {
        if (api_strange_decorator(m.class_[i]))
            opened(out, "a decorator from outside of the library may change its constructor");
    }
}

void api_instance_call(const struct api *a, const struct api_def *c, struct pool *p,
                       struct api_signatures *out, struct err *err)
{
    struct api_mro m;
    struct api_attribute at;
    const char *name = "__call__";
    api_mro(a, c, &m);
    api_attribute(a, c, name, false, &at);
    if (at.found != API_FOUND && (m.traits & API_TRAIT_MODULE)) {
        name = "forward";
        api_attribute(a, c, name, false, &at);
    }
    *out = (struct api_signatures){.name = name};
    if (at.found == API_FOUND && at.defs > 0) {
        api_signatures_of(a, at.def, at.defs, true, false, p, out, err);
        if (at.open) opened(out, "one of its definitions leads out of the library");
    } else if (at.found == API_ABSENT) {
        *out = (struct api_signatures){
            .is = API_NOT_CALLABLE, .name = name, .why = "its class has no __call__"};
    } else {
        not_known(out, at.why ? at.why : "only that it is there is known");
    }
}
