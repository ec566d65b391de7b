/* judge_guards.c: what a condition is, and what is known where it holds. */
#include "compat/judge_parts.h"

#include <string.h>

/* ---- comparisons ---- */

static int is_truth(const struct value *a, const struct value *b)
{
    if (b->kind != VALUE_NONE) return -1;
    switch (a->kind) {
    case VALUE_NONE:
        return 1;
    case VALUE_CLASS:
    case VALUE_MODULE:
    case VALUE_FUNCTION:
    case VALUE_OWN_CLASS:
    case VALUE_OWN_MODULE:
    case VALUE_OWN_FUNCTION:
    case VALUE_STR:
    case VALUE_NUMBER:
    case VALUE_BOOL:
    case VALUE_ITEMS:
    case VALUE_DICT:
        return 0;
    default:
        return -1;
    }
}

static int equal_truth(const struct value *a, const struct value *b)
{
    if (a->kind != b->kind) return -1;
    if (a->kind == VALUE_STR) return strcmp(a->text, b->text) == 0;
    if (a->kind == VALUE_NUMBER || a->kind == VALUE_BOOL) return a->number == b->number;
    return -1;
}

static int order_truth(double a, const char *op, double b)
{
    if (strcmp(op, "<") == 0) return a < b;
    if (strcmp(op, "<=") == 0) return a <= b;
    if (strcmp(op, ">") == 0) return a > b;
    return strcmp(op, ">=") == 0 ? a >= b : -1;
}

/* "name" in inspect.signature(f).parameters */
static int probe_truth(struct frame *f, const struct value *name, const struct value *probe)
{
    const struct value *callee = probe->self;
    struct api_signatures s;
    if (name->kind != VALUE_STR) return -1;
    judge_signatures_of(f, callee, &s);
    if (s.is != API_CALLABLE || s.sigs == 0 || s.open) return -1;
    for (int i = 0; i < s.sigs; i++) {
        for (int j = 0; j < s.sig[i].params.count; j++) {
            if (strcmp(s.sig[i].params.param[j].name, name->text) == 0) return s.sigs == 1 ? 1 : -1;
        }
    }
    return 0;
}

static int in_truth(struct frame *f, const struct value *a, const struct value *b)
{
    if (b->kind == VALUE_PROBE && b->number == 1) return probe_truth(f, a, b);
    if (b->kind != VALUE_DICT || a->kind != VALUE_STR) return -1;
    for (int i = 0; i < b->items; i++) {
        if (b->key[i] && strcmp(b->key[i], a->text) == 0) return 1;
    }
    return b->open ? -1 : 0;
}

static int not_of(int t)
{
    return t < 0 ? -1 : !t;
}

int judge_compare_truth(struct frame *f, const struct value *a, const char *op,
                        const struct value *b)
{
    int version = judge_version_truth(f, a, op, b);
    if (version >= 0) return version;
    if (strcmp(op, "is") == 0) return is_truth(a, b);
    if (strcmp(op, "is not") == 0) return not_of(is_truth(a, b));
    if (strcmp(op, "==") == 0) return equal_truth(a, b);
    if (strcmp(op, "!=") == 0) return not_of(equal_truth(a, b));
    if (a->kind == VALUE_NUMBER && b->kind == VALUE_NUMBER)
        return order_truth(a->number, op, b->number);
    if (strcmp(op, "in") == 0) return in_truth(f, a, b);
    if (strcmp(op, "not in") == 0) return not_of(in_truth(f, a, b));
    return -1;
}

/* ---- narrowing ---- */

static const struct value *value_at(struct frame *f, const char *path, const struct expr *e)
{
    const struct value *v = judge_env_find(f->env.top, path);
    if (v) return v;
    bool report = f->run->report;
    unsigned guards = f->guards;
    f->run->report = false; /* was said where the condition was evaluated */
    f->guards = 0;
    v = judge_eval(f, e);
    f->run->report = report;
    f->guards = guards;
    return v;
}

static bool plain(const struct expr *e)
{
    if (e->kind == EXPR_NAME) return true;
    if (e->kind == EXPR_ATTR) return plain(e->left);
    for (int i = 0; e->kind == EXPR_TUPLE && i < e->items; i++) {
        if (!plain(e->item[i])) return false;
    }
    return e->kind == EXPR_TUPLE || (e->kind == EXPR_BINOP && plain(e->left) && plain(e->right));
}

static bool is_one(struct judge_run *r, const struct value *v, const struct value *type)
{
    if (type->kind == VALUE_UNION) {
        for (int i = 0; i < type->items; i++) {
            if (is_one(r, v, type->item[i])) return true;
        }
        return false;
    }
    if (v->kind == VALUE_OBJECT && type->kind == VALUE_OBJECT)
        return api_inherits(r->api, v->class_, type->class_->path);
    if (v->kind == VALUE_OWN_OBJECT && type->kind == VALUE_OWN_OBJECT)
        return judge_own_inherits(v->own_class, type->own_class);
    return false;
}

