/* judge_own_attrs.c: what self.name is in the consumer's own classes: what its methods assign, what
 * its body defines, then what the library's bases give. */
#include "compat/judge_parts.h"

#include <string.h>

static const struct value *own_member_value(struct frame *f, const struct value *self,
                                            const struct value *m)
{
    struct own_function *fn = m->kind == VALUE_OWN_FUNCTION ? m->own_function : NULL;
    if (!fn || self->kind != VALUE_OWN_OBJECT) return m;
    if (fn->is_property) return judge_own_result(f, fn, self);
    if (fn->is_static) return m;
    struct value bound = *m;
    bound.self = self;
    return judge_value_make(f->run, bound);
}

/* A value that an attribute of the consumer's own may have: constants are states, not facts. */
static const struct value *slot_value(struct judge_run *r, const struct value *v)
{
    const struct value *rest = judge_value_without_none(r, v);
    bool constant = rest->kind == VALUE_BOOL || rest->kind == VALUE_NUMBER ||
                    rest->kind == VALUE_STR || rest->kind == VALUE_ITEMS ||
                    rest->kind == VALUE_DICT;
    return constant ? &value_unknown : rest;
}

static const struct value *own_slot(struct judge_run *r, struct own_class *c, const char *name,
                                    int depth)
{
    const struct attr_slot *s = judge_slot_find(c->attr, name);
    if (s && s->seen) return s->seen;
    if (s && !r->report && s->now) return s->now;
    for (int i = 0; depth < 32 && i < c->bases; i++) {
        if (c->base[i]->kind != VALUE_OWN_CLASS) continue;
        const struct value *v = own_slot(r, c->base[i]->own_class, name, depth + 1);
        if (v) return v;
    }
    return NULL;
}

/* In the library's bases of an own class, the first that has it; else the answer of the first. */
static bool lib_attribute(struct judge_run *r, const struct own_class *c, const char *name,
                          bool on_class, const struct api_def **base, struct api_attribute *out,
                          int depth)
{
    bool any = false;
    for (int i = 0; depth < 32 && i < c->bases; i++) {
        const struct api_def *b = NULL;
        struct api_attribute at;
        if (c->base[i]->kind == VALUE_OWN_CLASS) {
            if (!lib_attribute(r, c->base[i]->own_class, name, on_class, &b, &at, depth + 1))
                continue;
        } else if (c->base[i]->kind == VALUE_CLASS) {
            b = c->base[i]->class_;
            api_attribute(r->api, b, name, on_class, &at);
        } else {
            continue;
        }
        if (!any || at.found == API_FOUND || (out->found == API_ABSENT && at.found != API_ABSENT)) {
            *base = b;
            *out = at;
        }
        any = true;
        if (at.found == API_FOUND) return true;
    }
    return any;
}

/* A class that inherits from `c`, and maybe from others beside it, has the attribute. */
static bool own_heirs_have(struct judge_run *r, const struct own_class *c, const char *name)
{
    for (int i = 0; i < r->in->uses->defs; i++) {
        struct own_class *heir = r->class_of[i];
        if (!heir || heir == c || !judge_own_inherits(heir, c)) continue;
        if (own_slot(r, heir, name, 0) || judge_own_member(r, heir, name, NULL)) return true;
    }
    return false;
}

bool judge_own_lib_find(struct judge_run *r, const struct own_class *c, const char *name,
                        const struct api_def **base, struct api_attribute *out)
{
    return lib_attribute(r, c, name, false, base, out, 0);
}

static const struct value *own_lib_attr(struct frame *f, const struct value *v, const char *name,
                                        int line, bool store, bool on_class)
{
    const struct api_def *base = NULL;
    struct api_attribute at;
    if (!lib_attribute(f->run, v->own_class, name, on_class, &base, &at, 0)) return NULL;
    if (at.found == API_ABSENT && !store && own_heirs_have(f->run, v->own_class, name)) {
        judge_find_undecidable(
            f, JUDGE_ATTRIBUTE, judge_attribute_symbol(f->run, base, name), line, base,
            "the class has no such attribute, but one that inherits from it has");
        return &value_unknown;
    }
    if (at.found == API_ABSENT && judge_own_open(f->run, v->own_class)) {
        if (!store)
            judge_find_undecidable(f, JUDGE_ATTRIBUTE, judge_attribute_symbol(f->run, base, name),
                                   line, base,
                                   "the class has a base or attributes that nobody knows");
        return &value_unknown;
    }
    if (store && at.found != API_FOUND) return &value_unknown;
    return judge_attribute_answer(f, base, name, &at, line, on_class, store, true);
}

const struct value *judge_own_attr(struct frame *f, const struct value *v, const char *name,
                                   int line, const char *via, bool store)
{
    struct judge_run *r = f->run;
    struct own_class *c = v->own_class;
    bool on_class = v->kind == VALUE_OWN_CLASS;
    c->dynamic |= strcmp(name, "__dict__") == 0;
    const struct value *m = on_class ? NULL : own_slot(r, c, name, 0);
    if (m && m->kind != VALUE_UNKNOWN && !store) return slot_value(r, m);
    const struct value *body = judge_own_member(r, c, name, NULL);
    if (body) return own_member_value(f, v, body);
    if (m && !store) return slot_value(r, m);
    const struct value *hint = store ? NULL : judge_hint_for(f, via, NULL);
    if (hint) return judge_attr_of(f, hint, name, line, NULL, false);
    const struct value *lib = own_lib_attr(f, v, name, line, store, on_class);
    if (lib) return lib;
    if (c->named && !store && !m) {
        judge_find_undecidable(f, JUDGE_ATTRIBUTE, judge_run_format(r, "%s.%s", c->name, name),
                               line, NULL,
                               "the class is mixed into another one that is named at run time; "
                               "--receiver self=TYPE would decide it");
    }
    return &value_unknown;
}

const struct value *judge_super_attr(struct frame *f, const struct value *v, const char *name,
                                     int line)
{
    struct own_class *c = v->own_class;
    for (int i = 0; i < c->bases; i++) {
        const struct value *b = c->base[i];
        if (b->kind == VALUE_BROKEN) return b;
        if (b->kind == VALUE_OWN_CLASS) {
            const struct value *m = judge_own_member(f->run, b->own_class, name, NULL);
            if (m) return own_member_value(f, judge_value_own_object(f->run, c), m);
            const struct value self = {.kind = VALUE_OWN_OBJECT, .own_class = b->own_class};
            const struct value *lib = own_lib_attr(f, &self, name, line, false, false);
            if (lib) return lib;
        } else if (b->kind == VALUE_CLASS) {
            const struct value *self = judge_value_object(f->run, b->class_);
            if (judge_attr_has(f, self, name) == 0 && i + 1 < c->bases) continue;
            if (judge_attr_has(f, self, name) == 0 && judge_own_open(f->run, c))
                return &value_unknown;
            return judge_class_attr(f, self, name, line, false);
        } else {
            return &value_unknown;
        }
    }
    return &value_unknown;
}

int judge_own_has(struct frame *f, const struct value *v, const char *name)
{
    struct own_class *c = v->own_class;
    const struct api_def *base = NULL;
    struct api_attribute at;
    if (own_slot(f->run, c, name, 0) || judge_own_member(f->run, c, name, NULL)) return 1;
    if (!lib_attribute(f->run, c, name, v->kind == VALUE_OWN_CLASS, &base, &at, 0)) return -1;
    if (at.found == API_ABSENT) return judge_own_open(f->run, c) ? -1 : 0;
    return at.found == API_FOUND ? 1 : -1;
}
