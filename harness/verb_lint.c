/* verb_lint.c: `assay lint`: handlers that swallow or empty an error, statuses that get lost, shell
 * words that do not arrive. Test: tests/test_lint.c */
#include "harness/lint_files.h"
#include "harness/report.h"
#include "harness/terminal.h"
#include "harness/verb.h"

enum { LINES = 40 };

static const struct option_row options[] = {
    {"--all", NULL, "show all lines, notes and accepted findings too", false},
    REPORT_OPTION_ROW,
    {NULL, NULL, NULL, false},
};

/* Nothing looked at is not green, and neither is what could not be read. */
static enum err_code verdict(const struct lint *l, struct err *err)
{
    if (lint_open(l) > 0) return ERR_DIFF;
    if (l->unreads > 0)
        return err_set(err, ERR_INPUT, "lint|%s:%d|%s|a source that can be read", l->unread[0].file,
                       l->unread[0].line, l->unread[0].what);
    if (l->python + l->shell == 0)
        return err_set(err, ERR_INPUT, "lint|files|neither Python nor shell|at least one file");
    return ERR_OK;
}

static enum err_code run(const struct args *a, json_t *result, struct err *err)
{
    struct arena arena = ARENA_INIT;
    struct pool pool = {.arena = &arena};
    struct lint lint = {.pool = &pool, .err = err};
    enum err_code rc = ERR_OK;
    for (int i = 0; i < a->words && rc == ERR_OK; i++) rc = lint_path(&lint, a->word[i]);
    if (rc == ERR_OK) lint_settle(&lint);
    if (rc == ERR_OK) rc = err->code;
    if (rc == ERR_OK) {
        lint_json(&lint, result);
        rc = verdict(&lint, err);
        if (!a->json && (rc == ERR_OK || rc == ERR_DIFF))
            report_lint_text(result, stdout, terminal_view(args_has(a, "--all") ? 0 : LINES));
    }
    lint_free(&lint);
    arena_release(&arena, NULL);
    return rc;
}

const struct verb verb_lint = {
    .name = "lint",
    .usage = "FILE... [--all]",
    .about = "Python and shell sources: errors that get lost, words that do not arrive",
    .words_min = 1,
    .words_max = 16,
    .options = options,
    .run = run,
};
