/* preflight_commands.c: what becomes of the plan's commands on their way through shells and ssh,
 * and whether the Python that arrives is Python. No line is run. */
#include "core/text.h"
#include "harness/facts_child.h"
#include "harness/lint_sh.h"
#include "harness/preflight.h"
#include "harness/preflight_hops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* What a typed line can do wrong beside its words; the others are about scripts. */
static const enum lint_id typed_rules[] = {LINT_PIPE, LINT_OR_TRUE, LINT_STDERR, LINT_BACKGROUND,
                                           LINT_STDIN};

struct command {
    struct preflight *p;
    const struct plan_word *word;
    struct hops hops;
    struct hops_journey journey;
};

static struct preflight_finding finding(const struct command *c, const char *rule)
{
    return (struct preflight_finding){.rule = rule,
                                      .file = preflight_plan(c->p),
                                      .line = c->word->line,
                                      .strikes = PREFLIGHT_AT_START};
}

/* "zsh,ssh,bash" */
static const char *through_text(struct command *c)
{
    const char *text = "";
    for (int i = 0; text && i < c->hops.count; i++)
        text = preflight_text(c->p, "%s%s%s", text, i ? "," : "", c->hops.hop[i].text);
    return text;
}

/* The line that makes the words arrive that `ssh HOST WORD...` was to send, and that it joined with
 * blanks; NULL where that is not how it broke. */
static const char *mended(struct command *c)
{
    enum { FIRST = 2 }; /* behind ssh and the host, without options */
    const struct hops_journey *j = &c->journey;
    const struct shell_line *typed = &j->at[0].line;
    const char *line = NULL;
    struct hops h = c->hops;
    struct err e = ERR_INIT;
    if (j->breaks != FIRST || h.hop[1].kind != HOP_SSH || typed->words <= FIRST ||
        typed->word[1][0] == '-' || typed->word[FIRST][0] == '-' ||
        strlen(typed->word[1]) >= HOP_NAME)
        return NULL;
    snprintf(h.hop[1].name, HOP_NAME, "%s", typed->word[1]);
    h.count = FIRST + 1;
    if (hops_line(&h, typed->word + FIRST, typed->words - FIRST, false, &c->p->pool, &line, &e) !=
        ERR_OK)
        return NULL;
    return pool_format(&c->p->pool, c->p->err, "type %s", line);
}

static void add_journey(struct command *c)
{
    const struct hops_journey *j = &c->journey;
    const bool breaks = j->breaks >= 0;
    const int at = breaks ? j->breaks : j->unknown;
    if (at < 0) return;
    const char *through = through_text(c);
    struct preflight_finding f = finding(c, breaks ? "break" : "unknown");
    f.severity = breaks ? PREFLIGHT_ERROR : PREFLIGHT_NOTE;
    f.undecidable = !breaks;
    f.message = preflight_text(c->p, "%s %s at hop %d of %s: %s", "the command",
                               breaks ? "does not arrive: it breaks" : "cannot be followed", at + 1,
                               through ? through : "", j->why);
    f.found = preflight_text(c->p, "%s", j->found);
    f.wanted = breaks ? "words that arrive as they were typed" : NULL;
    f.remedy = breaks ? mended(c) : NULL;
    if (!f.remedy)
        f.remedy = preflight_text(c->p,
                                  breaks ? "assay quote --through %s -- ARGV writes the line "
                                           "that arrives; --as-file sends a file instead"
                                         : "assay quote --through %s --check LINE shows each hop",
                                  through ? through : "");
    preflight_add(c->p, f);
}

/* ---- the program at the end ---- */

/* CODE of `python3 ... -c CODE`, or NULL. */
static const char *python_code(const struct hops_journey *j)
{
    const char *slash = j->words ? strrchr(j->word[0], '/') : NULL, *name = slash      ? slash + 1
                                                                            : j->words ? j->word[0]
                                                                                       : "";
    if (!text_starts(name, "python")) return NULL;
    for (int i = 1; i + 1 < j->words && j->word[i][0] == '-'; i++) {
        if (j->word[i][1] != '-' && text_ends(j->word[i], "c")) return j->word[i + 1];
    }
    return NULL;
}

