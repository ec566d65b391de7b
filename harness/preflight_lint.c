/* preflight_lint.c: what `lint` finds in the plan's consumer and scripts: places where a run that
 * fails would say nothing, or end with 0. */
#include "core/file.h"
#include "core/text.h"
#include "harness/lint_files.h"
#include "harness/preflight.h"

#include <string.h>

static void add_finding(struct preflight *p, const struct lint_finding *f)
{
    static const enum preflight_severity severities[] = {PREFLIGHT_NOTE, PREFLIGHT_WARNING,
                                                         PREFLIGHT_ERROR};
    const struct lint_rule *rule = &lint_rules[f->rule];
    if (f->accepted) return;
    preflight_add(
        p, (struct preflight_finding){.rule = rule->id,
                                      .severity = severities[rule->severity],
                                      .file = f->file,
                                      .function = f->function,
                                      .line = f->line,
                                      .message = preflight_text(p, "%s: %s", f->message, rule->why),
                                      .remedy = rule->remedy,
                                      .strikes = PREFLIGHT_AFTER_LOAD});
}

static void add_all(struct preflight *p, const struct lint *l)
{
    for (int i = 0; i < l->findings; i++) add_finding(p, &l->finding[i]);
    for (int i = 0; i < l->unreads; i++)
        preflight_add(p, (struct preflight_finding){.rule = "unread",
                                                    .file = l->unread[i].file,
                                                    .line = l->unread[i].line,
                                                    .message = "cannot be read",
                                                    .found = l->unread[i].what,
                                                    .wanted = "a source that can be read",
                                                    .strikes = PREFLIGHT_AT_START});
}

static void read_path(struct preflight *p, struct lint *l, const struct plan_word *w, struct err *e)
{
    const char *path = preflight_path(p, w->text);
    (void)!lint_path(l, path);
    preflight_refused(p,
                      (struct preflight_finding){.rule = "script",
                                                 .file = preflight_plan(p),
                                                 .line = w->line,
                                                 .remedy = "mend the path in the plan",
                                                 .strikes = PREFLIGHT_AT_START},
                      e);
}

/* A consumer may be an archive or an installed package: those handlers are not the user's. */
static bool is_linted(const char *path, bool consumer)
{
    return !consumer || file_is_folder(path) || text_ends(path, ".py");
}

void preflight_lint(struct preflight *p)
{
    const struct plan_words *lists[] = {&p->keys->consumer, &p->keys->scripts};
    struct err e = ERR_INIT;
    struct lint l = {.pool = &p->pool, .err = &e};
    const int gaps = p->gaps;
    int paths = 0, others = 0;
    preflight_about(p, "nothing");
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < lists[k]->count; i++) {
            const struct plan_word *w = &lists[k]->word[i];
            const bool linted = is_linted(preflight_path(p, w->text), k == 0);
            *(linted ? &paths : &others) += 1;
            if (linted) read_path(p, &l, w, &e);
        }
    }
    lint_settle(&l);
    preflight_refused(p, (struct preflight_finding){.rule = "script"}, &e);
    add_all(p, &l);
    if (p->gaps == gaps)
        preflight_about(p, "%d Python and %d shell files: %d handlers, %d calls, %d commands",
                        l.python, l.shell, l.handlers, l.calls, l.commands);
    if (paths == 0)
        preflight_not_asked(p, others ? "the consumer is an archive or an installed package"
                                      : "the plan names neither consumer nor scripts");
    lint_free(&l);
}
