/* judge_attrs.c: what x.name is, for each kind of x. */
#include "compat/judge_protocol.h"

#include <string.h>

/* ---- classes and objects of the library ---- */

static const struct value *class_of_call(struct judge_run *r, const struct api_texts *calls)
{
    enum api_found found;
    if (calls->count != 1 || !calls->text[0][0]) return &value_unknown;
    const struct api_def *c = api_find_class(r->api, calls->text[0], &found);
    return c ? judge_value_exact(r, c) : &value_unknown;
}

static const struct value *member_value(struct judge_run *r, const struct api_attribute *at,
                                        const struct api_def *c, bool on_class)
{
    const struct api_def *d = at->defs > 0 ? at->def[0] : NULL;
    if (!d || strcmp(d->name, "__new__") == 0) return &value_unknown;
    if (at->member) return judge_value_object(r, c);
    if (d->kind == API_CLASS)
        return judge_value_make(r, (struct value){.kind = VALUE_CLASS, .class_ = d});
    if (d->kind != API_DEF) return judge_type_from_text(r, at->type, c);
    bool property =
        d->function->binding == API_PROPERTY || d->function->binding == API_CACHED_PROPERTY;
    if (property) return on_class ? &value_unknown : judge_type_from_text(r, at->type, c);
    const struct api_def **kept = judge_run_take(r, at->defs, sizeof *kept);
    if (!kept) return &value_unknown;
    memcpy(kept, at->def, (size_t)at->defs * sizeof *kept);
    return judge_value_make(r, (struct value){.kind = VALUE_FUNCTION,
                                              .def = kept,
                                              .defs = at->defs,
                                              .open = at->open,
                                              .bound = true,
                                              .on_class = on_class,
                                              .class_ = c});
}

static const struct value *attribute_value(struct judge_run *r, const struct api_attribute *at,
                                           const struct api_def *c, const char *name, bool on_class)
{
    const struct value *v = &value_unknown;
    switch (at->origin) {
    case API_FROM_MEMBER:
        return member_value(r, at, c, on_class);
    case API_FROM_FIELD:
        v = judge_type_from_text(r, at->type, c);
        break;
    case API_FROM_INSTANCE:
        v = judge_type_from_text(r, at->type, c);
        if (v->kind == VALUE_UNKNOWN && at->attr) v = class_of_call(r, &at->attr->calls);
        break;
    case API_FROM_GENERATED:
        if (strcmp(name, "__init__") == 0)
            return judge_value_make(r, (struct value){.kind = VALUE_FUNCTION,
                                                      .generated = true,
                                                      .bound = true,
                                                      .on_class = on_class,
                                                      .class_ = c});
        break;
    default:
        break;
    }
    return v;
}

const char *judge_attribute_symbol(struct judge_run *r, const struct api_def *c, const char *name)
{
    return judge_run_format(r, "%s.%s", judge_path_dotted(r, c->path), name);
}

static const struct api_def *provider_of(const struct api_attribute *at, const struct api_def *c)
{
    if (at->defs > 0) return at->def[0];
    return at->class_ ? at->class_ : c;
}

/* Of a torch.nn.Module only what is called, and has gone or is there under a name like it, is
 * proven to be missing. */
static bool may_register(struct frame *f, const struct api_def *c, const char *name,
                         const struct api_attribute *at)
{
    struct api_mro mro;
    api_mro(f->run->api, c, &mro);
    if (!(mro.traits & API_TRAIT_MODULE) || judge_baseline_removed(f, c, name)) return false;
    if (!f->called || strcmp(f->called, name) != 0 || at->nows == 0) return true;
    struct api_attribute near;
    api_attribute(f->run->api, c, judge_last_part(at->now[0]), false, &near);
    return near.found != API_FOUND || near.defs == 0 || near.def[0]->kind != API_DEF;
}

