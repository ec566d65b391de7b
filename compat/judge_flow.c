/* judge_flow.c: if, loops and try: which branches run, and what is known behind them. */
#include "compat/judge_protocol.h"

#include <string.h>

/* ---- if ---- */

static bool typing_only(struct frame *f, const struct expr *test)
{
    const struct value *v =
        test->kind == EXPR_NAME || test->kind == EXPR_ATTR ? judge_eval(f, test) : &value_unknown;
    return v->kind == VALUE_OUTSIDE && strcmp(judge_last_part(v->text), "TYPE_CHECKING") == 0;
}

static void exec_typing(struct frame *f, const struct stmt *s)
{
    struct env before = f->env;
    unsigned guards = f->guards;
    f->mute++;
    f->guards = 0;
    judge_exec_block(f, &s->body);
    f->guards = guards;
    f->mute--;
    struct env typed = f->env;
    f->env = before;
    judge_exec_block(f, &s->other);
    f->env = judge_env_prefer(f->run, typed, f->env);
}

/* `not TYPE_CHECKING` */
static bool run_time_only(struct frame *f, const struct expr *test)
{
    return test->kind == EXPR_NOT && typing_only(f, test->left);
}

void judge_exec_if(struct frame *f, const struct stmt *s)
{
    if (typing_only(f, s->value)) {
        exec_typing(f, s);
        return;
    }
    int t = run_time_only(f, s->value) ? 1 : judge_value_truth(judge_eval(f, s->value));
    if (f->raised) return;
    struct env before = f->env, taken = f->env, other = f->env;
    taken.dead = t == 0;
    other.dead = t == 1;
    if (t != 0) {
        judge_assume(f, s->value, true);
        judge_exec_block(f, &s->body);
        taken = f->env;
    }
    bool raised = f->raised;
    f->raised = false;
    f->env = before;
    if (t != 1) {
        judge_assume(f, s->value, false);
        judge_exec_block(f, &s->other);
        other = f->env;
    }
    f->raised |= raised && t == 1;
    taken.dead |= raised;
    struct env after = judge_env_join(f->run, taken, other);
    after.dead = taken.dead && other.dead;
    f->env = after;
}

/* ---- loops ---- */

static void forget(struct frame *f, const struct expr *t)
{
    if (t->kind == EXPR_NAME) {
        const struct value *v = judge_env_find(f->env.top, t->text);
        if (v) judge_env_bind(f, t->text, judge_value_join(f->run, v, &value_unknown));
    }
    for (int i = 0; i < t->items && (t->kind == EXPR_TUPLE || t->kind == EXPR_LIST); i++) {
        forget(f, t->item[i]);
    }
}

/* What the body assigns may be different the second time. */
static void forget_assigned(struct frame *f, const struct block *b)
{
    for (int i = 0; i < b->stmts; i++) {
        const struct stmt *s = &b->stmt[i];
        bool binds = s->kind == STMT_ASSIGN || s->kind == STMT_AUGASSIGN || s->kind == STMT_FOR;
        for (int j = 0; binds && j < s->targets; j++) forget(f, s->target[j]);
        if (s->kind == STMT_DEF || s->kind == STMT_CLASS) continue;
        forget_assigned(f, &s->body);
        forget_assigned(f, &s->other);
        forget_assigned(f, &s->last);
        for (int j = 0; j < s->handlers; j++) forget_assigned(f, &s->handler[j].body);
    }
}

void judge_exec_loop(struct frame *f, const struct stmt *s)
{
    const struct value *iter = s->kind == STMT_FOR ? judge_eval(f, s->value) : NULL;
    if (f->raised) return;
    struct env before = f->env;
    forget_assigned(f, &s->body);
    if (iter) {
        if (!s->async) judge_iterated(f, iter, s->value->line);
        judge_assign(f, s->target[0], judge_value_element(f, iter));
    } else {
        int t = judge_value_truth(judge_eval(f, s->value));
        judge_assume(f, s->value, true);
        if (t == 0) f->env.dead = true;
    }
    judge_exec_block(f, &s->body);
    f->env.dead = false; /* a continue, a break, or the end: all lead behind the loop */
    f->env = judge_env_join(f->run, before, f->env);
    judge_exec_block(f, &s->other);
}

