/* lint_py_handler.c: one handler judged. Broad ones (bare, Exception, BaseException) are looked at,
 * and those of types that are mostly raised without a text. See lint_py.h. */
#include "harness/lint_py.h"

#include <stdio.h>
#include <string.h>

static bool in_list(const char *name, const char *const *list)
{
    return lint_py_last(name, list);
}

static bool any_type(const struct lint_py *p, const struct expr *type, const char *const *list)
{
    char name[LINT_NAME];
    if (!type) return false;
    for (int i = 0; type->kind == EXPR_TUPLE && i < type->items; i++) {
        if (any_type(p, type->item[i], list)) return true;
    }
    if (type->kind == EXPR_TUPLE) return false;
    lint_py_name(p, type, name);
    return in_list(name, list);
}

static bool is_broad(const struct lint_py *p, const struct expr *type)
{
    static const char *const broad[] = {"Exception", "BaseException", NULL};
    return !type || any_type(p, type, broad);
}

/* Types whose text is mostly empty: they are raised bare, or by assert. */
static bool is_wordless(const struct lint_py *p, const struct expr *type)
{
    static const char *const wordless[] = {"AssertionError", "TimeoutError", "CancelledError",
                                           "Empty",          "Full",         NULL};
    return any_type(p, type, wordless);
}

static const char *type_text(const struct lint_py *p, const struct expr *type)
{
    char name[LINT_NAME];
    if (!type) return "everything";
    const struct expr *first = type->kind == EXPR_TUPLE && type->items ? type->item[0] : type;
    lint_py_name(p, first, name);
    return pool_format(p->l->pool, p->l->err, "%s%s", name,
                       type->kind == EXPR_TUPLE && type->items > 1 ? ", ..." : "");
}

/* ---- handlers that are meant ---- */

static bool tidies_up(const char *name)
{
    static const char *const pieces[] = {
        "close",     "shutdown",   "clean",   "teardown",   "__del__", "__exit__", "stop",
        "terminate", "kill",       "destroy", "unlink",     "remove",  "rmtree",   "release",
        "cancel",    "disconnect", "flush",   "unregister", "exit",    "join",     "empty_cache",
        "finalize",  "dispose",    "detach",  NULL};
    return lint_py_holds(name, pieces);
}

/* All that is tried is to put something away. */
static bool only_tidies(const struct lint_py *p, const struct block *b)
{
    char name[LINT_NAME];
    for (int i = 0; i < b->stmts; i++) {
        const struct stmt *s = &b->stmt[i];
        bool call = s->kind == STMT_EXPR && s->value &&
                    (s->value->kind == EXPR_CALL || s->value->kind == EXPR_AWAIT);
        if (s->kind == STMT_DEL || s->kind == STMT_PASS) continue;
        if ((s->kind == STMT_IF || s->kind == STMT_FOR) && only_tidies(p, &s->body)) continue;
        if (!call) return false;
        lint_py_name(p, s->value, name);
        if (!tidies_up(name)) return false;
    }
    return b->stmts > 0;
}

/* An import that may be missing, whatever it raises. */
static bool only_imports(const struct block *b)
{
    bool imports = false;
    for (int i = 0; i < b->stmts; i++) {
        enum stmt_kind k = b->stmt[i].kind;
        if (k == STMT_IMPORT || k == STMT_FROM)
            imports = true;
        else if (k != STMT_ASSIGN && k != STMT_PASS && !imports)
            return false;
    }
    return imports && b->stmts <= 4;
}

static bool has_raise(const struct block *b)
{
    for (int i = 0; i < b->stmts; i++) {
        const struct stmt *s = &b->stmt[i];
        if (s->kind == STMT_RAISE || has_raise(&s->body) || has_raise(&s->other)) return true;
    }
    return false;
}

static bool is_retry(const struct lint_py *p, const struct handler *h, unsigned ends)
{
    if (!p->loop) return false;
    bool again = (ends & (LINT_END_CONTINUE | LINT_END_FALL)) != 0;
    bool other = !(lint_py_ends(p, &p->loop->other, NULL) & LINT_END_FALL);
    return again && (has_raise(&h->body) || other);
}

struct way {
    const struct lint_py *p;
    bool calls;
};

static void find_call(const struct expr *e, void *ctx)
{
    static const char *const plain[] = {"dict",  "list", "set",  "tuple",       "str",   "int",
                                        "float", "len",  "bool", "defaultdict", "bytes", NULL};
    struct way *w = ctx;
    char name[LINT_NAME];
    if (e->kind != EXPR_CALL) return;
    lint_py_name(w->p, e->left, name);
    if (!lint_py_last(name, plain)) w->calls = true;
}

static bool computes(const struct lint_py *p, const struct expr *value)
{
    struct way w = {.p = p};
    lint_py_each_expr(value, find_call, &w);
    return w.calls;
}