static const struct value *attribute_absent(struct frame *f, const struct api_def *c,
                                            const char *name, const struct api_attribute *at,
                                            int line, bool store, bool exact)
{
    struct judge_run *r = f->run;
    if (store) return &value_unknown;
    const char *below = exact ? NULL : judge_below_has(f, c, name);
    if (below) {
        judge_find_undecidable(f, JUDGE_ATTRIBUTE, judge_attribute_symbol(r, c, name), line, c,
                               judge_run_format(r, "%s has no %s, but %s",
                                                judge_path_dotted(r, c->path), name, below));
        return &value_unknown;
    }
    const char *cls = judge_path_dotted(r, c->path);
    if (judge_set_somewhere(r, c, name)) {
        judge_find_undecidable(
            f, JUDGE_ATTRIBUTE, judge_attribute_symbol(r, c, name), line, c,
            "the class has no such attribute, but the consumer sets one of that name");
        return &value_unknown;
    }
    if (!at->only_init && may_register(f, c, name, at)) {
        judge_find_undecidable(
            f, JUDGE_ATTRIBUTE, judge_attribute_symbol(r, c, name), line, c,
            "no such attribute, but a module may register parameters, buffers and "
            "submodules of any name");
        return &value_unknown;
    }
    const char *why =
        at->only_init
            ? judge_run_format(r, "%s is an InitVar of %s: a parameter, no attribute", name, cls)
            : judge_run_format(r, "%s has no attribute %s", cls, name);
    struct judge_finding *n =
        judge_find_broken(f, JUDGE_ATTRIBUTE, judge_attribute_symbol(r, c, name), line, c, why);
    if (!n) return &value_unknown;
    if (n->verdict == JUDGE_BROKEN && !n->remedy)
        n->remedy = judge_remedy_moved(r, at->now, at->nows, name);
    const char *since = judge_baseline_removed(f, c, name);
    if (n->verdict == JUDGE_BROKEN && since)
        n->remedy = n->remedy ? judge_run_format(r, "%s; %s", since, n->remedy) : since;
    return judge_value_broken(r, n);
}

static const struct value *attribute_found(struct frame *f, const struct api_def *c,
                                           const char *name, const struct api_attribute *at,
                                           int line, bool on_class, bool store, bool exact)
{
    struct judge_run *r = f->run;
    const char *symbol = judge_attribute_symbol(r, c, name);
    const struct api_def *d = provider_of(at, c);
    if (store && judge_frozen(f, at->class_ ? at->class_ : c, at, symbol, line))
        return &value_unknown;
    if (store && at->read_only && (exact || !judge_below_has(f, c, name))) {
        judge_find_broken(f, JUDGE_ATTRIBUTE, symbol, line, d,
                          "a property without a setter is assigned");
        return &value_unknown;
    }
    struct judge_finding *n = judge_find_ok(f, JUDGE_ATTRIBUTE, symbol, line, d);
    if (n && at->line > 0 && at->defs == 0) n->provider_line = at->line;
    const char *old = at->defs > 0 && at->def[0]->deprecated ? at->def[0]->deprecated
                      : at->field                            ? at->field->deprecated
                                                             : NULL;
    if (old) judge_find_deprecated(f, JUDGE_ATTRIBUTE, symbol, line, d, old);
    if (!store && !on_class) judge_baseline_attribute(f, c, name, at, line);
    return attribute_value(r, at, c, name, on_class);
}

const struct value *judge_attribute_answer(struct frame *f, const struct api_def *c,
                                           const char *name, const struct api_attribute *at,
                                           int line, bool on_class, bool store, bool exact)
{
    struct judge_run *r = f->run;
    if (at->found == API_FOUND)
        return attribute_found(f, c, name, at, line, on_class, store, exact);
    if (at->found == API_ABSENT) return attribute_absent(f, c, name, at, line, store, exact);
    const char *why = at->why ? at->why : "a base of the class is not known";
    if (!store) {
        const char *since = judge_baseline_removed(f, c, name);
        if (since && at->found == API_UNKNOWN) {
            struct judge_finding *n =
                judge_find_broken(f, JUDGE_ATTRIBUTE, judge_attribute_symbol(r, c, name), line, c,
                                  judge_run_format(r, "%s has no attribute %s any more",
                                                   judge_path_dotted(r, c->path), name));
            if (n && n->verdict == JUDGE_BROKEN) n->remedy = since;
            return n ? judge_value_broken(r, n) : &value_unknown;
        }
        judge_find_undecidable(f, JUDGE_ATTRIBUTE, judge_attribute_symbol(r, c, name), line, c,
                               why);
    }
    return &value_unknown;
}

