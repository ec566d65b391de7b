/* judge_walk.c: does a body mention an expression? Bodies of nested definitions are not looked
 * into. */
#include "compat/judge_parts.h"

typedef bool test(const struct expr *e, const void *ctx);

static bool in_expr(const struct expr *e, test *is, const void *ctx);

static bool in_list(struct expr *const *list, int n, test *is, const void *ctx)
{
    for (int i = 0; i < n; i++) {
        if (in_expr(list[i], is, ctx)) return true;
    }
    return false;
}

static bool in_expr(const struct expr *e, test *is, const void *ctx)
{
    if (!e || e->kind == EXPR_LAMBDA) return false;
    if (is(e, ctx) || in_expr(e->left, is, ctx) || in_expr(e->right, is, ctx) ||
        in_expr(e->third, is, ctx) || in_list(e->item, e->items, is, ctx))
        return true;
    for (int i = 0; i < e->kws; i++) {
        if (in_expr(e->kw[i].value, is, ctx)) return true;
    }
    for (int i = 0; i < e->loops; i++) {
        if (in_expr(e->loop[i].iter, is, ctx) ||
            in_list(e->loop[i].test, e->loop[i].tests, is, ctx))
            return true;
    }
    return false;
}

static bool in_stmt(const struct stmt *s, test *is, const void *ctx)
{
    if (s->kind == STMT_DEF || s->kind == STMT_CLASS) return false;
    if (in_expr(s->value, is, ctx) || in_list(s->target, s->targets, is, ctx) ||
        judge_body_mentions(&s->body, is, ctx) || judge_body_mentions(&s->other, is, ctx) ||
        judge_body_mentions(&s->last, is, ctx))
        return true;
    for (int i = 0; i < s->handlers; i++) {
        if (judge_body_mentions(&s->handler[i].body, is, ctx)) return true;
    }
    for (int i = 0; i < s->branches; i++) {
        if (judge_body_mentions(&s->branch[i].body, is, ctx)) return true;
    }
    return false;
}

bool judge_body_mentions(const struct block *b, test *is, const void *ctx)
{
    for (int i = 0; i < b->stmts; i++) {
        if (in_stmt(&b->stmt[i], is, ctx)) return true;
    }
    return false;
}
