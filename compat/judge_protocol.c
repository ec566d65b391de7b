/* judge_protocol.c: see judge_protocol.h. */
#include "compat/judge_protocol.h"

#include <string.h>

/* ---- kinds of things ---- */

/* A function as it is written: nothing around it that may make something else of it. */
static const struct api_def *plain_function(const struct value *v)
{
    bool one = v->kind == VALUE_FUNCTION && !v->generated && !v->open && v->defs == 1;
    const struct api_def *d = one && v->def[0]->kind == API_DEF ? v->def[0] : NULL;
    return d && !d->function->wrapped && d->function->decorators.count == 0 && !d->when.count
               ? d
               : NULL;
}

/* What the call that gave `v` ran, where it is a generator function. */
static const struct api_def *generator_of(const struct value *v)
{
    const struct api_def *d = v->from && v->from->kind == API_DEF ? v->from : NULL;
    const struct api_function *fn = d ? d->function : NULL;
    return fn && fn->generator && !fn->wrapped && !fn->async && fn->decorators.count == 0 ? d
                                                                                          : NULL;
}

static const char *dotted(struct judge_run *r, const struct api_def *d)
{
    return judge_path_dotted(r, d->path);
}

/* Other than `but`; NULL: any. */
static bool has_metaclass(const struct api_mro *mro, const char *but)
{
    for (int i = 0; i < mro->classes; i++) {
        const struct api_class *c = mro->class_[i]->class_;
        for (int k = 0; k < c->keywords; k++) {
            if (strcmp(c->keyword[k].name, "metaclass") == 0 &&
                !(but && strcmp(judge_last_part(c->keyword[k].value), but) == 0))
                return true;
        }
    }
    return false;
}

/* ---- calls that nobody writes ---- */

void judge_decorated(struct frame *f, const struct value *v, const struct value *made,
                     const struct expr *decorator)
{
    struct api_signatures s;
    if (v->kind != VALUE_CLASS && v->kind != VALUE_OBJECT && v->kind != VALUE_FUNCTION) return;
    judge_signatures_of(f, v, &s);
    if (s.is != API_CALLABLE || s.sigs == 0) return;
    const struct args a = {.pos = &made, .count = 1, .call = decorator};
    judge_call_value(f, v, &a, judge_expr_path(f->run, decorator), decorator->line);
}

void judge_constructed(struct frame *f, const struct api_def *c, int line)
{
    struct judge_run *r = f->run;
    const struct api_def *list[API_MRO];
    struct api_mro mro;
    struct api_attribute at;
    bool open = false;
    api_mro(r->api, c, &mro);
    if (has_metaclass(&mro, "ABCMeta") || mro.unknown) return;
    api_attribute(r->api, c, "__new__", true, &at); /* may make something else */
    if (at.found == API_FOUND && at.origin == API_FROM_MEMBER) return;
    int n = api_abstract(r->api, c, list, &open);
    if (n == 0 || open) return;
    struct judge_finding *said = judge_find_broken(
        f, JUDGE_ABSTRACT, judge_run_format(r, "%s.%s", dotted(r, c), list[0]->name), line, list[0],
        judge_run_format(r, "%s is abstract and cannot be made: %s%s", dotted(r, c), list[0]->name,
                         n > 1 ? " and others have no body" : " has no body"));
    if (said && !said->remedy) said->remedy = "make one of the classes below it";
}

/* ---- lookups ---- */

const struct value *judge_enum_item(struct frame *f, const struct value *v,
                                    const struct value *index, int line)
{
    struct api_mro mro;
    if (v->kind != VALUE_CLASS || index->kind != VALUE_STR) return NULL;
    api_mro(f->run->api, v->class_, &mro);
    if (!(mro.traits & API_TRAIT_ENUM) || has_metaclass(&mro, NULL)) return NULL;
    return judge_attr_of(f, v, index->text, line, NULL, false);
}

void judge_generator(struct frame *f, const struct value *v, const char *use, int line)
{
    struct judge_run *r = f->run;
    const struct api_def *d = generator_of(v);
    if (!d) return;
    struct judge_finding *n =
        judge_find_broken(f, JUDGE_RESULT, dotted(r, d), line, d,
                          judge_run_format(r, "returns a generator, which %s", use));
    if (n && !n->remedy) n->remedy = "make a list of it";
}