const struct value *judge_class_attr(struct frame *f, const struct value *v, const char *name,
                                     int line, bool store)
{
    struct api_attribute at;
    bool on_class = v->kind == VALUE_CLASS;
    api_attribute(f->run->api, v->class_, name, on_class, &at);
    const struct value *got = judge_attribute_answer(f, v->class_, name, &at, line, on_class, store,
                                                     on_class || v->exact);
    if (got->kind != VALUE_FUNCTION || !v->exact) return got;
    struct value method = *got;
    method.exact = true;
    return judge_value_make(f->run, method);
}

/* ---- containers and the rest ---- */

static const struct value *call_giving(struct judge_run *r, const struct value *result)
{
    return judge_value_generic(r, "call", result);
}

static const struct value *generic_attr(struct frame *f, const struct value *v, const char *name)
{
    static const struct {
        const char *kind, *name, *gives;
        int arg; /* of the container; -1: the container itself */
    } methods[] = {
        {"dict", "get", NULL, 1},        {"dict", "pop", NULL, 1},
        {"dict", "setdefault", NULL, 1}, {"dict", "values", "ValuesView", 1},
        {"dict", "keys", "KeysView", 0}, {"Dict", "values", "ValuesView", 1},
        {"dict", "copy", NULL, -1},      {"Mapping", "values", "ValuesView", 1},
        {"Mapping", "get", NULL, 1},     {"list", "pop", NULL, 0},
        {"list", "copy", NULL, -1},      {"deque", "popleft", NULL, 0},
        {"deque", "pop", NULL, 0},       {"set", "pop", NULL, 0},
        {"set", "copy", NULL, -1},       {"Future", "result", NULL, 0},
    };
    if (strcmp(name, "items") == 0 && v->items == 2) {
        struct value view = {
            .kind = VALUE_GENERIC, .text = "ItemsView", .item = v->item, .items = v->items};
        return call_giving(f->run, judge_value_make(f->run, view));
    }
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        if (strcmp(v->text, methods[i].kind) != 0 || strcmp(name, methods[i].name) != 0) continue;
        const struct value *got = methods[i].arg < 0          ? v
                                  : methods[i].arg < v->items ? v->item[methods[i].arg]
                                                              : &value_unknown;
        return call_giving(
            f->run, methods[i].gives ? judge_value_generic(f->run, methods[i].gives, got) : got);
    }
    return &value_unknown;
}

static const struct value *union_attr(struct frame *f, const struct value *v, const char *name,
                                      int line, const char *via, bool store)
{
    const struct value *sum = NULL, *lacks = NULL;
    for (int i = 0; i < v->items; i++) {
        if (v->item[i]->kind == VALUE_NONE) continue;
        if (judge_attr_has(f, v->item[i], name) == 0) {
            lacks = lacks ? lacks : v->item[i];
            continue;
        }
        const struct value *one = v->item[i]->kind == VALUE_UNKNOWN
                                      ? &value_unknown
                                      : judge_attr_of(f, v->item[i], name, line, via, store);
        sum = judge_value_join(f->run, sum, one);
    }
    if (sum) return lacks ? judge_value_join(f->run, sum, &value_unknown) : sum;
    return lacks ? judge_attr_of(f, lacks, name, line, via, store) : &value_unknown;
}

static const struct value *module_attr(struct frame *f, const struct value *v, const char *name,
                                       int line)
{
    struct api_result res;
    if (v->module->compiled) return &value_unknown;
    api_find_in(f->run->api, v->module, name, &res);
    return judge_value_of_result(f, &res, judge_run_format(f->run, "%s.%s", v->module->name, name),
                                 JUDGE_ATTRIBUTE, line);
}

static const struct value *own_module_attr(struct frame *f, const struct value *v, const char *name)
{
    bool unknown = false;
    judge_module_run(f->run, v->own_module);
    const struct value *m = judge_module_name(f->run, v->own_module, name, &unknown);
    if (m) return m;
    struct own_module *sub = judge_own_module_find(
        f->run, judge_run_format(f->run, "%s.%s", v->own_module->uses->name, name));
    if (!sub) return &value_unknown;
    judge_module_run(f->run, sub);
    return judge_value_make(f->run, (struct value){.kind = VALUE_OWN_MODULE, .own_module = sub});
}

