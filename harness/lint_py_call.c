/* lint_py_call.c: calls whose status or result goes nowhere: commands, threads, processes, futures,
 * tasks. See lint_py.h. */
#include "harness/lint_py.h"

#include <string.h>

/* ---- how a name is used in its scope ---- */

struct usage {
    const char *name;
    int names, attrs, looks; /* mentions; those as x.y; those as x.y with y in `look` */
    const char *const *look;
};

static bool named(const struct expr *e, const char *name)
{
    return e && e->kind == EXPR_NAME && strcmp(e->text, name) == 0;
}

static void count_use(const struct expr *e, void *ctx)
{
    struct usage *u = ctx;
    u->names += named(e, u->name);
    if (e->kind != EXPR_ATTR || !named(e->left, u->name)) return;
    u->attrs++;
    u->looks += lint_py_last(e->text, u->look);
}

/* Statements `name = ...` and, apart, those that are nothing but `name.method(...)`. */
static void count_stmts(const struct block *b, const char *name, const char *method, int *assigns,
                        int *dropped)
{
    for (int i = 0; i < b->stmts; i++) {
        const struct stmt *s = &b->stmt[i];
        for (int k = 0; s->kind == STMT_ASSIGN && k < s->targets; k++)
            *assigns += named(s->target[k], name);
        const struct expr *call = s->kind == STMT_EXPR ? s->value : NULL;
        if (call && call->kind == EXPR_CALL && call->left->kind == EXPR_ATTR &&
            named(call->left->left, name) && strcmp(call->left->text, method) == 0)
            ++*dropped;
        count_stmts(&s->body, name, method, assigns, dropped);
        for (int k = 0; k < s->handlers; k++)
            count_stmts(&s->handler[k].body, name, method, assigns, dropped);
        count_stmts(&s->other, name, method, assigns, dropped);
        count_stmts(&s->last, name, method, assigns, dropped);
    }
}

/* Is what `name` holds given away whole, or one of `look` asked of it? A `look` that waits is none
 * where its value is dropped. */
static bool looked_at(const struct lint_py *p, const char *name, const char *const *look,
                      const char *waits)
{
    struct usage u = {.name = name, .look = look};
    int assigns = 0, dropped = 0;
    lint_py_each(p->scope, true, count_use, &u);
    count_stmts(p->scope, name, waits, &assigns, &dropped);
    return u.names - u.attrs - assigns > 0 || u.looks - dropped > 0;
}

struct any {
    const char *const *list;
    bool found;
};

static void look_any(const struct expr *e, void *ctx)
{
    struct any *a = ctx;
    if (e->kind == EXPR_ATTR || e->kind == EXPR_NAME) a->found |= lint_py_last(e->text, a->list);
}

static bool module_mentions(const struct lint_py *p, const char *const *list)
{
    struct any a = {.list = list};
    lint_py_each(&p->module->body, true, look_any, &a);
    return a.found;
}

/* ---- commands ---- */

static bool is_true(const struct expr *e)
{
    return e && !(e->kind == EXPR_CONST && (e->value == CONST_FALSE || e->value == CONST_NONE));
}

static bool among(const char *name, const char *const *list)
{
    for (int i = 0; list[i]; i++) {
        if (strcmp(name, list[i]) == 0) return true;
    }
    return false;
}

static bool passes_keywords_on(const struct expr *call)
{
    for (int i = 0; i < call->kws; i++) {
        if (!call->kw[i].name) return true;
    }
    return false;
}

static const char *says(const struct lint_py *p, const char *name, const char *what)
{
    return pool_format(p->l->pool, p->l->err, "%s(): %s", name, what);
}

/* `target`: the name that the call's value gets, NULL: it is dropped. */
static void judge_command(const struct lint_py *p, const struct expr *call, const char *name,
                          const char *target)
{
    static const char *const runs[] = {"subprocess.run", "subprocess.call", NULL};
    static const char *const status[] = {"returncode", "check_returncode", NULL};
    static const char *const ends[] = {"returncode", "poll",        "wait", "terminate",
                                       "kill",       "send_signal", NULL};
    if (strcmp(name, "os.system") == 0) {
        if (!target || !looked_at(p, target, (const char *const[]){NULL}, ""))
            lint_py_report(p, LINT_OS_SYSTEM, call->line, NULL,
                           says(p, name, "the status is dropped"));
    } else if (among(name, runs)) {
        if (is_true(lint_py_keyword(call, "check")) || passes_keywords_on(call)) return;
        if (!target || !looked_at(p, target, status, ""))
            lint_py_report(p, LINT_SUBPROCESS, call->line, NULL,
                           says(p, name, "neither check=True nor a look at returncode"));
    } else if (strcmp(name, "subprocess.Popen") == 0) {
        if (!target || !looked_at(p, target, ends, "wait"))
            lint_py_report(p, LINT_SUBPROCESS, call->line, NULL,
                           says(p, name, "nobody looks at returncode"));
    }
}

