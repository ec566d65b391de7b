/* judge_baseline.c: the same question put to an older contract that the consumer is known to have
 * fitted: what changed in between explains a break, and shows what still binds but means another
 * thing. */
#include "compat/judge_parts.h"

#include <string.h>

static const char *version_of(const struct api *a)
{
    return a->library.version ? a->library.version : "the baseline";
}

static const struct api_def *old_class(struct judge_run *r, const struct api_def *c)
{
    enum api_found found;
    const struct api_def *d = api_find_class(r->in->baseline, c->path, &found);
    if (d) return d;
    struct api_result res; /* it may have been somewhere else: only under its own path it is it */
    api_find(r->in->baseline, c->path, &res);
    return api_class_of(&res);
}

bool judge_baseline_signatures(struct frame *f, const struct value *callee,
                               struct api_signatures *out)
{
    struct judge_run *r = f->run;
    const struct api *old = r->in->baseline;
    struct api_attribute at;
    struct api_result res;
    *out = (struct api_signatures){.is = API_CALL_UNKNOWN};
    if (!old) return false;
    if (callee->class_) {
        const struct api_def *c = old_class(r, callee->class_);
        if (!c) return false;
        if (callee->kind == VALUE_CLASS || callee->generated) {
            api_constructor(old, c, r->pool, out, r->err);
        } else if (callee->kind == VALUE_OBJECT) {
            api_instance_call(old, c, r->pool, out, r->err);
        } else {
            api_attribute(old, c, callee->def[0]->name, callee->on_class, &at);
            if (at.found != API_FOUND || at.defs == 0 || at.def[0]->kind != API_DEF) return false;
            api_signatures_of(old, at.def, at.defs, true, callee->on_class, r->pool, out, r->err);
        }
    } else if (callee->kind == VALUE_FUNCTION) {
        api_find(old, callee->def[0]->path, &res);
        if (res.found != API_FOUND || res.defs == 0 || res.def[0]->kind != API_DEF) return false;
        api_signatures_of(old, res.def, res.defs, false, false, r->pool, out, r->err);
    }
    return out->is == API_CALLABLE && out->sigs > 0;
}

static const struct api_param *param_named(const struct api_params *p, const char *name)
{
    for (int i = 0; name && i < p->count; i++) {
        if (strcmp(p->param[i].name, name) == 0) return &p->param[i];
    }
    return NULL;
}

static const char *from_to(struct judge_run *r)
{
    return judge_run_format(r, "%s has it, %s has not", version_of(r->in->baseline),
                            version_of(r->api));
}

const char *judge_baseline_explains(struct frame *f, const struct value *callee,
                                    const struct args *a, const struct bound *b)
{
    struct judge_run *r = f->run;
    struct api_signatures s;
    struct bound was;
    const struct api_signature *sig;
    if (!judge_baseline_signatures(f, callee, &s)) return NULL;
    if (!judge_signatures_bind(&s, a, &was, &sig))
        return "did not bind against the baseline either";
    const struct api_param *p = param_named(&sig->params, b->name);
    if (b->problem == BIND_UNEXPECTED && p)
        return judge_run_format(r, "parameter %s removed: %s", b->name, from_to(r));
    if (b->problem == BIND_MISSING && p)
        return judge_run_format(r, "%s is required since %s, optional in %s", b->name,
                                version_of(r->api), version_of(r->in->baseline));
    if (b->problem == BIND_MISSING)
        return judge_run_format(r, "%s is required since %s, not in %s", b->name,
                                version_of(r->api), version_of(r->in->baseline));
    return judge_run_format(r, "took %s in %s", judge_params_text(r, &sig->params),
                            version_of(r->in->baseline));
}

/* ---- what still binds ---- */

static const char *name_at(const struct api_signature *s, const struct bound *b, int i)
{
    return i < BIND_PARAMS && b->to[i] >= 0 ? s->params.param[b->to[i]].name : NULL;
}

/* A parameter under a new name in the same place is a rename; one whose old name is still there,
 * or whose new name was there before, is another parameter. */
static bool shifted(const struct api_signature *old, const struct api_signature *now,
                    const char *was, const char *is)
{
    if (!was || !is || strcmp(was, is) == 0) return false;
    return param_named(&now->params, was) || param_named(&old->params, is) ||
           old->params.count != now->params.count;
}

static void judge_shift(struct frame *f, const char *symbol, const struct args *a,
                        const struct api_signature *old, const struct bound *was,
                        const struct api_signature *now, const struct bound *bound, int line)
{
    for (int i = 0; i < a->count; i++) {
        const char *x = name_at(old, was, i), *y = name_at(now, bound, i);
        if (!shifted(old, now, x, y)) continue;
        struct judge_finding *n = judge_find_broken(
            f, JUDGE_CALL, symbol, line, now->from,
            judge_run_format(f->run, "positional argument %d goes to %s, it was %s in %s", i + 1, y,
                             x, version_of(f->run->in->baseline)));
        if (!n || n->verdict != JUDGE_BROKEN) return;
        n->severity = JUDGE_SHIFTS;
        n->found = judge_params_text(f->run, &old->params);
        n->wanted = judge_params_text(f->run, &now->params);
        n->remedy = judge_run_format(f->run, "pass %s by keyword", x);
        return;
    }
}

