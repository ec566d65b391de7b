/* judge_overrides.c: the other direction: the library calls the consumer's subclasses. An override
 * must take what the base declares: by position, whatever its parameters are called, and
 * keyword-only ones by name. */
#include "compat/judge_parts.h"

#include "core/text.h"

#include <string.h>

/* ---- parameters ---- */

static bool has_rest(const struct api_params *p)
{
    for (int i = 0; i < p->count; i++) {
        if (p->param[i].kind == API_STAR || p->param[i].kind == API_DSTAR) return true;
    }
    return false;
}

/* A call as the base declares it, with all that it allows or with the least. */
static struct args call_of(struct judge_run *r, const struct api_params *p, bool all)
{
    struct args a = {.pos = judge_run_take(r, p->count, sizeof *a.pos),
                     .name = judge_run_take(r, p->count, sizeof *a.name),
                     .value = judge_run_take(r, p->count, sizeof *a.value)};
    for (int i = 0; a.pos && a.name && a.value && i < p->count; i++) {
        const struct api_param *q = &p->param[i];
        if (q->fallback && !all) continue;
        if (q->kind == API_POS || q->kind == API_ANY) a.pos[a.count++] = &value_unknown;
        if (q->kind == API_KW) {
            a.name[a.names] = q->name;
            a.value[a.names++] = &value_unknown;
        }
    }
    return a;
}

/* The first parameter of the base that is left over when it is called with everything. */
static const char *surplus(const struct api_params *base, const struct bound *b)
{
    int at = 0;
    if (b->name) return b->name;
    for (int i = 0; i < base->count; i++) {
        if (base->param[i].kind != API_POS && base->param[i].kind != API_ANY) continue;
        if (at++ == b->most) return base->param[i].name;
    }
    return "an argument";
}

static bool named(const struct api_params *p, const char *name)
{
    for (int i = 0; name && i < p->count; i++) {
        if (strcmp(p->param[i].name, name) == 0) return true;
    }
    return false;
}

static int positions(const struct api_params *p)
{
    int n = 0;
    for (int i = 0; i < p->count; i++) n += p->param[i].kind <= API_ANY;
    return n;
}

/* The base passes it by no name and in no place. */
static bool never_passed(const struct api_params *own, const struct api_params *base,
                         const char *name)
{
    int at = 0;
    for (int i = 0; i < own->count; i++) {
        if (strcmp(own->param[i].name, name) == 0) break;
        at += own->param[i].kind <= API_ANY;
    }
    return !named(base, name) && at >= positions(base);
}

static const char *misfit(struct judge_run *r, const struct api_params *own,
                          const struct api_params *base, const char *what, bool *sure)
{
    struct bound b;
    struct args least = call_of(r, base, false), most = call_of(r, base, true);
    judge_bind_args(own, &least, false, &b);
    if (b.status == BIND_BAD && b.problem == BIND_MISSING) {
        *sure = never_passed(own, base, b.name);
        return judge_run_format(r, "%s requires %s, which the library %s", what, b.name,
                                *sure ? "does not pass" : "need not pass");
    }
    if (b.status == BIND_BAD) {
        *sure = true;
        return judge_run_format(r, "%s does not take %s, which the library passes", what,
                                surplus(base, &b));
    }
    judge_bind_args(own, &most, false, &b);
    *sure = false;
    if (b.status != BIND_BAD) return NULL;
    return judge_run_format(r, "%s does not take %s, which the library may pass", what,
                            surplus(base, &b));
}

