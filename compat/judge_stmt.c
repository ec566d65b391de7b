/* judge_stmt.c: statements that bind names and define things. */
#include "compat/judge_protocol.h"

#include <string.h>

/* ---- targets ---- */

static void assign_attr(struct frame *f, const struct expr *t, const struct value *v)
{
    struct judge_run *r = f->run;
    const char *path = judge_expr_path(r, t);
    const struct value *base = judge_eval(f, t->left);
    if (base->kind == VALUE_OWN_OBJECT)
        judge_slot_join(r, &base->own_class->attr, t->text, v);
    else
        judge_set_note(r, base, t->text);
    if (base->kind == VALUE_OWN_MODULE)
        judge_slot_join(r, &base->own_module->late, t->text, v);
    else if (base->kind == VALUE_CLASS || base->kind == VALUE_MODULE ||
             v->kind == VALUE_OWN_FUNCTION)
        judge_patched(f, base, t->text, v, t->line);
    if (base->kind == VALUE_OBJECT) judge_attr_of(f, base, t->text, t->line, NULL, true);
    if (base->kind == VALUE_OWN_OBJECT && judge_own_lib_base(r, base->own_class))
        judge_attr_of(f, base, t->text, t->line, NULL, true);
    bool typed = v->kind == VALUE_OBJECT || v->kind == VALUE_OWN_OBJECT || v->kind == VALUE_GENERIC;
    if (path) judge_env_bind(f, path, typed ? v : &value_unknown);
    if (path && !typed && base->kind == VALUE_OWN_OBJECT && v->kind != VALUE_UNKNOWN)
        judge_env_bind(f, path, judge_value_without_none(r, v));
}

static void assign_items(struct frame *f, const struct expr *t, const struct value *v)
{
    int star = -1;
    for (int i = 0; i < t->items; i++) {
        if (t->item[i]->kind == EXPR_STAR) star = i;
    }
    if (star < 0) judge_unpack(f, v, t->items, t->line);
    bool fixed =
        (v->kind == VALUE_ITEMS || (v->kind == VALUE_GENERIC && strcmp(v->text, "tuple") == 0)) &&
        !v->open && v->items == t->items && star < 0;
    const struct value *each = fixed ? NULL : judge_value_element(f, v);
    for (int i = 0; i < t->items; i++) {
        const struct expr *to = t->item[i];
        if (to->kind == EXPR_STAR)
            judge_assign(f, to->left, judge_value_generic(f->run, "list", each));
        else
            judge_assign(f, to, fixed ? v->item[i] : each);
    }
}

/* sys.modules["pkg.mod"] = ...: a module that the consumer makes. */
static void assign_module(struct frame *f, const struct expr *t)
{
    const struct value *v = judge_eval(f, t->left), *key = judge_eval(f, t->right);
    bool modules = v->kind == VALUE_OUTSIDE && strcmp(v->text, "sys.modules") == 0;
    if (modules && key->kind == VALUE_STR) judge_replaced_note(f->run, key->text);
}

void judge_assign(struct frame *f, const struct expr *target, const struct value *v)
{
    if (f->raised) return;
    switch (target->kind) {
    case EXPR_NAME:
        judge_name_assign(f, target->text, v);
        break;
    case EXPR_ATTR:
        assign_attr(f, target, v);
        break;
    case EXPR_TUPLE:
    case EXPR_LIST:
        assign_items(f, target, v);
        break;
    case EXPR_STAR:
        judge_assign(f, target->left, &value_unknown);
        break;
    case EXPR_SUB:
        assign_module(f, target);
        judge_dict_set(f, target->left, judge_eval(f, target->right), v);
        break;
    default:
        judge_eval(f, target);
    }
}

/* `x: T = v`: the narrower of the two; `x: T` alone in a class is a field. */
static void exec_assign(struct frame *f, const struct stmt *s)
{
    const struct value *v = s->value ? judge_eval(f, s->value) : NULL;
    if (f->raised) return;
    if (s->type) {
        const struct value *typed = judge_type_from_expr(f, s->type);
        bool foreign = !f->class_body && s->value && s->value->kind == EXPR_CALL &&
                       judge_eval(f, s->value->left)->kind == VALUE_OUTSIDE;
        bool vague = !v || v->kind == VALUE_UNKNOWN || v->kind == VALUE_OUTSIDE ||
                     v->kind == VALUE_NONE || v->kind == VALUE_ITEMS || v->kind == VALUE_DICT;
        if (vague && !foreign && typed->kind != VALUE_UNKNOWN) v = typed;
        if (!v && !f->class_body) v = typed;
        if (!v) v = &value_unknown;
    }
    for (int i = 0; i < s->targets; i++) judge_assign(f, s->target[i], v ? v : &value_unknown);
}

/* ---- definitions ---- */

static void exec_def(struct frame *f, const struct stmt *s)
{
    for (int i = 0; i < s->params; i++) {
        if (s->param[i].dflt) judge_eval(f, s->param[i].dflt);
        if (s->param[i].type) judge_type_from_expr(f, s->param[i].type);
    }
    struct own_function *fn = judge_own_function_make(f, s);
    if (!fn || f->raised) return;
    struct own_function *before = NULL;
    const struct value *old = f->class_body ? judge_env_find(f->env.top, s->name) : NULL;
    if (old && old->kind == VALUE_OWN_FUNCTION) before = old->own_function;
    fn->is_property |= before && before != fn && before->is_property && fn->decorated == false &&
                       s->decorators > 0;
    judge_name_assign(
        f, s->name,
        judge_value_make(f->run, (struct value){.kind = VALUE_OWN_FUNCTION, .own_function = fn}));
}

