/* lint.h: what `assay lint` finds: places of Python and shell sources where an error gets lost or
 * loses its text, and shell words that do not arrive. Nothing is run.
 *
 * The rules are one table. A comment `# assay: ignore[RULE reason]` on the line of a finding, or on
 * the line before it, accepts it; one without a reason, with an unknown rule, or that matches no
 * finding is a finding itself. Test: tests/test_lint.c */
#ifndef ASSAY_HARNESS_LINT_H
#define ASSAY_HARNESS_LINT_H

#include "compat/pool.h"
#include "core/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum lint_severity { LINT_NOTE, LINT_WARNING, LINT_ERROR }; /* notes do not change the verdict */

enum lint_id {
    LINT_SWALLOW,
    LINT_COUNTED,
    LINT_EXIT_ZERO,
    LINT_MESSAGE,
    LINT_LOG,
    LINT_FROM_NONE,
    LINT_FINALLY,
    LINT_OS_SYSTEM,
    LINT_SUBPROCESS,
    LINT_POPEN,
    LINT_THREAD,
    LINT_PROCESS,
    LINT_FUTURE,
    LINT_TASK,
    LINT_ASSERT,
    LINT_PIPE,
    LINT_OR_TRUE,
    LINT_STDERR,
    LINT_STDIN,
    LINT_BACKGROUND,
    LINT_DECLARE,
    LINT_CD,
    LINT_UNCHECKED,
    LINT_TRAP,
    LINT_WORDS,
    LINT_SUPPRESS,
    LINT_RULES
};

struct lint_rule {
    const char *id;
    enum lint_severity severity;
    const char *why, *remedy; /* one line each */
};

extern const struct lint_rule lint_rules[LINT_RULES];

struct lint_finding {
    enum lint_id rule;
    const char *file, *function, *type, *message; /* function and type may be NULL */
    int line;
    const char *accepted; /* the reason of the comment that accepts it, or NULL */
};

/* A comment that accepts findings. */
struct lint_comment {
    const char *file, *text; /* what stands between the brackets */
    int line;
    bool used;
};

/* A place that could not be read. */
struct lint_unread {
    const char *file, *what;
    int line;
};

/* What was looked at, and what was found. Zero it but for `pool` and `err`; lint_free(). Once `err`
 * is set, all calls do nothing. */
struct lint {
    struct pool *pool;
    struct err *err;
    struct lint_finding *finding;
    struct lint_comment *comment;
    struct lint_unread *unread;
    int findings, comments, unreads;
    int finding_room, comment_room, unread_room;
    int python, shell;             /* files */
    int handlers, calls, commands; /* looked at in them */
};

/* Texts must live as long as the pool. */
void lint_add(struct lint *l, const struct lint_finding *f);
void lint_comment(struct lint *l, const char *file, int line, const char *text);
void lint_unread(struct lint *l, const char *file, int line, const char *what);
/* Matches comments with findings, adds the findings about comments and sorts by file and line. */
void lint_settle(struct lint *l);
/* The findings that count: neither accepted nor notes. */
int lint_open(const struct lint *l);
/* Adds `findings`, `counts`, `unread` to the verb's result. */
void lint_json(const struct lint *l, json_t *result);
void lint_free(struct lint *l);

#endif