/* ---- workers ---- */

static bool is_daemon(const struct expr *call)
{
    return is_true(lint_py_keyword(call, "daemon"));
}

static bool is_process(const struct expr *call, const char *name)
{
    static const char *const last[] = {"Process", NULL};
    return lint_py_last(name, last) && lint_py_keyword(call, "target");
}

static void judge_worker(const struct lint_py *p, const struct expr *call, const char *name,
                         const char *target)
{
    static const char *const joins[] = {"join", NULL};
    static const char *const codes[] = {"exitcode", "sentinel", "is_alive", NULL};
    if (strcmp(name, "threading.Thread") == 0 && !is_daemon(call)) {
        if (!target || !looked_at(p, target, joins, ""))
            lint_py_report(p, LINT_THREAD, call->line, NULL, says(p, name, "never joined"));
    }
    if (is_process(call, name) && !module_mentions(p, codes))
        lint_py_report(p, LINT_PROCESS, call->line, NULL,
                       says(p, name, "nobody looks at exitcode"));
}

static bool on_executor(const char *name)
{
    static const char *const pieces[] = {"executor", "pool", NULL};
    const char *dot = strrchr(name, '.');
    return dot && lint_py_holds(name, pieces);
}

static void judge_future(const struct lint_py *p, const struct expr *call, const char *name,
                         const char *target)
{
    static const char *const async[] = {"apply_async", "map_async", "starmap_async", NULL};
    static const char *const submit[] = {"submit", NULL}, *const map[] = {"map", NULL};
    static const char *const executor[] = {"executor", NULL};
    bool future = (lint_py_last(name, submit) && on_executor(name)) ||
                  (lint_py_last(name, async) && !lint_py_keyword(call, "error_callback")) ||
                  strcmp(name, "asyncio.run_coroutine_threadsafe") == 0;
    if (!target && lint_py_last(name, map) && lint_py_holds(name, executor)) future = true;
    static const char *const results[] = {"result", "get",  "exception", "add_done_callback",
                                          "done",   "wait", NULL};
    if (future && (!target || !looked_at(p, target, results, "wait")))
        lint_py_report(p, LINT_FUTURE, call->line, NULL, says(p, name, "its result is dropped"));
}

static void judge_task(const struct lint_py *p, const struct expr *call, const char *name,
                       const char *target)
{
    static const char *const makers[] = {"asyncio.create_task", "asyncio.ensure_future",
                                         "asyncio.gather", NULL};
    static const char *const loops[] = {"loop", NULL}, *const create[] = {"create_task", NULL};
    bool task = among(name, makers) || (lint_py_last(name, create) && lint_py_holds(name, loops));
    if (task && !target)
        lint_py_report(p, LINT_TASK, call->line, NULL, says(p, name, "its task is dropped"));
}

/* ---- the statements ---- */

static void look_inside(const struct expr *e, void *ctx)
{
    static const char *const outputs[] = {"stdout", "stderr", NULL};
    static const char *const starts[] = {"start", NULL};
    const struct lint_py *p = ctx;
    char name[LINT_NAME];
    if (e->kind == EXPR_CALL) {
        p->l->calls++;
        lint_py_name(p, e->left, name);
        if (strcmp(name, "os.popen") == 0 || strcmp(name, "subprocess.getoutput") == 0)
            lint_py_report(p, LINT_POPEN, e->line, NULL, says(p, name, "the status is lost"));
        if (is_process(e, name)) judge_worker(p, e, name, "");
    }
    if (e->kind != EXPR_ATTR || !e->left || e->left->kind != EXPR_CALL) return;
    lint_py_name(p, e->left->left, name);
    if (lint_py_last(e->text, outputs)) judge_command(p, e->left, name, NULL);
    if (lint_py_last(e->text, starts) && !is_process(e->left, name))
        judge_worker(p, e->left, name, NULL);
}

static void judge_value(const struct lint_py *p, const struct expr *e, const char *target)
{
    char name[LINT_NAME];
    if (!e || e->kind != EXPR_CALL) return;
    lint_py_name(p, e->left, name);
    judge_command(p, e, name, target);
    if (!is_process(e, name)) judge_worker(p, e, name, target);
    judge_future(p, e, name, target);
    judge_task(p, e, name, target);
}

void lint_py_calls(const struct lint_py *p, const struct stmt *s)
{
    bool assigned = s->kind == STMT_ASSIGN && s->targets == 1 && s->target[0] &&
                    s->target[0]->kind == EXPR_NAME;
    lint_py_each_expr(s->value, look_inside, (void *)p);
    for (int i = 0; i < s->targets; i++) lint_py_each_expr(s->target[i], look_inside, (void *)p);
    if (s->kind == STMT_EXPR)
        judge_value(p, s->value, NULL);
    else if (assigned)
        judge_value(p, s->value, s->target[0]->text);
}