bool judge_frozen(struct frame *f, const struct api_def *c, const struct api_attribute *at,
                  const char *symbol, int line)
{
    const struct api_class *k = c->class_;
    bool frozen = false;
    struct api_attribute set;
    for (int i = 0; i < k->decorators.count; i++) {
        const char *d = k->decorators.text[i];
        frozen |= strncmp(d, "dataclasses.dataclass(", 22) == 0 && strstr(d, "frozen=True");
    }
    if (!frozen || !at->field) return false;
    api_attribute(f->run->api, c, "__setattr__", false, &set);
    if (set.found == API_FOUND && set.origin == API_FROM_MEMBER) return false;
    judge_find_broken(f, JUDGE_ATTRIBUTE, symbol, line, c,
                      "a field of a frozen dataclass is assigned");
    return true;
}

/* ---- bases and exceptions ---- */

void judge_inherited(struct frame *f, const struct value *v, int line)
{
    const struct api_def *d = plain_function(v);
    if (d)
        judge_find_broken(f, JUDGE_OVERRIDE, dotted(f->run, d), line, d,
                          "a function, inherited from as a class");
}

void judge_caught(struct frame *f, const struct expr *type)
{
    struct api_mro mro;
    for (int i = 0; type->kind == EXPR_TUPLE && i < type->items; i++)
        judge_caught(f, type->item[i]);
    if (type->kind == EXPR_TUPLE) return;
    const struct value *v = judge_eval(f, type);
    const struct api_def *d = plain_function(v);
    if (v->kind == VALUE_CLASS) {
        api_mro(f->run->api, v->class_, &mro);
        bool other = mro.outsides == 0 && mro.traits == 0 && !mro.unknown && !mro.broken;
        d = other && !has_metaclass(&mro, NULL) ? v->class_ : NULL;
    }
    if (d)
        judge_find_broken(f, JUDGE_ATTRIBUTE, dotted(f->run, d), type->line, d,
                          v->kind == VALUE_CLASS ? "a class that is no exception is caught"
                                                 : "a function is caught as an exception");
}

/* ---- with, for ---- */

static bool manages(const struct api_def *d)
{
    const struct api_texts *t = &d->function->decorators;
    for (int i = 0; i < t->count; i++) {
        if (strstr(t->text[i], "contextmanager")) return true;
    }
    return false;
}

/* It was one for `with` where the consumer is known to work; what it gives now is not known. */
static void judge_managed(struct frame *f, const struct value *v, int line)
{
    struct judge_run *r = f->run;
    struct api_result old;
    if (!r->in->baseline || !r->report || !v->from || v->from->kind != API_DEF) return;
    api_find(r->in->baseline, v->from->path, &old);
    if (old.found != API_FOUND || old.defs != 1 || old.def[0]->kind != API_DEF) return;
    if (!manages(old.def[0]) || manages(v->from) || v->kind != VALUE_UNKNOWN) return;
    struct judge_finding *n = judge_find_undecidable(
        f, JUDGE_RESULT, dotted(r, v->from), line, v->from,
        judge_run_format(r, "a context manager in %s by its decorator, which it has not now",
                         r->in->baseline->library.version ? r->in->baseline->library.version
                                                          : "the baseline"));
    if (n && n->severity == JUDGE_CANNOT_TELL) n->severity = JUDGE_TYPE;
}

void judge_entered(struct frame *f, const struct value *v, bool async, int line)
{
    if (generator_of(v)) {
        judge_generator(f, v, "is no context manager", line);
        return;
    }
    judge_managed(f, v, line);
    const char *name = async ? "__aenter__" : "__enter__",
               *other = async ? "__enter__" : "__aenter__";
    if (v->kind == VALUE_OBJECT && v->exact && judge_attr_has(f, v, name) == 0 &&
        judge_attr_has(f, v, other) == 1)
        judge_attr_of(f, v, name, line, NULL, false);
}

void judge_iterated(struct frame *f, const struct value *v, int line)
{
    if (v->kind == VALUE_OBJECT && v->exact && judge_attr_has(f, v, "__iter__") == 0 &&
        judge_attr_has(f, v, "__getitem__") == 0)
        judge_attr_of(f, v, "__iter__", line, NULL, false);
}
