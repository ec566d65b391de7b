/* lint_py_ends.c: how a block can end. See lint_py.h. */
#include "harness/lint_py.h"

#include <string.h>

struct tale {
    const char *name;
    bool tells;
};

static void listen(const struct expr *e, void *ctx)
{
    struct tale *t = ctx;
    bool word = e->kind == EXPR_NAME || e->kind == EXPR_ATTR || e->kind == EXPR_STR;
    if (word && lint_py_tells(e->text)) t->tells = true;
    if (t->name && e->kind == EXPR_NAME && strcmp(e->text, t->name) == 0) t->tells = true;
    if (e->kind != EXPR_CONST) return;
    if (e->value == CONST_FALSE || (e->value == CONST_NUMBER && e->number < 0)) t->tells = true;
}

/* A value that tells its reader of a failure: False, a number other than 0, the exception, words
 * like "error". */
static bool telling(const struct expr *value, const char *name)
{
    struct tale t = {.name = name};
    if (!value) return false;
    if (value->kind == EXPR_CONST && value->value == CONST_NUMBER && value->number == 1)
        return true;
    lint_py_each_expr(value, listen, &t);
    return t.tells;
}

/* The status with which a call ends the program: 0, or not; -1: it does not end it. */
static int exit_of(const struct lint_py *p, const struct expr *call)
{
    static const char *const always[] = {"sys.exit", "os._exit",   "exit",
                                         "quit",     "SystemExit", NULL};
    static const char *const bad[] = {"os.abort",     "pytest.fail", "pytest.skip", "os.kill",
                                      "parser.error", "os.killpg",   NULL};
    char name[LINT_NAME];
    if (!call) return -1;
    if (call->kind != EXPR_CALL) { /* `raise SystemExit` */
        lint_py_name(p, call, name);
        return strcmp(name, "SystemExit") == 0 ? 0 : -1;
    }
    lint_py_name(p, call->left, name);
    for (int i = 0; bad[i]; i++) {
        if (strcmp(name, bad[i]) == 0) return 1;
    }
    for (int i = 0; always[i]; i++) {
        if (strcmp(name, always[i]) != 0) continue;
        if (call->items == 0) return 0;
        const struct expr *v = call->item[0];
        bool zero = v->kind == EXPR_CONST && (v->value == CONST_NONE || v->value == CONST_FALSE ||
                                              (v->value == CONST_NUMBER && v->number == 0));
        return zero ? 0 : 1;
    }
    return -1;
}

static unsigned ends_of(const struct lint_py *p, const struct stmt *s, const char *name)
{
    unsigned ends = 0;
    switch (s->kind) {
    case STMT_RAISE:
        return exit_of(p, s->value) == 0 ? LINT_END_EXIT_ZERO : LINT_END_RAISE;
    case STMT_RETURN:
        return telling(s->value, name) ? LINT_END_TELL : LINT_END_RETURN;
    case STMT_CONTINUE:
        return LINT_END_CONTINUE;
    case STMT_BREAK:
        return LINT_END_BREAK;
    case STMT_EXPR: {
        int status = exit_of(p, s->value);
        return status < 0 ? LINT_END_FALL : status == 0 ? LINT_END_EXIT_ZERO : LINT_END_EXIT;
    }
    case STMT_ASSERT:
        if (s->value->kind == EXPR_CONST && s->value->value == CONST_FALSE) return LINT_END_RAISE;
        return LINT_END_FALL;
    case STMT_IF:
        return lint_py_ends(p, &s->body, name) | lint_py_ends(p, &s->other, name);
    case STMT_WITH:
        return lint_py_ends(p, &s->body, name);
    case STMT_FOR:
    case STMT_WHILE:
        ends = lint_py_ends(p, &s->body, name) | lint_py_ends(p, &s->other, name);
        return (ends & ~(unsigned)(LINT_END_CONTINUE | LINT_END_BREAK)) | LINT_END_FALL;
    case STMT_TRY:
        ends = lint_py_ends(p, &s->body, name);
        for (int i = 0; i < s->handlers; i++) ends |= lint_py_ends(p, &s->handler[i].body, name);
        if (!(lint_py_ends(p, &s->last, name) & LINT_END_FALL))
            ends = lint_py_ends(p, &s->last, name);
        return ends;
    case STMT_MATCH:
        for (int i = 0; i < s->branches; i++) ends |= lint_py_ends(p, &s->branch[i].body, name);
        return ends | LINT_END_FALL;
    default:
        return LINT_END_FALL;
    }
}

unsigned lint_py_ends(const struct lint_py *p, const struct block *b, const char *name)
{
    unsigned ends = LINT_END_FALL;
    for (int i = 0; i < b->stmts && (ends & LINT_END_FALL); i++) {
        ends = (ends & ~(unsigned)LINT_END_FALL) | ends_of(p, &b->stmt[i], name);
    }
    return ends;
}
