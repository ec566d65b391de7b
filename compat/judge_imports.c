/* judge_imports.c: import statements: the consumer's own modules, the library's, all others. */
#include "compat/judge_parts.h"

#include "core/text.h"

#include <string.h>

/* ---- the library's names as values ---- */

static const struct value *value_of_def(struct judge_run *r, const struct api_def *d)
{
    const struct api_def *c = NULL;
    enum api_found found;
    if (strcmp(d->name, "__version__") == 0 || strcmp(d->name, "VERSION") == 0)
        return judge_value_of_kind(r, VALUE_VERSION, r->api->library.version);
    if (strcmp(d->name, "__version_tuple__") == 0 || strcmp(d->name, "version_tuple") == 0)
        return judge_value_of_kind(r, VALUE_TUPLE_VERSION, r->api->library.version);
    if (d->kind != API_VALUE)
        return judge_value_unknown_of(r, "what this name is was not recorded");
    if (d->value.type) return judge_type_from_text(r, d->value.type, NULL);
    if (d->value.call) c = api_find_class(r->api, d->value.call, &found);
    return c ? judge_value_exact(r, c) : &value_unknown;
}

/* Several definitions: functions stay together, anything else is joined. */
static const struct value *value_of_defs(struct judge_run *r, const struct api_result *res)
{
    const struct api_def **kept = judge_run_take(r, res->defs, sizeof *kept);
    if (!kept) return judge_value_unknown_of(r, "a name of the library of which no more is known");
    bool functions = true;
    for (int i = 0; i < res->defs; i++) {
        kept[i] = res->def[i];
        functions &= kept[i]->kind == API_DEF;
    }
    if (functions)
        return judge_value_make(
            r, (struct value){
                   .kind = VALUE_FUNCTION, .def = kept, .defs = res->defs, .open = res->open});
    const struct value *sum = res->open ? &value_unknown : NULL;
    for (int i = 0; i < res->defs; i++) {
        struct value v = {.kind = VALUE_CLASS, .class_ = kept[i]};
        if (kept[i]->kind == API_DEF)
            v = (struct value){.kind = VALUE_FUNCTION, .def = &kept[i], .defs = 1, .open = true};
        sum = judge_value_join(r, sum,
                               kept[i]->kind == API_CLASS || kept[i]->kind == API_DEF
                                   ? judge_value_make(r, v)
                                   : value_of_def(r, kept[i]));
    }
    return sum;
}

static const struct value *value_found(struct judge_run *r, const struct api_result *res)
{
    if (res->module)
        return judge_value_make(r, (struct value){.kind = VALUE_MODULE, .module = res->module});
    return value_of_defs(r, res);
}

static const char *absent_why(struct judge_run *r, const struct api_result *res)
{
    if (!res->missing || !res->holder) return "the library has no such name";
    if (strchr(res->holder, ':'))
        return judge_run_format(r, "%s has no %s", judge_path_dotted(r, res->holder), res->missing);
    return judge_run_format(r, "module %s has no %s", res->holder, res->missing);
}

static const struct value *absent_value(struct frame *f, const struct api_result *res,
                                        const char *symbol, enum judge_kind kind, int line)
{
    struct judge_run *r = f->run;
    if (judge_replaced_path(r, symbol)) {
        judge_find_undecidable(f, kind, symbol, line, NULL,
                               "the library has no such name, but the consumer makes it");
        return &value_unknown;
    }
    struct judge_finding *n = judge_find_broken(f, kind, symbol, line, NULL, absent_why(r, res));
    if (!n) return &value_unknown;
    if (n->verdict == JUDGE_BROKEN) {
        n->found = symbol;
        n->wanted = "a name that the library has";
        n->remedy = judge_remedy_moved(r, res->now, res->nows, symbol);
    }
    return judge_value_broken(r, n);
}

const struct value *judge_value_of_result(struct frame *f, const struct api_result *res,
                                          const char *symbol, enum judge_kind kind, int line)
{
    struct judge_run *r = f->run;
    const struct api_def *d = res->defs > 0 ? res->def[0] : NULL;
    switch (res->found) {
    case API_FOUND:
        if (res->typing_only && f->mute == 0)
            return judge_value_broken(
                r, judge_find_broken(f, kind, symbol, line, d,
                                     "the library has it under TYPE_CHECKING only"));
        judge_find_ok(f, kind, symbol, line, d);
        if (d && kind == JUDGE_IMPORT) judge_baseline_kind(f, symbol, d, line);
        if (res->deprecated)
            judge_find_deprecated(f, kind, symbol, line, d, res->deprecated);
        else if (d && d->deprecated)
            judge_find_deprecated(f, kind, symbol, line, d, d->deprecated);
        return value_found(r, res);
    case API_ABSENT:
        return absent_value(f, res, symbol, kind, line);
    case API_OUTSIDE:
        return judge_value_of_kind(r, VALUE_OUTSIDE, res->outside ? res->outside : symbol);
    default:
        judge_find_undecidable(f, kind, symbol, line, NULL, res->why);
        return judge_value_unknown_of(r, res->why);
    }
}

