/* judge_own.c: the consumer's own modules, classes and functions: found, made once per definition,
 * run once per pass. Functions run after all module bodies, so that they see names bound later. */
#include "compat/judge_protocol.h"

#include "core/text.h"

#include <string.h>

/* ---- modules ---- */

struct own_module *judge_own_module_find(struct judge_run *r, const char *name)
{
    const struct uses_module *m = uses_find(r->in->uses, name);
    return m ? &r->module[m - r->in->uses->module] : NULL;
}

/* The first part of a dotted name is a package of the consumer's. */
bool judge_own_root(struct judge_run *r, const char *name)
{
    size_t n = strcspn(name, ".");
    for (int i = 0; i < r->in->uses->modules; i++) {
        const char *own = r->in->uses->module[i].name;
        if (strncmp(own, name, n) == 0 && (own[n] == 0 || own[n] == '.')) return true;
    }
    return false;
}

struct own_class *judge_own_class_by_path(struct judge_run *r, const char *dotted)
{
    for (int i = 0; i < r->in->uses->defs; i++) {
        struct own_class *c = r->class_of[i];
        if (c && strcmp(c->name, dotted) == 0) return c;
    }
    return NULL;
}

/* ---- classes ---- */

static void take_pass(struct judge_run *r, struct attr_slot *s)
{
    (void)r;
    for (; s; s = s->next) {
        s->seen = s->now;
        s->now = NULL;
    }
}

static void eval_bases(struct frame *f, struct own_class *c)
{
    const struct stmt *s = c->stmt;
    c->base = judge_run_take(f->run, s->bases, sizeof *c->base);
    c->bases = c->base ? s->bases : 0;
    for (int i = 0; i < c->bases; i++) {
        const struct expr *e = s->base[i];
        while (e->kind == EXPR_SUB) e = e->left; /* Base[int] */
        c->base[i] = e->kind == EXPR_STAR ? &value_unknown : judge_eval(f, e);
        if (c->base[i]->kind == VALUE_OWN_CLASS) c->base[i]->own_class->based = true;
        judge_inherited(f, c->base[i], e->line);
    }
    for (int i = 0; i < s->keywords; i++) judge_eval(f, s->keyword[i].value);
}

static void run_class_body(struct frame *f, struct own_class *c)
{
    struct frame body = *f;
    body.class_ = c;
    body.class_body = true;
    body.module_body = f->module_body;
    body.guards = f->guards;
    c->outer = f->env.top;
    judge_exec_block(&body, &c->stmt->body);
    c->env = body.env;
    f->raised |= body.raised;
}

struct own_class *judge_own_class_make(struct frame *f, const struct stmt *s)
{
    struct judge_run *r = f->run;
    struct own_class *c = r->class_of[s->id];
    if (!c) {
        c = judge_run_take(r, 1, sizeof *c);
        if (!c) return NULL;
        const char *around = f->class_ && f->class_body ? f->class_->name
                             : f->function              ? f->function->name
                                                        : f->module->uses->name;
        *c = (struct own_class){.stmt = s,
                                .module = f->module,
                                .around = f->class_body ? f->class_ : NULL,
                                .inside = f->function,
                                .name = judge_run_format(r, "%s.%s", around, s->name),
                                .pass = -1};
        r->class_of[s->id] = c;
    }
    if (c->pass != r->pass) take_pass(r, c->attr);
    c->pass = r->pass;
    const struct value *made =
        judge_value_make(r, (struct value){.kind = VALUE_OWN_CLASS, .own_class = c});
    for (int i = 0; i < s->decorators; i++)
        judge_decorated(f, judge_eval(f, s->decorator[i]), made, s->decorator[i]);
    eval_bases(f, c);
    run_class_body(f, c);
    return c;
}

static const struct value *body_name(const struct own_class *c, const char *name)
{
    for (const struct binding *b = c->env.top; b && b != c->outer; b = b->next) {
        if (strcmp(b->name, name) == 0) return b->value;
    }
    return NULL;
}

enum { BASE_DEPTH = 32 };

static const struct value *member_at(struct own_class *c, const char *name,
                                     struct own_class **owner, int depth)
{
    const struct value *v = body_name(c, name);
    if (v && owner) *owner = c;
    for (int i = 0; !v && depth < BASE_DEPTH && i < c->bases; i++) {
        if (c->base[i]->kind == VALUE_OWN_CLASS)
            v = member_at(c->base[i]->own_class, name, owner, depth + 1);
    }
    return v;
}

const struct value *judge_own_member(struct judge_run *r, struct own_class *c, const char *name,
                                     struct own_class **owner)
{
    (void)r;
    return member_at(c, name, owner, 0);
}