static bool given(const struct args *a, const struct api_params *p, const struct bound *b,
                  const char *name)
{
    for (int i = 0; i < a->names; i++) {
        if (strcmp(a->name[i], name) == 0) return true;
    }
    for (int i = 0; i < a->count && i < BIND_PARAMS; i++) {
        if (b->to[i] >= 0 && strcmp(p->param[b->to[i]].name, name) == 0) return true;
    }
    return a->star || a->dstar;
}

static void judge_defaults(struct frame *f, const char *symbol, const struct args *a,
                           const struct api_signature *old, const struct api_signature *now,
                           const struct bound *bound, int line)
{
    const char *text = NULL;
    for (int i = 0; i < now->params.count; i++) {
        const struct api_param *p = &now->params.param[i], *q = param_named(&old->params, p->name);
        if (!q || !p->fallback || !q->fallback || strcmp(p->fallback, q->fallback) == 0) continue;
        if (p->kind == API_STAR || p->kind == API_DSTAR) continue;
        if (given(a, &now->params, bound, p->name)) continue;
        text = judge_run_format(f->run, "%s%s%s: %s -> %s", text ? text : "", text ? ", " : "",
                                p->name, q->fallback, p->fallback);
    }
    if (!text) return;
    struct judge_finding *n = judge_find_undecidable(
        f, JUDGE_CALL, symbol, line, now->from,
        judge_run_format(f->run, "default changed under an omitted argument: %s", text));
    if (n && n->severity == JUDGE_CANNOT_TELL) {
        n->severity = JUDGE_DEFAULT;
        n->remedy = "pass it, if the old value was meant";
    }
}

/* ---- types ---- */

static bool vague(const struct api_type *t)
{
    return !t || t->kind == API_TYPE_OTHER || api_type_is(t, "Any") || api_type_is(t, "object");
}

static bool has_head(const struct api_type *t, const char *name)
{
    if (t->kind == API_TYPE_UNION) {
        for (int i = 0; i < t->args; i++) {
            if (has_head(api_type_arg(t, i), name)) return true;
        }
        return false;
    }
    return (t->kind == API_TYPE_NAME || t->kind == API_TYPE_SUB) &&
           strcmp(judge_last_part(t->name), judge_last_part(name)) == 0;
}

/* No part of one, but None, is a part of the other. */
static bool disjoint(const struct api_type *a, const struct api_type *b)
{
    if (a->kind == API_TYPE_UNION) {
        for (int i = 0; i < a->args; i++) {
            if (!disjoint(api_type_arg(a, i), b)) return false;
        }
        return true;
    }
    if (a->kind != API_TYPE_NAME && a->kind != API_TYPE_SUB) return a->kind == API_TYPE_NONE;
    return !has_head(b, a->name);
}

static void say_type(struct frame *f, enum judge_kind kind, const char *symbol, int line,
                     const struct api_def *d, const char *was, const char *is)
{
    struct judge_finding *n =
        judge_find_undecidable(f, kind, symbol, line, d,
                               judge_run_format(f->run, "type changed: %s in %s, %s now", was,
                                                version_of(f->run->in->baseline), is));
    if (n && n->severity == JUDGE_CANNOT_TELL) n->severity = JUDGE_TYPE;
}

/* What a result may be now and was not: None, or anything. */
static bool lost(const struct api_type *was, const struct api_type *is)
{
    if (vague(was)) return false;
    if (vague(is)) return true;
    return api_type_optional(is) && !api_type_optional(was);
}

static void judge_returns(struct frame *f, const char *symbol, const struct api_signature *old,
                          const struct api_signature *now, int line)
{
    struct judge_run *r = f->run;
    const struct api_type *was = api_type_parse(old->returns, r->pool, r->err),
                          *is = api_type_parse(now->returns, r->pool, r->err);
    if (!was || !now->returns || !is || f->discarded || strcmp(old->returns, now->returns) == 0)
        return;
    if (lost(was, is) || (!vague(was) && disjoint(was, is) && is->kind != API_TYPE_OTHER))
        say_type(f, JUDGE_RESULT, symbol, line, now->from, old->returns, now->returns);
}

/* A call that gave a result and gives something to wait for, or the other way. */
static void judge_async(struct frame *f, const char *symbol, const struct api_signature *old,
                        const struct api_signature *now, int line)
{
    struct judge_run *r = f->run;
    const struct api_def *was = old->from, *is = now->from;
    if (!was || !is || was->kind != API_DEF || is->kind != API_DEF) return;
    if (was->function->async == is->function->async) return;
    judge_find_broken(
        f, JUDGE_CALL, symbol, line, is,
        judge_run_format(r, "%sasync in %s, %sasync now", was->function->async ? "" : "not ",
                         version_of(r->in->baseline), is->function->async ? "" : "not "));
}