/* ---- the consumer's modules ---- */

static const struct value *own_value(struct judge_run *r, struct own_module *m)
{
    return judge_value_make(r, (struct value){.kind = VALUE_OWN_MODULE, .own_module = m});
}

/* Outside of both, or of the library. */
static const struct value *foreign(struct frame *f, const char *name, int line, bool say)
{
    struct api_result res;
    if (judge_own_root(f->run, name)) {
        struct own_module *m = judge_own_module_find(f->run, name);
        if (m) judge_module_run(f->run, m);
        if (m) return own_value(f->run, m);
    }
    api_find(f->run->api, name, &res);
    if (judge_own_root(f->run, name) && res.found != API_FOUND) return &value_unknown;
    if (say) return judge_value_of_result(f, &res, name, JUDGE_IMPORT, line);
    return res.found == API_FOUND     ? value_found(f->run, &res)
           : res.found == API_OUTSIDE ? judge_value_of_kind(f->run, VALUE_OUTSIDE, name)
                                      : &value_unknown;
}

void judge_exec_import(struct frame *f, const struct stmt *s)
{
    for (int i = 0; i < s->imports; i++) {
        const struct imported *im = &s->import[i];
        const struct value *v = foreign(f, im->name, im->line, true);
        if (f->raised) return;
        size_t root = strcspn(im->name, ".");
        if (im->as || !im->name[root]) {
            judge_name_assign(f, im->as ? im->as : im->name, v);
            continue;
        }
        const char *first = judge_run_format(f->run, "%.*s", (int)root, im->name);
        const struct value *whole = foreign(f, first, im->line, false);
        judge_name_assign(f, first,
                          v->kind == VALUE_BROKEN && whole->kind != VALUE_MODULE ? v : whole);
        if (v->kind == VALUE_BROKEN) judge_env_bind(f, im->name, v);
    }
}

/* ---- from ... import ---- */

/* The absolute name of the module, NULL above the top. */
static const char *module_of(struct frame *f, const struct stmt *s)
{
    if (s->level == 0) return s->name ? s->name : "";
    const struct uses_module *m = f->module->uses;
    size_t n = strlen(m->name);
    for (int up = m->package ? 1 : 0; up < s->level; up++) {
        while (n > 0 && m->name[n - 1] != '.') n--;
        if (n == 0) return up + 1 == s->level && s->name && s->name[0] ? s->name : NULL;
        n--;
    }
    bool more = s->name && s->name[0];
    return judge_run_format(f->run, "%.*s%s%s", (int)n, m->name, more ? "." : "",
                            more ? s->name : "");
}

static void star_own(struct frame *f, struct own_module *m)
{
    struct own_module *to = f->module;
    const struct binding *stack[4096];
    int n = 0;
    for (const struct binding *b = m->env.top; b && n < 4096; b = b->next) stack[n++] = b;
    while (n-- > 0) {
        if (!strpbrk(stack[n]->name, ".(")) judge_env_bind(f, stack[n]->name, stack[n]->value);
    }
    to->star_open |= m->star_open;
    for (int i = 0; i < m->stars; i++) {
        const struct api_module **more = judge_run_take(f->run, to->stars + 1, sizeof *more);
        if (!more) return;
        if (to->stars > 0) memcpy(more, to->star, (size_t)to->stars * sizeof *more);
        more[to->stars++] = m->star[i];
        to->star = more;
    }
}

static void exec_star(struct frame *f, const char *name, int line)
{
    struct own_module *own = judge_own_module_find(f->run, name), *m = f->module;
    if (own) {
        judge_module_run(f->run, own);
        star_own(f, own);
        return;
    }
    const struct value *v = foreign(f, name, line, true);
    const struct api_module **more =
        v->kind == VALUE_MODULE ? judge_run_take(f->run, m->stars + 1, sizeof *more) : NULL;
    if (!more) {
        m->star_open = true;
        return;
    }
    if (m->stars > 0) memcpy(more, m->star, (size_t)m->stars * sizeof *more);
    more[m->stars++] = v->module;
    m->star = more;
}

