/* judge_named.c: methods named by a string: `pool.call("reset", args=(1,))`. The library looks the
 * name up on a class that is chosen at run time; where the consumer names one of its own classes by
 * its dotted path, that one has the method, and its arguments are judged. */
#include "compat/judge_parts.h"

#include <ctype.h>
#include <string.h>

void judge_named_collect(struct judge_run *r, const char *text)
{
    const char *last = strrchr(text, '.');
    if (!last || !isupper((unsigned char)last[1]) || strpbrk(text, " /\n") ||
        !judge_own_root(r, text))
        return;
    struct own_class *c = judge_own_class_by_path(r, text);
    if (c) c->named = true;
}

static bool names_a_method(const char *param)
{
    static const char *const names[] = {"method", "method_name", "func",     "func_name",
                                        "fn",     "fn_name",     "function", "function_name"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(param, names[i]) == 0) return true;
    }
    return false;
}

static bool identifier(const char *text)
{
    if (!isalpha((unsigned char)text[0]) && text[0] != '_') return false;
    for (; *text; text++) {
        if (!isalnum((unsigned char)*text) && *text != '_') return false;
    }
    return true;
}

static const struct value *value_of_param(const struct api_signature *sig, const struct bound *b,
                                          const struct args *a, const char *param)
{
    for (int i = 0; i < a->names; i++) {
        if (strcmp(a->name[i], param) == 0) return a->value[i];
    }
    for (int i = 0; i < a->count && i < BIND_PARAMS; i++) {
        if (b->to[i] >= 0 && strcmp(sig->params.param[b->to[i]].name, param) == 0) return a->pos[i];
    }
    return NULL;
}

static const char *method_name(const struct api_signature *sig, const struct bound *b,
                               const struct args *a)
{
    for (int i = 0; i < sig->params.count; i++) {
        const char *param = sig->params.param[i].name;
        const struct value *v = names_a_method(param) ? value_of_param(sig, b, a, param) : NULL;
        if (v && v->kind == VALUE_STR && identifier(v->text)) return v->text;
    }
    return NULL;
}

/* What the other process calls the method with: the values of `args` and `kwargs`. */
static void remote_args(const struct api_signature *sig, const struct bound *b,
                        const struct args *a, struct args *out)
{
    const struct value *args = value_of_param(sig, b, a, "args"),
                       *kwargs = value_of_param(sig, b, a, "kwargs");
    *out = (struct args){0};
    if (args && args->kind == VALUE_ITEMS && !args->open) {
        out->pos = args->item;
        out->count = args->items;
    } else {
        out->star = args && args->kind != VALUE_NONE;
    }
    if (kwargs && kwargs->kind == VALUE_DICT && !kwargs->open) {
        out->name = kwargs->key;
        out->value = kwargs->item;
        out->names = kwargs->items;
    } else {
        out->dstar = kwargs && kwargs->kind != VALUE_NONE;
    }
    out->star |= a->star;
    out->dstar |= a->dstar;
}

static void judge_own(struct frame *f, struct own_class *c, struct own_function *fn,
                      const struct args *remote, int line)
{
    struct judge_run *r = f->run;
    struct bound b;
    const char *symbol = judge_run_format(r, "%s.%s", c->name, fn->stmt->name);
    struct api_params p = judge_own_params(r, fn, !fn->is_static);
    if (fn->decorated) return;
    judge_bind_args(&p, remote, false, &b);
    if (b.status != BIND_BAD) {
        judge_find_ok(f, JUDGE_NAMED, symbol, line, NULL);
        return;
    }
    struct judge_finding *n = judge_find_broken(
        f, JUDGE_NAMED, symbol, line, NULL,
        judge_run_format(r, "called by name with other arguments than it takes: %s",
                         b.name ? b.name : "too many"));
    if (!n) return;
    n->found = judge_args_text(r, remote);
    n->wanted = judge_params_text(r, &p);
    n->provider = c->module->uses->file;
    n->provider_line = fn->stmt->line;
}

static bool judge_own_classes(struct frame *f, const char *name, const struct args *remote,
                              int line)
{
    struct judge_run *r = f->run;
    for (int i = 0; i < r->in->uses->defs; i++) {
        struct own_class *c = r->class_of[i], *owner = c;
        const struct value *m = c && c->named ? judge_own_member(r, c, name, &owner) : NULL;
        if (!m || m->kind != VALUE_OWN_FUNCTION) continue;
        judge_own(f, owner, m->own_function, remote, line);
        return true;
    }
    return false;
}

const struct value *judge_named(struct frame *f, const struct value *callee,
                                const struct api_signature *sig, const struct bound *b,
                                const struct args *a, int line)
{
    struct judge_run *r = f->run;
    const char *name = method_name(sig, b, a);
    if (!name || !r->report) return NULL;
    struct args remote;
    remote_args(sig, b, a, &remote);
    if (judge_own_classes(f, name, &remote, line)) return NULL;
    const char *by = callee->defs > 0 ? callee->def[0]->name : "?";
    const struct value *told = judge_hint_for(f, judge_run_format(r, "%s()", by), NULL);
    if (told) {
        const struct value *m = judge_attr_of(f, told, name, line, NULL, false);
        if (m->kind == VALUE_FUNCTION) judge_call_value(f, m, &remote, NULL, line);
        return NULL;
    }
    judge_find_undecidable(
        f, JUDGE_NAMED, judge_run_format(r, "%s(\"%s\")", judge_callee_symbol(r, callee), name),
        line, sig->from,
        judge_run_format(r,
                         "the method is named by a string, on a class that is chosen at "
                         "run time; --receiver '%s()=TYPE' would decide it",
                         by));
    return NULL;
}