static const struct api_def *lib_base_at(const struct own_class *c, int depth)
{
    const struct api_def *found = NULL;
    for (int i = 0; !found && depth < BASE_DEPTH && i < c->bases; i++) {
        if (c->base[i]->kind == VALUE_CLASS) found = c->base[i]->class_;
        if (c->base[i]->kind == VALUE_OWN_CLASS)
            found = lib_base_at(c->base[i]->own_class, depth + 1);
    }
    return found;
}

const struct api_def *judge_own_lib_base(struct judge_run *r, const struct own_class *c)
{
    (void)r;
    return lib_base_at(c, 0);
}

static bool harmless(const struct value *base)
{
    static const char *const names[] = {"object", "abc.ABC", "typing.Generic", "typing.Protocol",
                                        "typing_extensions.Protocol"};
    for (size_t i = 0; base->kind == VALUE_OUTSIDE && i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(base->text, names[i]) == 0) return true;
    }
    return base->kind == VALUE_CLASS;
}

static bool open_at(const struct own_class *c, int depth)
{
    if (c->dynamic || depth >= BASE_DEPTH || body_name(c, "__getattr__") ||
        body_name(c, "__getattribute__") || c->stmt->keywords > 0)
        return true;
    for (int i = 0; i < c->bases; i++) {
        if (c->base[i]->kind == VALUE_OWN_CLASS) {
            if (open_at(c->base[i]->own_class, depth + 1)) return true;
        } else if (!harmless(c->base[i])) {
            return true;
        }
    }
    return false;
}

bool judge_own_open(struct judge_run *r, const struct own_class *c)
{
    (void)r;
    return open_at(c, 0);
}

bool judge_own_inherits(const struct own_class *c, const struct own_class *base)
{
    if (c == base) return true;
    for (int i = 0; i < c->bases; i++) {
        if (c->base[i]->kind == VALUE_OWN_CLASS && judge_own_inherits(c->base[i]->own_class, base))
            return true;
    }
    return false;
}

/* ---- functions ---- */

/* Decorators that leave the parameters and the result as they are. */
static bool keeps(const char *name)
{
    static const char *const names[] = {
        "staticmethod", "classmethod",    "property",       "cached_property", "wraps",
        "lru_cache",    "cache",          "abstractmethod", "override",        "final",
        "no_grad",      "inference_mode", "enable_grad",    "overload",        "deprecated",
        "setter",       "getter",         "deleter"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0) return true;
    }
    return false;
}

static void read_decorator(struct frame *f, struct own_function *fn, const struct expr *d)
{
    const struct expr *e = d->kind == EXPR_CALL ? d->left : d;
    const char *name = e->kind == EXPR_NAME || e->kind == EXPR_ATTR ? e->text : "";
    const struct value *made =
        judge_value_make(f->run, (struct value){.kind = VALUE_OWN_FUNCTION, .own_function = fn});
    if (!(e->kind == EXPR_ATTR && strcmp(name, "setter") == 0))
        judge_decorated(f, judge_eval(f, d), made, d);
    fn->is_static |= strcmp(name, "staticmethod") == 0;
    fn->is_class |= strcmp(name, "classmethod") == 0;
    fn->is_property |= text_ends(name, "property");
    fn->decorated |= !keeps(name);
}

static bool is_yield(const struct expr *e, const void *ctx)
{
    (void)ctx;
    return e->kind == EXPR_YIELD;
}

static void classify(struct frame *f, struct own_function *fn)
{
    static const char *const on_class[] = {"__new__", "__init_subclass__", "__class_getitem__"};
    const struct stmt *s = fn->stmt;
    for (int i = 0; i < s->decorators; i++) read_decorator(f, fn, s->decorator[i]);
    for (size_t i = 0; i < sizeof on_class / sizeof on_class[0]; i++) {
        fn->is_class |= fn->class_ && strcmp(s->name, on_class[i]) == 0;
    }
}

struct own_function *judge_own_function_make(struct frame *f, const struct stmt *s)
{
    struct judge_run *r = f->run;
    struct own_function *fn = r->function_of[s->id];
    if (!fn) {
        fn = judge_run_take(r, 1, sizeof *fn);
        if (!fn) return NULL;
        const char *around = f->class_body ? f->class_->name
                             : f->function ? f->function->name
                                           : f->module->uses->name;
        *fn = (struct own_function){.stmt = s,
                                    .module = f->module,
                                    .class_ = f->class_body ? f->class_ : NULL,
                                    .inside = f->function,
                                    .name = judge_run_format(r, "%s.%s", around, s->name),
                                    .pass = -1,
                                    .generator = judge_body_mentions(&s->body, is_yield, NULL)};
        r->function_of[s->id] = fn;
    }
    classify(f, fn);
    fn->outer = f->function ? (f->class_body ? f->class_->outer : f->env.top) : NULL;
    judge_own_function_queue(r, fn);
    return fn;
}

