/* lint_py_name.c: names and the walk over expressions. See lint_py.h. */
#include "harness/lint_py.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* ---- dotted names ---- */

static void dotted(const struct expr *e, char out[LINT_NAME])
{
    out[0] = '\0';
    while (e && (e->kind == EXPR_CALL || e->kind == EXPR_AWAIT || e->kind == EXPR_SUB)) e = e->left;
    if (!e) return;
    if (e->kind == EXPR_NAME) snprintf(out, LINT_NAME, "%s", e->text);
    if (e->kind != EXPR_ATTR) return;
    char left[LINT_NAME];
    dotted(e->left, left);
    snprintf(out, LINT_NAME, "%.150s%s%.100s", left, left[0] ? "." : "", e->text);
}

/* The statement that imports a name, in a block or below. */
static bool imported_in(const struct block *b, const char *name, size_t n, char out[LINT_NAME]);

static bool same(const char *a, const char *name, size_t n)
{
    return a && strlen(a) == n && memcmp(a, name, n) == 0;
}

static bool imported_by(const struct stmt *s, const char *name, size_t n, char out[LINT_NAME])
{
    for (int i = 0; i < s->imports; i++) {
        const struct imported *in = &s->import[i];
        if (!same(in->as ? in->as : in->name, name, n)) continue;
        if (s->kind == STMT_FROM)
            snprintf(out, LINT_NAME, "%.120s.%.120s", s->name ? s->name : "", in->name);
        else
            snprintf(out, LINT_NAME, "%.250s", in->name);
        return true;
    }
    return imported_in(&s->body, name, n, out) || imported_in(&s->other, name, n, out);
}

static bool imported_in(const struct block *b, const char *name, size_t n, char out[LINT_NAME])
{
    for (int i = 0; i < b->stmts; i++) {
        if (imported_by(&b->stmt[i], name, n, out)) return true;
    }
    return false;
}

void lint_py_name(const struct lint_py *p, const struct expr *e, char out[LINT_NAME])
{
    char plain[LINT_NAME], root[LINT_NAME];
    dotted(e, plain);
    size_t n = strcspn(plain, ".");
    if (n && imported_in(&p->module->body, plain, n, root))
        snprintf(out, LINT_NAME, "%.120s%.120s", root, plain + n);
    else
        memcpy(out, plain, sizeof plain);
}

bool lint_py_last(const char *name, const char *const *list)
{
    const char *dot = strrchr(name, '.');
    const char *last = dot ? dot + 1 : name;
    for (int i = 0; list[i]; i++) {
        if (strcmp(last, list[i]) == 0) return true;
    }
    return false;
}

bool lint_py_holds(const char *name, const char *const *pieces)
{
    for (int i = 0; pieces[i]; i++) {
        if (strcasestr(name, pieces[i])) return true;
    }
    return false;
}

bool lint_py_tells(const char *name)
{
    static const char *const pieces[] = {
        "fail",    "err",     "bad",   "invalid",  "skip",      "miss",    "lost",     "drop",
        "retry",   "retries", "tries", "attempt",  "reject",    "broke",   "abort",    "unavail",
        "unsupp",  "timeout", "crash", "dead",     "fallback",  "warn",    "excepted", "unknown",
        "problem", "fatal",   "exc_",  "incompat", "unhealthy", "disable", NULL};
    return lint_py_holds(name, pieces);
}

const struct expr *lint_py_keyword(const struct expr *call, const char *name)
{
    for (int i = 0; i < call->kws; i++) {
        if (call->kw[i].name && strcmp(call->kw[i].name, name) == 0) return call->kw[i].value;
    }
    return NULL;
}

/* ---- the walk ---- */

static void each_of(struct expr *const *list, int n, void (*visit)(const struct expr *e, void *ctx),
                    void *ctx)
{
    for (int i = 0; i < n; i++) lint_py_each_expr(list[i], visit, ctx);
}

void lint_py_each_expr(const struct expr *e, void (*visit)(const struct expr *e, void *ctx),
                       void *ctx)
{
    if (!e) return;
    visit(e, ctx);
    lint_py_each_expr(e->left, visit, ctx);
    lint_py_each_expr(e->right, visit, ctx);
    lint_py_each_expr(e->third, visit, ctx);
    if (e->key) each_of(e->key, e->items, visit, ctx);
    each_of(e->item, e->items, visit, ctx);
    for (int i = 0; i < e->kws; i++) lint_py_each_expr(e->kw[i].value, visit, ctx);
    for (int i = 0; i < e->loops; i++) {
        lint_py_each_expr(e->loop[i].iter, visit, ctx);
        each_of(e->loop[i].test, e->loop[i].tests, visit, ctx);
    }
}

void lint_py_each(const struct block *b, bool deep, void (*visit)(const struct expr *e, void *ctx),
                  void *ctx)
{
    for (int i = 0; i < b->stmts; i++) {
        const struct stmt *s = &b->stmt[i];
        if (!deep && (s->kind == STMT_DEF || s->kind == STMT_CLASS)) continue;
        each_of(s->target, s->targets, visit, ctx);
        lint_py_each_expr(s->value, visit, ctx);
        lint_py_each_expr(s->type, visit, ctx);
        lint_py_each(&s->body, deep, visit, ctx);
        for (int k = 0; k < s->handlers; k++) lint_py_each(&s->handler[k].body, deep, visit, ctx);
        for (int k = 0; k < s->branches; k++) lint_py_each(&s->branch[k].body, deep, visit, ctx);
        lint_py_each(&s->other, deep, visit, ctx);
        lint_py_each(&s->last, deep, visit, ctx);
    }
}

struct mention {
    const char *name;
    bool found;
};

static void look(const struct expr *e, void *ctx)
{
    struct mention *m = ctx;
    m->found |= e->kind == EXPR_NAME && strcmp(e->text, m->name) == 0;
}

bool lint_py_mentions(const struct block *b, const char *name)
{
    struct mention m = {.name = name};
    lint_py_each(b, false, look, &m);
    return m.found;
}
