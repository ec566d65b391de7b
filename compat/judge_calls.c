/* judge_calls.c: a call of something of the library, bound parameter by parameter against every
 * definition that the name may have: one that binds is enough. */
#include "compat/judge_protocol.h"

#include <string.h>

void judge_signatures_of(struct frame *f, const struct value *callee, struct api_signatures *out)
{
    struct judge_run *r = f->run;
    const struct api *a = r->api;
    *out = (struct api_signatures){.is = API_CALL_UNKNOWN, .why = "what is called is not known"};
    if (callee->kind == VALUE_CLASS || (callee->kind == VALUE_FUNCTION && callee->generated))
        api_constructor(a, callee->class_, r->pool, out, r->err);
    else if (callee->kind == VALUE_OBJECT)
        api_instance_call(a, callee->class_, r->pool, out, r->err);
    else if (callee->kind == VALUE_FUNCTION)
        api_signatures_of(a, callee->def, callee->defs, callee->bound, callee->on_class, r->pool,
                          out, r->err);
    out->open |= callee->open;
}

const char *judge_callee_symbol(struct judge_run *r, const struct value *callee)
{
    if (callee->kind == VALUE_CLASS) return judge_path_dotted(r, callee->class_->path);
    if (callee->kind == VALUE_OBJECT)
        return judge_run_format(r, "%s.__call__", judge_path_dotted(r, callee->class_->path));
    if (callee->kind != VALUE_FUNCTION) return "?";
    if (callee->generated)
        return judge_run_format(r, "%s.__init__", judge_path_dotted(r, callee->class_->path));
    if (callee->class_ && callee->bound)
        return judge_run_format(r, "%s.%s", judge_path_dotted(r, callee->class_->path),
                                callee->def[0]->name);
    return judge_path_dotted(r, callee->def[0]->path);
}

/* The problem that is nearest to binding: a missing parameter says more than a surplus one. */
static int badness(const struct bound *b)
{
    if (b->status == BIND_OK) return 0;
    if (b->status == BIND_UNSURE) return 1;
    return b->problem == BIND_MISSING ? 1 + b->misses : 3;
}

bool judge_signatures_bind(const struct api_signatures *s, const struct args *a,
                           struct bound *bound, const struct api_signature **best)
{
    int least = -1;
    bool written = false;
    for (int i = 0; i < s->sigs; i++) written |= !s->sig[i].overload;
    *best = NULL;
    for (int i = 0; i < s->sigs; i++) {
        struct bound b;
        if (written && s->sig[i].overload) continue;
        judge_bind_args(&s->sig[i].params, a, s->sig[i].ignores_extra, &b);
        if (least >= 0 && badness(&b) >= least) continue;
        least = badness(&b);
        *best = &s->sig[i];
        *bound = b;
    }
    return *best && bound->status != BIND_BAD;
}

/* ---- what is said ---- */

static const char *problem_text(struct judge_run *r, const struct bound *b)
{
    switch (b->problem) {
    case BIND_UNEXPECTED:
        return judge_run_format(r, "unexpected keyword argument %s", b->name);
    case BIND_TWICE:
        return judge_run_format(r, "argument %s is given twice", b->name);
    case BIND_TOO_MANY:
        return judge_run_format(r, "%d positional arguments where at most %d are taken", b->found,
                                b->most);
    case BIND_MISSING:
        if (b->misses > 1)
            return judge_run_format(r, "missing required argument %s and %d more", b->name,
                                    b->misses - 1);
        return judge_run_format(r, "missing required argument %s", b->name);
    default:
        return "does not bind";
    }
}

static const char *call_remedy(struct frame *f, const struct value *callee, const struct args *a,
                               const struct api_signature *sig, const struct bound *b)
{
    const char *since = judge_baseline_explains(f, callee, a, b);
    const char *other = b->problem == BIND_UNEXPECTED
                            ? judge_remedy_keyword(f->run, &sig->params, a, b->name)
                        : b->problem == BIND_MISSING ? judge_run_format(f->run, "pass %s", b->name)
                                                     : NULL;
    if (since && other) return judge_run_format(f->run, "%s; %s", since, other);
    return since ? since : other;
}

static const struct value *call_broken(struct frame *f, const struct value *callee,
                                       const struct args *a, const struct api_signature *sig,
                                       const struct bound *b, int line)
{
    struct judge_run *r = f->run;
    struct judge_finding *n = judge_find_broken(f, JUDGE_CALL, judge_callee_symbol(r, callee), line,
                                                sig->from, problem_text(r, b));
    if (n && !n->found) {
        n->found = judge_args_text(r, a);
        n->wanted = judge_params_text(r, &sig->params);
        n->remedy = call_remedy(f, callee, a, sig, b);
    }
    return judge_value_broken(r, n);
}