static void judge_params(struct frame *f, const struct own_function *fn,
                         const struct api_params *own, const struct api_signature *base,
                         const char *symbol, int line, bool patched)
{
    struct judge_run *r = f->run;
    bool sure = false;
    if (has_rest(&base->params)) return;
    const char *why =
        misfit(r, own, &base->params, patched ? "the replacement" : "the override", &sure);
    if (!why) {
        judge_find_ok(f, JUDGE_OVERRIDE, symbol, line, base->from);
        return;
    }
    if (sure && patched && fn->stmt->name[0] == '_') {
        sure = false;
        why = judge_run_format(r, "%s, but who calls it may be replaced too", why);
    }
    if (sure && !patched && judge_called_by_name(r, fn->stmt->name)) {
        sure = false;
        why = judge_run_format(r, "%s, but the consumer calls it itself", why);
    }
    struct judge_finding *n =
        sure ? judge_find_broken(f, JUDGE_OVERRIDE, symbol, line, base->from, why)
             : judge_find_undecidable(f, JUDGE_OVERRIDE, symbol, line, base->from, why);
    if (!n || n->found) return;
    n->found = judge_params_text(r, own);
    n->wanted = judge_params_text(r, &base->params);
}

/* ---- results ---- */

/* Is there such a statement in the body, nested functions and classes left out? */
static bool has_stmt(const struct block *b, bool (*is)(const struct stmt *s))
{
    for (int i = 0; i < b->stmts; i++) {
        const struct stmt *s = &b->stmt[i];
        if (s->kind == STMT_DEF || s->kind == STMT_CLASS) continue;
        if (is(s) || has_stmt(&s->body, is) || has_stmt(&s->other, is) || has_stmt(&s->last, is))
            return true;
        for (int j = 0; j < s->handlers; j++) {
            if (has_stmt(&s->handler[j].body, is)) return true;
        }
        for (int j = 0; j < s->branches; j++) {
            if (has_stmt(&s->branch[j].body, is)) return true;
        }
    }
    return false;
}

static bool is_return(const struct stmt *s)
{
    return s->kind == STMT_RETURN;
}

static bool is_break(const struct stmt *s)
{
    return s->kind == STMT_BREAK;
}

static bool is_return_of_value(const struct stmt *s)
{
    return is_return(s) && s->value &&
           !(s->value->kind == EXPR_CONST && s->value->value == CONST_NONE);
}

static bool is_const(const struct expr *e, enum const_kind value)
{
    return e->kind == EXPR_CONST && e->value == value;
}

static bool ends(const struct block *b);

static bool all_end(const struct stmt *s)
{
    bool all = ends(&s->body) || ends(&s->other);
    for (int i = 0; i < s->handlers; i++) all &= ends(&s->handler[i].body);
    return all || ends(&s->last);
}

static bool branches_end(const struct stmt *s)
{
    bool all = s->branches > 0;
    for (int i = 0; i < s->branches; i++) all &= ends(&s->branch[i].body);
    return all;
}

/* Nobody gets behind the block, as far as its form shows: what could be read either way ends. */
static bool ends(const struct block *b)
{
    for (int i = 0; i < b->stmts; i++) {
        const struct stmt *s = &b->stmt[i];
        bool leaves = s->kind == STMT_RAISE || s->kind == STMT_RETURN;
        if (s->kind == STMT_IF) leaves = ends(&s->body) && ends(&s->other);
        if (s->kind == STMT_WITH) leaves = ends(&s->body);
        if (s->kind == STMT_TRY) leaves = all_end(s);
        if (s->kind == STMT_MATCH) leaves = branches_end(s);
        if (s->kind == STMT_ASSERT) leaves = is_const(s->value, CONST_FALSE);
        if (s->kind == STMT_WHILE)
            leaves = is_const(s->value, CONST_TRUE) && !has_stmt(&s->body, is_break);
        if (leaves) return true;
    }
    return false;
}

/* It only raises, or goes on for ever. */
static bool never_returns(const struct block *b)
{
    return ends(b) && !has_stmt(b, is_return);
}