void judge_baseline_call(struct frame *f, const struct value *callee, const struct args *a,
                         const struct api_signature *now, const struct bound *bound, int line)
{
    struct api_signatures s;
    struct bound was;
    const struct api_signature *old;
    if (!f->run->report || !judge_baseline_signatures(f, callee, &s)) return;
    if (!judge_signatures_bind(&s, a, &was, &old)) return;
    const char *symbol = judge_callee_symbol(f->run, callee);
    judge_shift(f, symbol, a, old, &was, now, bound, line);
    judge_defaults(f, symbol, a, old, now, bound, line);
    bool made = callee->kind == VALUE_CLASS || callee->generated;
    if (!made) judge_returns(f, symbol, old, now, line);
    if (!made) judge_async(f, symbol, old, now, line);
}

static bool is_property(const struct api_attribute *at)
{
    if (at->defs == 0 || at->def[0]->kind != API_DEF) return false;
    enum api_binding b = at->def[0]->function->binding;
    return b == API_PROPERTY || b == API_CACHED_PROPERTY;
}

static bool is_method(const struct api_attribute *at)
{
    return at->defs > 0 && at->def[0]->kind == API_DEF && !is_property(at);
}

/* Read without a call, a method is no value; called, what a property gives is rarely a function: a
 * type that is none of the plain ones may be one. True where something was said. */
static bool judge_property(struct frame *f, const char *symbol, const char *name,
                           const struct api_attribute *old, const struct api_attribute *now,
                           const struct api_def *d, int line)
{
    static const char *const plain[] = {"int",  "float", "bool",  "str", "bytes",
                                        "list", "dict",  "tuple", "set", "None"};
    struct judge_run *r = f->run;
    bool called = f->called && strcmp(f->called, name) == 0;
    bool read = is_property(old) && is_method(now) && !called;
    if (!read && !(is_method(old) && is_property(now) && called)) return false;
    bool sure = read || !now->type;
    const struct api_type *type = sure ? NULL : api_type_parse(now->type, r->pool, r->err);
    for (size_t i = 0; type && i < sizeof plain / sizeof plain[0]; i++)
        sure |= has_head(type, plain[i]);
    const char *why = judge_run_format(
        r, read ? "a property in %s, a method now" : "a method in %s, a property now",
        version_of(r->in->baseline));
    struct judge_finding *n =
        sure ? judge_find_broken(f, JUDGE_ATTRIBUTE, symbol, line, d, why)
             : judge_find_undecidable(f, JUDGE_ATTRIBUTE, symbol, line, d, why);
    if (n && read && n->verdict == JUDGE_BROKEN) n->severity = JUDGE_SHIFTS;
    if (n && !n->remedy) n->remedy = read ? "call it" : "read it without a call";
    return true;
}

void judge_baseline_attribute(struct frame *f, const struct api_def *c, const char *name,
                              const struct api_attribute *now, int line)
{
    struct judge_run *r = f->run;
    struct api_attribute old;
    if (!r->in->baseline || !r->report) return;
    const struct api_def *d = old_class(r, c);
    if (!d) return;
    api_attribute(r->in->baseline, d, name, false, &old);
    if (old.found != API_FOUND) return;
    const struct api_def *from = now->class_ ? now->class_ : c;
    const char *symbol = judge_run_format(r, "%s.%s", judge_path_dotted(r, c->path), name);
    if (judge_property(f, symbol, name, &old, now, from, line)) return;
    if (!old.type || !now->type || strcmp(old.type, now->type) == 0) return;
    const struct api_type *was = api_type_parse(old.type, r->pool, r->err),
                          *is = api_type_parse(now->type, r->pool, r->err);
    if (was && is && !vague(was) && !vague(is) && disjoint(was, is))
        say_type(f, JUDGE_ATTRIBUTE, symbol, line, from, old.type, now->type);
}

const char *judge_baseline_removed(struct frame *f, const struct api_def *c, const char *name)
{
    struct judge_run *r = f->run;
    struct api_attribute old;
    if (!r->in->baseline) return NULL;
    const struct api_def *d = old_class(r, c);
    if (!d) return NULL;
    api_attribute(r->in->baseline, d, name, false, &old);
    return old.found == API_FOUND ? judge_run_format(r, "removed: %s", from_to(r)) : NULL;
}

/* A name that was one kind of thing and is another. */
void judge_baseline_kind(struct frame *f, const char *symbol, const struct api_def *now, int line)
{
    struct judge_run *r = f->run;
    struct api_result old;
    if (!r->in->baseline || !r->report) return;
    api_find(r->in->baseline, symbol, &old);
    if (old.found != API_FOUND || old.defs != 1 || old.def[0]->kind == now->kind) return;
    static const char *const what[] = {"a function", "a class", "an alias", "a value"};
    const char *was = old.def[0]->kind == API_VALUE && now->kind == API_CLASS
                          ? "an alias or value"
                          : what[old.def[0]->kind];
    struct judge_finding *n =
        judge_find_undecidable(f, JUDGE_IMPORT, symbol, line, now,
                               judge_run_format(r, "type changed: %s in %s, %s now", was,
                                                version_of(r->in->baseline), what[now->kind]));
    if (n && n->severity == JUDGE_CANNOT_TELL) n->severity = JUDGE_TYPE;
}
