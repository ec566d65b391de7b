/* judge_expr.c: expressions as values. */
#include "compat/judge_protocol.h"

#include <string.h>

/* ---- names and attributes ---- */

static const struct value *eval_name(struct frame *f, const struct expr *e)
{
    const struct value *v = judge_name_find(f, e->text);
    if (!v) v = judge_star_find(f->run, f->module, e->text);
    if (!v && f->module->star_open) v = &value_unknown;
    if (!v) v = judge_value_of_kind(f->run, VALUE_OUTSIDE, e->text);
    const struct value *hint = judge_hint_for(f, e->text, v);
    if (v->kind == VALUE_BROKEN) judge_find_fold(f, v->cause, e->line);
    return hint ? hint : v;
}

static const struct value *eval_attr(struct frame *f, const struct expr *e)
{
    const char *path = judge_expr_path(f->run, e);
    const struct value *known = path ? judge_env_find(f->env.top, path) : NULL;
    const struct value *base = judge_eval(f, e->left);
    if (known) return known;
    const struct value *v = judge_attr_of(f, base, e->text, e->line,
                                          path ? judge_expr_path(f->run, e->left) : NULL, false);
    const struct value *hint = path ? judge_hint_for(f, path, v) : NULL;
    return hint ? hint : v;
}

/* ---- calls ---- */

static void add_name(struct args *out, const char *name, const struct value *v)
{
    out->name[out->names] = name;
    out->value[out->names++] = v;
}

/* Room for what stars of known things spread out. */
static void count_args(const struct value *const *star, const struct value *const *dstar,
                       const struct expr *call, int *pos, int *names)
{
    *pos = call->items;
    *names = call->kws;
    for (int i = 0; i < call->items; i++) {
        if (star[i] && star[i]->kind == VALUE_ITEMS) *pos += star[i]->items;
    }
    for (int i = 0; i < call->kws; i++) {
        if (dstar[i] && dstar[i]->kind == VALUE_DICT) *names += dstar[i]->items;
    }
}

static void spread_star(struct args *out, const struct value *v)
{
    bool fixed = v->kind == VALUE_ITEMS && !v->open;
    if (!fixed) {
        out->star = true;
        return;
    }
    for (int i = 0; i < v->items; i++) out->pos[out->count++] = v->item[i];
}

static void spread_dict(struct args *out, const struct value *v)
{
    if (v->kind != VALUE_DICT) {
        out->dstar = true;
        return;
    }
    for (int i = 0; i < v->items; i++) {
        if (v->key[i])
            add_name(out, v->key[i], v->item[i]);
        else
            out->dstar = true;
    }
    out->dstar |= v->open;
}

void judge_eval_args(struct frame *f, const struct expr *call, struct args *out)
{
    struct judge_run *r = f->run;
    const struct value **one = judge_run_take(r, call->items, sizeof *one);
    const struct value **kw = judge_run_take(r, call->kws, sizeof *kw);
    const struct value **star = judge_run_take(r, call->items, sizeof *star);
    const struct value **dstar = judge_run_take(r, call->kws, sizeof *dstar);
    int pos, names;
    *out = (struct args){.call = call};
    if (!judge_run_ok(r)) return;
    for (int i = 0; i < call->items; i++) {
        const struct expr *e = call->item[i];
        one[i] = judge_eval(f, e->kind == EXPR_STAR ? e->left : e);
        if (e->kind == EXPR_STAR) star[i] = one[i];
    }
    for (int i = 0; i < call->kws; i++) {
        kw[i] = judge_eval(f, call->kw[i].value);
        if (!call->kw[i].name) dstar[i] = kw[i];
    }
    count_args(star, dstar, call, &pos, &names);
    out->pos = judge_run_take(r, pos, sizeof *out->pos);
    out->name = judge_run_take(r, names, sizeof *out->name);
    out->value = judge_run_take(r, names, sizeof *out->value);
    if (!judge_run_ok(r)) return;
    for (int i = 0; i < call->items; i++) {
        if (star[i])
            spread_star(out, star[i]);
        else
            out->pos[out->count++] = one[i];
    }
    for (int i = 0; i < call->kws; i++) {
        if (dstar[i])
            spread_dict(out, dstar[i]);
        else
            add_name(out, call->kw[i].name, kw[i]);
    }
}

static const struct value *eval_call(struct frame *f, const struct expr *e)
{
    const char *path = judge_expr_path(f->run, e->left);
    f->called = e->left->kind == EXPR_ATTR ? e->left->text : NULL;
    const struct value *callee = judge_eval(f, e->left);
    f->called = NULL;
    bool lib = callee->kind == VALUE_FUNCTION;
    if (e->left->kind == EXPR_ATTR && !lib) judge_called_note(f->run, e->left->text);
    const struct value *known = judge_call_special(f, callee, e);
    if (known) return known;
    const char *guard = path ? judge_run_format(f->run, "%s()", path) : NULL;
    bool probed = guard && judge_env_find(f->env.top, guard) != NULL;
    struct args a;
    judge_eval_args(f, e, &a);
    if (f->raised) return &value_unknown;
    judge_change_by_method(f, e);
    judge_change_by_call(f, callee, e);
    unsigned guards = f->guards;
    if (probed) { /* somebody asked what it takes */
        f->mute++;
        f->guards = 0;
    }
    if (callee->kind == VALUE_OUTSIDE && strcmp(callee->text, "len") == 0 && a.count == 1)
        judge_generator(f, a.pos[0], "has no length", e->line);
    f->discarded = f->alone == e;
    const struct value *v = judge_call_value(f, callee, &a, path, e->line);
    f->discarded = false;
    if (probed) {
        f->mute--;
        f->guards = guards;
    }
    return v;
}