/* "SyntaxError: ..." of a trace's end. */
static const char *last_line(struct preflight *p, const char *trace)
{
    size_t n = strlen(trace);
    while (n > 0 && strchr("\r\n", trace[n - 1])) n--;
    size_t from = n;
    while (from > 0 && trace[from - 1] != '\n') from--;
    return preflight_text(p, "%.*s", (int)(n - from), trace + from);
}

/* Parsed by the python of this machine; never run. */
static void check_python(struct command *c, const char *code)
{
    static const struct facts_limits limits = {
        .seconds = 20, .output_bytes = 1 << 16, .memory_bytes = (int64_t)4 << 30};
    const char *given = getenv("ASSAY_PYTHON"), *python = given && given[0] ? given : "python3";
    const char *const argv[] = {python, "-I", "-S", "-c", "import ast, sys; ast.parse(sys.argv[1])",
                                code,   NULL};
    struct facts_child child;
    struct err e = ERR_INIT;
    if (facts_child_run(&child, &limits, argv, &e) == ERR_OK && child.exec_errno)
        (void)!err_set(&e, ERR_DEVICE,
                       "read the Python of a command|%s|%s|a python3 of PATH, or of ASSAY_PYTHON",
                       python, strerror(child.exec_errno));
    struct preflight_finding f = finding(c, "python");
    if (e.code == ERR_OK && !(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0)) {
        f.message = "what arrives at python -c is not Python";
        f.found = preflight_text(c->p, "%s: %s", last_line(c->p, child.message), code);
        f.wanted = "code that can be parsed";
        f.remedy =
            preflight_text(c->p, "assay quote --through %s -- python3 -c CODE", through_text(c));
        preflight_add(c->p, f);
    }
    facts_child_free(&child);
    preflight_refused(c->p, f, &e);
}

/* ---- the line as a script ---- */

static bool concerns(const struct lint_finding *f)
{
    for (size_t i = 0; i < sizeof typed_rules / sizeof typed_rules[0]; i++) {
        if (f->rule == typed_rules[i]) return !f->accepted;
    }
    return false;
}

static void lint_line(struct command *c)
{
    struct err e = ERR_INIT;
    struct lint l = {.pool = &c->p->pool, .err = &e};
    lint_sh(&l, preflight_plan(c->p), c->word->text);
    lint_settle(&l);
    for (int i = 0; i < l.findings; i++) {
        const struct lint_rule *rule = &lint_rules[l.finding[i].rule];
        struct preflight_finding f = finding(c, rule->id);
        if (!concerns(&l.finding[i])) continue;
        f.severity = rule->severity == LINT_ERROR ? PREFLIGHT_ERROR : PREFLIGHT_WARNING;
        f.message = preflight_text(c->p, "%s: %s", l.finding[i].message, rule->why);
        f.remedy = rule->remedy;
        f.strikes = PREFLIGHT_AFTER_LOAD;
        preflight_add(c->p, f);
    }
    preflight_refused(c->p, finding(c, "unread"), &e);
    lint_free(&l);
}

static void check_command(struct command *c)
{
    struct preflight *p = c->p;
    const struct plan_preflight *k = p->keys;
    struct err e = ERR_INIT;
    if (c->word->through) {
        if (hops_parse(c->word->through, &c->hops, &e) == ERR_OK)
            (void)!hops_follow(&c->hops, c->word->text, &p->pool, &c->journey, &e);
    } else {
        (void)!preflight_hops(c->word->text, k->shell ? k->shell : "sh",
                              k->login_shell ? k->login_shell : "sh", &p->pool, &c->hops,
                              &c->journey, &e);
    }
    if (e.code == ERR_OK) {
        add_journey(c);
        const char *code = python_code(&c->journey);
        if (code && c->journey.breaks < 0 && c->journey.unknown < 0) check_python(c, code);
    }
    struct preflight_finding f = finding(c, "hops");
    f.remedy = "through: HOP,... as of assay quote";
    preflight_refused(p, f, &e);
    lint_line(c);
}

void preflight_commands(struct preflight *p)
{
    const int n = p->keys->commands.count, gaps = p->gaps;
    if (n == 0) {
        preflight_not_asked(p, "the plan names no commands");
        return;
    }
    for (int i = 0; i < n; i++) {
        struct command c = {.p = p, .word = &p->keys->commands.word[i]};
        check_command(&c);
    }
    if (p->gaps == gaps)
        preflight_about(p,
                        "%d lines; of a line with several commands the words of the first, the "
                        "statuses of all",
                        n);
}
