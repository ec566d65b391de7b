/* judge_env.c: what names and dotted paths are bound to. A binding of "x" hides all of "x.…" that
 * stands below it. */
#include "compat/judge_parts.h"

#include <stdio.h>
#include <string.h>

enum { PATH_MOST = 512, PATH_DEPTH = 16 };

void judge_env_bind(struct frame *f, const char *name, const struct value *v)
{
    struct binding *b = judge_run_take(f->run, 1, sizeof *b);
    if (!b) return;
    int depth = f->env.top ? f->env.top->depth + 1 : 1;
    *b = (struct binding){.name = name, .value = v, .next = f->env.top, .depth = depth};
    f->env.top = b;
}

/* `name` is `path` or one of its beginnings: 2, 1; else 0. */
static int covers(const char *name, const char *path)
{
    size_t n = 0;
    while (name[n] && name[n] == path[n]) n++;
    if (name[n]) return 0;
    if (!path[n]) return 2;
    return path[n] == '.' || path[n] == '(' ? 1 : 0;
}

const struct value *judge_env_find(const struct binding *top, const char *path)
{
    for (const struct binding *b = top; b; b = b->next) {
        int c = covers(b->name, path);
        if (c == 2) return b->value;
        if (c == 1) return NULL;
    }
    return NULL;
}

static const struct binding *common(const struct binding *a, const struct binding *b)
{
    while (a != b) {
        int da = a ? a->depth : 0, db = b ? b->depth : 0;
        if (da >= db && a) a = a->next;
        if (db > da && b)
            b = b->next;
        else if (da == db && b && a != b && da > 0)
            b = b->next;
    }
    return a;
}

static bool bound_above(const struct binding *top, const struct binding *below,
                        const struct binding *until, const char *name)
{
    for (const struct binding *b = top; b != below; b = b->next) {
        if (b == until) return false;
        if (strcmp(b->name, name) == 0) return true;
    }
    return false;
}

/* A path that one side narrowed and the other did not is dropped by not being bound again; to keep
 * it hidden, its root's own value is not touched: so only names are joined. */
static void join_side(struct frame *f, const struct binding *side, const struct binding *other,
                      const struct binding *base, const struct binding *done)
{
    for (const struct binding *b = side; b != base; b = b->next) {
        if (bound_above(side, b, NULL, b->name)) continue;
        if (done && bound_above(done, base, NULL, b->name)) continue;
        const struct value *there = judge_env_find(other, b->name);
        if (!there && strpbrk(b->name, ".(")) continue;
        judge_env_bind(f, b->name, there ? judge_value_join(f->run, b->value, there) : b->value);
    }
}

struct env judge_env_join(struct judge_run *r, struct env a, struct env b)
{
    if (a.dead) return b;
    if (b.dead) return a;
    const struct binding *base = common(a.top, b.top);
    struct frame f = {.run = r, .env = {.top = base}};
    join_side(&f, a.top, b.top, base, NULL);
    join_side(&f, b.top, a.top, base, a.top);
    return f.env;
}

struct env judge_env_prefer(struct judge_run *r, struct env a, struct env b)
{
    const struct binding *base = common(a.top, b.top);
    struct frame f = {.run = r, .env = a};
    for (const struct binding *at = b.top; at != base; at = at->next) {
        if (bound_above(b.top, at, NULL, at->name)) continue;
        if (!bound_above(a.top, base, NULL, at->name)) judge_env_bind(&f, at->name, at->value);
    }
    f.env.dead = a.dead && b.dead;
    return f.env;
}

/* ---- paths ---- */

static bool path_add(char *buf, const char *text)
{
    size_t n = strlen(buf), m = strlen(text);
    if (n + m + 1 > PATH_MOST) return false;
    memcpy(buf + n, text, m + 1);
    return true;
}

static bool path_write(char *buf, const struct expr *e, int depth)
{
    if (!e || depth > PATH_DEPTH) return false;
    switch (e->kind) {
    case EXPR_NAME:
        return path_add(buf, e->text);
    case EXPR_ATTR:
        return path_write(buf, e->left, depth + 1) && path_add(buf, ".") && path_add(buf, e->text);
    case EXPR_CALL:
        if (e->kws > 0 || !path_write(buf, e->left, depth + 1) || !path_add(buf, "(")) return false;
        for (int i = 0; i < e->items; i++) {
            if (i > 0 && !path_add(buf, ",")) return false;
            if (!path_write(buf, e->item[i], depth + 1)) return false;
        }
        return path_add(buf, ")");
    case EXPR_STR:
        return path_add(buf, "'") && path_add(buf, e->text) && path_add(buf, "'");
    default:
        return false;
    }
}

const char *judge_expr_path(struct judge_run *r, const struct expr *e)
{
    char buf[PATH_MOST] = "";
    if (!path_write(buf, e, 0)) return NULL;
    const char *kept = pool_text(r->pool, buf, strlen(buf), r->err);
    return kept;
}

/* ---- slots: what is bound from more than one place ---- */

const struct attr_slot *judge_slot_find(const struct attr_slot *list, const char *name)
{
    for (; list; list = list->next) {
        if (strcmp(list->name, name) == 0) return list;
    }
    return NULL;
}

struct attr_slot *judge_slot_join(struct judge_run *r, struct attr_slot **list, const char *name,
                                  const struct value *v)
{
    struct attr_slot *s = (struct attr_slot *)judge_slot_find(*list, name);
    if (!s) {
        s = judge_run_take(r, 1, sizeof *s);
        if (!s) return NULL;
        *s = (struct attr_slot){.name = name, .next = *list};
        *list = s;
    }
    s->now = judge_value_join(r, s->now, v);
    return s;
}

/* ---- names ---- */

static bool shared(const struct own_module *m, const char *name)
{
    for (int i = 0; i < m->shareds; i++) {
        if (strcmp(m->shared[i], name) == 0) return true;
    }
    return false;
}

void judge_name_assign(struct frame *f, const char *name, const struct value *v)
{
    bool constant = v->kind == VALUE_NONE || v->kind == VALUE_BOOL || v->kind == VALUE_NUMBER;
    if (shared(f->module, name)) {
        if (!f->module_body) judge_slot_join(f->run, &f->module->late, name, v);
        if (constant) v = judge_value_join(f->run, v, &value_unknown);
    }
    judge_env_bind(f, name, v);
}

const struct value *judge_module_name(struct judge_run *r, struct own_module *m, const char *name,
                                      bool *unknown)
{
    const struct value *v = judge_env_find(m->env.top, name);
    const struct attr_slot *late = judge_slot_find(m->late, name);
    const struct value *set = late ? late->seen : NULL;
    if (set) v = judge_value_join(r, v, set);
    if (!v && m->star_open) {
        *unknown = true;
        return &value_unknown;
    }
    return v;
}

const struct value *judge_name_find(struct frame *f, const char *name)
{
    const struct value *v = judge_env_find(f->env.top, name);
    if (!v) v = judge_env_find(f->outer, name);
    bool unknown = false;
    if (!v && !f->module_body) v = judge_module_name(f->run, f->module, name, &unknown);
    return v;
}