/* ---- literals ---- */

static const struct value *eval_items(struct frame *f, const struct expr *e, const char *kind)
{
    const struct value **item = judge_run_take(f->run, e->items, sizeof *item);
    bool open = false;
    int n = 0;
    for (int i = 0; i < e->items; i++) {
        const struct expr *one = e->item[i];
        const struct value *v = judge_eval(f, one->kind == EXPR_STAR ? one->left : one);
        open |= one->kind == EXPR_STAR;
        if (item) item[n++] = v;
    }
    return judge_value_make(f->run, (struct value){.kind = VALUE_ITEMS,
                                                   .text = kind,
                                                   .item = item,
                                                   .items = n,
                                                   .open = open || !item != (e->items == 0)});
}

static const struct value *eval_dict(struct frame *f, const struct expr *e)
{
    const struct value **item = judge_run_take(f->run, e->items, sizeof *item);
    const char **key = judge_run_take(f->run, e->items, sizeof *key);
    struct value v = {.kind = VALUE_DICT, .item = item, .key = key};
    for (int i = 0; i < e->items; i++) {
        const struct value *k = e->key[i] ? judge_eval(f, e->key[i]) : NULL;
        const struct value *one = judge_eval(f, e->item[i]);
        if (!item || !key) continue;
        item[v.items] = one;
        key[v.items++] = k && k->kind == VALUE_STR ? k->text : NULL;
        v.open |= !k || k->kind != VALUE_STR;
    }
    return judge_value_make(f->run, v);
}

static const struct value *eval_const(struct frame *f, const struct expr *e)
{
    switch (e->value) {
    case CONST_NONE:
        return judge_value_of_kind(f->run, VALUE_NONE, NULL);
    case CONST_NUMBER:
        return judge_value_make(f->run, (struct value){.kind = VALUE_NUMBER, .number = e->number});
    default:
        return judge_value_bool(f->run, e->value == CONST_TRUE);
    }
}

/* ---- the rest ---- */

static const struct value *eval_bool(struct frame *f, const struct expr *e)
{
    struct env before = f->env;
    const struct value *sum = NULL;
    bool is_and = strcmp(e->text, "and") == 0;
    for (int i = 0; i < e->items && !f->raised; i++) {
        const struct value *v = judge_eval(f, e->item[i]);
        int t = judge_value_truth(v);
        bool last = i + 1 == e->items || (t >= 0 && (t == 1) != is_and);
        /* `a or b` is never a false a, `a and b` never a true one */
        if (last)
            sum = judge_value_join(f->run, sum, v);
        else if (t < 0)
            sum = judge_value_join(f->run, sum, is_and ? v : judge_value_without_none(f->run, v));
        if (last) break;
        judge_assume(f, e->item[i], is_and);
    }
    f->env.top = before.top;
    return sum ? sum : &value_unknown;
}

static const struct value *eval_choice(struct frame *f, const struct expr *e)
{
    int t = judge_value_truth(judge_eval(f, e->left));
    const struct value *a = NULL, *b = NULL;
    struct env before = f->env;
    if (t != 0) {
        judge_assume(f, e->left, true);
        a = judge_eval(f, e->right);
    }
    f->env = before;
    if (t != 1) {
        judge_assume(f, e->left, false);
        b = judge_eval(f, e->third);
    }
    f->env = before;
    return judge_value_join(f->run, a, b);
}

static const struct value *eval_comp(struct frame *f, const struct expr *e)
{
    struct env before = f->env;
    for (int i = 0; i < e->loops; i++) {
        judge_assign(f, e->loop[i].target, judge_value_element(f, judge_eval(f, e->loop[i].iter)));
        for (int j = 0; j < e->loop[i].tests; j++) {
            judge_eval(f, e->loop[i].test[j]);
            judge_assume(f, e->loop[i].test[j], true);
        }
    }
    const struct value *item[2] = {&value_unknown, &value_unknown};
    for (int i = 0; i < e->items; i++) {
        const struct value *v = judge_eval(f, e->item[i]);
        if (i < 2) item[i] = v;
    }
    f->env = before;
    if (strcmp(e->text, "dict") != 0)
        return judge_value_generic(f->run, strcmp(e->text, "generator") == 0 ? "Iterator" : e->text,
                                   item[0]);
    const struct value **both = judge_run_take(f->run, 2, sizeof *both);
    if (!both) return &value_unknown;
    both[0] = item[0];
    both[1] = item[1];
    return judge_value_make(
        f->run, (struct value){.kind = VALUE_GENERIC, .text = "dict", .item = both, .items = 2});
}