/* A body that only says that it has none: a text, `...`, pass, or raise. */
static bool is_stub(const struct block *b)
{
    for (int i = 0; i < b->stmts; i++) {
        const struct stmt *s = &b->stmt[i];
        bool text =
            s->kind == STMT_EXPR && s->value &&
            (s->value->kind == EXPR_STR || (s->value->kind == EXPR_OTHER && s->value->items == 0));
        if (s->kind == STMT_RAISE) return true;
        if (!text && s->kind != STMT_PASS) return false;
    }
    return true;
}

static bool wants_value(struct judge_run *r, const char *returns)
{
    static const char *const none[] = {"Any", "object", "NoReturn", "Never"};
    const struct api_type *t = returns ? api_type_parse(returns, r->pool, r->err) : NULL;
    if (!t || t->kind == API_TYPE_OTHER || api_type_optional(t)) return false;
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        if (api_type_is(t, none[i])) return false;
    }
    return true;
}

static void judge_returned(struct frame *f, const struct own_function *fn,
                           const struct api_signature *base, const char *symbol, int line)
{
    struct judge_run *r = f->run;
    const struct stmt *s = fn->stmt;
    bool silent =
        !fn->generator && !has_stmt(&s->body, is_return_of_value) && !never_returns(&s->body);
    bool abstract = base->from->kind == API_DEF && base->from->function->abstract;
    if (!silent || abstract || !base->returns || !wants_value(r, base->returns)) return;
    struct judge_finding *n = judge_find_broken(
        f, JUDGE_OVERRIDE, symbol, line, base->from,
        judge_run_format(r, "returns nothing where the base says %s", base->returns));
    if (n && !n->wanted) {
        n->found = "None";
        n->wanted = base->returns;
    }
}

/* The base declared the same in the contract that the consumer is known to have fitted. */
static bool standing(struct frame *f, const struct api_signature *sig)
{
    struct judge_run *r = f->run;
    struct api_result old;
    if (!r->in->baseline) return false;
    api_find(r->in->baseline, sig->from->path, &old);
    if (old.found != API_FOUND || old.defs != 1 || old.def[0]->kind != API_DEF) return false;
    return strcmp(judge_params_text(r, &old.def[0]->function->params),
                  judge_params_text(r, &sig->from->function->params)) == 0;
}

/* A base that only raises declares nothing; nor does one that a wider declaration stands behind. */
static bool declares(struct judge_run *r, const struct api_def *d)
{
    bool raises = d->function->shapes > 0 && !d->function->abstract;
    for (int i = 0; i < d->function->shapes; i++) {
        raises &= strcmp(d->function->shape[i].shape, "raise") == 0;
    }
    struct api_mro mro;
    if (raises || !d->owner) return !raises;
    api_mro(r->api, d->owner, &mro);
    for (int i = 1; i < mro.classes; i++) {
        struct api_attribute at;
        api_attribute(r->api, mro.class_[i], d->name, false, &at);
        bool wide = at.found == API_FOUND && at.defs > 0 && at.def[0]->kind == API_DEF &&
                    has_rest(&at.def[0]->function->params);
        if (wide) return false;
    }
    return true;
}

void judge_override(struct frame *f, struct own_function *fn, const struct api_def *const *base,
                    int bases, const char *symbol, int line, bool patched)
{
    struct judge_run *r = f->run;
    struct api_signatures s;
    const struct api_signature *sig = NULL;
    if (!fn->stmt || fn->decorated || fn->is_property || !r->report || is_stub(&fn->stmt->body))
        return;
    api_signatures_of(r->api, base, bases, true, false, r->pool, &s, r->err);
    if (s.is != API_CALLABLE || s.open) return;
    for (int i = 0; i < s.sigs; i++) {
        if (s.sig[i].overload) continue;
        if (sig) return; /* conditional definitions: which one counts is not known */
        sig = &s.sig[i];
    }
    if (!sig || sig->from->kind != API_DEF || !declares(r, sig->from)) return;
    if (patched && sig->from->function->binding != API_INSTANCE) return;
    struct api_params own = judge_own_params(r, fn, !fn->is_static);
    if (!standing(f, sig)) judge_params(f, fn, &own, sig, symbol, line, patched);
    judge_returned(f, fn, sig, symbol, line);
}