static void exec_class(struct frame *f, const struct stmt *s)
{
    struct own_class *c = judge_own_class_make(f, s);
    if (!c || f->raised) return;
    judge_name_assign(
        f, s->name,
        judge_value_make(f->run, (struct value){.kind = VALUE_OWN_CLASS, .own_class = c}));
}

static void exec_return(struct frame *f, const struct stmt *s)
{
    const struct value *v =
        s->value ? judge_eval(f, s->value) : judge_value_of_kind(f->run, VALUE_NONE, NULL);
    if (f->function && !f->raised) {
        f->function->result = judge_value_join(f->run, f->function->result, v);
        f->function->returned = true;
    }
    f->env.dead = true;
}

static void exec_match(struct frame *f, const struct stmt *s)
{
    judge_eval(f, s->value);
    struct env before = f->env, after = f->env;
    for (int i = 0; i < s->branches; i++) {
        f->env = before;
        for (int j = 0; j < s->branch[i].names; j++) {
            judge_env_bind(f, s->branch[i].name[j], &value_unknown);
        }
        const char *path = judge_expr_path(f->run, s->value);
        if (path) judge_env_bind(f, path, &value_unknown);
        if (s->branch[i].guard) judge_eval(f, s->branch[i].guard);
        judge_exec_block(f, &s->branch[i].body);
        after = judge_env_join(f->run, after, f->env);
    }
    f->env = after;
}

/* `with suppress(ImportError):` is a try. */
static unsigned suppressed(struct frame *f, const struct expr *e)
{
    if (e->kind != EXPR_CALL) return 0;
    const struct value *v = judge_eval(f, e->left);
    static const char *const names[] = {"contextlib.suppress", "pytest.raises"};
    bool known = e->left->kind == EXPR_ATTR && strcmp(e->left->text, "assertRaises") == 0;
    for (size_t i = 0; v->kind == VALUE_OUTSIDE && i < sizeof names / sizeof names[0]; i++) {
        known |= strcmp(v->text, names[i]) == 0;
    }
    if (!known) return 0;
    unsigned guards = 0;
    for (int i = 0; i < e->items; i++) guards |= judge_guards_of(e->item[i]);
    return guards;
}

static void exec_with(struct frame *f, const struct stmt *s)
{
    unsigned before = f->guards, more = 0;
    for (int i = 0; i < s->targets && !f->raised; i++) {
        const struct value *v = judge_eval(f, s->target[i]);
        judge_entered(f, v, s->async, s->target[i]->line);
        const struct value *entered = judge_value_entered(f, v, s->target[i]);
        more |= suppressed(f, s->target[i]);
        if (s->as[i]) judge_assign(f, s->as[i], entered);
    }
    f->guards |= more;
    bool raised = f->raised;
    judge_exec_block(f, &s->body);
    if (more) f->raised = raised;
    f->guards = before;
}

static void exec_assert(struct frame *f, const struct stmt *s)
{
    judge_eval(f, s->value);
    if (s->type) judge_eval(f, s->type);
    judge_assume(f, s->value, true);
}

static void exec_del(struct frame *f, const struct stmt *s)
{
    for (int i = 0; i < s->targets; i++) {
        const struct expr *t = s->target[i];
        if (t->left) judge_eval(f, t->left);
        if (t->kind == EXPR_SUB) judge_dict_drop(f, t->left, judge_eval(f, t->right));
    }
}

/* Its arguments are used, its own result is not. */
static void exec_alone(struct frame *f, const struct expr *e)
{
    f->alone = e->kind == EXPR_AWAIT ? e->left : e;
    judge_eval(f, e);
    f->alone = NULL;
}

/* ---- blocks ---- */

static void exec(struct frame *f, const struct stmt *s)
{
    switch (s->kind) {
    case STMT_IMPORT:
        judge_exec_import(f, s);
        break;
    case STMT_FROM:
        judge_exec_from(f, s);
        break;
    case STMT_ASSIGN:
        exec_assign(f, s);
        break;
    case STMT_AUGASSIGN:
        judge_eval(f, s->value);
        if (s->target[0]->kind == EXPR_NAME)
            judge_name_assign(f, s->target[0]->text, &value_unknown);
        else
            judge_eval(f, s->target[0]);
        break;
    case STMT_EXPR:
        exec_alone(f, s->value);
        break;
    case STMT_RETURN:
        exec_return(f, s);
        break;
    case STMT_IF:
        judge_exec_if(f, s);
        break;
    case STMT_WHILE:
    case STMT_FOR:
        judge_exec_loop(f, s);
        break;
    case STMT_TRY:
        judge_exec_try(f, s);
        break;
    case STMT_WITH:
        exec_with(f, s);
        break;
    case STMT_DEF:
        exec_def(f, s);
        break;
    case STMT_CLASS:
        exec_class(f, s);
        break;
    case STMT_ASSERT:
        exec_assert(f, s);
        break;
    case STMT_MATCH:
        exec_match(f, s);
        break;
    case STMT_RAISE:
        if (s->value) judge_eval(f, s->value);
        f->env.dead = true;
        break;
    case STMT_BREAK:
    case STMT_CONTINUE:
        f->env.dead = true;
        break;
    case STMT_DEL:
        exec_del(f, s);
        break;
    case STMT_GLOBAL:
    case STMT_PASS:
        break;
    }
}

void judge_exec_block(struct frame *f, const struct block *b)
{
    for (int i = 0; i < b->stmts && !f->env.dead && !f->raised && judge_run_ok(f->run); i++) {
        exec(f, &b->stmt[i]);
    }
}
