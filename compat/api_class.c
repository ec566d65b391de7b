/* api_class.c: api_attribute() and api_abstract() of api_lookup.h. */
#include "compat/api_base.h"
#include "compat/api_find.h"
#include "compat/api_now.h"
#include "compat/api_reach.h"

#include <stdio.h>
#include <string.h>

/* The definitions of a member; what a class body imports or renames is followed. */
static void take_member(const struct api *a, const struct api_name *n, struct api_attribute *out)
{
    bool setter = false;
    api_note(a, n);
    out->origin = API_FROM_MEMBER;
    for (int i = 0; i < n->defs; i++) {
        const struct api_def *d = &n->def[i];
        setter |= d->kind == API_DEF && d->function->setter;
    }
    for (int i = api_first_live(n); i < n->defs; i++) {
        const struct api_def *d = &n->def[i];
        struct api_result r = {.found = API_FOUND, .def = {d}, .defs = 1};
        if (d->kind == API_DEF && d->function->setter) continue;
        if (d->kind == API_ALIAS) api_find(a, d->to, &r);
        out->open |= r.found != API_FOUND || r.defs == 0 || r.open;
        for (int k = 0; k < r.defs && out->defs < API_HITS; k++) out->def[out->defs++] = r.def[k];
    }
    for (int i = 0; i < api_first_live(n); i++) { /* overloads stand before */
        const struct api_def *d = &n->def[i];
        bool overload = d->kind == API_DEF && d->function->overload;
        if (overload && out->defs < API_HITS) out->def[out->defs++] = d;
    }
    const struct api_def *first = out->defs ? out->def[0] : n->def;
    bool property = first->kind == API_DEF && first->function->binding == API_PROPERTY;
    out->line = n->def[api_first_live(n)].line;
    out->read_only = property && !setter;
    if (first->kind == API_VALUE) out->type = first->value.type;
    if (first->kind == API_DEF && (property || first->function->binding == API_CACHED_PROPERTY))
        out->type = first->function->returns;
}

static bool is_dunder(const char *name)
{
    size_t n = strlen(name);
    return n > 4 && strncmp(name, "__", 2) == 0 && strcmp(name + n - 2, "__") == 0;
}

/* NAME in the body or among the attributes of one class. False: not there. */
static bool look_in(const struct api *a, const struct api_def *c, const struct api_mro *m,
                    const char *name, struct api_attribute *out)
{
    const struct api_name *n = api_name(&c->class_->members, name, strlen(name));
    out->field = api_field(c->class_, name);
    out->attr = api_attr(c->class_, name);
    if (out->field && out->field->initvar && !out->field->fallback && !n && !out->attr) {
        out->only_init = true;
        return false;
    }
    if (!n && !out->field && !out->attr) return false;
    out->found = API_FOUND;
    out->class_ = c;
    if (out->attr) api_note(a, out->attr);
    if (n) {
        take_member(a, n, out);
        bool value = n->def->kind == API_VALUE && !is_dunder(name);
        out->member = (m->traits & API_TRAIT_ENUM) && value;
    } else if (out->field) {
        out->origin = API_FROM_FIELD;
        out->type = out->field->type;
        out->line = out->field->line;
    } else {
        out->origin = API_FROM_INSTANCE;
        out->line = out->attr->line;
    }
    if (out->attr && !out->type) out->type = out->attr->type;
    return true;
}

static void not_known(struct api_attribute *out, const char *why)
{
    out->found = API_UNKNOWN;
    out->why = why;
}

/* What makes attributes that no source spells out. NULL: nothing does. */
static const char *why_unknown(const struct api_mro *m)
{
    static const char *const makers[] = {"__getattr__", "__getattribute__"};
    for (int i = 0; i < m->classes; i++) {
        const struct api_class *c = m->class_[i]->class_;
        for (size_t k = 0; k < sizeof makers / sizeof makers[0]; k++) {
            if (api_name(&c->members, makers[k], strlen(makers[k])) ||
                api_texts_have(&c->others, makers[k]))
                return "a __getattr__ may make any attribute";
        }
        if (c->dynamic) return "a method sets attributes of computed names";
        if (api_strange_decorator(m->class_[i]))
            return "a decorator from outside of the library may add attributes";
    }
    if (m->traits & API_TRAIT_UNKNOWN) return "a base class outside of the library is not known";
    return NULL;
}

/* A metaclass that is not known may make attributes of the class. */
static bool metaclass_known(const struct api_mro *m)
{
    for (int i = 0; i < m->classes; i++) {
        const struct api_class *c = m->class_[i]->class_;
        for (int k = 0; k < c->keywords; k++) {
            if (strcmp(c->keyword[k].name, "metaclass") == 0 &&
                !api_has_word("abc.ABCMeta enum.EnumMeta enum.EnumType type", c->keyword[k].value))
                return false;
        }
    }
    return true;
}

/* Names that a decorator or a metaclass puts into a class. */
static bool is_generated(const struct api_mro *m, const char *name)
{
    static const char *const starts[] = {"__dataclass_", "__pydantic_", "__attrs_",
                                         "__match_args__", "__replace__"};
    if ((m->traits & API_TRAIT_ENUM) &&
        api_has_word(
            "__members__ _value_ _name_ _missing_ _member_map_ _generate_next_value_ "
            "_value2member_map_ _member_names_ _ignore_ __getitem__ __iter__ __len__ __contains__ "
            "__reversed__",
            name))
        return true;
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        if (strncmp(name, starts[i], strlen(starts[i])) == 0) return true;
    }
    return false;
}