const struct value *judge_star_find(struct judge_run *r, struct own_module *m, const char *name)
{
    struct api_result res;
    for (int i = m->stars - 1; i >= 0; i--) {
        api_find_in(r->api, m->star[i], name, &res);
        if (res.found == API_FOUND && name[0] != '_') return value_found(r, &res);
        if (res.found == API_UNKNOWN || res.found == API_UNRECORDED) return &value_unknown;
    }
    return NULL;
}

static const struct value *own_name(struct frame *f, struct own_module *m, const char *name)
{
    bool unknown = false;
    judge_module_run(f->run, m);
    const struct value *v = judge_module_name(f->run, m, name, &unknown);
    if (v && v->kind != VALUE_UNKNOWN) return v;
    const char *sub = judge_run_format(f->run, "%s.%s", m->uses->name, name);
    struct own_module *s = judge_own_module_find(f->run, sub);
    if (s && !v) {
        judge_module_run(f->run, s);
        return own_value(f->run, s);
    }
    if (!v) v = judge_star_find(f->run, m, name);
    return v ? v : &value_unknown;
}

/* An extension module is there; what it holds is not asked, and nothing is said of it. */
static const struct value *compiled_name(struct frame *f, const char *symbol, int line)
{
    judge_find_ok(f, JUDGE_IMPORT, symbol, line, NULL);
    return &value_unknown;
}

static const struct value *lib_name(struct frame *f, const char *module, const char *name, int line)
{
    struct judge_run *r = f->run;
    const char *symbol = judge_run_format(r, "%s.%s", module, name);
    struct api_result res, in;
    api_find(r->api, module, &res);
    if (res.found == API_FOUND && res.module) {
        if (res.module->compiled) return compiled_name(f, symbol, line);
        api_find_in(r->api, res.module, name, &in);
        return judge_value_of_result(f, &in, symbol, JUDGE_IMPORT, line);
    }
    if (res.found == API_ABSENT) {
        api_find(r->api, symbol, &in);
        if (in.found != API_ABSENT) in = res;
        return judge_value_of_result(f, &in, symbol, JUDGE_IMPORT, line);
    }
    if (res.found == API_OUTSIDE) return judge_value_of_kind(r, VALUE_OUTSIDE, symbol);
    return judge_value_of_result(f, &res, symbol, JUDGE_IMPORT, line);
}

void judge_exec_from(struct frame *f, const struct stmt *s)
{
    const char *module = module_of(f, s);
    for (int i = 0; i < s->imports; i++) {
        const struct imported *im = &s->import[i];
        const char *to = im->as ? im->as : im->name;
        if (!module) {
            judge_name_assign(f, to, &value_unknown);
            continue;
        }
        if (strcmp(im->name, "*") == 0) {
            exec_star(f, module, s->line);
            continue;
        }
        struct own_module *own = judge_own_module_find(f->run, module);
        bool ours = own || s->level > 0 || judge_own_root(f->run, module);
        struct api_result res;
        if (ours && !own && s->level == 0) {
            api_find(f->run->api, module, &res);
            ours = res.found != API_FOUND;
        }
        const struct value *v = own    ? own_name(f, own, im->name)
                                : ours ? &value_unknown
                                       : lib_name(f, module, im->name, im->line);
        if (f->raised) return;
        judge_name_assign(f, to, v);
    }
}

/* ---- paths in texts ---- */

const struct value *judge_value_of_path(struct frame *f, const char *dotted)
{
    size_t n = strcspn(dotted, ".");
    const char *first = judge_run_format(f->run, "%.*s", (int)n, dotted);
    const struct value *v = judge_name_find(f, first);
    const char *rest = dotted + n;
    while (v && *rest == '.') {
        size_t m = strcspn(rest + 1, ".");
        v = judge_attr_quiet(f, v, judge_run_format(f->run, "%.*s", (int)m, rest + 1));
        rest += 1 + m;
    }
    if (v && v->kind != VALUE_UNKNOWN && v->kind != VALUE_OUTSIDE) return v;
    struct own_class *c = judge_own_class_by_path(f->run, dotted);
    if (c) return judge_value_make(f->run, (struct value){.kind = VALUE_OWN_CLASS, .own_class = c});
    if (!strchr(dotted, '.')) return NULL;
    struct api_result res;
    api_find(f->run->api, dotted, &res);
    return res.found == API_FOUND ? value_found(f->run, &res) : NULL;
}