/* ---- try ---- */

unsigned judge_guards_of(const struct expr *type)
{
    static const struct {
        const char *name;
        unsigned guards;
    } table[] = {
        {"ImportError", GUARD_IMPORT},       {"ModuleNotFoundError", GUARD_IMPORT},
        {"AttributeError", GUARD_ATTRIBUTE}, {"TypeError", GUARD_CALL},
        {"Exception", GUARD_IMPORT},         {"BaseException", GUARD_IMPORT},
    };
    if (!type) return GUARD_IMPORT;
    unsigned guards = 0;
    for (int i = 0; type->kind == EXPR_TUPLE && i < type->items; i++) {
        guards |= judge_guards_of(type->item[i]);
    }
    for (size_t i = 0; type->kind == EXPR_NAME && i < sizeof table / sizeof table[0]; i++) {
        if (strcmp(type->text, table[i].name) == 0) guards |= table[i].guards;
    }
    return guards;
}

static bool only_import(const struct handler *h)
{
    return h->type && judge_guards_of(h->type) == GUARD_IMPORT && h->type->kind == EXPR_NAME &&
           strstr(h->type->text, "Exception") == NULL;
}

/* The body imports something that is neither the library's nor the consumer's: its absence can
 * lead to the handler too. */
static bool foreign_import(struct frame *f, const struct block *b)
{
    for (int i = 0; i < b->stmts; i++) {
        const struct stmt *s = &b->stmt[i];
        if (s->kind != STMT_IMPORT && s->kind != STMT_FROM) continue;
        struct api_result res;
        const char *name = s->kind == STMT_FROM ? s->name : s->imports ? s->import[0].name : NULL;
        if (!name || !name[0] || s->level > 0) continue;
        api_find(f->run->api, name, &res);
        if (res.found != API_FOUND && !judge_own_root(f->run, name)) return true;
    }
    return false;
}

/* Handlers of a body that came to its end: they are for what cannot be seen here. */
static void exec_handler(struct frame *f, const struct handler *h, bool raised, bool foreign)
{
    bool fallback = only_import(h) && !raised;
    if (fallback && !foreign) {
        f->env.dead = true;
        return;
    }
    if (h->type) judge_caught(f, h->type);
    if (h->as) judge_env_bind(f, h->as, &value_unknown);
    unsigned guards = f->guards;
    f->mute += fallback;
    if (fallback) f->guards = 0;
    judge_exec_block(f, &h->body);
    f->mute -= fallback;
    f->guards = guards;
}

void judge_exec_try(struct frame *f, const struct stmt *s)
{
    struct env before = f->env;
    unsigned guards = f->guards, mine = 0;
    for (int i = 0; i < s->handlers; i++) mine |= judge_guards_of(s->handler[i].type);
    f->guards |= mine;
    judge_exec_block(f, &s->body);
    f->guards = guards;
    bool raised = f->raised, handled = mine != 0;
    f->raised = false;
    struct env after = f->env, sum = f->env;
    sum.dead |= raised;
    if (!raised && !sum.dead) {
        judge_exec_block(f, &s->other);
        sum = f->env;
    }
    struct env from = raised ? after : judge_env_join(f->run, before, after);
    from.dead = false;
    bool foreign = foreign_import(f, &s->body), again = false;
    for (int i = 0; i < s->handlers; i++) {
        if (raised && !judge_guards_of(s->handler[i].type)) continue;
        f->env = from;
        exec_handler(f, &s->handler[i], raised, foreign);
        again |= f->raised;
        if (f->raised) f->env.dead = true;
        f->raised = false;
        bool dead = sum.dead && f->env.dead;
        sum = judge_env_join(f->run, sum, f->env);
        sum.dead = dead;
        if (raised) break; /* the first that catches it */
    }
    f->env = sum;
    f->raised = (raised && !handled) || (raised && again);
    bool ended = f->env.dead;
    f->env.dead = false;
    judge_exec_block(f, &s->last);
    f->env.dead |= ended;
}