static const struct value *wrapped_result(struct judge_run *r, const struct api_def *from,
                                          const struct value *v)
{
    if (from->kind != API_DEF) return v;
    const struct api_function *fn = from->function;
    for (int i = 0; i < fn->decorators.count; i++) {
        const char *d = fn->decorators.text[i];
        if (strstr(d, "contextmanager"))
            return judge_value_generic(r, "ContextManager",
                                       v->kind == VALUE_GENERIC && v->items > 0 ? v->item[0]
                                                                                : &value_unknown);
    }
    if (fn->async && !fn->generator) return judge_value_generic(r, "Coroutine", v);
    return v;
}

static const struct value *call_result(struct frame *f, const struct value *callee,
                                       const struct api_signature *sig, const struct args *a)
{
    struct judge_run *r = f->run;
    if (callee->kind == VALUE_CLASS) return judge_value_exact(r, callee->class_);
    const struct api_def *self = callee->class_;
    const struct value *v = judge_type_from_text(r, sig->returns, self);
    if (v->kind == VALUE_UNKNOWN)
        v = judge_value_unknown_of(r,
                                   judge_run_format(r, "what %s returns was not recorded as a type",
                                                    judge_callee_symbol(r, callee)));
    struct value typed = *wrapped_result(r, sig->from, v);
    struct args *kept = judge_run_take(r, 1, sizeof *kept);
    if (kept) *kept = *a;
    typed.from = sig->from;
    typed.given = kept;
    return judge_value_make(r, typed);
}

/* ---- kinds of callees ---- */

/* Nothing but *args and **kwargs. */
static bool hands_on(const struct api_params *p)
{
    for (int i = 0; i < p->count; i++) {
        if (p->param[i].kind != API_STAR && p->param[i].kind != API_DSTAR) return false;
    }
    return p->count > 0;
}

static const struct value *call_lib(struct frame *f, const struct value *callee,
                                    const struct args *a, int line)
{
    struct judge_run *r = f->run;
    struct api_signatures s;
    struct bound b;
    const struct api_signature *sig;
    judge_signatures_of(f, callee, &s);
    const char *symbol = judge_callee_symbol(r, callee);
    if (s.is != API_CALLABLE || s.sigs == 0) {
        if (s.is == API_CALL_UNKNOWN)
            judge_find_undecidable(f, JUDGE_CALL, symbol, line, NULL, s.why);
        return callee->kind == VALUE_CLASS ? judge_value_exact(r, callee->class_) : &value_unknown;
    }
    if (!judge_signatures_bind(&s, a, &b, &sig)) {
        const struct value *v = &value_unknown;
        const char *other = judge_is_replaced(r, sig->from)   ? "the consumer replaces it"
                            : judge_below_binds(f, callee, a) ? "a class below it takes them"
                                                              : NULL;
        if (other && !s.open)
            judge_find_undecidable(f, JUDGE_CALL, symbol, line, sig->from,
                                   judge_run_format(r, "%s, but %s", problem_text(r, &b), other));
        else if (s.open)
            judge_find_undecidable(f, JUDGE_CALL, symbol, line, sig->from,
                                   judge_run_format(r, "%s, but not every definition is known%s%s",
                                                    problem_text(r, &b), s.why ? ": " : "",
                                                    s.why ? s.why : ""));
        else
            v = call_broken(f, callee, a, sig, &b, line);
        const struct value *typed = call_result(f, callee, sig, a);
        return typed->kind == VALUE_UNKNOWN ? v : typed;
    }
    if (b.status == BIND_OK && a->names > 0 && hands_on(&sig->params))
        judge_find_undecidable(
            f, JUDGE_CALL, symbol, line, sig->from,
            "it takes **kwargs only and hands them on: whether somebody takes these "
            "names is not known");
    else if (b.status == BIND_UNSURE)
        judge_find_undecidable(
            f, JUDGE_CALL, symbol, line, sig->from,
            b.name ? judge_run_format(r, "%s, unless * or ** gives it", problem_text(r, &b))
                   : "more parameters than can be bound");
    else
        judge_find_ok(f, JUDGE_CALL, symbol, line, sig->from);
    if (sig->from->deprecated)
        judge_find_deprecated(f, JUDGE_CALL, symbol, line, sig->from, sig->from->deprecated);
    judge_baseline_call(f, callee, a, sig, &b, line);
    if (callee->kind == VALUE_CLASS) judge_constructed(f, callee->class_, line);
    const struct value *named = judge_named(f, callee, sig, &b, a, line);
    (void)named;
    return call_result(f, callee, sig, a);
}

static const struct value *call_own_class(struct frame *f, const struct value *callee,
                                          const struct args *a, int line)
{
    struct own_class *c = callee->own_class;
    c->made = true;
    const struct api_def *base = judge_own_lib_base(f->run, c);
    bool plain = base && !judge_own_member(f->run, c, "__init__", NULL) &&
                 !judge_own_member(f->run, c, "__new__", NULL) && c->stmt->decorators == 0 &&
                 !judge_own_open(f->run, c);
    if (plain) {
        struct value inherited = {.kind = VALUE_CLASS, .class_ = base};
        struct api_signatures s;
        judge_signatures_of(f, &inherited, &s);
        bool written = s.is == API_CALLABLE && s.sigs > 0 && !s.sig[0].generated;
        if (written) call_lib(f, judge_value_make(f->run, inherited), a, line);
    }
    return judge_value_own_object(f->run, c);
}

