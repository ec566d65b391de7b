/* lint_py.c: the walk over the modules of a Python source. See lint_py.h. */
#include "harness/lint_py.h"

#include <string.h>

void lint_py_report(const struct lint_py *p, enum lint_id rule, int line, const char *type,
                    const char *message)
{
    if (!message) return;
    lint_add(p->l, &(struct lint_finding){.rule = rule,
                                          .file = p->file,
                                          .line = line,
                                          .function = p->function,
                                          .type = type,
                                          .message = message});
}

static void walk(const struct lint_py *p, const struct block *b);

static void walk_definition(const struct lint_py *p, const struct stmt *s)
{
    struct lint_py inner = *p;
    inner.function =
        p->function ? pool_format(p->l->pool, p->l->err, "%s.%s", p->function, s->name) : s->name;
    inner.loop = NULL;
    inner.fails = false;
    if (s->kind == STMT_DEF) inner.scope = &s->body;
    walk(&inner, &s->body);
}

static void walk_parts(const struct lint_py *p, const struct stmt *s)
{
    walk(p, &s->body);
    for (int i = 0; i < s->handlers; i++) walk(p, &s->handler[i].body);
    for (int i = 0; i < s->branches; i++) walk(p, &s->branch[i].body);
    walk(p, &s->other);
    walk(p, &s->last);
}

/* Does all that follows statement i fail, here or where the block goes on? */
static bool fails_after(const struct lint_py *p, const struct block *b, int i)
{
    struct block rest = {.stmt = b->stmt + i + 1, .stmts = b->stmts - i - 1};
    unsigned ends = lint_py_ends(p, &rest, NULL), bad = LINT_END_RAISE | LINT_END_EXIT;
    if (ends & ~(bad | LINT_END_FALL)) return false;
    return (ends & LINT_END_FALL) ? p->fails : true;
}

static void walk(const struct lint_py *p, const struct block *b)
{
    for (int i = 0; i < b->stmts && p->l->err->code == ERR_OK; i++) {
        const struct stmt *s = &b->stmt[i];
        struct lint_py inner = *p;
        if (s->kind == STMT_DEF || s->kind == STMT_CLASS) {
            walk_definition(p, s);
            continue;
        }
        inner.fails = fails_after(p, b, i);
        lint_py_calls(p, s);
        if (s->kind == STMT_TRY) lint_py_try(&inner, s);
        if (s->kind == STMT_WITH) lint_py_with(p, s);
        if (s->kind == STMT_ASSERT && !s->type)
            lint_py_report(p, LINT_ASSERT, s->line, "AssertionError", "assert without a text");
        if (s->kind == STMT_FOR || s->kind == STMT_WHILE) inner.loop = s;
        walk_parts(&inner, s);
    }
}

void lint_py_modules(struct lint *l, const struct uses *u, const char *folder, const char *file)
{
    for (int i = 0; i < u->modules; i++) {
        const struct uses_module *m = &u->module[i];
        const char *path = file ? file : pool_format(l->pool, l->err, "%s/%s", folder, m->file);
        struct lint_py p = {.l = l, .module = m, .file = path, .scope = &m->body};
        if (!path) return;
        l->python++;
        for (const struct uses_accept *a = m->comment; a; a = a->next)
            lint_comment(l, path, a->line, a->text);
        walk(&p, &m->body);
    }
    for (int i = 0; i < u->problems; i++) {
        const struct uses_problem *w = &u->problem[i];
        const char *path = file ? file : pool_format(l->pool, l->err, "%s/%s", folder, w->file);
        if (path) lint_unread(l, path, w->line, w->what);
    }
}