/* A union keeps what is of the type; where nothing is, the type itself is what is known. */
static const struct value *narrowed(struct judge_run *r, const struct value *v,
                                    const struct value *type, bool sense)
{
    const struct value *sum = NULL;
    if (judge_value_has_unknown(type) && sense) return &value_unknown;
    if (v->kind != VALUE_UNION) {
        if (!sense) return is_one(r, v, type) ? &value_unknown : v;
        return is_one(r, v, type) ? v : type;
    }
    for (int i = 0; i < v->items; i++) {
        if (is_one(r, v->item[i], type) == sense) sum = judge_value_join(r, sum, v->item[i]);
    }
    return sum ? sum : sense ? type : &value_unknown;
}

static void assume_isinstance(struct frame *f, const struct expr *call, bool sense)
{
    const char *path = judge_expr_path(f->run, call->item[0]);
    if (!path || !plain(call->item[1])) return;
    const struct value *v = value_at(f, path, call->item[0]);
    const struct value *type = judge_value_instance(f->run, judge_eval(f, call->item[1]));
    if (!sense && judge_value_has_unknown(type)) return;
    judge_env_bind(f, path, narrowed(f->run, v, type, sense));
}

/* hasattr(x, "name"), "name" in dir(x), getattr(x, "name", None): x.name may be there. */
static void assume_there(struct frame *f, const struct expr *object, const struct expr *name)
{
    const char *path = judge_expr_path(f->run, object);
    if (!path || name->kind != EXPR_STR) return;
    const struct value *v = value_at(f, path, object);
    if (judge_attr_has(f, v, name->text) == 1) return;
    judge_env_bind(f, judge_run_format(f->run, "%s.%s", path, name->text), &value_unknown);
}

/* An unknown question about a callable: `if takes(fn)`: what it takes was asked. */
static void assume_asked(struct frame *f, const struct expr *e)
{
    const char *path = judge_expr_path(f->run, e);
    if (path) judge_env_bind(f, judge_run_format(f->run, "%s()", path), &value_unknown);
}

static bool calls(const struct expr *e, const char *name, int args)
{
    return e->kind == EXPR_CALL && e->left->kind == EXPR_NAME && e->items == args &&
           strcmp(e->left->text, name) == 0;
}

static void asked_in(struct frame *f, const struct expr *e)
{
    if (!e || e->kind == EXPR_LAMBDA) return;
    if (e->kind == EXPR_CALL) {
        for (int i = 0; i < e->items; i++) {
            if (e->item[i]->kind == EXPR_NAME || e->item[i]->kind == EXPR_ATTR)
                assume_asked(f, e->item[i]);
        }
        asked_in(f, e->left);
    }
    if (e->kind == EXPR_ATTR) asked_in(f, e->left);
    for (int i = 0; e->kind == EXPR_COMPARE && i < e->items; i++) asked_in(f, e->item[i]);
    if (e->kind == EXPR_COMPARE) asked_in(f, e->left);
}

static void assume_call(struct frame *f, const struct expr *e, bool sense)
{
    if (calls(e, "isinstance", 2))
        assume_isinstance(f, e, sense);
    else if (sense && (calls(e, "hasattr", 2) || calls(e, "getattr", 3)))
        assume_there(f, e->item[0], e->item[1]);
    else
        asked_in(f, e);
}

static void assume_none(struct frame *f, const struct expr *e, bool none)
{
    const struct expr *at = e->kind == EXPR_WALRUS ? e->left : e;
    if (calls(e, "getattr", 3) && !none) assume_there(f, e->item[0], e->item[1]);
    const char *path = judge_expr_path(f->run, at);
    if (!path) return;
    const struct value *v = value_at(f, path, at);
    if (none) return;
    if (v->kind == VALUE_UNION) judge_env_bind(f, path, judge_value_without_none(f->run, v));
}

static void assume_compare(struct frame *f, const struct expr *e, bool sense)
{
    const struct expr *right = e->items == 1 ? e->item[0] : NULL;
    if (!right) return;
    bool listed = calls(right, "dir", 1) || calls(right, "vars", 1);
    if (listed && strcmp(e->op[0], sense ? "in" : "not in") == 0)
        assume_there(f, right->item[0], e->left);
    bool none = right->kind == EXPR_CONST && right->value == CONST_NONE;
    bool negative = strcmp(e->op[0], "is not") == 0 || strcmp(e->op[0], "!=") == 0;
    bool positive = strcmp(e->op[0], "is") == 0 || strcmp(e->op[0], "==") == 0;
    if (none && (negative || positive))
        assume_none(f, e->left, sense == positive);
    else
        asked_in(f, e);
}

void judge_assume(struct frame *f, const struct expr *e, bool sense)
{
    switch (e->kind) {
    case EXPR_NOT:
        judge_assume(f, e->left, !sense);
        break;
    case EXPR_BOOL:
        if ((strcmp(e->text, "and") == 0) != sense) break;
        for (int i = 0; i < e->items; i++) judge_assume(f, e->item[i], sense);
        break;
    case EXPR_CALL:
        assume_call(f, e, sense);
        break;
    case EXPR_COMPARE:
        assume_compare(f, e, sense);
        break;
    case EXPR_NAME:
    case EXPR_ATTR:
    case EXPR_WALRUS:
        if (sense) assume_none(f, e, false);
        break;
    default:
        break;
    }
}
