/* judge_api.c: see judge_api.h. Three passes: the first two find out what attributes and results of
 * the consumer's own classes and functions are, the last one says what it finds. */
#include "compat/judge_api.h"

#include "compat/judge_parts.h"

#include <string.h>

enum { PASSES = 3 };

/* ---- names that `global` binds from inside of functions ---- */

static void collect_shared(struct judge_run *r, struct own_module *m, const struct block *b)
{
    for (int i = 0; i < b->stmts; i++) {
        const struct stmt *s = &b->stmt[i];
        for (int j = 0; s->kind == STMT_GLOBAL && j < s->globals; j++) {
            const char **more = judge_run_take(r, m->shareds + 1, sizeof *more);
            if (!more) return;
            if (m->shareds > 0) memcpy(more, m->shared, (size_t)m->shareds * sizeof *more);
            more[m->shareds++] = s->global[j];
            m->shared = more;
        }
        collect_shared(r, m, &s->body);
        collect_shared(r, m, &s->other);
        collect_shared(r, m, &s->last);
        for (int j = 0; j < s->handlers; j++) collect_shared(r, m, &s->handler[j].body);
    }
}

/* ---- one pass ---- */

void judge_module_run(struct judge_run *r, struct own_module *m)
{
    if (m->state != 0) return;
    m->state = 1;
    struct frame f = {.run = r, .module = m, .module_body = true};
    m->env = f.env;
    for (int i = 0; i < m->uses->body.stmts && judge_run_ok(r); i++) {
        struct block one = {.stmt = &m->uses->body.stmt[i], .stmts = 1};
        judge_exec_block(&f, &one);
        f.env.dead = f.raised = false;
        m->env = f.env; /* what a module that imports this one in a circle sees */
    }
    m->state = 2;
}

static void begin_pass(struct judge_run *r)
{
    r->queued = 0;
    for (int i = 0; i < r->in->uses->modules; i++) {
        struct own_module *m = &r->module[i];
        m->state = 0;
        m->stars = 0;
        m->star_open = false;
        for (struct attr_slot *s = m->late; s; s = s->next) {
            s->seen = s->now;
            s->now = NULL;
        }
    }
}

static void run_pass(struct judge_run *r)
{
    begin_pass(r);
    for (int i = 0; i < r->in->uses->modules; i++) judge_module_run(r, &r->module[i]);
    for (int i = 0; i < r->queued && judge_run_ok(r); i++) judge_own_function_run(r, r->queue[i]);
}

static void judge_classes(struct judge_run *r)
{
    for (int i = 0; i < r->in->uses->defs && judge_run_ok(r); i++) {
        struct own_class *c = r->class_of[i];
        struct frame f = {.run = r};
        if (!c || c->pass != r->pass) continue;
        f.module = c->module;
        f.class_ = c;
        judge_class(&f, c);
    }
}

/* Files that could not be read were not judged: that is said, never passed over. */
static void say_problems(struct judge_run *r)
{
    for (int i = 0; i < r->in->uses->problems; i++) {
        const struct uses_problem *p = &r->in->uses->problem[i];
        struct uses_module m = {.file = p->file};
        struct own_module own = {.uses = &m};
        struct frame f = {.run = r, .module = &own};
        judge_find_undecidable(&f, JUDGE_IMPORT, p->file, p->line, NULL,
                               judge_run_format(r, "not judged: %s", p->what));
    }
}

static enum err_code check_used(struct judge_run *r)
{
    const struct uses *u = r->in->uses;
    if (!judge_run_ok(r) || r->in->gather) return r->err->code;
    for (int i = 0; i < r->hints; i++) {
        if (!r->hint[i].hit)
            return err_set(r->err, ERR_USAGE,
                           "arguments|--receiver|%s, which is used nowhere|a name that the "
                           "consumer uses and does not type",
                           r->hint[i].text);
    }
    if (r->findings > u->problems) return ERR_OK;
    const struct api_problem *unread = r->api->problems > 0 ? &r->api->problem[0] : NULL;
    if (unread)
        return err_set(r->err, ERR_INPUT,
                       "contract check|%s: %s, line %d|%s: nothing of the library was found in use|"
                       "files that can be read",
                       r->api->library.name ? r->api->library.name : "the library", unread->file,
                       unread->line, unread->what);
    return err_set(r->err, ERR_INPUT,
                   "contract check|%s|nothing of %s is used: nothing was checked|a consumer of it",
                   u->name     ? u->name
                   : u->source ? u->source
                               : "?",
                   r->api->library.name ? r->api->library.name : "the library");
}

static enum err_code start(struct judge_run *r)
{
    const struct uses *u = r->in->uses;
    r->module = judge_run_take(r, u->modules, sizeof *r->module);
    r->class_of = judge_run_take(r, u->defs, sizeof(void *));
    r->function_of = judge_run_take(r, u->defs, sizeof(void *));
    for (int i = 0; r->module && i < u->modules; i++) {
        r->module[i].uses = &u->module[i];
        collect_shared(r, &r->module[i], &u->module[i].body);
    }
    return judge_run_ok(r) ? judge_hints_read(r) : r->err->code;
}

enum err_code judge_api(const struct judge_api_input *in, struct arena *a, struct judge_report *out,
                        struct err *err)
{
    struct pool pool = {.arena = a};
    struct judge_run r = {.in = in, .api = in->api, .pool = &pool, .err = err};
    *out = (struct judge_report){0};
    if (start(&r) != ERR_OK) return err->code;
    for (r.pass = 0; r.pass < PASSES && judge_run_ok(&r); r.pass++) {
        r.report = r.pass == PASSES - 1;
        run_pass(&r);
        if (r.report) judge_classes(&r);
    }
    say_problems(&r);
    if (check_used(&r) != ERR_OK) return err->code;
    return in->gather ? ERR_OK : judge_find_finish(&r, out);
}
