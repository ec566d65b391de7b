/* judge_change.c: a dict or list written out is known only until somebody changes it. */
#include "compat/judge_parts.h"

#include <string.h>

static const struct value *literal_at(struct frame *f, const struct expr *e, const char **path)
{
    *path = judge_expr_path(f->run, e);
    const struct value *v = *path ? judge_env_find(f->env.top, *path) : NULL;
    return v && (v->kind == VALUE_DICT || v->kind == VALUE_ITEMS) ? v : NULL;
}

/* A copy without `key`, with room for one more. */
static struct value without(struct judge_run *r, const struct value *d, const char *key)
{
    const struct value **item = judge_run_take(r, d->items + 1, sizeof *item);
    const char **name = judge_run_take(r, d->items + 1, sizeof *name);
    struct value v = {.kind = VALUE_DICT, .item = item, .key = name, .open = d->open};
    for (int i = 0; item && name && i < d->items; i++) {
        if (d->key[i] && strcmp(d->key[i], key) == 0) continue;
        item[v.items] = d->item[i];
        name[v.items++] = d->key[i];
    }
    return v;
}

void judge_dict_set(struct frame *f, const struct expr *d, const struct value *key,
                    const struct value *v)
{
    const char *path;
    const struct value *old = literal_at(f, d, &path);
    if (!old) return;
    if (old->kind != VALUE_DICT || key->kind != VALUE_STR) {
        judge_env_bind(f, path, &value_unknown);
        return;
    }
    struct value fresh = without(f->run, old, key->text);
    if (!judge_run_ok(f->run)) return;
    fresh.item[fresh.items] = v;
    fresh.key[fresh.items++] = key->text;
    judge_env_bind(f, path, judge_value_make(f->run, fresh));
}

void judge_dict_drop(struct frame *f, const struct expr *d, const struct value *key)
{
    const char *path;
    const struct value *old = literal_at(f, d, &path);
    if (!old) return;
    bool known = old->kind == VALUE_DICT && key->kind == VALUE_STR;
    judge_env_bind(f, path,
                   known ? judge_value_make(f->run, without(f->run, old, key->text))
                         : &value_unknown);
}

void judge_change_by_method(struct frame *f, const struct expr *call)
{
    static const char *const reads[] = {"get", "keys", "values", "items", "copy", "index", "count"};
    const struct expr *e = call->left;
    const char *path;
    if (e->kind != EXPR_ATTR) return;
    const struct value *old = literal_at(f, e->left, &path);
    if (!old) return;
    for (size_t i = 0; i < sizeof reads / sizeof reads[0]; i++) {
        if (strcmp(e->text, reads[i]) == 0) return;
    }
    bool pop = strcmp(e->text, "pop") == 0 && call->items > 0 && call->item[0]->kind == EXPR_STR;
    if (pop)
        judge_dict_drop(f, e->left, judge_eval(f, call->item[0]));
    else
        judge_env_bind(f, path, &value_unknown);
}

void judge_change_by_call(struct frame *f, const struct value *callee, const struct expr *call)
{
    const char *path;
    bool builtin = callee->kind == VALUE_OUTSIDE && !strchr(callee->text, '.');
    if (builtin || callee->kind == VALUE_CLASS || callee->kind == VALUE_FUNCTION) return;
    for (int i = 0; i < call->items + call->kws; i++) {
        const struct expr *e = i < call->items ? call->item[i] : call->kw[i - call->items].value;
        bool spread = i >= call->items && !call->kw[i - call->items].name;
        if (!spread && literal_at(f, e, &path)) judge_env_bind(f, path, &value_unknown);
    }
}