static const struct value *unknown_attr(struct frame *f, const struct value *v, const char *name,
                                        int line, const char *via, bool store)
{
    if (v->text && !store && via)
        judge_find_undecidable(
            f, JUDGE_ATTRIBUTE, judge_run_format(f->run, "%s.%s", via, name), line, v->from,
            judge_run_format(f->run, "%s; --receiver %s%s%s=TYPE would decide it", v->text,
                             f->function && f->function->stmt ? f->function->stmt->name : "",
                             f->function && f->function->stmt ? ":" : "", via));
    return &value_unknown;
}

const struct value *judge_attr_of(struct frame *f, const struct value *v, const char *name,
                                  int line, const char *via, bool store)
{
    switch (v->kind) {
    case VALUE_UNKNOWN:
        return unknown_attr(f, v, name, line, via, store);
    case VALUE_BROKEN:
        judge_find_fold(f, v->cause, line);
        return v;
    case VALUE_OUTSIDE:
        return judge_value_of_kind(f->run, VALUE_OUTSIDE,
                                   judge_run_format(f->run, "%s.%s", v->text, name));
    case VALUE_MODULE:
        return module_attr(f, v, name, line);
    case VALUE_CLASS:
    case VALUE_OBJECT:
        return judge_class_attr(f, v, name, line, store);
    case VALUE_OWN_MODULE:
        return own_module_attr(f, v, name);
    case VALUE_OWN_CLASS:
    case VALUE_OWN_OBJECT:
        return judge_own_attr(f, v, name, line, via, store);
    case VALUE_SUPER:
        return judge_super_attr(f, v, name, line);
    case VALUE_UNION:
        return union_attr(f, v, name, line, via, store);
    case VALUE_GENERIC:
        return generic_attr(f, v, name);
    case VALUE_PROBE:
        return strcmp(name, "parameters") == 0
                   ? judge_value_make(
                         f->run, (struct value){.kind = VALUE_PROBE, .self = v->self, .number = 1})
                   : &value_unknown;
    case VALUE_VERSION:
        if (strcmp(name, "release") == 0)
            return judge_value_of_kind(f->run, VALUE_TUPLE_VERSION, v->text);
        if (judge_version_part(v->text, name) >= 0)
            return judge_value_make(
                f->run,
                (struct value){.kind = VALUE_NUMBER, .number = judge_version_part(v->text, name)});
        return strcmp(name, "base_version") == 0 || strcmp(name, "public") == 0 ? v
                                                                                : &value_unknown;
    default:
        return &value_unknown;
    }
}

/* ---- questions that say nothing ---- */

int judge_attr_has(struct frame *f, const struct value *v, const char *name)
{
    struct api_attribute at;
    struct api_result res;
    int any = 0;
    switch (v->kind) {
    case VALUE_CLASS:
    case VALUE_OBJECT:
        api_attribute(f->run->api, v->class_, name, v->kind == VALUE_CLASS, &at);
        return at.found == API_FOUND ? 1 : at.found == API_ABSENT ? 0 : -1;
    case VALUE_MODULE:
        api_find_in(f->run->api, v->module, name, &res);
        return res.found == API_FOUND ? 1 : res.found == API_ABSENT ? 0 : -1;
    case VALUE_OWN_CLASS:
    case VALUE_OWN_OBJECT:
        return judge_own_has(f, v, name);
    case VALUE_UNION:
        for (int i = 0; i < v->items; i++) {
            if (v->item[i]->kind == VALUE_NONE) continue;
            if (judge_attr_has(f, v->item[i], name) != 0) any = -1;
        }
        return any;
    default:
        return -1;
    }
}

const struct value *judge_attr_quiet(struct frame *f, const struct value *v, const char *name)
{
    struct frame quiet = *f;
    bool report = f->run->report;
    quiet.guards = 0;
    quiet.mute++;
    f->run->report = false;
    const struct value *got = judge_attr_of(&quiet, v, name, 0, NULL, false);
    f->run->report = report;
    return got;
}
