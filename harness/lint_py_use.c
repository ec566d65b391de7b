/* lint_py_use.c: what a handler does with the exception: its type or trace goes somewhere, or only
 * its text, or nothing. See lint_py.h. */
#include "harness/lint_py.h"

#include <string.h>

struct scan {
    const struct lint_py *p;
    const char *name; /* of the exception, NULL: it has none */
    struct lint_py_use *out;
};

static void scan_expr(struct scan *s, const struct expr *e, bool text);

static void saw_text(struct scan *s, int line)
{
    s->out->text = true;
    if (!s->out->line) s->out->line = line;
}

static bool is_log(const char *name)
{
    static const char *const last[] = {
        "debug",         "info",         "warning",   "warn",       "error",     "critical",
        "fatal",         "log",          "print",     "echo",       "secho",     "write",
        "print_warning", "warning_once", "info_once", "error_once", "warn_once", "print_error",
        "log_error",     "log_warning",  NULL};
    return lint_py_last(name, last);
}

/* Calls that say type and trace whatever they are given. */
static bool is_whole(const char *name)
{
    static const char *const last[] = {"exception",
                                       "print_exc",
                                       "format_exc",
                                       "exc_info",
                                       "print_exception",
                                       "format_exception",
                                       "capture_exception",
                                       "record_exception",
                                       "log_exception",
                                       "print_tb",
                                       "format_tb",
                                       "set_exception",
                                       "format_exception_only",
                                       "handleError",
                                       NULL};
    return lint_py_last(name, last) || strncmp(name, "traceback.", 10) == 0;
}

/* A format that shows repr: the type is in it. */
static bool shows_repr(const struct expr *format)
{
    return format && format->kind == EXPR_STR &&
           (strstr(format->text, "%r") || strstr(format->text, "!r"));
}

static bool is_text_call(const struct expr *call, const char *name)
{
    static const char *const last[] = {"str", "format", "join", "escape", NULL};
    return lint_py_last(name, last) && !(call->left && shows_repr(call->left->left));
}

static bool asks_trace(const struct expr *call)
{
    const struct expr *info = lint_py_keyword(call, "exc_info");
    return info &&
           !(info->kind == EXPR_CONST && (info->value == CONST_FALSE || info->value == CONST_NONE));
}

static void scan_call(struct scan *s, const struct expr *e)
{
    char name[LINT_NAME];
    lint_py_name(s->p, e->left, name);
    bool log = is_log(name);
    bool text = (log && !(e->items && shows_repr(e->item[0]))) || is_text_call(e, name);
    if (is_whole(name) || (log && asks_trace(e))) s->out->whole = true;
    if (log) {
        s->out->log = true;
        if (!s->out->line) s->out->line = e->line;
    } else if (lint_py_tells(name)) {
        s->out->tells = true;
    }
    scan_expr(s, e->left, false);
    for (int i = 0; i < e->items; i++) scan_expr(s, e->item[i], text);
    for (int i = 0; i < e->kws; i++) scan_expr(s, e->kw[i].value, text);
}

static bool is_exception(const struct scan *s, const struct expr *e)
{
    return s->name && e && e->kind == EXPR_NAME && strcmp(e->text, s->name) == 0;
}

static void scan_attr(struct scan *s, const struct expr *e)
{
    static const char *const texts[] = {"args", "message", "msg", NULL};
    if (is_exception(s, e->left) && lint_py_last(e->text, texts))
        saw_text(s, e->line);
    else
        scan_expr(s, e->left, false);
}

static void scan_parts(struct scan *s, const struct expr *e, bool text)
{
    scan_expr(s, e->left, text);
    scan_expr(s, e->right, text);
    scan_expr(s, e->third, text);
    for (int i = 0; i < e->items; i++) scan_expr(s, e->item[i], text);
    for (int i = 0; i < e->loops; i++) scan_expr(s, e->loop[i].iter, text);
}

/* What is compared is looked at: it decides something. */
static void look(const struct expr *e, void *ctx)
{
    struct scan *s = ctx;
    if (is_exception(s, e)) s->out->whole = true;
}

static void scan_expr(struct scan *s, const struct expr *e, bool text)
{
    if (!e) return;
    switch (e->kind) {
    case EXPR_NAME:
        if (!is_exception(s, e)) return;
        if (text)
            saw_text(s, e->line);
        else
            s->out->whole = true;
        return;
    case EXPR_ATTR:
        scan_attr(s, e);
        return;
    case EXPR_CALL:
        scan_call(s, e);
        return;
    case EXPR_COMPARE:
        lint_py_each_expr(e, look, s);
        return;
    case EXPR_FSTR:
        scan_parts(s, e, true);
        return;
    case EXPR_BINOP:
        scan_parts(s, e, (text || (e->left && e->left->kind == EXPR_STR)) && !shows_repr(e->left));
        return;
    case EXPR_LAMBDA:
        scan_expr(s, e->third, false);
        return;
    default:
        scan_parts(s, e, text);
    }
}

static void scan_block(struct scan *s, const struct block *b);

/* A trace that is made into a text, and the text dropped: `traceback.format_exc()` on a line of its
 * own. */
static bool drops_trace(const struct scan *s, const struct stmt *st)
{
    static const char *const last[] = {"format_exc", "format_exception", "format_tb", "exc_info",
                                       NULL};
    char name[LINT_NAME];
    if (st->kind != STMT_EXPR || !st->value || st->value->kind != EXPR_CALL) return false;
    lint_py_name(s->p, st->value->left, name);
    return lint_py_last(name, last);
}

/* A flag, a counter or a list whose name speaks of failure, or a False. */
static void scan_target(struct scan *s, const struct stmt *st)
{
    for (int i = 0; i < st->targets; i++) {
        char name[LINT_NAME];
        lint_py_name(s->p, st->target[i], name);
        if (lint_py_tells(name)) s->out->tells = true;
    }
    if (st->kind == STMT_ASSIGN && st->value && st->value->kind == EXPR_CONST &&
        st->value->value == CONST_FALSE)
        s->out->tells = true;
}

static void scan_stmt(struct scan *s, const struct stmt *st)
{
    bool plain = st->kind != STMT_IF && st->kind != STMT_WHILE;
    if (st->kind == STMT_DEF || st->kind == STMT_CLASS || st->kind == STMT_DEL) return;
    if (st->kind == STMT_ASSIGN || st->kind == STMT_AUGASSIGN) scan_target(s, st);
    if (drops_trace(s, st)) return;
    if (st->kind == STMT_RAISE) return; /* the chain keeps it; `from None` is a rule of its own */
    if (plain)
        scan_expr(s, st->value, false);
    else
        lint_py_each_expr(st->value, look, s);
    for (int i = 0; i < st->targets; i++) scan_expr(s, st->target[i], false);
    scan_block(s, &st->body);
    for (int i = 0; i < st->handlers; i++) scan_block(s, &st->handler[i].body);
    for (int i = 0; i < st->branches; i++) scan_block(s, &st->branch[i].body);
    scan_block(s, &st->other);
    scan_block(s, &st->last);
}

static void scan_block(struct scan *s, const struct block *b)
{
    for (int i = 0; i < b->stmts; i++) scan_stmt(s, &b->stmt[i]);
}

void lint_py_uses(const struct lint_py *p, const struct handler *h, struct lint_py_use *out)
{
    struct scan s = {.p = p, .name = h->as, .out = out};
    *out = (struct lint_py_use){0};
    scan_block(&s, &h->body);
}