void judge_own_function_queue(struct judge_run *r, struct own_function *fn)
{
    if (fn->pass == r->pass) return;
    fn->pass = r->pass;
    fn->seen_result = fn->returned ? fn->result : fn->seen_result;
    fn->result = NULL;
    fn->returned = false;
    if (r->queued == r->queue_room) {
        int room = r->queue_room ? r->queue_room * 2 : 256;
        struct own_function **more = judge_run_take(r, room, sizeof *more);
        if (!more) return;
        if (r->queued > 0) memcpy(more, r->queue, (size_t)r->queued * sizeof *more);
        r->queue = more;
        r->queue_room = room;
    }
    r->queue[r->queued++] = fn;
}

static struct frame frame_of(struct judge_run *r, struct own_function *fn)
{
    return (struct frame){.run = r,
                          .module = fn->module,
                          .class_ = fn->class_   ? fn->class_
                                    : fn->inside ? fn->inside->class_
                                                 : NULL,
                          .function = fn,
                          .env = {.top = fn->outer}};
}

static const struct value *param_value(struct frame *f, const struct own_function *fn, int i)
{
    const struct param *p = &fn->stmt->param[i];
    if (p->kind == API_STAR) return judge_value_of_kind(f->run, VALUE_GENERIC, "tuple");
    if (p->kind == API_DSTAR) return judge_value_of_kind(f->run, VALUE_GENERIC, "dict");
    if (i == 0 && fn->class_ && !fn->is_static) {
        if (!fn->is_class) return judge_value_own_object(f->run, fn->class_);
        return judge_value_make(f->run,
                                (struct value){.kind = VALUE_OWN_CLASS, .own_class = fn->class_});
    }
    if (i == 0 && fn->self) return fn->self;
    const struct value *v = judge_type_from_expr(f, p->type);
    bool none = p->dflt && p->dflt->kind == EXPR_CONST && p->dflt->value == CONST_NONE;
    return none && p->type
               ? judge_value_join(f->run, v, judge_value_of_kind(f->run, VALUE_NONE, NULL))
               : v;
}

void judge_own_function_run(struct judge_run *r, struct own_function *fn)
{
    struct frame f = frame_of(r, fn);
    if (!fn->stmt) return;
    for (int i = 0; i < fn->stmt->params; i++) {
        judge_env_bind(&f, fn->stmt->param[i].name, param_value(&f, fn, i));
    }
    int before = r->queued;
    judge_exec_block(&f, &fn->stmt->body);
    for (int i = before; i < r->queued; i++) {
        if (r->queue[i]->inside == fn && !r->queue[i]->class_) r->queue[i]->outer = f.env.top;
    }
}

static const struct value *wrapped(struct judge_run *r, const struct own_function *fn,
                                   const struct value *v)
{
    if (fn->stmt->async && !fn->generator) return judge_value_generic(r, "Coroutine", v);
    return v;
}

const struct value *judge_own_result(struct frame *f, struct own_function *fn,
                                     const struct value *self)
{
    struct judge_run *r = f->run;
    if (!fn->stmt || fn->decorated) return &value_unknown;
    struct frame at = frame_of(r, fn);
    at.module_body = f->module_body && f->module == fn->module;
    if (at.module_body) at.env = f->env;
    const struct expr *type = fn->stmt->type;
    if (type && type->kind == EXPR_NAME && strcmp(type->text, "Self") == 0 && self)
        return wrapped(r, fn, self);
    const struct value *v = judge_type_from_expr(&at, type);
    if (v->kind == VALUE_UNKNOWN && !fn->generator && fn->seen_result) v = fn->seen_result;
    return wrapped(r, fn, v);
}

struct api_params judge_own_params(struct judge_run *r, const struct own_function *fn, bool bound)
{
    const struct param *p = fn->stmt ? fn->stmt->param : fn->lambda->param;
    int n = fn->stmt ? fn->stmt->params : fn->lambda->params;
    int first = bound && n > 0 && p[0].kind != API_STAR ? 1 : 0;
    struct api_params out = {.param = judge_run_take(r, n - first, sizeof *out.param)};
    for (int i = first; out.param && i < n; i++) {
        out.param[out.count++] = (struct api_param){
            .name = p[i].name, .kind = p[i].kind, .fallback = p[i].dflt ? "..." : NULL};
    }
    return out;
}