static bool base_has(const struct api_mro *m, const char *name, bool on_class)
{
    for (int i = 0; i < m->outsides; i++) {
        char base[256];
        snprintf(base, sizeof base, "%.*s", (int)strcspn(m->outside[i], "["), m->outside[i]);
        const struct api_base *known = api_base_of(base);
        if (known && api_has_word(known->attributes, name)) return true;
    }
    return api_object_has(name, on_class);
}

static void add_near(struct api_best *best, const char *wanted, const char *name)
{
    double alike = is_dunder(name) ? 0 : api_alike(wanted, name);
    if (100 * alike >= API_ALIKE_MIN_PERCENT) api_best_add(best, name, alike);
}

/* Near names among all that the classes have, recorded or only listed. */
static void fill_near(const struct api_mro *m, const char *name, struct api_attribute *out)
{
    double score[API_NOW];
    struct api_best best = {.text = out->now, .score = score, .most = 3};
    for (int i = 0; i < m->classes; i++) {
        const struct api_class *c = m->class_[i]->class_;
        for (int k = 0; k < c->members.count; k++) add_near(&best, name, c->members.name[k].name);
        for (int k = 0; k < c->attrs; k++) add_near(&best, name, c->attr[k].name);
        for (int k = 0; k < c->fields; k++) {
            if (!c->field[k].initvar) add_near(&best, name, c->field[k].name);
        }
        for (int k = 0; k < c->others.count; k++) add_near(&best, name, c->others.text[k]);
    }
    out->nows = best.count;
}

static void look(const struct api *a, const struct api_mro *m, int from, const char *name,
                 bool on_class, struct api_attribute *out)
{
    bool only_init = false;
    *out = (struct api_attribute){.found = API_ABSENT};
    for (int i = from; i < m->classes; i++) {
        if (look_in(a, m->class_[i], m, name, out)) return;
        only_init |= out->only_init;
        *out = (struct api_attribute){.found = API_ABSENT};
        if (api_texts_have(&m->class_[i]->class_->others, name)) {
            out->found = API_UNRECORDED;
            out->class_ = m->class_[i];
            out->why = "it exists, and nobody asked for it when the contract was recorded";
            return;
        }
    }
    out->only_init = only_init;
    if (base_has(m, name, on_class) || is_generated(m, name)) {
        out->found = API_FOUND;
        out->origin = base_has(m, name, on_class) ? API_FROM_BASE : API_FROM_GENERATED;
        return;
    }
    const char *why = why_unknown(m);
    if (!why && on_class && !metaclass_known(m)) why = "a metaclass may make any attribute";
    if (why) not_known(out, why);
    if (!why) fill_near(m, name, out);
}

void api_attribute(const struct api *a, const struct api_def *c, const char *name, bool on_class,
                   struct api_attribute *out)
{
    struct api_mro m;
    api_mro(a, c, &m);
    look(a, &m, 0, name, on_class, out);
}

void api_attribute_after(const struct api *a, const struct api_def *c, const struct api_def *after,
                         const char *name, struct api_attribute *out)
{
    struct api_mro m;
    int from = 0;
    api_mro(a, c, &m);
    while (from < m.classes && m.class_[from] != after) from++;
    look(a, &m, from < m.classes ? from + 1 : 0, name, false, out);
}

static const struct api_def *abstract_def(const struct api_name *n)
{
    const struct api_def *last = &n->def[n->defs - 1];
    for (int i = n->defs - 1; i >= 0; i--) {
        if (n->def[i].kind == API_DEF && !n->def[i].function->setter) {
            last = &n->def[i];
            break;
        }
    }
    return last->kind == API_DEF && last->function->abstract ? last : NULL;
}

/* A class nearer than `before` has the name, and not abstract. */
static bool is_implemented(const struct api *a, const struct api_mro *m, int before,
                           const char *name)
{
    for (int i = 0; i < before; i++) {
        const struct api_class *c = m->class_[i]->class_;
        const struct api_name *n = api_name(&c->members, name, strlen(name));
        const struct api_field *f = api_field(c, name);
        if (n) api_note(a, n);
        if ((n && !abstract_def(n)) || (f && f->fallback) || api_texts_have(&c->others, name))
            return true;
    }
    return false;
}

/* Abstract methods count only where the metaclass looks for them. */
static bool is_abc(const struct api_mro *m)
{
    for (int i = 0; i < m->outsides; i++) {
        const char *b = m->outside[i];
        if (strncmp(b, "abc.ABC", 7) == 0 || strncmp(b, "collections.abc.", 16) == 0) return true;
    }
    for (int i = 0; i < m->classes; i++) {
        const struct api_class *c = m->class_[i]->class_;
        for (int k = 0; k < c->keywords; k++) {
            if (strcmp(c->keyword[k].name, "metaclass") == 0) return true;
        }
    }
    return (m->traits & API_TRAIT_PROTOCOL) != 0;
}

int api_abstract(const struct api *a, const struct api_def *c, const struct api_def *out[API_MRO],
                 bool *open)
{
    struct api_mro m;
    int count = 0;
    api_mro(a, c, &m);
    *open = (m.traits & API_TRAIT_UNKNOWN) != 0;
    if (!is_abc(&m)) return 0;
    for (int i = 0; i < m.classes; i++) {
        const struct api_names *members = &m.class_[i]->class_->members;
        for (int k = 0; k < members->count; k++) {
            const struct api_def *d = abstract_def(&members->name[k]);
            bool known = false;
            if (!d) continue;
            api_note(a, &members->name[k]);
            for (int j = 0; j < count; j++) known |= strcmp(out[j]->name, d->name) == 0;
            if (known || is_implemented(a, &m, i, d->name) || count == API_MRO) continue;
            out[count++] = d;
        }
    }
    return count;
}

const char *api_place(const struct api_def *d, char *buf, size_t size)
{
    snprintf(buf, size, "%s:%d", d->module->file, d->line);
    return buf;
}