/* Does the block return something, or assign to that target? */
static bool gives(const struct lint_py *p, const struct block *b, const char *target)
{
    char name[LINT_NAME];
    for (int i = 0; i < b->stmts; i++) {
        const struct stmt *s = &b->stmt[i];
        if (!target && s->kind == STMT_RETURN && s->value) return true;
        for (int k = 0; target && s->kind == STMT_ASSIGN && k < s->targets; k++) {
            lint_py_name(p, s->target[k], name);
            if (name[0] && strcmp(name, target) == 0) return true;
        }
        if (gives(p, &s->body, target) || gives(p, &s->other, target)) return true;
    }
    return false;
}

/* What was tried is done in another way, which can fail itself: the same value is computed, by a
 * call. */
static bool second_way(const struct lint_py *p, const struct block *tried, const struct block *b)
{
    char name[LINT_NAME];
    for (int i = 0; i < b->stmts; i++) {
        const struct stmt *s = &b->stmt[i];
        bool computed = s->value && computes(p, s->value);
        if (s->kind == STMT_RETURN && computed && gives(p, tried, NULL)) return true;
        for (int k = 0; s->kind == STMT_ASSIGN && computed && k < s->targets; k++) {
            lint_py_name(p, s->target[k], name);
            if (name[0] && gives(p, tried, name)) return true;
        }
        if ((s->kind == STMT_TRY || s->kind == STMT_WITH) && second_way(p, tried, &s->body))
            return true;
    }
    return false;
}

/* ---- the rules ---- */

/* A name that counts or keeps what worked. */
static bool keeps_success(const char *name)
{
    static const char *const pieces[] = {"done",    "processed", "succe",   "complete",  "finished",
                                         "written", "saved",     "handled", "generated", "passed",
                                         "results", "outputs",   "samples", "_ok",       "num_",
                                         "total",   "count",     NULL};
    return lint_py_holds(name, pieces) && !lint_py_tells(name);
}

static void hear(const struct expr *e, void *ctx)
{
    bool *told = ctx;
    bool word = e->kind == EXPR_NAME || e->kind == EXPR_ATTR || e->kind == EXPR_STR;
    if (word && lint_py_tells(e->text)) *told = true;
    if (e->kind == EXPR_CONST && (e->value == CONST_NONE || e->value == CONST_FALSE)) *told = true;
}

/* The line where a failed step is counted or kept as one that worked, or 0. */
static int counted_at(const struct lint_py *p, const struct handler *h)
{
    static const char *const keep[] = {"append", "extend", "add", NULL};
    char name[LINT_NAME];
    for (int i = 0; p->loop && i < h->body.stmts; i++) {
        const struct stmt *s = &h->body.stmt[i];
        bool told = false;
        if (s->kind == STMT_AUGASSIGN) {
            lint_py_name(p, s->target[0], name);
            if (keeps_success(name)) return s->line;
        }
        if (s->kind != STMT_EXPR || !s->value || s->value->kind != EXPR_CALL) continue;
        lint_py_name(p, s->value->left, name);
        if (!lint_py_last(name, keep) || !keeps_success(name)) continue;
        for (int k = 0; k < s->value->items; k++) lint_py_each_expr(s->value->item[k], hear, &told);
        if (h->as && lint_py_mentions(&h->body, h->as)) told = true;
        if (!told) return s->line;
    }
    return 0;
}

/* `raise X from None` anywhere in the handler; its line, or 0. */
static int cut_at(const struct block *b)
{
    for (int i = 0; i < b->stmts; i++) {
        const struct stmt *s = &b->stmt[i];
        if (s->kind == STMT_RAISE && s->value && s->type && s->type->kind == EXPR_CONST &&
            s->type->value == CONST_NONE)
            return s->line;
        int line = cut_at(&s->body);
        if (!line) line = cut_at(&s->other);
        if (line) return line;
    }
    return 0;
}

static void report(const struct lint_py *p, enum lint_id rule, const struct handler *h,
                   const char *what, int line)
{
    const char *type = type_text(p, h->type);
    const char *message =
        line && line != h->line
            ? pool_format(p->l->pool, p->l->err, "except %s: %s (line %d)", type, what, line)
            : pool_format(p->l->pool, p->l->err, "except %s: %s", type, what);
    lint_py_report(p, rule, h->line, type, message);
}

static void judge_exit(const struct lint_py *p, const struct handler *h, unsigned ends)
{
    static const char *const meant[] = {
        "KeyboardInterrupt", "SystemExit",  "BrokenPipeError",     "EOFError",
        "StopIteration",     "ImportError", "ModuleNotFoundError", NULL};
    if (!(ends & LINT_END_EXIT_ZERO) || (h->type && any_type(p, h->type, meant))) return;
    report(p, LINT_EXIT_ZERO, h, "ends the program with status 0", 0);
}