/* ---- classes ---- */

/* Called by the consumer itself, or by Python: no rule says that they take the base's arguments. */
static bool free_to_differ(const char *name)
{
    return text_starts(name, "__") || strcmp(name, "forward") == 0;
}

static void judge_methods(struct frame *f, struct own_class *c)
{
    struct judge_run *r = f->run;
    for (const struct binding *b = c->env.top; b && b != c->outer; b = b->next) {
        struct own_function *fn =
            b->value->kind == VALUE_OWN_FUNCTION ? b->value->own_function : NULL;
        const struct api_def *base = NULL;
        struct api_attribute at;
        if (!fn || fn->class_ != c || free_to_differ(b->name)) continue;
        if (!judge_own_lib_find(r, c, b->name, &base, &at) || at.found != API_FOUND) continue;
        bool plain = at.origin == API_FROM_MEMBER && at.defs > 0 && at.def[0]->kind == API_DEF &&
                     at.def[0]->function->binding == API_INSTANCE && !fn->is_class;
        if (!plain) continue;
        judge_override(f, fn, at.def, at.defs,
                       judge_run_format(r, "%s.%s", judge_path_dotted(r, base->path), b->name),
                       fn->stmt->line, false);
    }
}

static bool is_abstract(const struct own_class *c)
{
    for (const struct binding *b = c->env.top; b && b != c->outer; b = b->next) {
        const struct own_function *fn =
            b->value->kind == VALUE_OWN_FUNCTION ? b->value->own_function : NULL;
        for (int i = 0; fn && fn->stmt && i < fn->stmt->decorators; i++) {
            const struct expr *d = fn->stmt->decorator[i];
            if ((d->kind == EXPR_NAME || d->kind == EXPR_ATTR) &&
                strstr(d->text, "abstract") == d->text)
                return true;
        }
    }
    return false;
}

static bool implemented(struct judge_run *r, struct own_class *c, const struct api_def *abstract)
{
    const struct api_def *base = NULL;
    struct api_attribute at;
    if (judge_own_member(r, c, abstract->name, NULL) || judge_slot_find(c->attr, abstract->name))
        return true;
    if (!judge_own_lib_find(r, c, abstract->name, &base, &at)) return true;
    if (at.found != API_FOUND) return at.found != API_ABSENT;
    return at.defs == 0 || at.def[0]->kind != API_DEF || !at.def[0]->function->abstract;
}

static void judge_abstract(struct frame *f, struct own_class *c)
{
    struct judge_run *r = f->run;
    const struct api_def *base = judge_own_lib_base(r, c), *first = NULL, *list[API_MRO];
    bool open = false;
    const char *missing = NULL;
    if (is_abstract(c) || (c->based && !c->made) || judge_own_open(r, c)) return;
    int n = api_abstract(r->api, base, list, &open);
    for (int i = 0; i < n; i++) {
        if (implemented(r, c, list[i])) continue;
        if (!first) first = list[i];
        missing = missing ? judge_run_format(r, "%s, %s", missing, list[i]->name) : list[i]->name;
    }
    if (!first || open) return;
    struct judge_finding *f_ = judge_find_broken(
        f, JUDGE_ABSTRACT,
        judge_run_format(r, "%s.%s", judge_path_dotted(r, base->path), first->name), c->stmt->line,
        first,
        judge_run_format(r, "class %s does not implement the abstract %s", c->stmt->name, missing));
    if (f_ && !f_->remedy) f_->remedy = judge_run_format(r, "implement %s", missing);
}

void judge_class(struct frame *f, struct own_class *c)
{
    if (!judge_own_lib_base(f->run, c)) return;
    judge_methods(f, c);
    judge_abstract(f, c);
}