static void joined_args(struct judge_run *r, const struct args *first, const struct args *more,
                        struct args *out)
{
    int n = first->count + more->count, m = first->names + more->names;
    *out = *more;
    out->pos = judge_run_take(r, n, sizeof *out->pos);
    out->name = judge_run_take(r, m, sizeof *out->name);
    out->value = judge_run_take(r, m, sizeof *out->value);
    out->count = out->names = 0;
    if (!judge_run_ok(r)) return;
    for (int i = 0; i < n; i++) {
        out->pos[out->count++] = i < first->count ? first->pos[i] : more->pos[i - first->count];
    }
    for (int i = 0; i < more->names; i++) {
        out->name[out->names] = more->name[i];
        out->value[out->names++] = more->value[i];
    }
    for (int i = 0; i < first->names; i++) { /* a later keyword replaces that of partial() */
        bool again = false;
        for (int j = 0; j < more->names; j++) again |= !strcmp(first->name[i], more->name[j]);
        if (again) continue;
        out->name[out->names] = first->name[i];
        out->value[out->names++] = first->value[i];
    }
    out->star |= first->star;
    out->dstar |= first->dstar;
}

const struct value *judge_partial_make(struct frame *f, const struct args *a, int line)
{
    struct judge_run *r = f->run;
    struct api_signatures s;
    struct bound b;
    const struct api_signature *sig;
    if (a->count == 0) return &value_unknown;
    struct args *rest = judge_run_take(r, 1, sizeof *rest);
    if (!rest) return &value_unknown;
    *rest = *a;
    rest->pos = a->pos + 1;
    rest->count = a->count - 1;
    const struct value *callee = a->pos[0];
    bool lib = callee->kind == VALUE_CLASS || callee->kind == VALUE_FUNCTION ||
               callee->kind == VALUE_OBJECT;
    if (lib) {
        struct args open = *rest;
        open.star = open.dstar = true; /* the rest comes later */
        judge_signatures_of(f, callee, &s);
        if (s.is == API_CALLABLE && s.sigs > 0 && !s.open) {
            if (!judge_signatures_bind(&s, &open, &b, &sig))
                return call_broken(f, callee, rest, sig, &b, line);
            judge_find_ok(f, JUDGE_CALL, judge_callee_symbol(r, callee), line, sig->from);
        }
    }
    return judge_value_make(r, (struct value){.kind = VALUE_PARTIAL, .self = callee, .args = rest});
}

static const struct value *call_union(struct frame *f, const struct value *callee,
                                      const struct args *a, const char *via, int line)
{
    const struct value *sum = NULL;
    bool several = false;
    const struct value *only = NULL;
    for (int i = 0; i < callee->items; i++) {
        if (callee->item[i]->kind == VALUE_NONE) continue;
        several = only != NULL;
        only = callee->item[i];
    }
    if (only && !several) return judge_call_value(f, only, a, via, line);
    for (int i = 0; i < callee->items; i++) { /* which one it is cannot be known */
        f->mute++;
        unsigned guards = f->guards;
        f->guards = 0;
        if (callee->item[i]->kind != VALUE_NONE)
            sum = judge_value_join(f->run, sum, judge_call_value(f, callee->item[i], a, via, line));
        f->guards = guards;
        f->mute--;
    }
    return sum ? sum : &value_unknown;
}

const struct value *judge_call_value(struct frame *f, const struct value *callee,
                                     const struct args *a, const char *via, int line)
{
    struct args both;
    switch (callee->kind) {
    case VALUE_CLASS:
    case VALUE_OBJECT:
    case VALUE_FUNCTION:
        return call_lib(f, callee, a, line);
    case VALUE_BROKEN:
        judge_find_fold(f, callee->cause, line);
        return callee;
    case VALUE_OWN_CLASS:
        return call_own_class(f, callee, a, line);
    case VALUE_OWN_FUNCTION:
        return judge_own_result(f, callee->own_function, callee->self);
    case VALUE_PARTIAL:
        joined_args(f->run, callee->args, a, &both);
        return judge_call_value(f, callee->self, &both, via, line);
    case VALUE_UNION:
        return call_union(f, callee, a, via, line);
    case VALUE_GENERIC:
        return strcmp(callee->text, "call") == 0 && callee->items == 1 ? callee->item[0]
                                                                       : &value_unknown;
    case VALUE_UNKNOWN:
        if (callee->text && via)
            judge_find_undecidable(f, JUDGE_CALL, via, line, callee->from,
                                   judge_run_format(f->run,
                                                    "%s; --receiver %s=TYPE would decide it",
                                                    callee->text, via));
        return &value_unknown;
    default:
        return &value_unknown;
    }
}