static const char *how_it_goes_on(unsigned ends)
{
    if (ends & LINT_END_RETURN) return "returns as if nothing had been";
    if (ends & LINT_END_CONTINUE) return "goes on with the next round";
    if (ends & LINT_END_BREAK) return "leaves the loop";
    return "goes on";
}

static const unsigned quiet = LINT_END_RETURN | LINT_END_CONTINUE | LINT_END_BREAK | LINT_END_FALL;

static void judge_broad(const struct lint_py *p, const struct handler *h, const struct stmt *s,
                        unsigned ends)
{
    struct lint_py_use use;
    int cut = cut_at(&h->body);
    lint_py_uses(p, h, &use);
    if (cut && !use.whole) report(p, LINT_FROM_NONE, h, "raises another error `from None`", cut);
    if (!(ends & (quiet | LINT_END_TELL))) {
        if (use.text && (ends & LINT_END_EXIT) && !use.whole)
            report(p, LINT_MESSAGE, h, "shows the text of the error alone", use.line);
        return;
    }
    int counted = counted_at(p, h);
    if (counted) {
        report(p, LINT_COUNTED, h, "counts or keeps the failed step", counted);
        return;
    }
    if (use.whole || is_retry(p, h, ends)) return;
    bool tidies = only_tidies(p, &s->body) || (p->function && tidies_up(p->function));
    bool meant = tidies || p->fails || only_imports(&s->body) || second_way(p, &s->body, &h->body);
    if (use.text)
        report(p, LINT_MESSAGE, h, "shows the text of the error alone", use.line);
    else if (use.log && !tidies && !p->fails)
        report(p, LINT_LOG, h, "the message does not name the error", use.line);
    else if (!use.log && !use.tells && !meant && (ends & quiet))
        report(p, LINT_SWALLOW, h, how_it_goes_on(ends), 0);
}

static const char *const leaving[] = {
    [STMT_RETURN] = "return", [STMT_BREAK] = "break", [STMT_CONTINUE] = "continue"};

/* The first statement that leaves the block before its end, or NULL; `loop`: of a loop in it. */
static const struct stmt *left_by(const struct block *b, bool loop)
{
    const struct stmt *found = NULL;
    for (int i = 0; i < b->stmts && !found; i++) {
        const struct stmt *s = &b->stmt[i];
        bool inner = loop || s->kind == STMT_FOR || s->kind == STMT_WHILE;
        if (s->kind == STMT_DEF || s->kind == STMT_CLASS) continue;
        if (s->kind == STMT_RETURN ||
            (!loop && (s->kind == STMT_BREAK || s->kind == STMT_CONTINUE)))
            return s;
        found = left_by(&s->body, inner);
        for (int k = 0; !found && k < s->handlers; k++) found = left_by(&s->handler[k].body, loop);
        for (int k = 0; !found && k < s->branches; k++) found = left_by(&s->branch[k].body, loop);
        if (!found) found = left_by(&s->other, loop);
        if (!found) found = left_by(&s->last, loop);
    }
    return found;
}

void lint_py_try(const struct lint_py *p, const struct stmt *s)
{
    const struct stmt *left = left_by(&s->last, false);
    if (left)
        lint_py_report(p, LINT_FINALLY, left->line, "everything",
                       pool_format(p->l->pool, p->l->err, "%s in a finally", leaving[left->kind]));
    for (int i = 0; i < s->handlers; i++) {
        const struct handler *h = &s->handler[i];
        unsigned ends = lint_py_ends(p, &h->body, h->as);
        p->l->handlers++;
        judge_exit(p, h, ends);
        if (ends & LINT_END_EXIT_ZERO) continue;
        if (is_broad(p, h->type)) {
            judge_broad(p, h, s, ends);
        } else if (is_wordless(p, h->type) && (ends & ~(unsigned)LINT_END_RAISE)) {
            struct lint_py_use use;
            lint_py_uses(p, h, &use);
            if (use.text && !use.whole)
                report(p, LINT_MESSAGE, h, "shows the text of the error alone", use.line);
        }
    }
}

void lint_py_with(const struct lint_py *p, const struct stmt *s)
{
    for (int i = 0; i < s->targets; i++) {
        const struct expr *e = s->target[i];
        char name[LINT_NAME];
        if (!e || e->kind != EXPR_CALL) continue;
        lint_py_name(p, e->left, name);
        if (strcmp(name, "contextlib.suppress") != 0 && strcmp(name, "suppress") != 0) continue;
        p->l->handlers++;
        bool broad = false;
        for (int k = 0; k < e->items; k++) broad |= is_broad(p, e->item[k]);
        if (!broad || only_tidies(p, &s->body) || only_imports(&s->body) ||
            (p->function && tidies_up(p->function)))
            continue;
        lint_py_report(p, LINT_SWALLOW, s->line, "Exception",
                       "suppress(Exception): goes on after any error");
    }
}
