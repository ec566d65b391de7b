/* judge_below.c: what a variable is said to be is an upper bound: the object may be of a class
 * below it, the library's or the consumer's, or of any class where the bound is a Protocol. */
#include "compat/judge_parts.h"

#include <string.h>

enum { BELOW_MOST = 512 };

static const struct api_def *own_below(struct judge_run *r, const struct own_class *c,
                                       const struct api_def *base)
{
    const struct api_def *lib = c ? judge_own_lib_base(r, c) : NULL;
    return lib && api_inherits(r->api, lib, base->path) ? lib : NULL;
}

/* A class of the consumer that stands in for `c` without inheriting from it: it has a method that
 * `c` has too. */
static bool alike(struct judge_run *r, struct own_class *own, const struct api_def *c)
{
    const struct api_names *names = &c->class_->members;
    for (int i = 0; i < names->count; i++) {
        if (names->name[i].name[0] != '_' && judge_own_member(r, own, names->name[i].name, NULL))
            return true;
    }
    return false;
}

static bool is_protocol(struct judge_run *r, const struct api_def *c)
{
    struct api_mro mro;
    api_mro(r->api, c, &mro);
    return (mro.traits & API_TRAIT_PROTOCOL) != 0;
}

/* A factory whose constructor only raises: nothing is ever an instance of it. */
static bool never_made(struct judge_run *r, const struct api_def *c)
{
    struct api_attribute at;
    api_attribute(r->api, c, "__init__", false, &at);
    bool written = at.found == API_FOUND && at.defs > 0 && at.def[0]->kind == API_DEF;
    if (!written || at.def[0]->function->shapes == 0) return false;
    for (int i = 0; i < at.def[0]->function->shapes; i++) {
        if (strcmp(at.def[0]->function->shape[i].shape, "raise") != 0) return false;
    }
    return true;
}

const char *judge_below_has(struct frame *f, const struct api_def *c, const char *name)
{
    struct judge_run *r = f->run;
    const struct api_def *list[BELOW_MOST];
    if (!r->report) return "not asked in this pass";
    if (is_protocol(r, c)) return "it is a protocol: the object may be of any class";
    if (never_made(r, c)) return "nothing is ever an instance of it";
    if (c->class_->members.count + c->class_->fields + c->class_->attrs == 0)
        return "the class only marks: what it marks may have it";
    int n = api_subclasses(r->api, c, list, BELOW_MOST);
    for (int i = 0; i < n; i++) {
        struct api_attribute at;
        api_attribute(r->api, list[i], name, false, &at);
        if (at.found != API_ABSENT)
            return judge_run_format(r, "the object may be a %s",
                                    judge_path_dotted(r, list[i]->path));
    }
    if (n == BELOW_MOST) return "there are many classes below it";
    for (int i = 0; i < r->in->uses->defs; i++) {
        struct own_class *own = r->class_of[i];
        if (!own) continue;
        struct value v = {.kind = VALUE_OWN_OBJECT, .own_class = own};
        bool has = own_below(r, own, c) ? judge_attr_has(f, &v, name) != 0
                                        : judge_attr_has(f, &v, name) == 1;
        if (has) return judge_run_format(r, "the object may be a %s", own->name);
    }
    return NULL;
}

static bool own_binds(struct judge_run *r, struct own_class *c, const char *name,
                      const struct args *a)
{
    const struct value *m = judge_own_member(r, c, name, NULL);
    if (!m) return false;
    if (m->kind != VALUE_OWN_FUNCTION || m->own_function->decorated) return true;
    struct bound b;
    struct api_params p = judge_own_params(r, m->own_function, !m->own_function->is_static);
    judge_bind_args(&p, a, false, &b);
    return b.status != BIND_BAD;
}

bool judge_below_binds(struct frame *f, const struct value *callee, const struct args *a)
{
    struct judge_run *r = f->run;
    const struct api_def *c = callee->class_;
    bool method = callee->kind == VALUE_FUNCTION && c && callee->bound && !callee->exact &&
                  !callee->on_class && !callee->generated;
    if (!method || !r->report) return false;
    const char *name = callee->def[0]->name;
    if (is_protocol(r, c) || never_made(r, c)) return true;
    for (int i = 0; i < r->in->uses->defs; i++) {
        struct own_class *own = r->class_of[i];
        if (own && (own_below(r, own, c) || alike(r, own, c)) && own_binds(r, own, name, a))
            return true;
    }
    return false;
}