static const struct value *eval_binop(struct frame *f, const struct expr *e)
{
    const struct value *a = judge_eval(f, e->left), *b = judge_eval(f, e->right);
    if (a->kind == VALUE_BROKEN) return a;
    if (strcmp(e->text, "|") == 0 && a->kind == VALUE_DICT && b->kind == VALUE_DICT) {
        int n = a->items + b->items;
        struct value v = {.kind = VALUE_DICT, .open = a->open || b->open, .items = n};
        const struct value **item = judge_run_take(f->run, n, sizeof *item);
        const char **key = judge_run_take(f->run, n, sizeof *key);
        if (!item || !key) return &value_unknown;
        for (int i = 0; i < n; i++) {
            const struct value *of = i < a->items ? a : b;
            int at = i < a->items ? i : i - a->items;
            item[i] = of->item[at];
            key[i] = of->key[at];
        }
        v.item = item;
        v.key = key;
        return judge_value_make(f->run, v);
    }
    bool repeated = strcmp(e->text, "*") == 0 && a->kind == VALUE_ITEMS;
    bool added = strcmp(e->text, "+") == 0 && a->kind == VALUE_ITEMS && b->kind == VALUE_ITEMS;
    if (repeated || added)
        return judge_value_generic(
            f->run, a->text,
            added ? judge_value_join(f->run, judge_value_element(f, a), judge_value_element(f, b))
                  : judge_value_element(f, a));
    return &value_unknown;
}

static const struct value *eval_sub(struct frame *f, const struct expr *e)
{
    const struct value *v = judge_eval(f, e->left), *index = judge_eval(f, e->right);
    const struct value *item = judge_enum_item(f, v, index, e->line);
    if (item) return item;
    judge_subscript(f, v, index, e->line);
    judge_generator(f, v, "has no items", e->line);
    return judge_value_index(f, v, index, e);
}

static const struct value *eval_lambda(struct frame *f, const struct expr *e)
{
    struct env before = f->env;
    for (int i = 0; i < e->params; i++) judge_env_bind(f, e->param[i].name, &value_unknown);
    judge_eval(f, e->third);
    f->env = before;
    struct own_function *fn = judge_run_take(f->run, 1, sizeof *fn);
    if (!fn) return &value_unknown;
    *fn = (struct own_function){.lambda = e, .module = f->module, .name = "lambda"};
    return judge_value_make(f->run, (struct value){.kind = VALUE_OWN_FUNCTION, .own_function = fn});
}

static const struct value *eval_compare(struct frame *f, const struct expr *e)
{
    const struct value *left = judge_eval(f, e->left);
    int all = 1;
    for (int i = 0; i < e->items; i++) {
        const struct value *right = judge_eval(f, e->item[i]);
        int t = judge_compare_truth(f, left, e->op[i], right);
        if (t <= 0 && all != 0) all = t;
        left = right;
    }
    return all < 0 ? &value_unknown : judge_value_bool(f->run, all);
}

static void eval_all(struct frame *f, const struct expr *e)
{
    if (e->left) judge_eval(f, e->left);
    if (e->right) judge_eval(f, e->right);
    for (int i = 0; i < e->items; i++) {
        if (e->item[i]) judge_eval(f, e->item[i]);
    }
}

const struct value *judge_eval(struct frame *f, const struct expr *e)
{
    const struct value *v;
    int t;
    if (f->raised || !judge_run_ok(f->run)) return &value_unknown;
    switch (e->kind) {
    case EXPR_NAME:
        return eval_name(f, e);
    case EXPR_ATTR:
        return eval_attr(f, e);
    case EXPR_CALL:
        return eval_call(f, e);
    case EXPR_SUB:
        return eval_sub(f, e);
    case EXPR_CONST:
        return eval_const(f, e);
    case EXPR_STR:
        judge_named_collect(f->run, e->text);
        return judge_value_of_kind(f->run, VALUE_STR, e->text);
    case EXPR_LIST:
    case EXPR_TUPLE:
    case EXPR_SET:
        return eval_items(f, e,
                          e->kind == EXPR_TUPLE  ? "tuple"
                          : e->kind == EXPR_LIST ? "list"
                                                 : "set");
    case EXPR_DICT:
        return eval_dict(f, e);
    case EXPR_COMPARE:
        return eval_compare(f, e);
    case EXPR_BOOL:
        return eval_bool(f, e);
    case EXPR_NOT:
        t = 1 - judge_value_truth(judge_eval(f, e->left));
        return t > 1 ? &value_unknown : judge_value_bool(f->run, t);
    case EXPR_IFEXP:
        return eval_choice(f, e);
    case EXPR_LAMBDA:
        return eval_lambda(f, e);
    case EXPR_AWAIT:
        return judge_value_awaited(f, judge_eval(f, e->left));
    case EXPR_COMP:
        return eval_comp(f, e);
    case EXPR_WALRUS:
        v = judge_eval(f, e->right);
        judge_assign(f, e->left, v);
        return v;
    case EXPR_BINOP:
        return eval_binop(f, e);
    default:
        eval_all(f, e);
        return &value_unknown;
    }
}
